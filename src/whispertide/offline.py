"""Transcription of a whole recording, window after window, each beginning where the last one's segments end.

Segments come as soon as their window is done, so whoever stops early keeps what there is. This is the quality reference
for the streaming recipes and what `whispertide transcribe FILE` runs. Source: `transcribe` in openai/whisper,
transcribe.py, without its hallucination skipping.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from whispertide.decoding.language import choose_language
from whispertide.decoding.longform import Frame, OfflineSegment, Transcription, pad30
from whispertide.features import Features
from whispertide.options import DecodeOptions
from whispertide.types import HOP_LENGTH, N_SAMPLES, FloatArray

if TYPE_CHECKING:
    from whispertide.model.whisper import WhisperModel

__all__ = ["Features", "OfflineSegment", "transcribe_blocks", "transcribe_samples"]

Progress = Callable[[int, int], None]  # (samples done, samples in all)


def transcribe_samples(
    model: WhisperModel, samples: FloatArray, options: DecodeOptions, *, progress: Progress | None = None
) -> Iterator[OfflineSegment]:
    """Transcribe a recording that is in memory (16 kHz mono); see `transcribe_blocks`."""
    blocks = (samples[start : start + N_SAMPLES] for start in range(0, len(samples), N_SAMPLES))
    return transcribe_blocks(model, blocks, options, progress=progress)


def transcribe_blocks(
    model: WhisperModel,
    blocks: Iterable[FloatArray],
    options: DecodeOptions,
    *,
    progress: Progress | None = None,
    frame: Frame = pad30,
    suffix: FloatArray | None = None,
) -> Iterator[OfflineSegment]:
    """Transcribe a recording that comes in blocks of 16 kHz mono samples, as `audio.file.decode_blocks` gives them.

    All blocks are read before the first window is decoded, because the floor of the features depends on the loudest
    sample of all. `progress` is told after each window. `frame` is how windows reach the encoder; `suffix` a hush word
    [n] after the last one. Raises `UnknownLanguageError` for a language that the model cannot write, and what reading
    the blocks raises.
    """
    features = Features.of(blocks, model.dims.n_mels, suffix)
    end = features.frames
    if not end:
        return
    # of the whole recording: what its first 30 s sound like, unless it is asked for
    language = choose_language(model, lambda: model.encode(features.opening()), options.language).language
    transcription = Transcription(model, features, options, language, seek=0, end=end, frame=frame)
    if options.prompt.strip():
        transcription.context.extend(model.tokenizer.encode(" " + options.prompt.strip()))
    while not transcription.done:
        yield from transcription.next_window()
        if progress is not None:
            progress(min(transcription.seek, end) * HOP_LENGTH, end * HOP_LENGTH)
