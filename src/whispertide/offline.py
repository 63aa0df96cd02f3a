"""Transcription of a whole recording, window after window, each beginning where the last one's segments end.

Segments come as soon as their window is done, so whoever stops early keeps what there is. This is the quality reference
for the streaming recipes and what `whispertide transcribe FILE` runs. Source: `transcribe` in openai/whisper,
transcribe.py, without its hallucination skipping.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from whispertide.audio.buffer import to_float
from whispertide.audio.pcm import to_int16
from whispertide.audio.vad import GateOptions, SpeechGate, SpeechStarted
from whispertide.decoding.language import choose_language
from whispertide.decoding.longform import Frame, OfflineSegment, Transcription, pad_or_trim
from whispertide.features import Features
from whispertide.options import DecodeOptions
from whispertide.types import HOP_LENGTH, N_SAMPLES, SAMPLE_RATE, FloatArray

if TYPE_CHECKING:
    from whispertide.model.whisper import WhisperModel

__all__ = ["Features", "OfflineSegment", "transcribe_blocks", "transcribe_samples"]

_GATE = GateOptions(pre_roll=0.3)

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
    frame: Frame = pad_or_trim,
    suffix: FloatArray | None = None,
) -> Iterator[OfflineSegment]:
    """Transcribe a recording that comes in blocks of 16 kHz mono samples, as `audio.file.decode_blocks` gives them.

    All blocks are read before the first window is decoded, because the floor of the features depends on the loudest
    sample of all; the sound is kept at 16 bits, 32 kB per second, for a second look at what the model calls silent.
    `progress` is told after each window. `frame` is how windows reach the encoder; `suffix` a hush word [n] after the
    last one. Raises `UnknownLanguageError` for a language that the model cannot write, and what reading the blocks
    raises.
    """
    sound = _Sound()
    features = Features.of(sound.kept(blocks), model.dims.n_mels, suffix)
    end = features.frames
    if not end:
        return
    # of the whole recording: what its first 30 s sound like, unless it is asked for
    language = choose_language(model, lambda: model.encode(features.opening()), options.language).language
    transcription = Transcription(model, features, options, language, seek=0, end=end, frame=frame, voice=sound.speech)
    if options.prompt.strip():
        transcription.context.extend(model.tokenizer.encode(" " + options.prompt.strip()))
    while not transcription.done:
        yield from transcription.next_window()
        if progress is not None:
            progress(min(transcription.seek, end) * HOP_LENGTH, end * HOP_LENGTH)


@dataclass(slots=True)
class _Sound:
    """A recording at 16 bits, in the blocks that it came in: for a second look at what a model calls silent."""

    blocks: list[npt.NDArray[np.int16]] = field(default_factory=list)

    def kept(self, blocks: Iterable[FloatArray]) -> Iterator[FloatArray]:
        """The same blocks, each kept as it passes."""
        for block in blocks:
            with np.errstate(invalid="ignore"):  # undefined samples are refused by the features
                self.blocks.append(to_int16(block))
            yield block

    def speech(self, start: int, end: int) -> int | None:
        """The sample at which somebody begins to speak between two, by the voice gate; None where nobody does.

        Within a second of the first the model has listened, or it is the end of a word that was heard.
        """
        events = SpeechGate(_GATE).feed(to_float(self._between(start, end)))
        starts = (event.start for event in events if isinstance(event, SpeechStarted))
        return next((start + at for at in starts if at >= SAMPLE_RATE), None)

    def _between(self, start: int, end: int) -> npt.NDArray[np.int16]:
        parts, at = [np.zeros(0, np.int16)], 0
        for block in self.blocks:
            parts.append(block[max(0, start - at) : max(0, end - at)])
            at += len(block)
        return np.concatenate(parts)
