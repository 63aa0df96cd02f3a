"""From a toy checkpoint to a compressed one that loads and decodes."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whispertide
from toy_checkpoint import toy_checkpoint
from whispertide.checkpoint import attachments, load_checkpoint
from whispertide.checkpoint.palette import BITS
from whispertide.errors import AudioError, CheckpointError, OptionError, OutputError
from whispertide.model.whisper import WhisperModel, load_model
from whispertide.options import DecodeOptions, EngineOptions
from whispertide_lab.compression import compress as module
from whispertide_lab.compression.compress import CompressOptions, compress
from whispertide_lab.compression.divergence import Comparison, Divergence
from whispertide_lab.compression.samples import Sample, speech_samples
from whispertide_lab.compression.sensitivity import Kept, compressible, measure

SMALL = 64  # weights of the smallest matrix
OPTIONS = CompressOptions(size=0.5, min_weights=SMALL)


def sample() -> Sample:
    mel = np.random.default_rng(0).standard_normal((80, 100)).astype(np.float32)
    return Sample(mel, (50_257, 50_362, 464, 3290, 318), 1)


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WHISPERTIDE_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(module, "speech_samples", lambda model, recordings: [sample()])
        yield


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> WhisperModel:
    folder = toy_checkpoint(tmp_path_factory.mktemp("models") / "toy")
    model = load_model(str(folder), EngineOptions(threads=1))
    learned = attachments.Attachment({"values": np.ones(3)}, model.content_hash, {"steps": 5})
    attachments.save(folder / "learned.npz", learned)
    attachments.save(folder / "strange.npz", replace(learned, content_hash="of another"))
    return model


@pytest.fixture(scope="module")
def compressed(toy: WhisperModel, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("compressed") / "toy"
    return folder, compress(toy, folder, OPTIONS, [])


@pytest.mark.slow
def test_it_is_as_small_as_wanted(compressed: tuple[Path, Any], toy: WhisperModel) -> None:
    folder, report = compressed
    size = (folder / "model.safetensors").stat().st_size
    original = (toy.checkpoint.folder / "model.safetensors").stat().st_size
    assert report.size == size <= 0.5 * original
    assert report.share <= 0.5
    assert report.divergence.kl > 0


@pytest.mark.slow
def test_it_loads_and_decodes(compressed: tuple[Path, Any], toy: WhisperModel) -> None:
    model = whispertide.load(str(compressed[0]), precision="int8", threads=1)
    noise = np.random.default_rng(0).standard_normal(16_000).astype(np.float32)
    quick = DecodeOptions(temperatures=(0.0,), max_tokens=4, word_timestamps=False)
    assert isinstance(model.transcribe(noise, options=quick).text, str)
    store = model.model.checkpoint.tensors
    for name in toy.checkpoint.tensors.names():
        before, after = toy.checkpoint.tensors.get(name).astype(np.float64), store.get(name)
        assert np.square(before - after).mean() < 0.2 * np.square(before).mean() + 1e-6
        if before.ndim == 1:
            np.testing.assert_array_equal(after, before)


@pytest.mark.slow
def test_the_report(compressed: tuple[Path, Any], toy: WhisperModel) -> None:
    folder, report = compressed
    assert json.loads((folder / "compression.json").read_text())["share"] == report.share
    assert [row.name for row in report.rows] == list(compressible(toy.checkpoint, SMALL))
    assert report.original == toy.content_hash
    assert "fp16" in report.summary()
    assert {len(cells) for cells in report.cells()} == {7}


@pytest.mark.slow
def test_what_was_learned_goes_along(compressed: tuple[Path, Any], toy: WhisperModel) -> None:
    folder, _ = compressed
    kind = attachments.Kind("a thing", "learned.npz", "make")
    found = attachments.load(kind, folder / "learned.npz", {"values": (3,)}, load_checkpoint(folder).content_hash)
    assert found.report == {"steps": 5, "made_for": toy.content_hash}
    assert not (folder / "strange.npz").exists()


@pytest.mark.slow
@pytest.mark.parametrize("bits", [2, 8])
def test_forced_bits(toy: WhisperModel, tmp_path: Path, bits: int) -> None:
    report = compress(toy, tmp_path / "forced", replace(OPTIONS, bits=bits), [])
    assert {row.bits for row in report.rows} == {bits}


@pytest.mark.slow
def test_the_published_way(toy: WhisperModel, tmp_path: Path) -> None:
    report = compress(toy, tmp_path / "published", CompressOptions(size=1.0, way="thresholds", min_weights=SMALL), [])
    assert report.share <= 1.0


@pytest.mark.slow
def test_more_size_less_divergence(compressed: tuple[Path, Any], toy: WhisperModel, tmp_path: Path) -> None:
    small = compress(toy, tmp_path / "small", replace(OPTIONS, size=0.3), [])
    assert small.size < compressed[1].size
    assert small.divergence.kl > compressed[1].divergence.kl


def test_refusals(toy: WhisperModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OutputError, match="new or empty"):
        compress(toy, toy.checkpoint.folder, OPTIONS, [])
    with monkeypatch.context() as patched:
        patched.setattr(module.Compression, "sensitivities", None)  # told before anything is measured
        with pytest.raises(OptionError, match=r"one bit for each weight is 0\.09 already"):
            compress(toy, tmp_path / "new", replace(OPTIONS, size=0.03), [])
    with pytest.raises(CheckpointError, match="too small to compress"):
        compress(toy, tmp_path / "new", replace(OPTIONS, min_weights=10**9), [])
    assert not (tmp_path / "new").exists()
    for wrong in ({"size": 0.0}, {"size": 1.5}, {"bits": 5}, {"way": "guess"}):
        with pytest.raises(OptionError):
            CompressOptions(**wrong)


@pytest.mark.slow
def test_what_thresholds_cannot_reach_is_refused(toy: WhisperModel, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="the smallest choice"):
        compress(toy, tmp_path / "new", replace(OPTIONS, size=0.1, way="thresholds"), [])
    assert not (tmp_path / "new").exists()


def test_recordings_without_speech(toy: WhisperModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "speech_samples", lambda model, recordings: [])
    with pytest.raises(AudioError, match="finds none"):
        compress(toy, tmp_path / "new", OPTIONS, [])


@pytest.mark.slow
def test_replaced_weights_stand_where_the_graphs_have_them(toy: WhisperModel, tmp_path: Path) -> None:
    """Fed with a checkpoint's own weights nothing changes, not even the last bit; with others something does."""
    comparison, tensors = Comparison(toy.checkpoint, [sample()], tmp_path), toy.checkpoint.tensors
    for name in compressible(toy.checkpoint, SMALL):
        own = tensors.get(name)
        assert comparison.divergence({name: own}) == Divergence(0.0, 0.0), name
        found = comparison.divergence({name: own + np.float16(0.5) * np.sign(own)})
        assert (found.mse > 0) is name.startswith("encoder."), name
        assert found.kl > 0, name


