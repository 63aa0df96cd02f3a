"""What compression is measured on: windows of real speech, with the text that the original model writes of them."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from whispertide.features import log_mel
from whispertide.model.whisper import WhisperModel
from whispertide.offline import transcribe_blocks
from whispertide.options import DecodeOptions
from whispertide.types import N_SAMPLES, FloatArray, OfflineSegment, to_samples

TOTAL_S = 60.0  # of speech; more makes measuring longer and figures hardly better
_WINDOW_S = 12.0
_OPTIONS = DecodeOptions(temperatures=(0.0,), word_timestamps=False, condition_on_previous_text=False)


@dataclass(frozen=True, slots=True)
class Sample:
    """A window and its text.

    mel     [n_mels, 2 * frames] as the model knows windows: padded to 30 s unless it was trained on short ones
    tokens  the start sequence, the text, and all of it is fed; the last one predicted is the end of the text
    first   the first token whose prediction of the next counts
    """

    mel: FloatArray
    tokens: tuple[int, ...]
    first: int


def speech_samples(model: WhisperModel, recordings: Iterable[FloatArray], total_s: float = TOTAL_S) -> list[Sample]:
    """Windows of the recordings (16 kHz mono), up to so many seconds in all; what nobody speaks in is left out.

    Raises what transcribing raises.
    """
    found: list[Sample] = []
    left = to_samples(total_s)
    for recording in recordings:
        for audio, text, language in _windows(model, recording[:left]):
            start = model.tokenizer.sot_sequence(language, timestamps=False)
            tokens = (*start, *model.tokenizer.encode(text))[: model.dims.n_text_ctx]
            found.append(Sample(_mel(model, audio), tokens, len(start) - 1))
        left -= min(left, len(recording))
    return found


def digest_of_samples(samples: Iterable[Sample]) -> str:
    """12 hexadecimal digits over all that is in them."""
    found = hashlib.sha256()
    for sample in samples:
        found.update(repr((sample.mel.shape, sample.tokens, sample.first)).encode() + sample.mel.tobytes())
    return found.hexdigest()[:12]


def _windows(model: WhisperModel, recording: FloatArray) -> Iterator[tuple[FloatArray, str, str]]:
    """Audio, text and language of some segments together, no longer than a window."""
    held: list[OfflineSegment] = []
    for segment in transcribe_blocks(model, [recording], _OPTIONS):
        if held and segment.span.end - held[0].span.start > to_samples(_WINDOW_S):
            yield _joined(recording, held)
            held = []
        held.append(segment)
    if held:
        yield _joined(recording, held)


def _joined(recording: FloatArray, held: list[OfflineSegment]) -> tuple[FloatArray, str, str]:
    audio = recording[held[0].span.start : held[-1].span.end]
    return audio[:N_SAMPLES], "".join(segment.text for segment in held), held[0].language


def _mel(model: WhisperModel, audio: FloatArray) -> FloatArray:
    longest = model.dims.n_audio_ctx * 320
    length = longest if not model.generation.short_windows else min(longest, -(-max(1, len(audio)) // 320) * 320)
    return log_mel(audio[:length], model.dims.n_mels, padding=max(0, length - len(audio)))
