import inspect
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread, main_thread

import numpy as np
import pytest
from typer.testing import CliRunner

from fake_speaker import TEXTS, FakeSpeaker
from whispertide.cli.main import app
from whispertide.errors import CorpusError, OptionError, OutputError
from whispertide_lab.speech import apart
from whispertide_lab.speech.apart import Apart
from whispertide_lab.speech.text import is_test_sentence
from whispertide_lab.training import making
from whispertide_lab.training.making import Recipe, make_shard, make_speech
from whispertide_lab.training.shards import Utterance, open_shards

RECIPE = Recipe(seed=5, voices=("espeak-ng:en-us", "flite:slt"), shard_s=20.0)


def utterances(folder: Path) -> list[Utterance]:
    return list(open_shards([folder]))


def test_a_shard_is_a_function_of_the_recipe_and_its_number(tmp_path: Path) -> None:
    for name, recipe, number in (
        ("a", RECIPE, 3),
        ("b", RECIPE, 3),
        ("c", RECIPE, 4),
        ("d", replace(RECIPE, seed=6), 3),
    ):
        (tmp_path / name).mkdir()
        make_shard(tmp_path / name, number, recipe, TEXTS, FakeSpeaker)
    a, b, c, d = ([said.text for said in utterances(tmp_path / name)] for name in "abcd")
    assert a == b
    assert a != c
    assert a != d


def test_what_a_shard_holds(tmp_path: Path) -> None:
    FakeSpeaker.opened.clear()
    make_shard(tmp_path, 0, RECIPE, TEXTS, FakeSpeaker)
    made = utterances(tmp_path)
    assert 20 <= sum(len(said.samples) for said in made) / 16_000 < 24
    assert sorted(file.name for file in tmp_path.iterdir()) == ["00000.json", "00000.npy"]
    assert {said.source for said in made} <= set(RECIPE.voices)
    assert {said.exact for said in made} == {True, False}
    assert not any(is_test_sentence(said.text) for said in made)
    for said in made:
        assert said.words is not None
        assert len(said.words) == len(said.text.split())
        assert said.words[-1][1] == len(said.samples)
    assert FakeSpeaker.opened
    assert all(speaker.closed for speaker in FakeSpeaker.opened)


