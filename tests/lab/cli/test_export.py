import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from command_line import Run
from whispertide.audio.file import load_audio
from whispertide.checkpoint.names import BUNDLED_DIR
from whispertide.decoding.accept import GREEDY
from whispertide.decoding.prompt import build_prompt
from whispertide.decoding.rules import build_rules
from whispertide.decoding.search import run_search
from whispertide.decoding.token_search import TokenSearch
from whispertide.features import log_mel
from whispertide.model.whisper import load_model
from whispertide.options import DecodeOptions, EngineOptions


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from typer.testing import CliRunner

    from whispertide.cli.main import app

    folder = tmp_path_factory.mktemp("export") / "npu"
    arguments = ["export", "npu", "nano.en", "--output", str(folder), "--buckets", "3,4", "--plans", "4,6,5/6,4,5"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.strip() == str(folder)
    return folder


@pytest.mark.slow
def test_the_folder_is_whole(exported: Path) -> None:
    manifest = json.loads((exported / "manifest.json").read_text())
    graphs = {f"{name}.onnx" for name in manifest["graphs"]}
    others = {"manifest.json", "README.md", "tokenizer.json", "encoder.bin", "decoder.bin"}
    assert {path.name for path in exported.iterdir()} == graphs | others
    assert len(graphs) == 2 * (1 + 5)
    assert manifest["tokens"]["start"] == [50257, 50362]
    assert manifest["graphs"]["decoder-0150-04-10"]["inputs"]["past_k.0"] == ["float", [1, 4, 5, 64]]
    assert manifest["graphs"]["encoder-0200"]["outputs"]["cross_v.3"] == ["float", [1, 4, 200, 64]]
    shapes = [shape for graph in manifest["graphs"].values() for _, shape in graph["inputs"].values()]
    assert all(size > 0 for shape in shapes for size in shape)


@pytest.mark.slow
def test_the_readmes_program_transcribes(exported: Path, tmp_path: Path) -> None:
    """It runs as it is printed, and says what greedy search says."""
    text = (exported / "README.md").read_text()
    assert "{" + "model}" not in text
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    for path in exported.iterdir():
        (tmp_path / path.name).symlink_to(path)
    mel = log_mel(load_audio(BUNDLED_DIR / "audio" / "demo.flac")[: 16000 * 29 // 10])
    np.save(tmp_path / "mel.npy", mel)
    ended = subprocess.run([sys.executable, "-c", found[1]], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr

    model = load_model("nano.en", EngineOptions(precision="fp32", provider="cpu", threads=1))
    options = DecodeOptions(timestamps=False)
    prompt = build_prompt(model.tokenizer, model.dims.n_text_ctx, options, language=None)
    encoded = model.encode(np.pad(mel, [(0, 0), (0, 300 - mel.shape[1])]), valid_frames=145)
    greedy = run_search(TokenSearch(prompt, build_rules(model, options), GREEDY), model.decoder(encoded))
    assert ended.stdout.strip("\n") == model.tokenizer.decode(greedy.best.tokens[:14])
    assert len(ended.stdout.split()) >= 3


def test_a_folder_that_is_not_empty(tmp_path: Path, run: Run) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    result = run("export", "npu", "nano.en", "--output", tmp_path)
    assert result.exit_code == 5
    assert "new or empty folder" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--buckets", "3,x", "whole numbers"),
        ("--buckets", "40", "buckets"),
        ("--plans", "1,5", "start sequence"),
        ("--plans", "400,100", "text context"),
    ],
)
def test_wrong_usage(run: Run, tmp_path: Path, option: str, value: str, message: str) -> None:
    result = run("export", "npu", "nano.en", "--output", tmp_path / "new", option, value)
    assert result.exit_code == 2
    assert message in result.stderr
