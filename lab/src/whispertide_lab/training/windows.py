"""Training windows: utterances, silence and noise put together into what Whisper is asked, and its right answer.

A window has a length in seconds; speech fills some of it, the rest is silence, noise or Whisper's padding. It
holds nothing, one utterance or many, may begin or end in the middle of one (a live window always does), and may come
with the text before it as a prompt. The answer is a row of tokens with or without timestamps; the words' times say
where each token is heard. A window is a function of the dice alone.

No torch. Knows nothing of batches or networks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from whispertide.checkpoint.tokenizer import N_TIMESTAMPS, TIMESTAMP_SAMPLES, Tokenizer
from whispertide.options import check_range
from whispertide.types import N_SAMPLES, SAMPLE_RATE, FloatArray
from whispertide_lab.speech.noise import Dice
from whispertide_lab.training.augment import Augmentation, SpokenWord, vary
from whispertide_lab.training.noise import disturb
from whispertide_lab.training.shards import Utterance

Draw = Callable[[Dice], Utterance]  # an utterance, by the dice

NOWHERE = (-1.0, -1.0)
N_TEXT_CTX = 448  # tokens that every Whisper's decoder can take
HEARD_SHARE = 0.85  # of a word; what is cut off further in does not count as said
_TURNS = 40  # utterances tried for one window
_BEFORE = 16  # of what was said before a window there are fewer utterances than so many
_REST = SAMPLE_RATE  # a window with less room than this is full
_LONG_PAUSE_S = 12.0
_TO_THE_END = 0.75  # how often speech that is cut off goes on to the very end of the window


@dataclass(frozen=True, slots=True)
class WindowOptions:
    """How windows are composed; shares are probabilities."""

    silent: float = 0.04
    timestamps: float = 0.5
    prompt: float = 0.25
    cut_end: float = 0.35
    cut_start: float = 0.15
    single: float = 0.4  # one utterance only
    short: float = 0.0  # the recording ends before the window, and zeros follow, as Whisper pads what is too short
    long_pause: float = 0.0  # before an utterance, the first one included: up to `_LONG_PAUSE_S`
    prompt_tokens: int = 223  # as much as Whisper is ever shown
    language: str | None = None  # of a multilingual checkpoint; None is English
    augmentation: Augmentation = field(default_factory=Augmentation)

    def __post_init__(self) -> None:
        for name in ("silent", "timestamps", "prompt", "cut_end", "cut_start", "single", "short", "long_pause"):
            check_range(f"windows.{name}", getattr(self, name), 0.0, 1.0)


@dataclass(slots=True)
class Segment:
    """A stretch of speech in a window; `timed` says whether its words' times are known."""

    words: list[SpokenWord]
    timed: bool

    @property
    def text(self) -> str:
        """As written."""
        return " ".join(word.text for word in self.words)


@dataclass(slots=True)
class Window:
    """A training example.

    `tokens` [n] is what the decoder is given, `targets` [n] what it should say after each, -1 where that does not
    count; `places` [n, 2] in seconds is where the target is heard, -1 where not known or nowhere; `text` is what is
    said.
    """

    samples: FloatArray
    tokens: npt.NDArray[np.int64]
    targets: npt.NDArray[np.int64]
    places: npt.NDArray[np.float32]
    text: str


@dataclass(slots=True)
class _Filled:
    """What was laid into a window, and the text before it, "" for none; where the last utterance goes on beyond it."""

    segments: list[Segment]
    before: str
    goes_on: bool = False


