"""A manifest becomes shards: every bad line is named, nothing is half written, and what is done is not done again."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import write_wav
from whispertide.audio.file import load_audio
from whispertide.errors import CorpusError, OutputError
from whispertide_lab.speech.manifest import read_manifest
from whispertide_lab.speech.text import is_reserved
from whispertide_lab.training import prepare as module
from whispertide_lab.training.prepare import BadManifestError, prepare
from whispertide_lab.training.shards import open_shards, read_licences

TEXTS = [text for n in range(40) if not is_reserved(text := f"This is sentence number {n} of mine.")]
RESERVED = [text for n in range(99) if is_reserved(text := f"This is sentence number {n} of mine.")]


def write_manifest(folder: Path, entries: list[Any]) -> Path:
    """Objects become JSON; texts stay as they are."""
    path = folder / "mine.jsonl"
    path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in entries))
    return path


def entries(folder: Path, count: int) -> list[dict[str, Any]]:
    for number in range(count):
        write_wav(folder / f"{number}.wav", 2 + number / 8)
    return [{"audio": f"{number}.wav", "text": TEXTS[number], "speaker": "ann"} for number in range(count)]


def test_shards_of_a_manifest(tmp_path: Path) -> None:
    made = prepare(write_manifest(tmp_path, entries(tmp_path, 5)), tmp_path / "out")
    shards = open_shards([tmp_path / "out"])
    assert (made.utterances, made.reserved, made.left_out) == (5, 0, ())
    assert [said.text for said in shards] == TEXTS[:5]
    assert [len(said.samples) for said in shards] == [32_000 + 2000 * number for number in range(5)]
    assert all(said.source == "ann" and said.words is None for said in shards)
    assert made.seconds == pytest.approx(shards.seconds)
    assert np.abs(shards[0].samples).max() == pytest.approx(3000, abs=2)
    assert sorted(path.name for path in tmp_path.glob(".*")) == []


def test_stretches_and_words(tmp_path: Path) -> None:
    """Times count from the start of the file in the manifest, from the utterance's first sample in the shard."""
    write_wav(tmp_path / "long.wav", 40, rate=8000)
    words = [{"word": "good", "start": 31.0, "end": 31.5}, {"word": "morning", "start": 31.5, "end": 32.02}]
    entry = {"file": "long.wav", "transcript": "Good  morning!", "start": 30.5, "end": 32, "words": words}
    prepare(write_manifest(tmp_path, [entry]), tmp_path / "out")
    (said,) = open_shards([tmp_path / "out"])
    assert said.text == "Good morning!"
    assert len(said.samples) == 24_000
    assert said.words == ((8000, 16_000), (16_000, 24_000))


def test_long_speech_with_word_times_is_allowed(tmp_path: Path) -> None:
    write_wav(tmp_path / "long.wav", 40)
    words = [{"word": "Hi.", "start": 35, "end": 36}]
    prepare(write_manifest(tmp_path, [{"audio": "long.wav", "text": "Hi.", "words": words}]), tmp_path / "out")
    assert open_shards([tmp_path / "out"])[0].words == ((560_000, 576_000),)


def with_word(**change: Any) -> dict[str, Any]:
    words = [{"word": "Good", "start": 0.1, "end": 0.4}, {"word": "day.", "start": 0.5, "end": 0.9} | change]
    return {"audio": "0.wav", "text": "Good day.", "words": words}


