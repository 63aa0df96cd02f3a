"""The shipped checkpoints are standard Whispers: other programs load their files as they are, and write the same text.

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
from whispertide.lab.evaluation.peers import convert_openai
from whispertide.model.whisper import WhisperModel, load_model
from whispertide.options import DecodeOptions, EngineOptions
from whispertide.types import N_SAMPLES

MODELS = Path(__file__).parents[2] / "models"
CLIPS = [path for path in sorted((Path(__file__).parents[1] / "clips").glob("*.flac")) if path.stem != "long"]
GREEDY = DecodeOptions(timestamps=False, temperatures=(0.0,))
Transcribe = Callable[[Path], str]


# nano.en alone in CI: the others have the same layout.
_FAST = [pytest.param(NANO, id="nano.en")]
_PADDED = [pytest.param(MODELS / "micro-padded.en", id="micro-padded.en", marks=pytest.mark.soak)]
_MICRO = [pytest.param(MODELS / "micro.en", id="micro.en", marks=pytest.mark.soak)]
_LONG = [pytest.param(MODELS / "micro-long.en", id="micro-long.en", marks=pytest.mark.soak)]
SHIPPED = pytest.mark.parametrize("folder", [*_FAST, *_MICRO, *_PADDED, *_LONG])
# micro.en has the files and shapes of micro-padded.en: for it one program is enough.
ONE_OF_EACH_SHAPE = pytest.mark.parametrize("folder", [*_FAST, *_PADDED])


@cache
def opened(folder: Path) -> WhisperModel:
    return load_model(str(folder), EngineOptions("fp32", threads=1))


@cache
def ours(folder: Path, clip: Path) -> str:
    model = opened(folder)
    return decode_window(model, model.encode(mel_of(clip)), GREEDY).text


def compared(folder: Path, transcribe: Transcribe) -> None:
    """On one of the clips where another checkpoint has the same shapes and hears two of them."""
    clips = CLIPS[2:3] if folder in (MODELS / "micro.en", MODELS / "micro-long.en") else CLIPS[::2]
    texts = {clip.stem: ours(folder, clip) for clip in clips}
    assert all(len(text.split()) >= 3 for text in texts.values()), texts  # something was said
    assert {clip.stem: transcribe(clip) for clip in clips} == texts


@pytest.mark.parametrize("name", ["nano.en", "micro.en", "micro-padded.en", "micro-long.en"])
def test_sizes(name: str) -> None:
    """Small enough to ship, and of the shapes that were promised."""
    folder = NANO if name == "nano.en" else MODELS / name
    width, heads, megabytes = (256, 4, 45) if folder == NANO else (384, 6, 80)
    dims = load_checkpoint(str(folder)).dims
    assert (dims.n_audio_state, dims.n_text_state) == (width, width)
    assert (dims.n_audio_head, dims.n_audio_layer, dims.n_text_head, dims.n_text_layer) == (heads, 4, heads, 4)
    assert (folder / "model.safetensors").stat().st_size < megabytes * 1e6


@pytest.mark.slow  # nano.en's tokens are compared with those of transformers in decoding/test_window, too
@SHIPPED
def test_transformers_writes_the_same(folder: Path) -> None:
    import torch
    import transformers

    torch.set_num_threads(1)
    model = transformers.WhisperForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    processor = transformers.WhisperProcessor.from_pretrained(folder)

    def transcribe(clip: Path) -> str:
        features = processor(load_audio(clip), sampling_rate=16_000, return_tensors="pt").input_features
        tokens = model.generate(features, do_sample=False, num_beams=1, return_timestamps=False)
        text: str = processor.batch_decode(tokens, skip_special_tokens=True)[0]
        return text.strip()

    with warnings.catch_warnings(action="ignore"):
        compared(folder, transcribe)


@pytest.mark.slow  # nano.en is compared with openai-whisper in test_offline, too
@ONE_OF_EACH_SHAPE
def test_openai_whisper_writes_the_same(folder: Path, tmp_path: Path) -> None:
    import torch
    import whisper

    torch.set_num_threads(1)
    convert_openai.convert(str(folder), tmp_path)
    model = whisper.load_model(str(tmp_path / "model.pt"), device="cpu")
    generation = opened(folder).generation
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
        compared(folder, transcribe)


@pytest.mark.slow
@ONE_OF_EACH_SHAPE
def test_faster_whisper_writes_the_same(folder: Path, tmp_path: Path) -> None:
    import faster_whisper

    converted = ct2_folder(folder, tmp_path / "ct2")
    model = faster_whisper.WhisperModel(
        str(converted), device="cpu", compute_type="float32", cpu_threads=1, local_files_only=True
    )

    def transcribe(clip: Path) -> str:
        samples = np.pad(load_audio(clip), (0, N_SAMPLES))[:N_SAMPLES]  # one window, not the audio's own length
        suppressed = opened(folder).generation.suppress_tokens
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

    compared(folder, transcribe)
