"""Windows that end as those of a live stream do, to train a hush word on: in the middle of a word, right after one, or
after a pause; and the right answer to each.

Each has a length of its own, because nothing but the hush word follows its end. The pieces are those of `windows`. No
torch. Knows nothing of networks.
"""

from dataclasses import dataclass, field

import numpy as np

from whispertide.checkpoint.tokenizer import Tokenizer
from whispertide.features import MelStream
from whispertide.types import HOP_LENGTH, N_FFT, SAMPLE_RATE, FloatArray
from whispertide_lab.speech.noise import Dice
from whispertide_lab.training.augment import Augmentation, SpokenWord, vary
from whispertide_lab.training.noise import disturb
from whispertide_lab.training.windows import Draw, Segment, Window, answer, is_heard

_UTTERANCES = 6  # put one after the other for a window, at most
_ALONE = 0.5  # how often there is one only
_GAP_S = 0.4  # of silence between two, on average
_TRIES = 20


@dataclass(frozen=True, slots=True)
class HushWindowOptions:
    """How windows are made; shares are probabilities.

    longest_s    windows are at most so long as the dice say between 1 s and this
    silent       nothing is said in it
    truncated    it ends anywhere in the speech, in the middle of a word as a rule; else after the last word
    tail_s       how much silence is after the last word at most, where speech is not truncated; before it, likewise
    timestamps   the answer has them: recipes decode with (local agreement) and without (one pass)
    prompt       what was said before precedes it, as in most rounds of a stream
    """

    longest_s: float = 8.0
    silent: float = 0.05
    truncated: float = 0.5
    tail_s: float = 0.6
    timestamps: float = 0.5
    prompt: float = 0.4
    prompt_tokens: int = 60
    language: str | None = None
    augmentation: Augmentation = field(default_factory=Augmentation)


def opening(samples: FloatArray, n_mels: int) -> tuple[FloatArray, FloatArray, np.float32]:
    """The part of a window's log-mel that a hush word does not touch, and what the rest needs: `before`, `tail` and
    `peak` of `mel.followed`. Of 16 kHz samples, at least 0.1 s.
    """
    stream = MelStream(n_mels)
    stream.extend(samples)
    raw = stream.window(0, len(samples) // HOP_LENGTH)
    complete = min(stream.complete_end, raw.shape[1])
    return raw[:, :complete], samples[complete * HOP_LENGTH - N_FFT // 2 :], np.float32(raw.max())


def compose_hush(draw: Draw, tokenizer: Tokenizer, dice: Dice, options: HushWindowOptions) -> Window:
    """A window out of utterances drawn by the dice."""
    count = int(SAMPLE_RATE * (1.0 + (options.longest_s - 1.0) * dice.random_sample()))
    sound, segments, before = np.zeros(count, np.float32), list[Segment](), ""
    if dice.random_sample() >= options.silent:
        for _ in range(_TRIES):
            found = _cut(*_lay(draw, count, dice, options), count, dice, options)
            if found is not None:
                sound, segments, before = found
                break
    disturb(sound, options.augmentation, dice, speech=bool(segments))
    prompted = dice.random_sample() < options.prompt
    before = before or draw(dice).text
    asked = tokenizer.encode(" " + before)[-options.prompt_tokens :] if prompted else []
    stamped = dice.random_sample() < options.timestamps
    tokens, targets, places = answer(tokenizer, segments, asked, stamped=stamped, language=options.language)
    targets[targets == tokenizer.no_timestamps] = -1  # it is given at inference, never sampled
    return Window(sound, tokens, targets, places, " ".join(segment.text for segment in segments))


def _lay(draw: Draw, count: int, dice: Dice, options: HushWindowOptions) -> tuple[FloatArray, list[Segment]]:
    """One utterance, or, where all words' times are known, enough for `count` samples one after the other."""
    parts: list[FloatArray] = []
    segments: list[Segment] = []
    at, alone = 0, dice.random_sample() < _ALONE
    for _ in range(_UTTERANCES):
        said = draw(dice)
        timed = said.words is not None
        if parts and not timed:
            continue
        samples, words = vary(said, options.augmentation, dice)
        if parts:
            parts.append(np.zeros(int(SAMPLE_RATE * dice.exponential(_GAP_S)), np.float32))
            at += len(parts[-1])
        segments.append(Segment([SpokenWord(word.text, word.start + at, word.end + at) for word in words], timed))
        parts.append(samples)
        at += len(samples)
        if alone or not timed or at >= count:
            break
    return np.concatenate(parts), segments


def _cut(
    samples: FloatArray, segments: list[Segment], count: int, dice: Dice, options: HushWindowOptions
) -> tuple[FloatArray, list[Segment], str] | None:
    """At most `count` samples up to an end by the dice, the segments in them, and the words in front of them.

    None where no word is whole.
    """
    timed, last = segments[0].timed, segments[-1].words[-1].end
    if timed and dice.random_sample() < options.truncated:
        first = segments[0].words[0].start
        end = first + int((last - first) * dice.random_sample())
    else:
        end = last + int(SAMPLE_RATE * options.tail_s * dice.random_sample())
    if end > count and not timed:
        return None
    earliest = max(0, end - count)
    words = [word for segment in segments for word in segment.words]
    begin = min((word.start for word in words if word.start >= earliest), default=end) if earliest else 0
    inside = [
        Segment([word for word in segment.words if word.start >= begin and is_heard(word, end)], timed)
        for segment in segments
    ]
    segments = [segment for segment in inside if segment.words]
    if not segments:
        return None
    lead = 0 if begin else int(SAMPLE_RATE * options.tail_s * dice.random_sample() ** 2)
    sound = np.zeros(lead + end - begin, np.float32)
    part = samples[begin:end]
    sound[lead : lead + len(part)] = part
    head = " ".join(word.text for word in words if word.start < begin)
    return sound, [_moved(segment, lead - begin, len(sound)) for segment in segments], head


def _moved(segment: Segment, by: int, count: int) -> Segment:
    words = [SpokenWord(word.text, word.start + by, min(word.end + by, count)) for word in segment.words]
    return Segment(words, segment.timed)
