"""A model's own transcripts in place of those of the data (pseudo-labels; self-distillation).

Transcripts of recordings often lack case and punctuation, and a model that is trained on them forgets both. Heard with
padding, which it knows, the model itself says what it should say without. Word times come with the text, and are marked
as not exact. Both are kept in the cache. Knows nothing of what is trained.
"""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from whispertide.api import Transcriber
from whispertide.audio.buffer import to_float
from whispertide.checkpoint.cache import cache_path, read_note, write_note
from whispertide.options import DecodeOptions
from whispertide.types import FloatArray, Span, Word
from whispertide_lab.training.shards import ShardEntry, Shards, Utterance

VERSION = 1  # counts up whenever the same model says something else


def pseudo_labelled(
    teacher: Transcriber, speech: Shards, language: str | None, progress: Callable[[int], None] = lambda done: None
) -> Shards:
    """The same utterances with the teacher's text and word times; those without words are left out.

    `language` is that of utterances that do not say theirs, by default English. `progress` is told how many are done.
    """

    def label(place: ShardEntry, said: Utterance) -> ShardEntry | None:
        text, spans = _heard(teacher, to_float(said.samples), said.language or language or "en")
        return _relabelled(place, text, spans) if text else None

    return speech.relabelled(label, progress)


def _relabelled(place: ShardEntry, text: str, spans: Sequence[Span]) -> ShardEntry:
    words = [[span.start, min(span.end, place.count)] for span in spans]
    return replace(place, entry={**place.entry, "text": text, "words": words, "exact": False})


def _heard(teacher: Transcriber, samples: FloatArray, language: str) -> tuple[str, list[Span]]:
    """The teacher's text, greedy and without second tries, and the span of each of its words."""
    key = {"version": VERSION, "content_hash": teacher.model.content_hash, "precision": teacher.model.options.precision}
    digest = hashlib.sha256(samples.tobytes() + repr((language, key)).encode()).hexdigest()[:32]
    note = cache_path("pseudo-labels", f"{digest}.json")
    kept = read_note(note, key)
    if kept is not None:
        return str(kept["text"]), [Span(*span) for span in kept["spans"]]
    options = DecodeOptions(language=language, temperatures=(0.0,))
    text, spans = joined(teacher.transcribe(samples, options=options, vad=False).words)
    with suppress(OSError):  # a read-only or full cache costs time only
        write_note(note, key, {"text": text, "spans": [(span.start, span.end) for span in spans]})
    return text, spans


def joined(words: Sequence[Word]) -> tuple[str, list[Span]]:
    """Their text, and a span for each word of `text.split()`: pieces such as " 10" and ",000" are one."""
    texts: list[str] = []
    spans: list[Span] = []
    for word in words:
        text = word.text.strip()
        if spans and not word.text.startswith(" "):
            texts[-1] += text
            spans[-1] = Span(spans[-1].start, word.end)
        elif text:
            texts.append(text)
            spans.append(Span(word.start, word.end))
    return " ".join(texts), spans