def compose(draw: Draw, tokenizer: Tokenizer, seconds: float, dice: Dice, options: WindowOptions) -> Window:
    """A window of `seconds` out of utterances drawn by the dice."""
    window = np.zeros(round(seconds * SAMPLE_RATE), np.float32)
    sound = window[: _recorded(len(window), dice, options)]
    filled = _Filled([], "")
    if dice.random_sample() >= options.silent:
        filled = _fill(sound, draw, dice, options)
    disturb(sound, options.augmentation, dice, speech=bool(filled.segments))
    prompted = filled.before and dice.random_sample() < 0.8
    asked = tokenizer.encode(" " + filled.before)[-options.prompt_tokens :] if prompted else []
    stamped = dice.random_sample() < options.timestamps
    segments, unfinished = filled.segments, None
    if stamped and filled.goes_on and len(segments) > 1 and len(sound) >= N_SAMPLES:
        segments, unfinished = segments[:-1], segments[-1]
    tokens, targets, places = answer(tokenizer, segments, asked, unfinished, stamped=stamped, language=options.language)
    return Window(window, tokens, targets, places, " ".join(segment.text for segment in segments))


# --- sound ------------------------------------------------------------------------------------------------------------


def _recorded(size: int, dice: Dice, options: WindowOptions) -> int:
    """How many samples of a window there is a recording for, at least a second where it is longer."""
    if options.short == 0 or dice.random_sample() >= options.short:
        return size
    return int(dice.randint(min(size, SAMPLE_RATE), size + 1))


def _fill(sound: FloatArray, draw: Draw, dice: Dice, options: WindowOptions) -> _Filled:
    """Lay utterances into `sound`, until one is cut off, the window is full, or one is enough."""
    size = len(sound)
    at = int(dice.random_sample() ** 2 * min(size / 4, 2 * SAMPLE_RATE)) + _long_pause(size, dice, options)
    alone = dice.random_sample() < options.single
    filled = _Filled([], _something_said(draw, dice) if dice.random_sample() < options.prompt else "")
    for turn in range(_TURNS):
        said = draw(dice)
        samples, words = vary(said, options.augmentation, dice)
        segment = Segment(words, said.words is not None)
        if turn == 0 and segment.timed and len(words) > 3 and dice.random_sample() < options.cut_start:
            samples, segment, head = _without_head(samples, segment, dice)
            filled.before = f"{filled.before} {head}".strip() if filled.before or dice.random_sample() < 0.5 else ""
        too_long = len(samples) > size - at
        if too_long and not segment.timed:  # it cannot be cut, because its words' times are not known
            if filled.segments:
                break
            continue
        if too_long and filled.segments and dice.random_sample() >= options.cut_end:
            break
        cut = too_long or (alone and segment.timed and dice.random_sample() < options.cut_end)
        if cut:
            room = min(size - at, len(samples))
            somewhere = min(room, int(len(samples) * (0.15 + 0.85 * dice.random_sample())))
            end = room if too_long and dice.random_sample() < _TO_THE_END else somewhere
            samples, segment = _without_tail(samples, segment, end)
        if segment.words:  # what is left of a word alone is not speech
            filled.goes_on = at + len(samples) == size and too_long
            sound[at : at + len(samples)] += samples
            filled.segments.append(_moved(segment, at))
        if alone or cut:
            break
        at += len(samples) + int(SAMPLE_RATE * dice.exponential(0.5)) + _long_pause(size, dice, options)
        if at > size - _REST:
            break
    return filled


def _long_pause(size: int, dice: Dice, options: WindowOptions) -> int:
    """Samples in which nobody speaks, beyond the usual pause: mostly 0, and never more than half of the window."""
    if options.long_pause == 0 or dice.random_sample() >= options.long_pause:
        return 0
    return int(dice.random_sample() * min(size / 2, _LONG_PAUSE_S * SAMPLE_RATE))


def _something_said(draw: Draw, dice: Dice) -> str:
    """Text of one utterance or many, because what precedes a window of a recording is as long as the window."""
    return " ".join(draw(dice).text for _ in range(dice.randint(1, _BEFORE)))


def _moved(segment: Segment, by: int) -> Segment:
    return Segment([SpokenWord(word.text, word.start + by, word.end + by) for word in segment.words], segment.timed)


