"""What an offramp saves: utterances are heard here by pilots, and by the model of a server (arXiv 2311.17065, 7.4).

Sentences (`commands`) are heard twice: here, by pilots, and by the model of a server that gets the whole of each. An
offramp puts them in an order by the newest pilot; the first ones are sent. Those of `whispertide train offramp` take
part if they lie next to the checkpoint here. For every share that is sent it is known what the words' errors and the
waits would have been, so nothing is tuned on the way.

    needed    how many must be sent for at most one point of word errors more than when all are sent
    area      how often an utterance that the server hears better has the higher score: 0.5 by random choice

Waits are from the end of speech to the final text, on a simulated clock: processor time of one thread, here and there,
and a link with a round trip and a rate of its own over which the audio goes after the end of speech.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from whispertide.api import Transcriber
from whispertide.options import DecodeOptions
from whispertide.types import SAMPLE_RATE, FloatArray
from whispertide_lab.evaluation.items.commands import WAYS, Sentence, Way, area, hear
from whispertide_lab.evaluation.trained_offramp import TrainedOfframp, trained_in
from whispertide_lab.evaluation.wer import align

LINKS = ((0.05, 20e6), (0.1, 5e6), (0.3, 1e6), (1.0, 0.3e6))  # round trip in s, bits per s
POINT = 0.01  # of word errors more than the server's
ORDERS = 200  # random ones, which are judged in place of chance
WRONG = 0.1  # of an utterance's words
GREEDY = DecodeOptions(temperatures=(0.0,))


@dataclass(frozen=True, slots=True)
class Both:
    """An utterance as it was heard here and by the server. `signals` are by its newest pilot, `full` is the perplexity
    of the full decode here where it is known; `local_right` and `remote_right` tell whether the intent is, where
    utterances have one.
    """

    words: int
    seconds: float
    signals: dict[str, float]
    local_errors: int
    local_wait_s: float
    remote_errors: int
    remote_s: float
    local_right: bool = False
    remote_right: bool = False
    full: float | None = None

    def sent_s(self, trip_s: float, bits_per_s: float) -> float:
        """The wait where it is sent: 16 bits a sample go over the link, then the server hears it."""
        return trip_s + 16 * SAMPLE_RATE * self.seconds / bits_per_s + self.remote_s


@dataclass(slots=True)
class Asked:
    """Keeps the texts that it is asked about, in order, for every trained offramp next to the checkpoint. What each
    says of one is worked out when somebody wants it, so it adds to no wait. Satisfies `OffloadModel`.
    """

    offramps: Sequence[TrainedOfframp] = ()
    texts: list[tuple[tuple[float, ...], FloatArray | None]] = field(default_factory=list)

    @property
    def hears(self) -> bool:
        """Whether one of them does."""
        return any(each.hears for each in self.offramps)

    def offload_probability(self, logprobs: Sequence[float], states: FloatArray | None) -> float:
        """None of their answers counts here."""
        if self.offramps:
            self.texts.append((tuple(logprobs), states))
        return 0.0

    def said_of(self, place: int) -> dict[str, float]:
        """By each offramp how likely the text of that number is not good enough."""
        return {each.kind: each.offload_probability(*self.texts[place]) for each in self.offramps}


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to choose, over all shares: `errors[k]` is the word error rate with the first k utterances sent."""

    name: str
    errors: tuple[float, ...]
    area: float
    needed: int


def choice(name: str, heard: Sequence[Both], scores: Sequence[float]) -> Choice:
    """What sending those with the highest scores first does."""
    errors = rates(heard, scores)
    better = [each.remote_errors < each.local_errors for each in heard]
    return Choice(name, errors, area(scores, better), needed(errors, POINT))


