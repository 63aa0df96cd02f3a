"""NPUsper's figure 2: what more and more padding does to inventions, to errors and to the time of encoding.

Every clip is decoded once for each length that it is padded to with zeros, greedily and by itself; a clip that is
longer already stays as it is. What counts as a hallucination is said in `guard`. "Without inventions" leaves
out what stands after the last right word, as the paper removes what stands after the end of the reference.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING

from whispertide.streaming.framing import BARE, PAD30, Framing, Zeros
from whispertide.tuning.drawing import Curve, scatter
from whispertide.tuning.page import Table
from whispertide.types import CHUNK_SECONDS
from whispertide_lab.evaluation import report
from whispertide_lab.evaluation.clips import ABOUT, Clip
from whispertide_lab.evaluation.items.guard import INVENTED, decode_clip
from whispertide_lab.evaluation.paper import Outcome, Plot
from whispertide_lab.evaluation.store import Json
from whispertide_lab.evaluation.wer import Counts, align, split_words
from whispertide_lab.from_json import built

if TYPE_CHECKING:
    from whispertide_lab.evaluation.runner import Runner

LENGTHS_S = (0.0, 10.0, 15.0, 20.0, 25.0, CHUNK_SECONDS)  # of a window with its zeros; 0: none
CLIPS, QUICK_CLIPS = 200, 12
MADE_BY = (__name__, decode_clip.__module__)


@dataclass(frozen=True, slots=True)
class LengthScore:
    """A clip at one length: errors in words and in characters, without inventions too; what the encoder took."""

    words: Counts
    letters: Counts
    words_said: Counts
    letters_said: Counts
    encode_s: float

    @property
    def hallucinated(self) -> bool:
        """As in the guard's tables."""
        return self.words.insertions >= INVENTED


def length_figure(runner: "Runner") -> Outcome:
    """NPUsper, figure 2."""
    found = _measure(runner)
    rows, curves = [], {name: list[float]() for name in (*_RATES, _HALLUCINATING, _TIME)}
    for length, heard in zip(LENGTHS_S, found, strict=True):
        rates = [_rate([getattr(one, part) for one in heard]) for part in _RATES.values()]
        share = 100 * sum(one.hallucinated for one in heard) / len(heard)
        time = 1000 * median(one.encode_s for one in heard)
        name = f"{length:g} s" if length else "none"
        rows.append((name, f"{share:.1f}", *(report.number(rate, 1) for rate in rates), f"{time:.0f}"))
        for curve, value in zip(curves.values(), (*rates, share, time), strict=True):
            curve.append(value or 0.0)
    columns = ("padded to", "hallucinating %", *(f"{name} %" for name in _RATES), "encoding ms")
    errors = [Curve(name, LENGTHS_S, tuple(curves[name])) for name in (*_RATES, _HALLUCINATING)]
    drawn = (
        Plot(scatter(errors, x_label=_PADDED, y_label="%", title="errors by padding"), "Errors by padding"),
        Plot(
            scatter(
                [Curve(_TIME, LENGTHS_S, tuple(curves[_TIME]))],
                x_label=_PADDED,
                y_label="encoding, median (ms)",
                title="time of encoding by padding",
            ),
            "Time of encoding by padding",
        ),
    )
    note = (
        f"{ABOUT}, {len(found[0])} of {runner.corpus_name}, each decoded by itself by {runner.models[0]}, greedy, with "
        f"its real end of text. A clip hallucinates if {INVENTED} or more of its words are insertions. Without "
        "inventions: what stands after the last right word is left out. The paper: 720 ms with 30 s, 3.8 times as long "
        "as clips of 9 s without padding."
    )
    return Outcome((Table(columns, tuple(rows)),), drawn, note)


_RATES = {
    "WER": "words",
    "CER": "letters",
    "WER without inventions": "words_said",
    "CER without inventions": "letters_said",
}
_HALLUCINATING, _TIME, _PADDED = "hallucinating clips", "encoding", "window with its padding (s); 0: no padding"


def _rate(counts: Sequence[Counts]) -> float | None:
    rate = sum(counts, Counts()).rate
    return None if rate is None else 100 * rate


def framing(length_s: float) -> Framing:
    """That pads a window to so many seconds; 0: not at all."""
    if not length_s:
        return BARE
    return PAD30 if length_s == CHUNK_SECONDS else Zeros(zeros_s=0.0, whole_s=length_s)


def _measure(runner: "Runner") -> list[list[LengthScore]]:
    """One list per length, one entry per clip."""
    model = runner.transcriber(runner.models[0]).model

    def hear(clip: Clip) -> Json:
        decoded = [decode_clip(model, framing(length), clip) for length in LENGTHS_S]
        return {"heard": [asdict(judge(clip, model.tokenizer.decode(one.tokens), one.encode_s)) for one in decoded]}

    found = runner.each_clip("lengths", hear, usual=CLIPS, quick=QUICK_CLIPS, made_by=MADE_BY)
    return [[built(LengthScore, clip["heard"][place]) for clip in found] for place in range(len(LENGTHS_S))]


def judge(clip: Clip, text: str, encode_s: float) -> LengthScore:
    """The errors of a text, and of it without what stands after its last right word."""
    heard = split_words(text, clip.language)
    whole = align(clip.words, heard, clip.language)
    said = align(clip.words, heard[: max(whole.matched_words().values(), default=-1) + 1], clip.language)
    return LengthScore(whole.words, whole.characters, said.words, said.characters, encode_s)