NO_WORDS: tuple[Any, ...] = ("", {}, 0, False)
BAD: dict[str, tuple[Any, str]] = {
    "no json": ('{"audio": ', "expected a JSON object"),
    "no object": ("[1, 2]", "expected a JSON object"),
    "not utf-8": ('{"audio": "\udcff"}', "expected a JSON object"),
    "no audio": ({"text": "Hi."}, "expected 'audio'; it has 'text'"),
    "no text": ({"audio": "0.wav"}, "expected 'text'"),
    "empty text": ({"audio": "0.wav", "text": "  "}, "not empty as 'text'"),
    "text that is null": ({"audio": "0.wav", "transcript": None}, "not empty as 'transcript'; got null"),
    "half a character": ('{"audio": "0.wav", "text": "Hi \\ud800."}', "half of one, '\\ud800', in 'Hi"),
    "half a speaker": ('{"audio": "0.wav", "text": "Hi.", "speaker": "\\udfff"}', "whole characters in 'speaker'"),
    "too deep": ('{"audio": ' + "[" * 100_000, "nested too deeply"),
    "nobody's home": ({"audio": "~nosuchuser/0.wav", "text": "Hi."}, "expected the name of an audio file; got ~nosuch"),
    "name too long": ({"audio": "a" * 300 + ".wav", "text": "Hi."}, "File name too long"),
    "text of a number": ({"audio": "0.wav", "text": 7}, "not empty as 'text'"),
    "missing audio": ({"audio": "gone.wav", "text": "Hi."}, "there is no file"),
    "unreadable audio": ({"audio": "notes.txt", "text": "Hi."}, "expected audio that ffmpeg reads"),
    "audio cut off": ({"audio": "cut.wav", "text": "Hi."}, "cut off"),
    "negative start": ({"audio": "0.wav", "text": "Hi.", "start": -1}, "not negative"),
    "no moment": ({"audio": "0.wav", "text": "Hi.", "start": "soon"}, "expected seconds"),
    "no number": ('{"audio": "0.wav", "text": "Hi.", "start": NaN}', "expected seconds"),
    "end before start": ({"audio": "0.wav", "text": "Hi.", "start": 1, "end": 0.5}, "an end after the start"),
    "end after the audio": ({"audio": "0.wav", "text": "Hi.", "end": 3}, "within the audio, 2.00 s"),
    "start after the audio": ({"audio": "0.wav", "text": "Hi.", "start": 2.5}, "at least 0.1 s"),
    "too much text": ({"audio": "0.wav", "text": "a" * 100}, "100 letters in 2.0 s"),
    "too long": ({"audio": "long.wav", "text": "Hi."}, "at most 30 s"),
    "speaker of a number": ({"audio": "0.wav", "text": "Hi.", "speaker": 7}, "a text as speaker"),
    "licence of a number": ({"audio": "0.wav", "text": "Hi.", "licence": 4}, "a text as licence"),
    "other words": (with_word(word="night"), "'night' for 'day'"),
    "fewer words": ({**with_word(), "text": "Good day to you."}, "the words of the text, 4 of them; got 2"),
    "words without time": (with_word(end=None), "not negative, as 'end'"),
    "negative word": (with_word(end=0.2), "to end after it starts"),
    "words out of order": (with_word(start=0.0), "in order"),
    "words outside": ({**with_word(), "end": 0.6}, "within the stretch"),
    "words after the audio": (with_word(end=2.5), "words within the audio"),
    **{f"words {words!r}": ({**with_word(), "words": words}, "list of objects") for words in NO_WORDS},
    "words of nothing": ({**with_word(), "words": ["Good"]}, "list of objects"),
}


