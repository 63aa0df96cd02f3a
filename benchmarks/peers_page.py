"""The page of `peers.py`: its tables and plots, and what stands around them."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from whispertide.options import DEFAULT_MODEL
from whispertide.tuning.page import Table
from whispertide_lab.evaluation import publish
from whispertide_lab.evaluation.bootstrap import UNITS, compare
from whispertide_lab.evaluation.core_speed import are_alike
from whispertide_lab.evaluation.corpora.people import HALVES, PARTS
from whispertide_lab.evaluation.grid import OFFLINE, PEER
from whispertide_lab.evaluation.markdown import markdown_table, stored_tables
from whispertide_lab.evaluation.marks import latency_marks
from whispertide_lab.evaluation.peers import PEERS, why_not
from whispertide_lab.evaluation.store import Cell

SPOKEN = PARTS[:4]  # whole readings, utterances, accents, dictation: English, and whole sentences
OURS = "tide"
SHORT = ("framing=bare", "framing=merged")  # what other recipes gain by either, at the step that they have with padding
WHOLE = ("faster-whisper", "openai-whisper", "whisper.cpp")  # these transcribe when all audio is there
MARKS = ("<!-- peers -->", "<!-- /peers -->")
LEAD = """
The same weights, OpenAI's, on people's voices: whole readings, single sentences, accents and dictation, in English, in
two halves that have no speaker in common. Word times are by forced alignment with `base` where nobody placed the words
by hand; its error is far below the differences here, and the same for all.

| word | meaning |
| --- | --- |
| latency | from the end of a word in the audio to the moment it was shown for good, computing counted |
| computing | processor seconds on one thread, so that it does not matter what else the machine does |
| matched | the share of recognised words; latencies are theirs |
| p99 | here a word that was never recognised counts as shown at the end |
| TTFT | time to first text: from the beginning of the first word to the first text on the screen |
| insert. | words in the output that nobody said |
| `peer:` | another program on the same weights and audio, in its own environment (`make peers`) |
| `fallback=false` | Whisper's temperature fallback is off: sampling takes its time, and gives another text each time |

*Step*: of the steps with at most a point more word errors than the lowest, the one that confirms soonest, for ours and
for the others alike, chosen on one half of the speakers and reported on the other, both ways round. That of `tide` and
of Moonshine is as it comes.

What the others are, exactly:

- `peer:whisper-streaming`, `peer:simulstreaming`: the two algorithms as WhisperLiveKit ships them, without its server,
  on our clock. Their gate is Silero's with whisper_streaming's settings (half a second ends an utterance). A pause gets
  a last round. whisper_streaming itself leaves that out and loses what came after its last step.
- That of SimulStreaming has what WhisperLiveKit added to it: words whose times go back are dropped, a text that repeats
  itself is thrown away, and repeated tokens are made less likely.
- `peer:whisperlivekit-localagreement`, `peer:whisperlivekit-simulstreaming`: WhisperLiveKit as its server runs it.
  Audio comes at the pace of speech and delays are by the clock on the wall, on one core of its own. What its whole
  process computes is counted.
- `peer:moonshine`: Moonshine's tiny-en, the model that its wheel carries. It cannot load a Whisper, and its voice gate
  cannot be left out.
- CTranslate2 (faster-whisper) computes in float32. whisper.cpp has float16.

Ours run in int8, as they come. Nothing is clamped, rounded or truncated.
"""


NAMES = {
    OURS: "**whispertide**, `tide`",
    f"{PEER}whisper-streaming": "whisper_streaming, its algorithm",
    f"{PEER}simulstreaming": "SimulStreaming, its algorithm",
    f"{PEER}whisperlivekit-localagreement": "WhisperLiveKit, LocalAgreement",
    f"{PEER}whisperlivekit-simulstreaming": "WhisperLiveKit, SimulStreaming",
    f"{PEER}moonshine": "Moonshine tiny-en",
    **{f"{PEER}{name}": f"{name}, all audio at once" for name in WHOLE},
    OFFLINE: "whispertide, all audio at once",
}  # as people know them


@dataclass(frozen=True)
class Measured:
    """A model, and what was measured with it. `steps` of each program, by the half of the speakers that they were
    chosen on.
    """

    model: str
    cells: list[Cell]
    steps: Mapping[str, Mapping[str, float]]

    @property
    def title(self) -> str:
        """As a reader calls it."""
        return Path(self.model).name


def name_of(cell: Cell) -> str:
    """A program or recipe as people know it, with the delay that `tide` was given."""
    delay = cell.spec.label.partition(" delay_s=")[2]
    name = NAMES.get(cell.spec.recogniser, f"our `{cell.spec.recogniser}`")
    return f"{name} `--delay {delay}`" if delay else name


def glance(found: Sequence[Measured]) -> publish.Part:
    """A table of all programs for each model, the default model's first."""
    note = "Each program at its best step, on one thread of a processor."
    order = sorted(found, key=lambda each: each.title != DEFAULT_MODEL)
    return publish.glance_part("At a glance", note, {each.title: shown(each) for each in order}, name_of)


def shown(found: Measured) -> list[Cell]:
    """Whatever comes without short windows of its own making: those are another table's."""
    return [cell for cell in found.cells if not any(short in cell.spec.label for short in SHORT)]


def parts(found: Measured) -> list[publish.Part]:
    """The tables of a model."""
    return [
        publish.streaming_part(found.title, "", found.cells, found.title),
        differences(found),
        knob(found),
    ]


