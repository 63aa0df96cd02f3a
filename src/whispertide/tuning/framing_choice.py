"""Choose a framing for a checkpoint: compare its transcripts of short windows with those of the same windows padded.

Nobody has to have written anything down. Whisper was trained on windows padded to 30 s, so what a padded window says is
taken for right, without a guard where one would end it early. Another framing is judged by how often its text differs,
by words that are only in it, by texts that do not end, by ends of utterances that are missing, and by its time. Windows
are cut as `tide` would: they begin in a pause, some are cut off in the middle of speech, some are whole utterances, and
some are single words, which trouble checkpoints most. They are decoded as by `tide` in that framing, with all of its
guards: a window that a guard stops is decoded once more, padded, and costs the time of that (NPUsper, table 2: the
guard takes nearly all away that a bare window makes up).

Returns figures. Knows no command line, and nothing of what is done with them.
"""

import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import lru_cache
from statistics import median
from typing import Any

import numpy as np

from whispertide.audio.vad import GateOptions, SpeechGate, SpeechStarted, SpeechStopped
from whispertide.decoding.key_terms import UNSPACED
from whispertide.methods.attention.listening import HeardWords
from whispertide.methods.attention.single_pass import SinglePass
from whispertide.methods.short.hush import has_word
from whispertide.model.whisper import WhisperModel
from whispertide.options import DecodeOptions
from whispertide.recipes.assembly import make_executor
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe
from whispertide.streaming.framing import Bare, Buckets, Framing, Hush, Merged, Pad30, Zeros, taught_framing
from whispertide.streaming.policy import Executor
from whispertide.streaming.round import RoundPlan
from whispertide.types import SAMPLE_RATE, FloatArray, Span, align_down, to_samples

_CUTS_S = (1.0, 2.0, 3.5, 5.0)  # of windows that end in the middle of speech
LONGEST_S, SHORTEST_S = 8.0, 0.4  # of windows that are whole utterances
_NEAR_END_S = 0.6  # what is said there may still be going on, and tide waits for it
_SINGLE_WORD_S = 2.5  # of audio: a second before the word, some 1.2 s of it, and what the voice gate leaves after it
PAUSE_S, AROUND = 0.5, SAMPLE_RATE // 20  # of single words: silence on both sides, and sound on both sides
TOKENS_PER_S, TOKENS_BESIDES = 8, 8  # nobody speaks faster; more of them are a text that does not end
ENOUGH = 12  # windows, to say anything at all
SPEECH_S = 300.0  # of speech, without which no rule is fitted: one of 98 s was worse than the shipped one
_ENOUGH_WORDS = 25

# Up to here a framing suits. Our checkpoints show where the bounds lie (lab/log, "What checkpoints bear").
MOST = {"changed": 0.1, "invented": 0.05, "run_aways": 0.0, "ends_missing": 0.15, "alone_added": 1.0}
AS_GOOD = 0.03  # so few more differences say nothing: then the framing that is nearer to Whisper's training is chosen
_AS_QUICK = 1.5  # framings whose windows take at most so many times as long as the quickest ones compete by their texts


@dataclass(frozen=True, slots=True)
class Window:
    """Audio [n] of one round.

    whole  it ends in the pause after an utterance
    alone  it is a single word between pauses
    """

    audio: FloatArray
    whole: bool
    alone: bool = False


@dataclass(frozen=True, slots=True)
class WindowText:
    """The transcript of a window: words as they are compared; the number of further words near its end, which may be
    incomplete; whether the text did not end; the time it took; whether a guard had the window decoded twice, or else
    ended the text early.
    """

    words: tuple[str, ...]
    loose: int
    ran_away: bool
    seconds: float
    twice: bool = False
    stopped: bool = False