@pytest.fixture(scope="module")
def audio(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audio")
    write_wav(folder / "0.wav", 2)
    write_wav(folder / "long.wav", 31)
    (folder / "notes.txt").write_text("These are notes. " * 20)
    (folder / "cut.wav").write_bytes((folder / "0.wav").read_bytes()[:30_000])
    load_audio(folder / "0.wav")  # what decodes is imported: else every process that is forked here would import it
    return folder


@pytest.mark.parametrize("kind", ["not utf-8", "text of a number", "audio cut off", "words after the audio"])
def test_a_bad_line_is_named(audio: Path, tmp_path: Path, kind: str) -> None:
    """One of each step that finds them; the next test has all."""
    bad, message = BAD[kind]
    good = {"audio": "0.wav", "text": TEXTS[0]}
    path = audio / f"{len(kind)}.jsonl"
    rows = [json.dumps(good), "", bad if isinstance(bad, str) else json.dumps(bad), json.dumps(good)]
    path.write_bytes("\n".join(rows).encode("utf-8", errors="surrogateescape"))
    with pytest.raises(BadManifestError, match="--skip-bad") as caught:
        prepare(path, tmp_path / "out")
    (problem,) = caught.value.problems
    assert problem.number == 3
    assert message in problem.reason
    assert f"line 3: {problem.reason}" in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_bad_lines_are_left_out_where_that_is_wanted(audio: Path, tmp_path: Path) -> None:
    good = json.dumps({"audio": "0.wav", "text": TEXTS[0]})
    rows = [good, "", *(bad if isinstance(bad, str) else json.dumps(bad) for bad, _ in BAD.values()), good]
    path = audio / "bad and good.jsonl"
    path.write_bytes("\n".join(rows).encode("utf-8", errors="surrogateescape"))
    made = prepare(path, tmp_path / "out", skip_bad=True)
    assert [problem.number for problem in made.left_out] == list(range(3, 3 + len(BAD)))
    for problem, (_, message) in zip(made.left_out, BAD.values(), strict=True):
        assert message in problem.reason
    assert [said.text for said in open_shards([tmp_path / "out"])] == [TEXTS[0]] * 2


def test_audio_that_vanishes_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the reading of the manifest and the decoding."""
    path = write_manifest(tmp_path, entries(tmp_path, 3))

    def vanishing(manifest: Path) -> Any:
        read = read_manifest(manifest)
        (tmp_path / "1.wav").unlink(missing_ok=True)
        return read

    monkeypatch.setattr(module, "read_manifest", vanishing)
    with pytest.raises(BadManifestError, match=r"line 2: .*1\.wav"):
        prepare(path, tmp_path / "out")
    write_wav(tmp_path / "1.wav", 2)
    made = prepare(path, tmp_path / "out", skip_bad=True)
    assert [problem.number for problem in made.left_out] == [2]
    assert [said.text for said in open_shards([tmp_path / "out"])] == [TEXTS[0], TEXTS[2]]


def test_no_words_are_no_times(tmp_path: Path) -> None:
    listed = entries(tmp_path, 2)
    listed[0]["words"], listed[1]["words"] = [], None
    prepare(write_manifest(tmp_path, listed), tmp_path / "out")
    assert [said.words for said in open_shards([tmp_path / "out"])] == [None, None]


def test_all_bad_lines_are_named_at_once(audio: Path, tmp_path: Path) -> None:
    path = audio / "all.jsonl"
    rows = [row if isinstance(row, str) else json.dumps(row) for row, _ in BAD.values()]
    path.write_bytes("\n".join(rows).encode("utf-8", errors="surrogateescape"))
    with pytest.raises(BadManifestError) as caught:
        prepare(path, tmp_path / "out")
    assert [problem.number for problem in caught.value.problems] == list(range(1, len(BAD) + 1))


def test_reserved_sentences_are_left_out_and_counted(tmp_path: Path) -> None:
    listed = entries(tmp_path, 4)
    listed[1]["text"], listed[2]["text"] = RESERVED[0], f"{TEXTS[2]} {RESERVED[1]}"
    made = prepare(write_manifest(tmp_path, listed), tmp_path / "out")
    assert (made.utterances, made.reserved) == (2, 2)
    assert not any(map(is_reserved, open_shards([tmp_path / "out"]).texts))


def test_licences_are_counted(tmp_path: Path) -> None:
    """Of what is in the shards: not of what is reserved or bad; a folder without any has no such record."""
    listed = entries(tmp_path, 6)
    for entry, licence in zip(listed, ("CC0", "CC BY 4.0", "CC0", "CC0", "CC0", None), strict=True):
        entry["licence"] = licence
    listed[1]["license"] = listed[1].pop("licence")
    listed[2]["text"], listed[3]["end"] = RESERVED[0], 60  # the one is left out, the other found bad when decoded
    made = prepare(write_manifest(tmp_path, listed), tmp_path / "out", skip_bad=True)
    assert (made.reserved, [problem.number for problem in made.left_out]) == (1, [4])
    assert read_licences(tmp_path / "out") == (("CC0", 2), ("CC BY 4.0", 1))
    assert len(open_shards([tmp_path / "out"])) == 4
    prepare(write_manifest(tmp_path, entries(tmp_path, 2)), tmp_path / "plain")
    assert read_licences(tmp_path / "plain") == ()
    assert not (tmp_path / "plain" / "licences.json").exists()
    (tmp_path / "out" / "licences.json").write_text("[1]")
    with pytest.raises(CorpusError, match="by licence"):
        read_licences(tmp_path / "out")


def test_nothing_that_can_be_used(tmp_path: Path) -> None:
    for rows in ([], [{"audio": "0.wav", "text": RESERVED[0]}]):
        write_wav(tmp_path / "0.wav", 5)
        told = rf"of its {len(rows)} lines none can be used: {len(rows)} are reserved for tests"
        with pytest.raises(CorpusError, match=told):
            prepare(write_manifest(tmp_path, rows), tmp_path / "out")
    with pytest.raises(CorpusError, match="cannot be read"):
        read_manifest(tmp_path / "gone.jsonl")


def test_a_full_folder_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match="new or empty"):
        prepare(write_manifest(tmp_path, entries(tmp_path, 1)), tmp_path / "out")


# --- going on ---------------------------------------------------------------------------------------------------------


def record_decoding(monkeypatch: pytest.MonkeyPatch, log: Path) -> None:
    """Two lines a shard, and a line in `log` for each file that is decoded, in whatever process."""

    def recorded(path: Path) -> Any:
        with log.open("a") as file:
            file.write(f"{path.name}\n")
        return load_audio(path)

    monkeypatch.setattr(module, "LINES", 2)
    monkeypatch.setattr(f"{module.__name__}.load_audio", recorded)
    module._audio.cache_clear()


def taken(log: Path) -> list[str]:
    """What was decoded since the last call."""
    names = sorted(log.read_text().split()) if log.exists() else []
    log.unlink(missing_ok=True)
    return names


@pytest.mark.slow
def test_after_a_correction_only_what_changed_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record_decoding(monkeypatch, log := tmp_path / "decoded.log")
    listed = entries(tmp_path, 6)
    good = listed[3]["text"]
    listed[3]["text"] = ""
    with pytest.raises(BadManifestError):
        prepare(write_manifest(tmp_path, listed), tmp_path / "out")
    assert taken(log) == [f"{number}.wav" for number in (0, 1, 2, 4, 5)]
    listed[3]["text"] = good
    write_wav(tmp_path / "5.wav", 4)
    made = prepare(write_manifest(tmp_path, listed), tmp_path / "out")
    assert taken(log) == [f"{number}.wav" for number in (2, 3, 4, 5)]
    assert made.utterances == 6
    assert [said.text for said in open_shards([tmp_path / "out"])] == TEXTS[:6]
    assert len(open_shards([tmp_path / "out"])[5].samples) == 64_000


@pytest.mark.slow
def test_killed_and_gone_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record_decoding(monkeypatch, log := tmp_path / "decoded.log")
    path = write_manifest(tmp_path, entries(tmp_path, 6))

    def killed(label: str, done: int, total: int) -> None:
        if done == 4:
            os.kill(os.getpid(), signal.SIGKILL)

    if (child := os.fork()) == 0:
        prepare(path, tmp_path / "out", advance=killed)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    first = taken(log)
    made = prepare(path, tmp_path / "out")
    assert made.utterances == 6
    assert not {"0.wav", "1.wav", "2.wav", "3.wav"} & set(taken(log))
    assert {"0.wav", "1.wav", "2.wav", "3.wav"} <= set(first)
    assert [said.text for said in open_shards([tmp_path / "out"])] == TEXTS[:6]


def test_leftovers_of_a_longer_manifest_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINES", 2)
    listed = entries(tmp_path, 6)
    with pytest.raises(BadManifestError):
        prepare(write_manifest(tmp_path, [*listed[:5], {"audio": "5.wav"}]), tmp_path / "out")
    prepare(write_manifest(tmp_path, listed[:2]), tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["00000.json", "00000.npy"]


@pytest.mark.slow
def test_any_number_of_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINES", 2)
    path = write_manifest(tmp_path, entries(tmp_path, 5))
    for workers in (1, 3):
        prepare(path, tmp_path / f"out{workers}", workers=workers)
    for file in (tmp_path / "out1").iterdir():
        assert file.read_bytes() == (tmp_path / "out3" / file.name).read_bytes()