# A shard as a program, in place of the synthesizers: one that fails, one that never ends, one that warns more than a
# pipe holds and in bytes of its own, one that works.
SHARD = """
import sys, time
from pathlib import Path
folder, number = Path(sys.argv[1]), int(sys.argv[2])
if {ends!r} == "never":
    (folder / ".making-x").mkdir(exist_ok=True)
    time.sleep(60)
if {ends!r} == "badly" and number == 1:
    sys.exit("the voice is hoarse")
if {ends!r} == "loudly":
    sys.stderr.buffer.write(b"\\xff\\xfe\\n" * 100_000)
sys.path.insert(0, {tests!r})
import fake_speaker
from whispertide_lab.training import making
making.make_shard(folder, number, making.read_recipe(folder), fake_speaker.TEXTS, fake_speaker.FakeSpeaker)
"""


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How the programs that make shards end; made without synthesizers and packages."""
    how = ["well"]

    @dataclass(frozen=True)
    class Program(Apart):
        def command(self) -> list[str]:
            program = SHARD.format(tests=str(Path(inspect.getfile(FakeSpeaker)).parent), ends=how[0])
            return [sys.executable, "-c", program, *self.arguments]

    monkeypatch.setattr(making, "Apart", Program)
    monkeypatch.setattr(making, "check_installed", lambda voices: None)
    monkeypatch.setattr(making, "collect_texts", lambda vocabulary: TEXTS)
    return how


def make(folder: Path, hours: float, recipe: Recipe = RECIPE, sentences: Path | None = None) -> making.Made:
    return make_speech(folder, recipe, hours, 2, advance=lambda *_: None, announce=lambda _: None, sentences=sentences)


@pytest.mark.slow
def test_a_folder_is_made_and_added_to(tmp_path: Path, ends: list[str]) -> None:
    made = make(tmp_path, 15 / 3600)
    assert made.shards == 1
    assert 20 <= made.audio_s < 24
    assert made.utterances == len(utterances(tmp_path))
    assert 0 < made.inexact < made.utterances
    assert "hours a minute" in str(made)
    before = (tmp_path / "00000.npy").read_bytes()
    assert make(tmp_path, 20 / 3600).shards == 0
    assert make(tmp_path, 21 / 3600).shards == 1
    assert (tmp_path / "00000.npy").read_bytes() == before


@pytest.mark.slow
def test_a_missing_shard_comes_back_the_same(tmp_path: Path, ends: list[str]) -> None:
    make(tmp_path, 40 / 3600)
    before = (tmp_path / "00001.npy").read_bytes()
    (tmp_path / "00001.json").unlink()  # interrupted between the two
    assert make(tmp_path, 40 / 3600).shards == 1
    assert (tmp_path / "00001.npy").read_bytes() == before


def test_a_recipe_is_there_whole_or_not_at_all(
    tmp_path: Path, ends: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Path, target: Path) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(OutputError, match="no space left"):
            make(tmp_path, 10 / 3600)
    assert not [path for path in tmp_path.iterdir() if "recipe" in path.name]
    make(tmp_path, 0)
    assert making.read_recipe(tmp_path) == RECIPE


def test_another_recipe_is_refused(tmp_path: Path, ends: list[str]) -> None:
    make(tmp_path, 0)
    with pytest.raises(OptionError, match="was made with, to continue it; its seed: 5, not 9: give"):
        make(tmp_path, 0, replace(RECIPE, seed=9))
    many = tuple(f"espeak-ng:en+m{number}" for number in range(9))
    with pytest.raises(OptionError, match=r"its voices: espeak-ng:en-us, flite:slt, not .*\+m2 and 6 more: give"):
        make(tmp_path, 0, replace(RECIPE, voices=many))


def test_sentences_of_ones_own(tmp_path: Path, ends: list[str]) -> None:
    own, folder = tmp_path / "own.txt", tmp_path / "speech"
    own.write_text("\ufeffThe valve is open.\n\nTurn on pump seven.\r\nThe valve is open.\n", encoding="utf-8")
    make(folder, 0, sentences=own)
    assert (folder / "sentences.txt").read_text("utf-8") == "The valve is open.\nTurn on pump seven.\n"
    make(folder, 0, sentences=own)
    make(folder, 0)  # it has them
    own.write_text("The valve is shut.\n")
    with pytest.raises(OptionError, match="expected the sentences that"):
        make(folder, 0, sentences=own)


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (b"\n \n", "it has none"),
        (b"\xff\xfe", "cannot be read"),
        (b"\xc2\xa7 5\n", "none of 1 is one"),
        (None, "cannot be read"),
    ],
)
def test_sentences_that_are_none(tmp_path: Path, ends: list[str], content: bytes | None, wrong: str) -> None:
    own = tmp_path / "own.txt"
    if content is not None:
        own.write_bytes(content)
    with pytest.raises(CorpusError, match=wrong):
        make(tmp_path / "speech", 0, sentences=own)
    assert not (tmp_path / "speech" / "recipe.json").exists()


@pytest.mark.slow
def test_a_shard_that_fails_is_an_error_with_its_reason(tmp_path: Path, ends: list[str]) -> None:
    ends[0] = "badly"
    with pytest.raises(CorpusError, match="shard 1 could not be made: the voice is hoarse"):
        make(tmp_path, 60 / 3600)
    assert not [file for file in tmp_path.glob("*.npy") if not file.with_suffix(".json").exists()]
    ends[0] = "well"
    make(tmp_path, 60 / 3600)
    assert len(list(tmp_path.glob("0*.json"))) == 3


@pytest.mark.slow
def test_a_shard_may_warn_at_length_and_in_no_encoding(tmp_path: Path, ends: list[str]) -> None:
    ends[0] = "loudly"
    assert make(tmp_path, 40 / 3600).shards == 2


def test_an_interrupt_ends_all_processes_and_leaves_whole_shards(tmp_path: Path, ends: list[str]) -> None:
    ends[0] = "never"
    running: list[subprocess.Popen[bytes]] = []

    def interrupt() -> None:
        while len(apart._running) < 2 or not (tmp_path / ".making-x").exists():
            time.sleep(0.01)
        running.extend(apart._running)
        signal.pthread_kill(main_thread().ident or 0, signal.SIGINT)

    Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, 40 / 3600)
    assert len(running) == 2
    assert all(process.returncode == -signal.SIGTERM for process in running)
    assert sorted(file.name for file in tmp_path.iterdir() if file.name != ".lock") == ["recipe.json", "sentences.txt"]


def test_only_one_at_a_time(tmp_path: Path, ends: list[str]) -> None:
    with making._held(tmp_path), pytest.raises(CorpusError, match="another program is making speech"):
        make(tmp_path, 10 / 3600)


@pytest.mark.parametrize("place", ["file", "file/folder"])
def test_a_folder_that_cannot_be_made_is_an_error(place: str, tmp_path: Path, ends: list[str]) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be written"):
        make(tmp_path / place, 10 / 3600)


def test_a_damaged_recipe_is_an_error(tmp_path: Path, ends: list[str]) -> None:
    (tmp_path / "recipe.json").write_text("{")
    with pytest.raises(CorpusError, match="expected the recipe"):
        make(tmp_path, 10 / 3600)


def test_the_command_refuses_held_out_voices(tmp_path: Path) -> None:
    arguments = ["train", "speech", "-o", str(tmp_path / "x"), "--hours", "1", "--voices", "flite:kal"]
    ended = CliRunner().invoke(app, arguments)
    assert ended.exit_code == 2
    assert "held out for evaluation" in ended.stderr
    assert not (tmp_path / "x").exists()


@pytest.mark.slow
@pytest.mark.skipif(
    not (shutil.which("flite") and Path("/usr/share/wordnet/data.noun").exists()),
    reason="flite or wordnet-base is not installed",
)
def test_real_speech_from_the_command_to_the_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "speech"
    texts = ["The quick fox runs through the old forest.", "There was no water in the deep lake."]
    monkeypatch.setattr(making, "collect_texts", lambda vocabulary: texts)
    recipe = Recipe(seed=1, voices=("espeak-ng:en-us+m1", "flite:kal16"), shard_s=40.0)
    made = make(folder, 80 / 3600, recipe)
    assert made.shards == 2
    said = utterances(folder)
    assert {one.source for one in said} == {"espeak-ng:en-us+m1", "flite:kal16"}
    for one in said:
        assert one.words is not None
        assert all(0 <= start < end <= len(one.samples) for start, end in one.words)
        assert np.abs(one.samples).max() > 1000