@dataclass(slots=True)
class FramingResult:
    """A framing, and its transcripts of windows compared with those of the padded ones.

    words, changed, invented   words of the padded texts; how many of them differ or are missing; words
                               that no padded text has
    run_aways                  texts that do not end
    twice                      windows that a guard had decoded once more, padded
    ends, ends_missing         whole utterances with a transcript; those whose last word is missing
    loose                      words near the end of a window that is cut off, more than padded; tide drops them as a
                               rule, so they decide only between framings that suit
    alone, alone_added         single words; words that were added to them
    seconds                    of each window
    """

    framing: Framing
    windows: int = 0
    words: int = 0
    changed: int = 0
    invented: int = 0
    run_aways: int = 0
    twice: int = 0
    ends: int = 0
    ends_missing: int = 0
    alone: int = 0
    alone_added: int = 0
    loose: int = 0
    seconds: list[float] = field(default_factory=list)

    @property
    def label(self) -> str:
        """The name for messages and tables."""
        return self.framing.name

    @property
    def median_s(self) -> float:
        """The time of a window in seconds."""
        return median(self.seconds) if self.seconds else 0.0

    def rates(self) -> dict[str, float]:
        """The shares: of the words, of the windows, of the ends."""
        return {
            "changed": self.changed / max(1, self.words),
            "invented": self.invented / max(1, self.words),
            "run_aways": self.run_aways / max(1, self.windows),
            "ends_missing": self.ends_missing / max(1, self.ends),
            "alone_added": self.alone_added / max(1, self.alone),
        }

    @property
    def is_sufficient(self) -> bool:
        """True if there was enough speech to judge by."""
        return self.windows >= ENOUGH and self.words >= _ENOUGH_WORDS

    @property
    def suits(self) -> bool:
        """True if it suits the checkpoint. Padding is the reference for the others."""
        if isinstance(self.framing, Pad30):
            return True
        return self.is_sufficient and all(rate <= MOST[name] for name, rate in self.rates().items())

    @property
    def differing(self) -> float:
        """All differences, as a share of the words."""
        return (self.changed + self.invented + self.loose) / max(1, self.words)

    def add(self, window: Window, padded: WindowText, heard: WindowText) -> None:
        """Count one window. Of single words only the number counts: cut out of speech they are misheard in any case."""
        self.windows += 1
        self.run_aways += heard.ran_away and not padded.ran_away
        self.twice += heard.twice
        self.seconds.append(heard.seconds)
        if window.alone:
            self.alone += 1
            self.alone_added += max(0, len(heard.words) - len(padded.words))
            return
        self.loose += max(0, heard.loose - padded.loose)
        self.words += len(padded.words)
        changed, invented = differences(padded.words, heard.words)
        self.changed += changed
        self.invented += invented
        if window.whole and padded.words:
            self.ends += 1
            self.ends_missing += not heard.words or heard.words[-1] != padded.words[-1]

    def to_json(self) -> dict[str, Any]:
        figures = {
            name: getattr(self, name)
            for name in ("windows", "words", "ends", "alone", "twice", "suits", "median_s", "differing")
        }
        return {"framing": self.framing.kind, "label": self.label, **figures, **self.rates()}


def candidates(model: WhisperModel, *, few: bool = False) -> list[Framing]:
    """The framings to try with this model: the reference, then the nearest to it; `few`: the most important ones."""
    taught = [taught_framing(model.short_merged)] if model.short_merged else []
    if few:
        return [Pad30(), Merged(), *taught, Bare()]
    hush = [Hush()] if has_word(model) else []
    return [Pad30(), Merged(), *taught, Zeros(), *hush, Buckets(), Bare()]


# --- windows ----------------------------------------------------------------------------------------------------------


def cut_windows(audio: FloatArray, gate: SpeechGate | None = None) -> list[Window]:
    """Cut windows out of a recording [n], in the order of the recording."""
    found: list[Window] = []
    for span in _utterances(audio, gate or SpeechGate(GateOptions())):
        seconds = len(span) / SAMPLE_RATE
        if SHORTEST_S <= seconds <= LONGEST_S:
            found.append(Window(audio[span.start : span.end], whole=True))
        found += [
            Window(audio[span.start : span.start + to_samples(length)], whole=False)
            for length in _CUTS_S
            if length < seconds - _NEAR_END_S
        ]
    return found