def _without_head(samples: FloatArray, segment: Segment, dice: Dice) -> tuple[FloatArray, Segment, str]:
    """What is left when the window begins in front of a later word, and the text of what is gone."""
    first = int(dice.randint(1, len(segment.words) - 1))
    start = segment.words[first].start
    kept = Segment(segment.words[first:], segment.timed)
    head = " ".join(word.text for word in segment.words[:first])
    return samples[start:], _moved(kept, -start), head


def is_heard(word: SpokenWord, end: int) -> bool:
    """Whether a word counts as said where the sound ends at sample `end`."""
    return word.start + HEARD_SHARE * (word.end - word.start) <= end


def _without_tail(samples: FloatArray, segment: Segment, end: int) -> tuple[FloatArray, Segment]:
    """The utterance cut off at `end`; a word counts if nearly all of it is there."""
    words = []
    for word in segment.words:
        if not is_heard(word, end):
            break
        words.append(SpokenWord(word.text, word.start, min(word.end, end)))
    return samples[:end], Segment(words, segment.timed)


# --- tokens -----------------------------------------------------------------------------------------------------------


def answer(
    tokenizer: Tokenizer,
    segments: Sequence[Segment],
    prompt: Sequence[int],
    unfinished: Segment | None = None,
    *,
    stamped: bool,
    language: str | None = None,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Tokens, targets and places of a window with these segments (see `Window`).

    Without speech the start of the transcript is answered with <|nospeech|>, which no decoder says, and whatever
    a decoder then begins with is answered with the end (openai/whisper, decoding.py: no_speech_probs). Of an
    `unfinished` segment, which the end of a whole 30 s cuts off, only the start is answered, so that the next window
    begins there (Whisper, 2.3). What does not fit into Whisper's 448 tokens is left out. Raises `UnknownLanguageError`.
    """
    before = [tokenizer.sot_prev, *prompt] if prompt else []
    begin = tokenizer.sot_sequence(language, "transcribe")
    body: list[tuple[int, tuple[float, float]]] = []
    if not stamped:
        body.append((tokenizer.no_timestamps, NOWHERE))
    for segment in segments:
        body += _said(tokenizer, segment, stamped=stamped)
    if unfinished is not None:
        body.append(_stamp(tokenizer, unfinished.words[0].start, unfinished))
    if not segments and stamped:
        body.append((tokenizer.timestamp_begin, NOWHERE))
    body.append((tokenizer.eot, NOWHERE))
    row = [*((token, NOWHERE) for token in (*before, *begin)), *body]
    tokens = np.array([token for token, _ in row], np.int64)
    places = np.array([place for _, place in row], np.float32)[1:]
    targets = tokens[1:].copy()
    targets[: len(before)] = -1
    if not segments:
        targets[len(before)] = tokenizer.no_speech
    return tokens[:-1][:N_TEXT_CTX], targets[:N_TEXT_CTX], places[:N_TEXT_CTX]


def _said(tokenizer: Tokenizer, segment: Segment, *, stamped: bool) -> list[tuple[int, tuple[float, float]]]:
    """The tokens of a segment and where each is heard."""
    said: list[tuple[int, tuple[float, float]]] = []
    for word in segment.words:
        place = (word.start / SAMPLE_RATE, word.end / SAMPLE_RATE) if segment.timed else NOWHERE
        said += [(token, place) for token in tokenizer.encode(" " + word.text)]
    if not stamped:
        return said
    first, last = segment.words[0].start, segment.words[-1].end
    return [_stamp(tokenizer, first, segment), *said, _stamp(tokenizer, last, segment)]


def _stamp(tokenizer: Tokenizer, sample: int, segment: Segment) -> tuple[int, tuple[float, float]]:
    """The token for a time, and that time as the place where it is heard: only there is it told from its neighbours."""
    place = (sample / SAMPLE_RATE, sample / SAMPLE_RATE) if segment.timed else NOWHERE
    return tokenizer.timestamp_begin + min(N_TIMESTAMPS - 1, round(sample / TIMESTAMP_SAMPLES)), place