def differences(found: Measured) -> publish.Part:
    """What each has more than `tide`, paired by recording, and the steps that were chosen."""
    ours = [cell for cell in found.cells if cell.spec.label == OURS]
    rows = []
    for cell in found.cells if ours else []:
        if cell is ours[0]:
            continue
        by_figure = compare(ours[0].utterances, cell.utterances)
        marks = latency_marks(ours[0].score, cell.score)
        shown = [
            by_figure[name].text(scale) + mark if name in by_figure and (cell.spec.streaming or name == "wer") else None
            for name, scale, mark in (("wer", 100, ""), ("confirmed_mean_s", 1, marks), ("first_seen_mean_s", 1, marks))
        ]
        rows.append((cell.spec.label, *shown))
    table = markdown_table(Table(("more than tide", "WER, points", "confirmed, s", "first seen, s"), tuple(rows)))
    chosen = [
        f"- {name}: "
        + ", ".join(f"{found.steps[half][name]:g} s on `{half}`" for half in HALVES if name in found.steps[half])
        for name in dict.fromkeys(chain(*found.steps.values()))
    ]
    note = f"With 95 % intervals, by a bootstrap over {UNITS}, paired (10,000 draws). Steps, by the half chosen on:"
    return publish.Part(f"{found.title}, against tide", "\n\n".join((note, "\n".join(chosen), table)))


def knob(found: Measured) -> publish.Part:
    """For each program that streams: what tide has at the delay that makes the fewest errors more than it, of those
    that confirm in half of its time at half of its computing.
    """
    ours = [cell for cell in found.cells if cell.spec.recogniser == OURS]
    rows: list[tuple[str | None, ...]] = []
    for other in found.cells:
        if not other.spec.streaming or not other.spec.recogniser.startswith(PEER):
            continue
        against = [(compare(other.utterances, cell.utterances), cell) for cell in ours]
        able = [pair for pair in against if _is_half(pair[1], other)]
        if not able:
            rows.append((other.spec.label, None, None, None, None))
            continue
        figures, cell = min(able, key=lambda pair: pair[0]["wer"].difference)
        shares = [
            f"{float(cell.score[name]) / float(other.score[name]):.2f}" for name in ("confirmed_mean_s", "cpu_s_per_s")
        ]
        shares[0] += latency_marks(cell.score, other.score)
        rows.append((other.spec.label, cell.spec.label, figures["wer"].text(100.0), *shares))
    head = ("against", "tide", "WER, points more", "of its delay", "of its computing")
    note = (
        "The value of the knob (`--delay`) that makes the fewest errors among those with at most half of a program's "
        "delay and half of its computing, measured on the same machine. Intervals as above."
    )
    return publish.Part(f"{found.title}, one knob", "\n\n".join((note, markdown_table(Table(head, tuple(rows))))))


def _is_half(cell: Cell, other: Cell) -> bool:
    """Whether it has at most half of the other's delay, and half of its computing, both on the same machine."""
    halves = ("confirmed_mean_s", "cpu_s_per_s")
    on_one = cell.spec.machine == other.spec.machine and are_alike(
        cell.score.get("core_gflops"), other.score.get("core_gflops")
    )
    known = all(one.score.get(name) is not None for one in (cell, other) for name in halves)
    return on_one and known and all(float(cell.score[name]) <= 0.5 * float(other.score[name]) for name in halves)


def write_page(
    options: argparse.Namespace, found: Sequence[Measured], cells: Sequence[Cell], missing: Mapping[str, str]
) -> str:
    """The page and its plots; and the table at a glance between the marks of the README, if it has them. Returns what
    was written.

    `cells` are all that were measured, `missing` those that could not be, and why.
    """
    tables, in_short = list(chain(*map(parts, found))), glance(found)
    lines = [f"- **{name}**: {value}" for name, value in publish.facts(cells)]
    models = " ".join(map(str, options.models))
    command = f"python benchmarks/peers.py {models} --threads {options.threads} --choosing {options.choosing:g}"
    command += f" --parts {' '.join(options.parts)}" * (tuple(options.parts) != SPOKEN)
    command += f" --heard {options.heard:g}" * (options.heard < float("inf"))
    made = publish.Part("How this was made", "\n".join(("```sh", "make peers", command, "```", "", *lines)))
    absent = [f"- {peer.name}: {why_not(peer)}" for peer in PEERS.values() if why_not(peer)]
    unmeasured = [f"- {name}: {why}" for name, why in missing.items()]
    lacking = publish.Part("What is not here", "\n".join((*unmeasured, *absent)) or "Everything planned is here.")
    text, plots = publish.page("Other programs", LEAD, [in_short, *tables, made, lacking])
    output = Path(options.output)
    folder = output.parent / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    for name, plot in plots.items():
        plot.save(folder / name)
    output.write_text(text, encoding="utf-8")
    (folder / f"{output.stem}.json").write_text(stored_tables(text), encoding="utf-8")
    if (readme := Path(options.readme)).is_file():
        readme.write_text(between_marks(readme.read_text(encoding="utf-8"), in_short.text), encoding="utf-8")
    return f"{output}, {len(plots)} plots, {len(missing)} cells missing"


def between_marks(page: str, text: str) -> str:
    """The page with that text between its marks; as it is, where it has none."""
    before, begin, rest = page.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    return f"{before}{begin}\n{text.strip()}\n{end}{after}" if end else page
