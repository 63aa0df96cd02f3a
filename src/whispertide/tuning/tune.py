"""Tune a checkpoint for this machine: its framing, then the threads and the step. No transcripts are needed.

    (a) the framing that suits it (`framing_choice`)
    (b) threads, and the step that rounds leave room for
    (c) the rule that says which words will stay (`attention.steadiness`), fitted anew to streams in that framing where
        there is enough speech and the machine is not busy, and used where it predicts parts of the audio that it was
        not fitted to better than the shipped one, and where streams that confirm by it make no more errors

The short form decodes as many windows as fit into 20 s, and leaves threads and step. Returns values; keeping
them is `recipes.calibration`'s business, printing the command line's.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from whispertide.api import Transcriber
from whispertide.errors import OptionError
from whispertide.methods.attention.steadiness import read_rule
from whispertide.model.providers import physical_cores, thread_count
from whispertide.model.whisper import WhisperModel
from whispertide.options import DecodeOptions
from whispertide.recipes.calibration import Calibration, Pace, machine_of, shipped_calibration
from whispertide.recipes.short_windows import COMFORTABLE
from whispertide.streaming.framing import Framing, Pad30, taught_framing
from whispertide.tuning import framing_choice
from whispertide.tuning.framing_choice import (
    SPEECH_S,
    FramingResult,
    Window,
    differences,
    guard_changes,
    plain_words,
    tide_in,
)
from whispertide.tuning.speed import BUSY
from whispertide.tuning.steadiness import (
    PACES,
    at_pace,
    fit_rule,
    held_out,
    record_stream,
    replay_stream,
    squared_error,
)
from whispertide.types import SAMPLE_RATE, FloatArray, to_samples

SHORT_S, RESERVE_S = 20.0, 1.0  # what the short form takes at most; what is left of it for all but hearing
MOST_WINDOWS, FEW_WORDS, MANY_WORDS = 160, 8, 24
_STEPS_S = (0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0)
_PART_S = 10.0  # of audio; rules are tried on parts that they were not fitted to
_MOST_PARTS, _MOST_REPLAYED = 60, 20
_FEWEST_WORDS = 600  # that rounds heard; the same word counts in each round that hears it
_BETTER = 0.95  # of the shipped rule's error
_USUAL_S = 5.0  # of tide's windows
_ROUNDS = 5  # that are timed with each number of threads
_WORTH = 0.9  # of the time that more threads have to save
_PROBE_S = 0.3
_IDLE = 0.85  # a thread of ours gets at least this share of a processor where nobody else computes much

Advance = Callable[[str, int, int], None]


@dataclass(slots=True)
class _Budget:
    """A limit of time from now on. It is asked before each piece of work, and expects the next to take as long as the
    longest so far. Only a first piece that alone takes longer can exceed it.
    """

    total_s: float
    began: float = field(init=False)
    last: float = field(init=False)
    longest_s: float = 0.0

    def __post_init__(self) -> None:
        self.began = self.last = time.perf_counter()

    def is_spent(self, share: float = 1.0) -> bool:
        """True if nothing more may begin, when this share of the time may be used."""
        now = time.perf_counter()
        self.longest_s, self.last = max(self.longest_s, now - self.last), now
        return now - self.began + self.longest_s > share * self.total_s


@dataclass(frozen=True, slots=True)
class Rounds:
    """The quickest and the slowest of a few equal rounds with so many threads, in seconds; `share` of a processor is
    the part that one thread got next to them.
    """

    threads: int
    quickest_s: float
    slowest_s: float
    share: float = 1.0

    @property
    def is_disturbed(self) -> bool:
        """True if other programs computed: now and then, or all the time, which makes all rounds equally slow."""
        return self.slowest_s > BUSY * self.quickest_s or self.share < _IDLE


@dataclass(frozen=True, slots=True)
class Refit:
    """The rule fitted to this checkpoint: mean squared errors of its probabilities (held out) and of the shipped
    rule's, and the numbers of words of replayed streams that differ from those of a patient run with each rule.
    """

    words: int
    error: float
    shipped: float
    rule: str = field(repr=False, default="")
    differ: int = 0
    shipped_differ: int = 0

    @property
    def is_better(self) -> bool:
        """True if it is better by more than chance, with no more errors in streams."""
        return self.error < _BETTER * self.shipped and self.differ <= self.shipped_differ

    @property
    def sentence(self) -> str:
        """The result in a sentence for the user."""
        outcome = "used" if self.is_better else "not better, so the shipped one stays"
        return (
            f"the rule for confirming words, fitted again to {self.words} words: mean squared error "
            f"{self.error:.4f}, with the shipped rule {self.shipped:.4f}; {self.differ} confirmed words of streams "
            f"differ, with the shipped rule {self.shipped_differ} ({outcome})"
        )


@dataclass(frozen=True, slots=True)
class Tuning:
    """All results of a tuning.

    chosen  None: too little speech to choose
    refit   None: not fitted anew
    pace    None: not measured, or the machine was busy with something else
    usual   the changes of a recipe for the shipped rule of this checkpoint in the chosen framing, if it has one
    speech_s  seconds of speech in it
    """

    model: str
    tried: tuple[FramingResult, ...]
    chosen: FramingResult | None
    pace: Pace | None
    refit: Refit | None = None
    rounds: tuple[Rounds, ...] = ()
    heard_s: float = 0.0
    speech_s: float = 0.0
    short: bool = False
    usual: Mapping[str, Any] = field(default_factory=dict)
    options: Any = field(default=None, repr=False)

    @property
    def why(self) -> str:
        """The reason in half a sentence for the user."""
        form = "the short form of `whispertide tune`" if self.short else "`whispertide tune`"
        if self.chosen is None:
            return f"{form} had too little speech to find a framing that suits this checkpoint"
        if isinstance(self.chosen.framing, Pad30):
            return f"{form} found nothing shorter that suits this checkpoint and is as quick"
        return (
            f"{form} found {self.chosen.differing:.1%} of the words different from padded windows, "
            f"{self.tried[0].median_s / max(self.chosen.median_s, 1e-9):.2g} times as fast"
        )

    @property
    def sentence(self) -> str:
        """The result in a sentence for the user."""
        if self.chosen is None:
            return f"{self.why}, so with {self.model} tide stays as it was; try more audio"
        return f"tide uses {self.chosen.label} with {self.model} from now on"

    def calibration(self, before: Calibration | None = None) -> Calibration:
        """The calibration to keep. If no rule was fitted now, that of `before` in the same framing stays."""
        framing = {} if self.chosen is None else guard_changes(self.chosen.framing)
        confirming = self.usual
        if self.refit is not None and self.refit.is_better:
            confirming = {"rule": self.refit.rule}
        elif self.refit is None and before is not None and before.framing == framing:
            confirming = before.confirming
        return Calibration(
            changes={**framing, **confirming},
            why=self.why,
            short=self.short,
            pace={} if self.pace is None else {machine_of(self.options): self.pace},
            report=self.report(),
        )

    def report(self) -> dict[str, Any]:
        """All figures as plain data."""
        return {
            "model": self.model,
            "heard_s": round(self.heard_s, 1),
            "speech_s": round(self.speech_s, 1),
            "framings": [each.to_json() for each in self.tried],
            "chosen": None if self.chosen is None else self.chosen.framing.kind,
            "rule": None if self.refit is None else {**asdict(self.refit), "used": self.refit.is_better},
            "rounds": [asdict(each) for each in self.rounds],
            "pace": None if self.pace is None else asdict(self.pace),
        }


def tune(
    model: WhisperModel,
    recordings: Sequence[FloatArray],
    *,
    options: DecodeOptions | None = None,
    short: bool = False,
    advance: Advance = lambda what, done, total: None,
) -> Tuning:
    """Measure; `recordings` [n] at 16 kHz are speech, the more and the more like the user's the better.

    Raises what computing raises, and `CheckpointError` where the voice gate's weights are missing.
    """
    budget = _Budget(SHORT_S - RESERVE_S if short else math.inf)
    executors = framing_choice.open_executors(model, framing_choice.candidates(model, few=short))
    windows = [window for audio in recordings for window in framing_choice.cut_windows(audio)]
    speech = framing_choice.spread_out(windows)[:MOST_WINDOWS]
    padded = next(iter(executors.values()))
    alone = framing_choice.single_words(
        padded, speech, FEW_WORDS if short else MANY_WORDS, lambda: budget.is_spent(0.2)
    )
    tried = framing_choice.measure(
        executors,
        framing_choice.spread_out([*speech, *alone]),
        options=options,
        until=budget.is_spent,
        progress=lambda done, total: advance("which framing suits", done, total),
    )
    usual = taught_framing(model.short_merged) if model.knows_short else None
    chosen = framing_choice.choose_framing(tried, usual)
    framing = tried[0].framing if chosen is None else chosen.framing
    rounds = () if short else measure_threads(model, framing, speech, advance)
    pace, speech_s = choose_pace(rounds), 0.0 if short else sum(map(framing_choice.speech_s, recordings))
    may_fit = chosen is not None and pace is not None and speech_s >= SPEECH_S
    rule = usual_rule(model, framing)
    refit = refit_rule(model, framing, recordings, advance, rule.get("rule", "")) if may_fit else None
    return Tuning(
        model=model.name,
        tried=tuple(tried),
        chosen=chosen,
        pace=pace,
        refit=refit,
        rounds=rounds,
        heard_s=sum(len(audio) for audio in recordings) / SAMPLE_RATE,
        speech_s=speech_s,
        short=short,
        usual=rule,
        options=model.options if model.options.threads == 0 else replace(model.options, threads=0),
    )


def usual_rule(model: WhisperModel, framing: Framing) -> dict[str, Any]:
    """The changes of a recipe for the shipped rule of this checkpoint in that framing; none for the general one."""
    shipped = shipped_calibration(model.checkpoint)
    return shipped.confirming if shipped is not None and shipped.changes["framing"] == framing.kind else {}


def refit_rule(
    model: WhisperModel, framing: Framing, recordings: Sequence[FloatArray], advance: Advance, usual: str = ""
) -> Refit | None:
    """Fit the rule to this checkpoint's streams in `framing`; None if they are too few.

    It begins with the shipped rule, `usual`, and moves no further than the audio says. Each part of the audio is
    predicted by a rule that was fitted to the others.
    """
    transcriber, recipe = Transcriber(model), tide_in(framing)
    length = to_samples(_PART_S)
    parts = [audio[at : at + length] for audio in recordings for at in range(0, len(audio), length)][:_MOST_PARTS]
    examples = []
    for number, part in enumerate(parts):
        examples.append(record_stream(transcriber, at_pace(recipe, number), part, voice=str(number)))
        advance("which words stay", number + 1, len(parts))
    words = sum(len(part.stayed) for part in examples)
    if words < _FEWEST_WORDS:
        return None
    shipped = read_rule(usual)
    try:
        chances, stayed = held_out(examples, near=shipped)
        rule = fit_rule(examples, near=shipped)
    except OptionError:  # all words of some parts came out alike
        return None
    in_order = sorted(examples, key=lambda part: part.voice)  # as `held_out` has them
    as_shipped = [chance for part in in_order for chance in shipped.chances(part.facts)]
    found = Refit(words, squared_error(chances, stayed), squared_error(as_shipped, stayed), rule.text())
    if not found.is_better:
        return found
    differ = dict.fromkeys((usual, found.rule), 0)
    for number in parts_to_replay(len(parts)):
        for text in differ:
            replayed = replay_stream(transcriber, at_pace(recipe.replace(rule=text), number), parts[number])
            differ[text] += sum(differences(plain_words(examples[number].text), plain_words(replayed)))
        advance("streams by that rule", number + 1, len(parts))
    return replace(found, differ=differ[found.rule], shipped_differ=differ[usual])


def parts_to_replay(count: int) -> range:
    """The numbers of the parts that are replayed, from all of the audio and at every pace."""
    step = -(-count // _MOST_REPLAYED)
    return range(0, count, step if step % len(PACES) else step + 1)


def measure_threads(
    model: WhisperModel, framing: Framing, windows: Sequence[Window], advance: Advance
) -> tuple[Rounds, ...]:
    """Time rounds of about the usual length with every number of threads that is worth trying here."""
    if not windows:
        return ()
    window = min(windows, key=lambda window: abs(len(window.audio) - to_samples(_USUAL_S)))
    counts = thread_counts(physical_cores(), thread_count(model.options))
    found = []
    for number, count in enumerate(counts):
        view = model.view(replace(model.options, threads=count))
        executor = framing_choice.open_executors(view, [framing])[framing]
        texts = [
            framing_choice.transcribe_window(executor, framing, window, DecodeOptions()) for _ in range(_ROUNDS + 1)
        ]
        taken = [text.seconds for text in texts[1:]]
        found.append(Rounds(count, min(taken), max(taken), processor_share()))
        advance("threads", number + 1, len(counts))
    return tuple(found)


def processor_share() -> float:
    """The share of a processor that one thread gets: its own time by the clock's, over a moment of computing."""
    began, spent = time.perf_counter(), time.thread_time()
    while (taken := time.perf_counter() - began) < _PROBE_S:
        pass
    return (time.thread_time() - spent) / taken


def thread_counts(cores: int, usual: int) -> list[int]:
    """The numbers of threads to try: powers of two up to the cores, the cores themselves as far as eight, and the
    present number.
    """
    return sorted({count for count in (1, 2, 4, 8) if count <= cores} | {min(cores, 8), usual})


def choose_pace(rounds: Sequence[Rounds]) -> Pace | None:
    """Choose the fewest threads that are nearly as quick as any, and the step for them; None if the machine was busy.

    The quickest round of each counts, because other work only ever makes one slower.
    """
    if not rounds or any(each.is_disturbed for each in rounds):
        return None
    quickest = min(each.quickest_s for each in rounds)
    best = next(each for each in rounds if each.quickest_s * _WORTH <= quickest)
    return Pace(best.threads, choose_step(best.quickest_s))


def choose_step(round_s: float) -> float:
    """Choose the shortest step of which a round takes at most a comfortable share (`doctor`)."""
    return next((step for step in _STEPS_S if round_s <= COMFORTABLE * step), _STEPS_S[-1])
