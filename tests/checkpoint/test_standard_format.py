"""The shipped checkpoint is a standard Whisper: other programs load its files as they are, and write the same text.

Greedy, fp32, without timestamps, on the short test clips, each program with its own features and tokenizer. A folder
goes to `transformers` unchanged, to openai-whisper as a `.pt`, to faster-whisper through CTranslate2's own
converter.
"""

import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from reference import NANO, ct2_folder, mel_of
from whispertide.audio.file import load_audio
from whispertide.checkpoint import load_checkpoint
from whispertide.decoding.window import decode_window
from whispertide.model.whisper import WhisperModel, load_model
from whispertide.options import DecodeOptions, EngineOptions
from whispertide.types import N_SAMPLES
from whispertide_lab.evaluation.peers import convert_openai

CLIPS = [path for path in sorted((Path(__file__).parents[1] / "clips").glob("*.flac")) if path.stem != "long"]
GREEDY = DecodeOptions(timestamps=False, temperatures=(0.0,))
Transcribe = Callable[[Path], str]


@cache
def opened() -> WhisperModel:
    return load_model(str(NANO), EngineOptions("fp32", threads=1))


@cache
def ours(clip: Path) -> str:
    model = opened()
    return decode_window(model, model.encode(mel_of(clip)), GREEDY).text


def compared(transcribe: Transcribe) -> None:
    clips = CLIPS[::2]
    texts = {clip.stem: ours(clip) for clip in clips}
    assert all(len(text.split()) >= 3 for text in texts.values()), texts  # something was said
    assert {clip.stem: transcribe(clip) for clip in clips} == texts


def test_sizes() -> None:
    """Small enough to ship, and of the shape that was promised."""
    dims = load_checkpoint(str(NANO)).dims
    assert (dims.n_audio_state, dims.n_text_state) == (256, 256)
    assert (dims.n_audio_head, dims.n_audio_layer, dims.n_text_head, dims.n_text_layer) == (4, 4, 4, 4)
    assert (NANO / "model.safetensors").stat().st_size < 45e6


@pytest.mark.slow  # nano.en's tokens are compared with those of transformers in decoding/test_window, too
def test_transformers_writes_the_same() -> None:
    import torch
    import transformers

    torch.set_num_threads(1)
    model = transformers.WhisperForConditionalGeneration.from_pretrained(NANO, dtype=torch.float32).eval()
    processor = transformers.WhisperProcessor.from_pretrained(NANO)

    def transcribe(clip: Path) -> str:
        features = processor(load_audio(clip), sampling_rate=16_000, return_tensors="pt").input_features
        tokens = model.generate(features, do_sample=False, num_beams=1, return_timestamps=False)
        text: str = processor.batch_decode(tokens, skip_special_tokens=True)[0]
        return text.strip()

    with warnings.catch_warnings(action="ignore"):
        compared(transcribe)


@pytest.mark.slow  # nano.en is compared with openai-whisper in test_offline, too
def test_openai_whisper_writes_the_same(tmp_path: Path) -> None:
    import torch
    import whisper

    torch.set_num_threads(1)
    convert_openai.convert(str(NANO), tmp_path)
    model = whisper.load_model(str(tmp_path / "model.pt"), device="cpu")
    generation = opened().generation
    options = whisper.DecodingOptions(
        language="en",
        without_timestamps=True,
        fp16=False,
        # the checkpoint's own list, which openai-whisper does not read
        suppress_tokens="-1" if generation.suppress_tokens is None else list(generation.suppress_tokens),
    )

    def transcribe(clip: Path) -> str:
        mel = whisper.log_mel_spectrogram(whisper.pad_or_trim(load_audio(clip)))
        text: str = whisper.decode(model, mel, options).text
        return text

    with warnings.catch_warnings(action="ignore"):  # it leaves its vocabulary file open
        compared(transcribe)


@pytest.mark.slow
def test_faster_whisper_writes_the_same(tmp_path: Path) -> None:
    import faster_whisper

    converted = ct2_folder(NANO, tmp_path / "ct2")
    model = faster_whisper.WhisperModel(
        str(converted), device="cpu", compute_type="float32", cpu_threads=1, local_files_only=True
    )

    def transcribe(clip: Path) -> str:
        samples = np.pad(load_audio(clip), (0, N_SAMPLES))[:N_SAMPLES]  # one window, not the audio's own length
        suppressed = opened().generation.suppress_tokens
        segments, _ = model.transcribe(
            samples,
            language="en",
            beam_size=1,
            temperature=0,
            without_timestamps=True,
            condition_on_previous_text=False,
            suppress_tokens=[-1] if suppressed is None else list(suppressed),
        )
        return "".join(segment.text for segment in segments).strip()

    compared(transcribe)
