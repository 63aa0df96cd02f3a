"""A worker: load one model, then transcribe one recording after the other. Its answers are values.

It writes no file. It knows nothing of other workers, nor of how requests reach it.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from whispertide.audio.whole import Recording
from whispertide.batch.inputs import is_address, without_query
from whispertide.errors import AudioError, AudioFileError, CheckpointError, GraphError, WhispertideError
from whispertide.formats.files import HOLD_OTHERS, get_format, other_name
from whispertide.options import DecodeOptions, EngineOptions
from whispertide.translation.translator import TranslationOptions
from whispertide.types import seconds

if TYPE_CHECKING:
    from whispertide.api import Transcriber
    from whispertide.formats.document import Document
    from whispertide.translation.recordings import RecordingTranslation
    from whispertide.translation.translator import Translator

State = Literal["done", "cut off", "unusable", "failed"]


@dataclass(frozen=True, slots=True)
class Translation:
    """What is to be made of the sentences, and the translator: an address with its model, or a folder."""

    options: TranslationOptions
    translator: str
    model: str = ""

    def apart(self, form: str) -> tuple[str | None, ...]:
        """What becomes a file of its own, because the format has no place for it: None is a correction."""
        return () if form in HOLD_OTHERS else self.options.targets


@dataclass(frozen=True, slots=True)
class Setup:
    """The configuration of every worker: the model by name and by the hash of its weights, and the options. With
    `multichannel` each channel of a recording is transcribed by itself.
    """

    model: str
    revision: str | None
    engine: EngineOptions
    options: DecodeOptions
    form: str
    content_hash: str
    translation: Translation | None = None
    multichannel: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one recording.

    state     `cut off`: the audio ended early, and there is a transcript of what was there. `unusable`: no audio that
              can be read. `failed`: anything else
    text      the transcript as it is to be written; None if there is none
    others    translations and corrections as they are to be written, by `other_name`
    reason    why it is not `done`
    notes     warnings
    """

    state: State
    text: str | None = None
    reason: str = ""
    audio_s: float = 0.0
    notes: tuple[str, ...] = ()
    others: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker has loaded its model."""


@dataclass(frozen=True, slots=True)
class Unfit:
    """The worker cannot load its model; so will no other."""

    error: WhispertideError


@dataclass(frozen=True, slots=True)
class Died:
    """The worker ended, with its recording. It cannot send this itself: `Workers.wait` makes it."""

    reason: str


Message = Ready | Unfit | Died | Outcome


class Worker:
    """One model of one thread or more."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._transcriber: Transcriber | None = None
        self._translator: Translator | None = None

    def load(self) -> Ready | Unfit:
        """Load the model."""
        from whispertide import api

        setup, engine = self._setup, self._setup.engine
        try:
            loaded = api.load(
                setup.model,
                precision=engine.precision,
                provider=engine.provider,
                threads=engine.threads,
                revision=setup.revision,
            )
            if loaded.model.content_hash != setup.content_hash:
                raise CheckpointError(
                    f"expected the weights {setup.content_hash[:12]} of {setup.model}; a worker found "
                    f"{loaded.model.content_hash[:12]}: bring all machines to the same version, or use --revision"
                )
            if (wanted := setup.translation) is not None:
                from whispertide.translation.opening import open_translator

                self._translator = open_translator(wanted.translator, wanted.model)
        except WhispertideError as error:
            return Unfit(error)
        except Exception as error:
            # Whatever it is, it has to be told: whoever started the workers waits for their answers.
            return Unfit(GraphError(f"a worker cannot load {setup.model} ({type(error).__name__}: {error})"))
        self._transcriber = loaded
        return Ready()

    def transcribe(self, name: str) -> Outcome:
        """Transcribe the recording of that name. Raises nothing: a bad recording must not stop the others."""
        with warnings.catch_warnings(record=True) as caught:
            # Each time, since by default Python shows a warning once, and the next recording's would be missing.
            warnings.simplefilter("always", UserWarning)
            outcome = self._outcome_of(name)
        notes = tuple(str(one.message) for one in caught if issubclass(one.category, UserWarning))
        return replace(outcome, notes=(*notes, *outcome.notes))

    def _outcome_of(self, name: str) -> Outcome:
        try:
            with _open(name) as source:
                document, broken, problems = self._transcribe(source, name)
            rendered, translation = get_format(self._setup.form), self._setup.translation
            text = rendered(document)
            apart = translation.apart(self._setup.form) if translation else ()
            others = {other_name(target): rendered(document.other(target)) for target in apart}
        except AudioError as error:
            return Outcome("unusable", reason=str(error))
        except Exception as error:
            return Outcome("failed", reason=f"{type(error).__name__}: {error}")
        state: State = "done" if broken is None else "cut off"
        reason = "" if broken is None else str(broken)
        return Outcome(state, text, reason, seconds(document.duration), problems, others)

    def _transcribe(self, source: Any, name: str) -> "tuple[Document, AudioError | None, tuple[str, ...]]":
        """Make the same document as `whispertide transcribe`, and return the reason if the audio is not complete, and
        what went wrong with its translation.
        """
        from whispertide.audio.apart import file_channels
        from whispertide.audio.file import decode_blocks
        from whispertide.channels import in_order
        from whispertide.formats.document import TextSegment
        from whispertide.formats.offline import OfflineRun

        transcriber, options, apart = self._transcriber, self._setup.options, self._setup.multichannel
        assert transcriber is not None
        parts = [Recording(blocks) for blocks in (file_channels(source) if apart else [decode_blocks(source)])]
        heard = [transcriber.transcribe_segments(part, options=options) for part in parts]
        run, detected = OfflineRun(parts[0]), None
        with self._translation(len(parts) if apart else 0) as translation:
            for segment in in_order(heard) if apart else heard[0]:
                detected = segment.language
                run.add(TextSegment.of(segment))
                if translation is not None:
                    translation.take(segment)
            document = run.document(
                language=transcriber.language_of(options, detected),
                model=transcriber.name,
                source=without_query(name).rpartition("/")[2] if is_address(name) else Path(name).name,
            )
            if translation is None:
                return document, run.recording.broken, ()
            others, problems = translation.finish(document.duration)
        return replace(document, others=others), run.recording.broken, problems

    @contextmanager
    def _translation(self, channels: int) -> "Iterator[RecordingTranslation | None]":
        """The translation of a recording; None: nobody wants one. Of a recording that failed nobody wants the rest."""
        wanted, transcriber = self._setup.translation, self._transcriber
        if wanted is None or transcriber is None or self._translator is None:
            yield None
            return
        from whispertide.translation.recordings import RecordingTranslation

        options = self._setup.options
        known = transcriber.language_of(options, None)
        about = (self._translator, wanted.options, known, options.task)
        with closing(RecordingTranslation(*about, channels=channels)) as translation:
            yield translation


class ReadError(Exception):
    """Reading from a store failed. It is no OSError, which the decoder would take for the end of the audio."""


class _Remote:
    """The file at an address, opened for the decoder. `name` is the address: messages show it.

    A read that fails raises `ReadError`, so that the recording counts as `failed` and not as `cut off`, and the same
    command tries it again.
    """

    def __init__(self, file: Any, name: str) -> None:
        self._file = file
        self.name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, count: int) -> Any:
        """Read. Raises `ReadError`."""
        try:
            return self._file.read(count)
        except OSError as error:
            raise ReadError(f"{type(error).__name__}: {error}") from error


@contextmanager
def _open(name: str) -> Iterator[Any]:
    """Open the input of `decode_blocks`: a path as it is, or the file of an address."""
    if not is_address(name):
        yield name
        return
    import fsspec

    try:
        file = fsspec.open(name, "rb").open()
    except Exception as error:  # every store has errors of its own
        raise AudioFileError(f"it cannot be opened ({type(error).__name__}: {error})") from error
    with file:
        yield _Remote(file, name)