def spread_out(windows: Sequence[Window]) -> list[Window]:
    """Order windows so that any beginning is a fair sample: distant ones next to each other."""
    step = next(step for step in (7, 5, 11, 13, 17) if len(windows) % step) if len(windows) > 1 else 1
    return [windows[number * step % len(windows)] for number in range(len(windows))]


def speech_s(audio: FloatArray) -> float:
    """Seconds of speech in a recording [n]."""
    return sum(map(len, _utterances(audio, SpeechGate(GateOptions())))) / SAMPLE_RATE


def _utterances(audio: FloatArray, gate: SpeechGate) -> Iterator[Span]:
    start = 0
    for event in (*gate.feed(audio), *gate.finish()):
        if isinstance(event, SpeechStarted):
            start = align_down(event.start)
        elif isinstance(event, SpeechStopped):
            yield Span(start, min(event.end, len(audio)))


def single_words(
    executor: Executor, windows: Sequence[Window], most: int, until: Callable[[], bool] = lambda: False
) -> list[Window]:
    """Cut out words of complete utterances, each alone between pauses; `executor` finds their times. `until` ends it
    early.
    """
    found: list[Window] = []
    pause = np.zeros(to_samples(PAUSE_S), np.float32)
    for window in windows:
        if window.whole and len(found) < most and not until():
            samples = _whole_frames(window.audio)
            plan = RoundPlan(0, Span(0, len(samples)), hearing=SinglePass(context_tokens=0), is_last=True)
            heard = _run(executor, plan, samples, DecodeOptions())
            for word in heard.words if heard is not None else ():
                start, end = word.start - AROUND, word.word.end + AROUND
                if end - start >= to_samples(SHORTEST_S) and start >= 0:
                    audio = np.concatenate((pause, window.audio[start:end], pause))
                    found.append(Window(audio, whole=True, alone=True))
    return found[:most]


# --- what they say ----------------------------------------------------------------------------------------------------


def guard_changes(framing: Framing) -> dict[str, Any]:
    """The changes of a recipe for a framing. One that is not padded as in training is guarded: a window that a guard
    stops is decoded once more, padded. Single words, the hardest for checkpoints, are padded in the end.
    """
    guard = {} if isinstance(framing, Pad30) else {"shift_guard": True, "short_s": _SINGLE_WORD_S}
    fields = {name: getattr(framing, name) for name in ("zeros_s", "stand_for_all") if hasattr(framing, name)}
    return {"framing": framing.kind, **fields, **guard}


@lru_cache(maxsize=512)
def tide_in(framing: Framing, max_tokens: int = 0) -> Recipe:
    """`tide` as tuning to that framing leaves it; `max_tokens` 0: as many as it ever decodes."""
    limit = {"max_tokens": max_tokens} if max_tokens else {}
    return get_recipe("tide").replace(**guard_changes(framing), **limit)


def transcribe_window(executor: Executor, framing: Framing, window: Window, options: DecodeOptions) -> WindowText:
    """Transcribe one window as the first round of an utterance, or its only one; a text that is too long for it does
    not end.
    """
    recipe, samples = tide_in(framing, _limit(window)), _whole_frames(window.audio)
    policy, search = recipe.policy, recipe.search
    plan = policy.plan(policy.start(0), len(samples), search=search, round_id=0, is_last=window.whole)
    return _text(executor, plan, window, samples, recipe.search.options(options))


def _reference(executor: Executor, window: Window, padded: WindowText, options: DecodeOptions) -> WindowText:
    """The reference for all others: the text of `padded` or, if a guard ended that early, a decode without guards."""
    if not (padded.twice or padded.stopped):
        return padded
    samples = _whole_frames(window.audio)
    listen = SinglePass(max_tokens=_limit(window), context_tokens=0, silence=SAMPLE_RATE if window.whole else 0)
    plan = RoundPlan(0, Span(0, len(samples)), hearing=listen, is_last=True)
    return _text(executor, plan, window, samples, options)


def _limit(window: Window) -> int:
    return TOKENS_BESIDES + round(TOKENS_PER_S * len(window.audio) / SAMPLE_RATE)


