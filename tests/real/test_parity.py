"""tiny.en and base next to openai-whisper and faster-whisper, on the same weights."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from published_models import exact
from reference import CLIPS, believe_as_openai, mel_of, openai_model_of, openai_timing
from whispertide.audio.file import load_audio
from whispertide.checkpoint import hub
from whispertide.decoding.window import decode_window
from whispertide.offline import transcribe_blocks
from whispertide.options import DecodeOptions
from whispertide.types import SAMPLE_RATE, FloatArray

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore")]

both = pytest.mark.parametrize("name", ["tiny.en", "base"])
AS_OPENAI: dict[str, Any] = {"suppress_tokens": (-1,), "temperatures": (0.0,), "language": "en"}
BY_NAME = {path.stem: path for path in CLIPS}


@cache
def made() -> FloatArray:
    """Two sentences of two voices with a pause between them, in a little noise: one window, 16 kHz."""
    pause = np.zeros(2 * SAMPLE_RATE, np.float32)
    samples = np.concatenate([load_audio(BY_NAME["river"]), pause, load_audio(BY_NAME["winter"]), pause])
    return samples + np.random.default_rng(0).normal(0, 0.002, len(samples)).astype(np.float32)


# the other clips are compared with faster-whisper below; fewer with base, which takes twice as long
COMPARED = {"tiny.en": ("demo", "long", "quiet", "winter"), "base": ("demo", "winter")}


@pytest.mark.parametrize(("name", "clip"), [(name, clip) for name, clips in COMPARED.items() for clip in clips])
def test_greedy_tokens_are_those_of_openai_whisper(name: str, clip: str) -> None:
    import torch
    import whisper

    options, mel = whisper.DecodingOptions(fp16=False, language="en"), mel_of(BY_NAME[clip])
    theirs = whisper.decode(openai_model_of(name), torch.from_numpy(mel), options)
    model = exact(name)
    ours = decode_window(model, model.encode(mel), DecodeOptions(**AS_OPENAI))
    assert list(ours.tokens) == theirs.tokens
    assert ours.text == theirs.text
    assert ours.avg_logprob == pytest.approx(theirs.avg_logprob, abs=1e-3)


@pytest.mark.parametrize(("name", "recording"), [("tiny.en", "river"), ("tiny.en", "made"), ("base", "made")])
def test_words_have_the_times_of_openai_whisper(name: str, recording: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import whisper

    openai_timing()
    believe_as_openai(monkeypatch)
    samples = made() if recording == "made" else load_audio(BY_NAME[recording])
    settings: dict[str, Any] = {"temperature": 0.0, "condition_on_previous_text": False, "word_timestamps": True}
    transcribed = whisper.transcribe(openai_model_of(name), samples, fp16=False, language="en", **settings)
    theirs = [word for each in transcribed["segments"] for word in each["words"]]
    options = DecodeOptions(**AS_OPENAI, word_timestamps=True, condition_on_previous_text=False)
    ours = [word for each in transcribe_blocks(exact(name), [samples], options, vad=False) for word in each.words]
    assert [word.text for word in ours] == [word["word"] for word in theirs]
    assert len(ours) > 8
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.start / SAMPLE_RATE == pytest.approx(other["start"], abs=0.0201)
        assert mine.end / SAMPLE_RATE == pytest.approx(other["end"], abs=0.0201)


@both
def test_the_text_is_that_of_faster_whisper(name: str) -> None:
    faster_whisper = pytest.importorskip("faster_whisper")
    folder = hub.path(name)
    if not (folder / "model.bin").is_file():
        pytest.skip("the weights came from the hub, in a form that faster-whisper does not read")
    peer = faster_whisper.WhisperModel(str(folder), device="cpu", compute_type="float32", cpu_threads=1)
    model = exact(name)
    stems = ("river", "winter", "letter", "quiet") if name == "tiny.en" else ("quiet",)  # base takes twice as long
    for samples in (*(load_audio(BY_NAME[stem]) for stem in stems), made()):
        segments, _ = peer.transcribe(samples, language="en", beam_size=1, temperature=0.0)
        theirs = "".join(each.text for each in segments)
        ours = transcribe_blocks(model, [samples], DecodeOptions(**AS_OPENAI, word_timestamps=False), vad=False)
        assert "".join(each.text for each in ours) == theirs
