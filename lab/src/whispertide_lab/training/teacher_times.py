"""Word times for speech that has none: the teacher's attention says where each word of the text is.

Recordings of people come with a text and no times. The model that is to be trained places the words itself, while it
still hears the whole recording (`evaluation.aligned`); so the times are its opinion, and are marked as not exact. They
are kept in the cache. Knows nothing of what is trained.
"""

from collections.abc import Callable
from dataclasses import replace

from whispertide.api import Transcriber
from whispertide.audio.buffer import to_float
from whispertide_lab.evaluation.aligned import aligned
from whispertide_lab.speech.utterance import RefWord
from whispertide_lab.speech.utterance import Utterance as Reference
from whispertide_lab.training.shards import ShardEntry, Shards, Utterance


def untimed(speech: Shards) -> int:
    """How many utterances have no word times."""
    return sum(place.entry.get("words") is None for place in speech.places)


def timed_by(
    teacher: Transcriber, speech: Shards, language: str | None, progress: Callable[[int], None] = lambda done: None
) -> Shards:
    """The same utterances, those without word times with the teacher's; where it cannot place all words, without any.

    `language` is that of utterances that do not say theirs, by default English. `progress` is told how many are done.
    """

    def label(place: ShardEntry, said: Utterance) -> ShardEntry:
        return place if said.words is not None else _placed(place, said, teacher, language)

    return speech.relabelled(label, progress)


def _placed(place: ShardEntry, said: Utterance, teacher: Transcriber, language: str | None) -> ShardEntry:
    words = tuple(map(RefWord, said.text.split()))
    spoken = said.language or language or "en"
    asked = Reference("", words, place.seconds, lambda: to_float(said.samples), language=spoken)
    found = aligned(asked, teacher, "the teacher")
    if not found.timed:
        return place
    spans = [[word.start, word.end] for word in found.words]
    return replace(place, entry={**place.entry, "words": spans, "exact": False})
