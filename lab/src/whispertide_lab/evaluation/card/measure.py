"""One model over the sets of a card: every utterance recognised greedily in every mode, and what was right of it.

Each window is decoded once, at temperature 0 and without text before it; Whisper's no-speech rule applies, its fallback
does not, so that a figure is about the weights and comes out the same each time. Recordings over 30 s go through the
offline transcription. What is done is appended to a file at once: an interrupted run goes on from there.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from whispertide.atomic import writing
from whispertide.checkpoint.cache import cache_dir
from whispertide.decoding.fallback import is_silence
from whispertide.decoding.window import align_window, decode_window
from whispertide.features import Features
from whispertide.model.engine import Encoded
from whispertide.model.whisper import WhisperModel
from whispertide.offline import transcribe_blocks
from whispertide.options import DecodeOptions
from whispertide.streaming.framing import get_framing
from whispertide.types import N_FRAMES, FloatArray, Word, to_samples
from whispertide_lab.evaluation.card.sets import MODES, Mode, Part
from whispertide_lab.evaluation.store import code_version, engine_version
from whispertide_lab.evaluation.wer import Counts, align, normalise_word
from whispertide_lab.from_json import built
from whispertide_lab.speech.utterance import Utterance

GREEDY = DecodeOptions(temperatures=(0.0,), condition_on_previous_text=False, word_timestamps=False)
Progress = Callable[[int], None]  # so many recognitions more are done
_MANY = 3  # words too many, at least, for an utterance to count as run away


@dataclass(frozen=True, slots=True)
class Record:
    """What was heard in one utterance in one mode.

    `timing` has, for each reference word with exact times that was recognised, the errors of its start and of its end
    in samples (positive: too late).
    """

    utterance: str
    mode: str
    text: str
    words: Counts
    characters: Counts
    timing: tuple[tuple[int, int], ...] = ()

    @property
    def ran_away(self) -> bool:
        """Whether much was made up: at least three words, and half as many as were said."""
        return self.words.insertions >= max(_MANY, self.words.reference / 2)


def version_of_code() -> str:
    """All code that a record depends on, this file included."""
    return code_version("", __name__, Part.__module__)


class Records:
    """The records of one model under one version of the code, in a file of the cache directory that only grows."""

    def __init__(self, model: WhisperModel) -> None:
        engine = (model.options.precision, model.options.provider, engine_version(model.options.provider))
        asked = (model.content_hash, repr(model.generation), *engine, version_of_code())
        self.key = hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]
        self.path = cache_dir() / "cards" / f"{self.key}.jsonl"
        self._known: dict[tuple[str, str, str], Record] = dict(self._read())

    def get(self, part: Part, utterance: str, mode: Mode) -> Record | None:
        """What is known already."""
        return self._known.get((part.corpus_hash, utterance, mode.name))

    def add(self, part: Part, records: Sequence[Record]) -> None:
        """Keep them. Raises `OutputError` where the cache cannot be written."""
        lines = "".join(json.dumps({"corpus": part.corpus_hash, **asdict(record)}) + "\n" for record in records)
        with writing(self.path, "set WHISPERTIDE_CACHE to another folder"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(lines)
        self._known |= {(part.corpus_hash, record.utterance, record.mode): record for record in records}

    def _read(self) -> Iterator[tuple[tuple[str, str, str], Record]]:
        if not self.path.is_file():
            return
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                data = json.loads(line)
                corpus = data.pop("corpus")
                record: Record = built(Record, data)
            except (ValueError, KeyError, TypeError):
                continue  # cut off when the program was killed; measured again
            yield (corpus, record.utterance, record.mode), record


def measure(model: WhisperModel, part: Part, records: Records, progress: Progress) -> dict[str, tuple[Record, ...]]:
    """Mode name -> a record per utterance of the part, in its order; only what `records` lacks is computed.

    Raises `AudioFileError` where a recording cannot be read and `OutputError` where results cannot be kept.
    """
    found: dict[str, list[Record]] = {mode.name: [] for mode in part.modes}
    for utterance in part.utterances:
        missing = [mode for mode in part.modes if records.get(part, utterance.id, mode) is None]
        if missing:
            records.add(part, list(recognise(model, utterance, missing)))
        for mode in part.modes:
            record = records.get(part, utterance.id, mode)
            assert record is not None
            found[mode.name].append(record)
        progress(len(part.modes))
    return {name: tuple(some) for name, some in found.items()}


def recognise(model: WhisperModel, utterance: Utterance, modes: Sequence[Mode] = MODES) -> Iterator[Record]:
    """Recognise an utterance in each of the modes; those of one framing share the encoder's run."""
    samples = utterance.audio()
    features = Features.of((samples,), model.dims.n_mels)
    for framing in dict.fromkeys(mode.framing for mode in modes):
        some = [mode for mode in modes if mode.framing == framing]
        if features.frames > N_FRAMES:
            yield from (_record(utterance, mode, _hear_long(model, samples, utterance, mode)) for mode in some)
            continue
        encoded = get_framing(framing)(model, features.window(0, features.frames))
        for mode in some:
            wants_words = mode.timestamps and framing == "pad30" and utterance.exact_times
            yield _record(utterance, mode, *_hear_window(model, encoded, utterance, mode, words=wants_words))


def _options(model: WhisperModel, utterance: Utterance, mode: Mode) -> DecodeOptions:
    language = utterance.language if model.dims.is_multilingual else None
    return replace(GREEDY, timestamps=mode.timestamps, language=language)


def _hear_window(
    model: WhisperModel, encoded: Encoded, utterance: Utterance, mode: Mode, *, words: bool
) -> tuple[str, tuple[Word, ...]]:
    options = _options(model, utterance, mode)
    duration = to_samples(utterance.seconds)
    result = decode_window(model, encoded, options, language=options.language, duration=duration)
    if is_silence(result, options):
        return "", ()
    if not words:
        return result.text, ()
    spoken = align_window(model, encoded, result.segments, language=options.language, duration=duration)
    return result.text, tuple(word for segment in spoken for word in segment.words)


def _hear_long(model: WhisperModel, samples: FloatArray, utterance: Utterance, mode: Mode) -> str:
    segments = transcribe_blocks(model, [samples], _options(model, utterance, mode))
    return "".join(segment.text for segment in segments).strip()


def _record(utterance: Utterance, mode: Mode, text: str, words: Sequence[Word] = ()) -> Record:
    found = align([word.text for word in utterance.words], text.split(), utterance.language)
    return Record(utterance.id, mode.name, text, found.words, found.characters, tuple(timing_errors(utterance, words)))


def timing_errors(utterance: Utterance, words: Sequence[Word]) -> Iterator[tuple[int, int]]:
    """Errors of start and end, in samples, of each reference word that was recognised as one and the same word."""
    found = align([word.text for word in utterance.words], [word.text.strip() for word in words], utterance.language)
    for index, at in sorted(found.matched_words().items()):
        said, heard = utterance.words[index], words[at]
        same = normalise_word(said.text) == normalise_word(heard.text.strip())
        if same and said.start is not None and said.end is not None:
            yield heard.start - said.start, heard.end - said.end
