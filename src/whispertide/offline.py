"""Transcription of a whole recording, window after window, each beginning where the last one's segments end.

Segments come as soon as their window is done, so a caller that stops early keeps those so far. This is the quality
reference for the streaming recipes and what `whispertide transcribe FILE` runs. Source: `transcribe` in openai/whisper,
transcribe.py, without its hallucination skipping.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from whispertide.audio.silero import BLOCK
from whispertide.audio.vad import LEAST_VOICE_S, GateEvent, GateOptions, SpeechGate, SpeechStarted, SpeechStopped
from whispertide.decoding.language import choose_language
from whispertide.decoding.longform import Frame, Transcription, pad_or_trim
from whispertide.decoding.voice import Voice
from whispertide.features import Features
from whispertide.model.whisper import WhisperModel
from whispertide.options import DecodeOptions
from whispertide.types import HOP_LENGTH, SAMPLE_RATE, FloatArray, OfflineSegment, Span

_GATE = GateOptions(min_speech=LEAST_VOICE_S, pre_roll=0.0, post_pad=0.0)
SHORT = SAMPLE_RATE  # in so little audio the gate does not hear a single word for certain

Progress = Callable[[int, int], None]  # (samples done, samples in all)


@dataclass(frozen=True, slots=True)
class Heard:
    """A recording that was read to its end: its features, and where somebody speaks in it.

    `voice` is None where nobody asked, or where the recording is too short to tell: then the model is believed.
    """

    features: Features
    voice: Voice | None = None


def hear(n_mels: int, blocks: Iterable[FloatArray], *, suffix: FloatArray | None = None, vad: bool = True) -> Heard:
    """Read a recording in blocks of 16 kHz mono samples; with `vad` a voice gate tells where somebody speaks.

    `suffix` is a hush word [n] after the last block. Raises what reading the blocks raises.
    """
    events: list[GateEvent] = []
    features = Features.of(_gate_blocks(blocks, SpeechGate(_GATE), events) if vad else blocks, n_mels, suffix)
    return Heard(features, _voice(events) if vad and features.samples > SHORT else None)


def transcribe_blocks(
    model: WhisperModel,
    blocks: Iterable[FloatArray],
    options: DecodeOptions,
    *,
    progress: Progress | None = None,
    frame: Frame = pad_or_trim,
    suffix: FloatArray | None = None,
    vad: bool = True,
) -> Iterator[OfflineSegment]:
    """Transcribe a recording that comes in blocks of 16 kHz mono samples, as `audio.file.decode_blocks` gives them.

    All blocks are read before the first window is decoded, because the floor of the features depends on the loudest
    sample of all. With `vad` a voice gate finds the speech: nothing else is decoded, and all of it is
    (`decoding.voice`). `progress` is called after each window. `frame` is how windows reach the encoder; `suffix` a
    hush word [n] after the last one. Raises `UnknownLanguageError` for a language that the model cannot write, and what
    reading the blocks raises.
    """
    heard = hear(model.dims.n_mels, blocks, suffix=suffix, vad=vad)
    yield from transcribe_heard(model, heard, options, progress=progress, frame=frame)


def transcribe_heard(
    model: WhisperModel,
    heard: Heard,
    options: DecodeOptions,
    *,
    progress: Progress | None = None,
    frame: Frame = pad_or_trim,
    lasting: str = "",
) -> Iterator[OfflineSegment]:
    """Transcribe a recording that was heard; see `transcribe_blocks`. `lasting` prompts every window, not the first
    alone as `options.prompt` does.
    """
    features, voice, end = heard.features, heard.voice, heard.features.frames
    if not end:
        return
    if voice == Voice(()):
        if progress is not None:
            progress(end * HOP_LENGTH, end * HOP_LENGTH)
        return
    # of the whole recording: what its first 30 s sound like from where somebody speaks, unless it is asked for
    begin = 0 if voice is None else (voice.next_start(0) or 0) // HOP_LENGTH
    language = choose_language(
        model, lambda: model.encode(features.opening(begin)), options.language, options.languages
    )
    transcription = Transcription(
        model, features, options, language.language, seek=0, end=end, frame=frame, voice=voice
    )
    transcription.certainty = language.probability
    transcription.lasting = _encoded(model, lasting)
    transcription.context.extend(_encoded(model, options.prompt))
    while not transcription.done:
        yield from transcription.next_window()
        if progress is not None:
            progress(min(transcription.seek, end) * HOP_LENGTH, end * HOP_LENGTH)


def _encoded(model: WhisperModel, text: str) -> list[int]:
    """A text before the first word as tokens."""
    return model.tokenizer.encode(" " + text.strip()) if text.strip() else []


def _gate_blocks(blocks: Iterable[FloatArray], gate: SpeechGate, events: list[GateEvent]) -> Iterator[FloatArray]:
    """Pass blocks through the voice gate and collect its `events`."""
    for block in blocks:
        yield block  # undefined samples are refused by whoever takes it
        events += gate.feed(block)
    # What is left of a block is judged, too.
    events += gate.feed(np.zeros(BLOCK, np.float32))
    events += gate.finish()


def _voice(events: Iterable[GateEvent]) -> Voice:
    starts = [event.start for event in events if isinstance(event, SpeechStarted)]
    ends = [event.end for event in events if isinstance(event, SpeechStopped)]
    return Voice(tuple(map(Span, starts, ends)))