def _text(
    executor: Executor, plan: RoundPlan, window: Window, samples: FloatArray, options: DecodeOptions
) -> WindowText:
    began = time.perf_counter()
    heard = _run(executor, plan, samples, options)
    taken = time.perf_counter() - began
    if heard is None:
        return WindowText((), 0, False, taken)
    last = len(window.audio) - to_samples(_NEAR_END_S)
    said = [word.word.text for word in heard.words if window.whole or word.word.end <= last]
    loose = len(heard.words) - len(said)
    stopped = heard.halt is not None and heard.halt.reason != "frontier"
    return WindowText(tuple(plain_words("".join(said))), loose, heard.stop == "length", taken, heard.retried, stopped)


def _whole_frames(audio: FloatArray) -> FloatArray:
    return audio[: align_down(len(audio))]


def _run(executor: Executor, plan: RoundPlan, samples: FloatArray, options: DecodeOptions) -> HeardWords | None:
    heard = executor.run(plan, samples, options).heard
    return heard if isinstance(heard, HeardWords) else None


def plain_words(text: str) -> list[str]:
    """Split into words without case and punctuation; in scripts where no spaces part words each letter is one."""
    kept = (c if c in "'_" or c.isalnum() or unicodedata.category(c).startswith("M") else " " for c in text.lower())
    return UNSPACED.sub(r" \g<0> ", "".join(kept)).split()


def differences(padded: Sequence[str], heard: Sequence[str]) -> tuple[int, int]:
    """The number of padded words that are different or missing in a transcript, and of the words added."""
    changed = invented = 0
    for tag, i, j, k, m in SequenceMatcher(None, padded, heard, autojunk=False).get_opcodes():
        if tag != "equal":
            changed += j - i
            invented += max(0, (m - k) - (j - i))
    return changed, invented


def measure(
    executors: Mapping[Framing, Executor],
    windows: Sequence[Window],
    *,
    options: DecodeOptions | None = None,
    until: Callable[[], bool] = lambda: False,
    progress: Callable[[int, int], None] | None = None,
) -> list[FramingResult]:
    """Transcribe the windows in every framing; `executors` begin with that of the padding.

    `until` is asked before every window, and ends it early; a window without a text in all framings does not count.
    Nor does a first one, which opens the graphs.
    """
    options = options or DecodeOptions()
    tried = [FramingResult(framing) for framing in executors]

    def heard(window: Window) -> list[WindowText] | None:
        texts = []
        for framing, executor in executors.items():
            if until():
                return None
            texts.append(transcribe_window(executor, framing, window, options))
        return texts

    if not windows or heard(windows[0]) is None:
        return tried
    padded = next(iter(executors.values()))
    for number, window in enumerate(windows):
        texts = heard(window)
        if texts is None or until():
            break
        judge = _reference(padded, window, texts[0], options)
        for each, text in zip(tried, texts, strict=True):
            each.add(window, judge, text)
        if progress:
            progress(number + 1, len(windows))
    return tried


def choose_framing(tried: Sequence[FramingResult], usual: Framing | None = None) -> FramingResult | None:
    """Choose the first framing that suits, is about as quick as the quickest and about as good as the best of these;
    None if there was too little speech.

    `usual` is the framing of the checkpoint untuned, if it names one. That stays where it suits: where it differs most,
    near the end of windows that are cut off, `tide` drops words or waits for them (lab/log).
    """
    if not tried or not tried[0].is_sufficient:
        return None
    suitable = [each for each in tried if each.suits]
    if (stays := next((each for each in suitable if each.framing == usual), None)) is not None:
        return stays
    quickest = min(each.median_s for each in suitable)
    quick = [each for each in suitable if each.median_s <= _AS_QUICK * quickest]
    best = min(each.differing for each in quick)
    return next(each for each in quick if each.differing <= best + AS_GOOD)


def open_executors(model: WhisperModel, framings: Sequence[Framing]) -> dict[Framing, Executor]:
    """Make an executor for each framing. Raises the errors of `make_executor`."""
    return {framing: make_executor(model, tide_in(framing)) for framing in framings}