def test_measuring_goes_on_after_an_interrupt(toy: WhisperModel) -> None:
    class Interrupted:
        def __init__(self, after: int) -> None:
            self.left = after

        def divergence(self, changes: object) -> Divergence:
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
            return Divergence(0.5, 0.25)

    names = compressible(toy.checkpoint, 100)[-2:]

    def run(fake: Interrupted) -> Any:
        kept = Kept(toy.checkpoint, "interrupted")
        return measure(toy.checkpoint, lambda: fake, kept, names=names, progress=lambda *_: None)  # type: ignore[arg-type, return-value]

    with pytest.raises(KeyboardInterrupt):
        run(Interrupted(4))
    fake = Interrupted(100)
    found = run(fake)
    assert 100 - fake.left == 2 * len(BITS) - 4
    assert [option.kl for option in found[0].options] == [0.5] * len(BITS) + [0.0]
    assert run(Interrupted(0)) == found


@pytest.mark.slow
def test_samples_are_windows_with_text() -> None:
    from whispertide.audio.file import load_audio
    from whispertide.checkpoint.names import BUNDLED_DIR

    model = load_model("nano.en", EngineOptions(threads=1))
    audio = load_audio(BUNDLED_DIR / "audio" / "demo.flac")
    found = speech_samples(model, [audio], total_s=8.0)
    assert 0 < sum(one.mel.shape[1] for one in found) <= 810
    assert "read the book in the garden" in "".join(model.tokenizer.decode(one.tokens) for one in found)
    assert all(one.mel.shape[1] % 2 == 0 and one.tokens[one.first] == 50_362 for one in found)
    assert speech_samples(model, [np.zeros(16_000, np.float32)]) == []
