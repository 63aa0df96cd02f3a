from pathlib import Path

import pytest

from command_line import Run
from whispertide.checkpoint import hub
from whispertide.errors import CheckpointNotFoundError, DownloadError


@pytest.fixture(autouse=True)
def no_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Empty caches, the hub's and our own, and no network."""
    from huggingface_hub import constants

    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path / "own"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


def test_the_list_names_bundled_and_published_models(run: Run) -> None:
    result = run("models", "list")
    assert result.exit_code == 0
    rows = {line.split()[0]: line.split() for line in result.stdout.splitlines() if line.strip()}
    assert rows["nano.en"][1] == "bundled"
    assert rows["base.en"][1:4] == ["available", "74", "M"]
    assert rows["base.en"][-1] == "openai/whisper-base.en"


def test_the_list_is_not_cut_to_a_narrow_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    assert "distil-whisper/distil-large-v3.5" in run("models", "list").stdout


def test_the_path_of_the_bundled_model_is_a_folder(run: Run) -> None:
    result = run("models", "path", "nano.en")
    assert result.exit_code == 0
    assert (Path(result.stdout.strip()) / "config.json").is_file()


def test_a_folder_without_weights_is_no_model(run: Run, tmp_path: Path) -> None:
    result = run("models", "path", str(tmp_path))
    assert (result.exit_code, result.stdout) == (4, "")
    assert "model.safetensors" in result.stderr


def test_the_path_of_a_model_that_is_not_here_is_an_error(run: Run) -> None:
    result = run("models", "path", "base.en")
    assert (result.exit_code, result.stdout) == (4, "")
    assert "whispertide models pull base.en" in result.stderr


def test_pulling_offline_says_what_to_do(run: Run) -> None:
    result = run("models", "pull", "base.en")
    assert (result.exit_code, result.stdout) == (4, "")
    assert "HF_HUB_OFFLINE" in result.stderr
    assert "nano.en" in result.stderr


def test_a_switch_forbids_the_network(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    result = run("--offline", "models", "pull", "tiny.en")
    assert (result.exit_code, result.stdout) == (4, "")
    assert "--offline or HF_HUB_OFFLINE forbids downloading it" in result.stderr


def test_pulling_prints_the_folder(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def pull(name: str, revision: str | None, *, announce: object) -> Path:
        assert (name, revision) == ("base.en", "v2")
        assert callable(announce)
        announce("downloading base.en (290 MB)")
        return Path("/models/base.en")

    monkeypatch.setattr(hub, "pull", pull)
    result = run("models", "pull", "base.en", "--revision", "v2")
    assert (result.exit_code, result.stdout.strip()) == (0, str(Path("/models/base.en")))
    assert result.stderr == "downloading base.en (290 MB)\n"


@pytest.mark.parametrize("error", [CheckpointNotFoundError("unknown name"), DownloadError("no network")])
def test_a_failed_pull_is_a_model_problem(run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def pull(*_: object, **__: object) -> Path:
        raise error

    monkeypatch.setattr(hub, "pull", pull)
    result = run("models", "pull", "bass.en")
    assert (result.exit_code, result.stderr) == (4, f"error: {error}\n")


@pytest.fixture
def removed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was removed; every model is there."""
    names: list[str] = []

    def removal(name: str, revision: str | None) -> hub.Removal:
        return hub.Removal(name, 290_000_000, "a cache of ours", lambda: names.append(name))

    monkeypatch.setattr(hub, "plan_removal", removal)
    return names


def test_removing_asks_first_and_says_how_much(run: Run, removed: list[str]) -> None:
    refused = run("models", "remove", "base.en", stdin=b"n\n")
    assert (refused.exit_code, removed) == (1, [])
    assert "base.en (290 MB) from a cache of ours" in refused.stderr
    result = run("models", "remove", "base.en", stdin=b"y\n")
    assert (result.exit_code, removed) == (0, ["base.en"])
    assert "freed 290 MB" in result.stderr
    assert run("models", "remove", "base.en", "--yes").exit_code == 0


def test_without_an_answer_nothing_is_removed(run: Run, removed: list[str]) -> None:
    result = run("models", "remove", "base.en", stdin=b"")
    assert (result.exit_code, removed) == (1, [])
    assert "bug" not in result.stderr


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [("base.en", 4, "nothing to remove"), ("nosuch", 4, "known names"), ("nano.en", 2, "part of whispertide")],
)
def test_what_cannot_be_removed_is_told_without_a_question(run: Run, name: str, code: int, words: str) -> None:
    result = run("models", "remove", name, stdin=b"")
    assert result.exit_code == code
    assert words in result.stderr
    assert "[y/N]" not in result.stderr


def test_preloading_loads_the_model(run: Run, loads: list[tuple[str, dict[str, object]]]) -> None:
    result = run("models", "preload", "base.en", "--precision", "fp32", "--threads", "1")
    assert result.exit_code == 0
    assert [(name, settings["precision"], settings["threads"]) for name, settings in loads] == [("base.en", "fp32", 1)]
    assert "is ready" in result.stderr
