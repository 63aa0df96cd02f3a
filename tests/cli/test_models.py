from pathlib import Path

import pytest

from command_line import Run
from whispertide.checkpoint import hub
from whispertide.errors import CheckpointNotFoundError, DownloadError


@pytest.fixture(autouse=True)
def no_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty cache and no network."""
    from huggingface_hub import constants

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


def test_the_path_of_a_model_that_is_not_here_is_an_error(run: Run) -> None:
    result = run("models", "path", "base.en")
    assert (result.exit_code, result.stdout) == (4, "")
    assert "whispertide models pull base.en" in result.stderr


def test_pulling_offline_says_what_to_do(run: Run) -> None:
    result = run("models", "pull", "base.en")
    assert (result.exit_code, result.stdout) == (4, "")
    assert "HF_HUB_OFFLINE" in result.stderr
    assert "nano.en" in result.stderr


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


def test_removing_asks_first(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[str] = []

    def remove(name: str, revision: str | None) -> int:
        removed.append(name)
        return 290_000_000

    monkeypatch.setattr(hub, "remove", remove)
    assert run("models", "remove", "base.en", stdin=b"n\n").exit_code == 1
    assert removed == []
    result = run("models", "remove", "base.en", stdin=b"y\n")
    assert (result.exit_code, removed) == (0, ["base.en"])
    assert "290 MB" in result.stderr
    assert run("models", "remove", "base.en", "--yes").exit_code == 0


def test_without_an_answer_nothing_is_removed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "remove", lambda name, revision: pytest.fail("removed"))
    result = run("models", "remove", "base.en", stdin=b"")
    assert result.exit_code == 1
    assert "bug" not in result.stderr


def test_the_bundled_model_cannot_be_removed(run: Run) -> None:
    result = run("models", "remove", "nano.en", "--yes")
    assert (result.exit_code, "part of whispertide" in result.stderr) == (2, True)


def test_preloading_loads_the_model(run: Run, loads: list[tuple[str, dict[str, object]]]) -> None:
    result = run("models", "preload", "base.en", "--precision", "fp32", "--threads", "1")
    assert result.exit_code == 0
    assert [(name, settings["precision"], settings["threads"]) for name, settings in loads] == [("base.en", "fp32", 1)]
    assert "is ready" in result.stderr