def rates(heard: Sequence[Both], scores: Sequence[float]) -> tuple[float, ...]:
    """The word error rate with the first 0, 1, 2 ... utterances sent."""
    gains = [heard[at].local_errors - heard[at].remote_errors for at in in_order(scores)]
    words = sum(each.words for each in heard)
    local = sum(each.local_errors for each in heard)
    return tuple((local - gain) / words for gain in np.cumsum([0, *gains]))


def by_chance(heard: Sequence[Both]) -> Choice:
    """What random choice does on average: its errors are a straight line, `needed` is that of `needed_by_chance`."""
    words = sum(each.words for each in heard)
    local, remote = sum(each.local_errors for each in heard), sum(each.remote_errors for each in heard)
    errors = tuple(float(rate) for rate in np.linspace(local / words, remote / words, len(heard) + 1))
    return Choice("random", errors, 0.5, needed_by_chance(len(heard), partial(rates, heard)))


def in_order(scores: Sequence[float]) -> list[int]:
    """Which utterance is sent first, second and so on: by the highest score."""
    return sorted(range(len(scores)), key=lambda at: -scores[at])


def needed(errors: Sequence[float], above: float) -> int:
    """How many must be sent, the first ones first, until the error rate is so little above that of sending all."""
    return next(sent for sent, rate in enumerate(errors) if rate <= errors[-1] + above + 1e-12)


def needed_by_chance(count: int, rates: Callable[[Sequence[float]], Sequence[float]], above: float = POINT) -> int:
    """How many of `count` must be sent where chance orders them, for so little above sending all; `rates` of scores.

    The mean over random orders, each judged as a signal is, by where its own curve first gets there. Their mean curve,
    a straight line, gets there later: it has no lucky dips.
    """
    random = np.random.default_rng(0)
    found = [needed(rates(random.permutation(count).tolist()), above) for _ in range(ORDERS)]
    return round(float(np.mean(found)))


def mean_wait_s(
    heard: Sequence[Both], scores: Sequence[float], sent: int, link: tuple[float, float], *, decode_first: bool = False
) -> float:
    """With the `sent` highest scores sent over that link, at once or after the full decode here."""
    order = in_order(scores)
    there = [heard[at].sent_s(*link) + decode_first * heard[at].local_wait_s for at in order[:sent]]
    return float(np.mean([*there, *(heard[at].local_wait_s for at in order[sent:])]))


def listen(local: Transcriber, remote: Transcriber, said: Iterable[Sentence]) -> list[Both]:
    """Hear all. An utterance without a pilot always stays here, and is left out."""
    found, checkpoint = [], local.model.checkpoint
    asked = Asked([TrainedOfframp.of_checkpoint(checkpoint, kind) for kind in trained_in(checkpoint.folder)])
    for sentence in said:
        asked.texts.clear()
        way = Way()
        hear(local, sentence, WAYS["pilots"], wall=False, way=way, offload=asked)
        if not way.pilots:
            continue
        text, took = heard_there(remote, sentence)
        ((errors, words),), ((scores, _),) = way.errors, way.pilots
        seconds = len(sentence.audio) / SAMPLE_RATE
        # The last round was asked about too, but the decision is by the newest pilot.
        texts = [logprobs for logprobs, _ in asked.texts]
        newest = asked.said_of(texts.index(scores.logprobs)) if texts else {}
        signals = {"perplexity": scores.perplexity, "entropy": scores.entropy, **newest}
        there = errors_in(text, sentence)
        full = way.perplexities[0]
        found.append(Both(int(words), seconds, signals, int(errors), way.waits[0], there, took, full=full))
    return found


def heard_there(remote: Transcriber, sentence: Sentence) -> tuple[str, float]:
    """What a server's model hears that gets the whole sentence, and the processor seconds it takes."""
    began = time.process_time()
    text = remote.transcribe(sentence.audio, options=replace(GREEDY, language=sentence.language)).text
    return text, time.process_time() - began


def errors_in(text: str, sentence: Sentence) -> int:
    """Of the words."""
    return align(sentence.words, text.split()).words.errors
