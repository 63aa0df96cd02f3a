import json
from pathlib import Path
from typing import Any

import pytest

from corpus_layouts import sound, write_flac
from whispertide.errors import CorpusError
from whispertide_lab.evaluation.corpora import open_corpus
from whispertide_lab.evaluation.corpora.manifest import open_manifest
from whispertide_lab.speech.text import is_reserved
from whispertide_lab.speech.utterance import RefWord, Utterance


def entry(folder: Path, file: str, **fields: Any) -> dict[str, Any]:
    write_flac(folder / file, sound(16000))
    return {"file": file, "seconds": 1.0, "transcript": "The sea.", "ref_quality": "human", "language": "en", **fields}


def write(folder: Path, name: str, entries: list[dict[str, Any]]) -> None:
    (folder / name).write_text("\n".join(json.dumps(one) for one in entries) + "\n")


def utterances(folder: Path) -> dict[str, Utterance]:
    return {one.id: one for one in open_manifest(folder).utterances()}


def timed(*spans: tuple[str, float, float], source: str = "hand TextGrid") -> dict[str, Any]:
    return {"words": [{"word": w, "start": a, "end": b} for w, a, b in spans], "words_source": source}


def test_what_nobody_checked_is_left_out(tmp_path: Path) -> None:
    kinds = ("human", "prompt", "asr", "none")
    write(tmp_path, "manifest.jsonl", [entry(tmp_path, f"{kind}.flac", ref_quality=kind) for kind in kinds])
    assert set(utterances(tmp_path)) == {"human.flac", "prompt.flac"}


def test_non_speech_has_no_words(tmp_path: Path) -> None:
    sounds = [
        entry(tmp_path, "rain.flac", ref_quality="none", transcript="", tags=["nonspeech"]),
        entry(tmp_path, "engine.flac", ref_quality="none", language="none"),
    ]
    write(tmp_path, "manifest.jsonl", sounds)
    found = utterances(tmp_path)
    assert all(one.words == () and one.group == "nonspeech" and not one.exact_times for one in found.values())
    assert len(found) == 2


def test_hand_made_times_are_exact(tmp_path: Path) -> None:
    words = timed(("the", 0.1, 0.25), ("sea", 0.25, 0.9), source="hand phonetic segmentation")
    write(tmp_path, "manifest.jsonl", [entry(tmp_path, "a.flac", **words, speaker="ann")])
    one = utterances(tmp_path)["a.flac"]
    assert one.exact_times
    assert one.words == (RefWord("The", 1600, 4000), RefWord("sea.", 4000, 14400))
    assert one.group == "ann"


@pytest.mark.parametrize(
    "words",
    [
        timed(("the", 0.1, 0.2), ("sea", 0.2, 0.9), source="ASR output used as test expectation"),
        timed(("the", 0.1, 0.2), ("sea", 0.2, 0.9), source="aligner output, possibly hand-checked"),
        timed(("the", 0.1, 0.2), ("sea", 0.2, 0.9), source=""),
        timed(("sea", 0.2, 0.9)),  # not the words of the transcript
    ],
)
def test_other_times_are_dropped(tmp_path: Path, words: dict[str, Any]) -> None:
    write(tmp_path, "manifest.jsonl", [entry(tmp_path, "a.flac", **words)])
    one = utterances(tmp_path)["a.flac"]
    assert not one.exact_times
    assert one.words == (RefWord("The"), RefWord("sea."))


@pytest.mark.parametrize(
    ("the", "sea", "told"),
    [
        ((120, 250), (250, 900), "'The' is at 120 to 250 s"),  # milliseconds
        ((0.1, 0.25), (0.25, float("nan")), "'sea.' is at 0.25 to nan s"),
        ((float("nan"), 0.25), (0.25, 0.9), "'The' is at nan to 0.25 s"),
        ((0.1, 0.25), (0.9, 0.25), "'sea.' is at 0.9 to 0.25 s"),
        ((0.8, 0.9), (0.2, 0.4), "'sea.' is at 0.2 to 0.4 s"),
        ((-0.5, 0.25), (0.25, 0.9), "'The' is at -0.5 to 0.25 s"),
    ],
)
@pytest.mark.parametrize("seconds", [1.0, None])
def test_exact_times_that_cannot_be_are_an_error(
    tmp_path: Path, the: tuple[float, float], sea: tuple[float, float], told: str, seconds: float | None
) -> None:
    """A word that is said after the end of its recording would be shown long before."""
    one = entry(tmp_path, "a.flac", **timed(("the", *the), ("sea", *sea)))
    write(tmp_path, "manifest.jsonl", [{**one, "seconds": seconds}])
    with pytest.raises(CorpusError, match=r"a\.flac: expected words in order, within its 1 s") as caught:
        open_manifest(tmp_path)
    assert told in str(caught.value)


@pytest.mark.parametrize("named", ["en", "EN", "English", "en-US"])
def test_a_language_may_have_any_of_its_names(tmp_path: Path, named: str) -> None:
    """By its code texts are normalised: "en-US" counted "don't" for "do not" as errors."""
    write(tmp_path, "manifest.jsonl", [entry(tmp_path, "a.flac", language=named)])
    assert utterances(tmp_path)["a.flac"].language == "en"


def test_two_groups_of_one_name_are_an_error(tmp_path: Path) -> None:
    write(tmp_path, "manifest.jsonl", [entry(tmp_path, f"{n}.flac") for n in range(2)])
    write(tmp_path, "longform_groups.jsonl", [{"group": "book", "files": [f"{n}.flac"]} for n in range(2)])
    with pytest.raises(CorpusError, match="the first is 'book'"):
        open_manifest(tmp_path)


def test_a_group_is_one_long_recording(tmp_path: Path) -> None:
    entries = [entry(tmp_path, f"{k}.flac", transcript=f"part {k}") for k in range(4)]
    write(tmp_path, "manifest.jsonl", entries)
    write(tmp_path, "longform_groups.jsonl", [{"group": "book", "files": ["2.flac", "0.flac", "1.flac"]}])
    found = utterances(tmp_path)
    assert set(found) == {"book", "3.flac"}
    book = found["book"]
    assert [word.text for word in book.words] == ["part", "2", "part", "0", "part", "1"]
    assert book.seconds == 3.0
    assert len(book.audio()) == 48000
    assert not book.exact_times


def test_times_in_a_group_are_moved(tmp_path: Path) -> None:
    words = timed(("the", 0.1, 0.25), ("sea", 0.25, 0.9))
    write(tmp_path, "manifest.jsonl", [entry(tmp_path, f"{k}.flac", **words) for k in range(2)])
    write(tmp_path, "longform_groups.jsonl", [{"group": "book", "files": ["0.flac", "1.flac"]}])
    book = utterances(tmp_path)["book"]
    assert book.exact_times
    assert book.words[3] == RefWord("sea.", 16000 + 4000, 16000 + 14400)


def test_a_group_with_a_part_that_is_not_scored_is_not_used(tmp_path: Path) -> None:
    write(tmp_path, "manifest.jsonl", [entry(tmp_path, "0.flac"), entry(tmp_path, "1.flac", ref_quality="asr")])
    write(tmp_path, "longform_groups.jsonl", [{"group": "book", "files": ["0.flac", "1.flac"]}])
    assert set(utterances(tmp_path)) == {"0.flac"}


def own(folder: Path, *entries: dict[str, Any]) -> Path:
    """A manifest as for training, named itself."""
    write_flac(folder / "a.flac", sound(32000))
    write(folder, "test.jsonl", list(entries))
    return folder / "test.jsonl"


def test_a_manifest_as_for_training(tmp_path: Path) -> None:
    """Every line is scored, reserved or not; its words' times are not taken for exact ones."""
    words = [{"word": "the", "start": 0.1, "end": 0.25}, {"word": "sea", "start": 0.25, "end": 0.9}]
    path = own(
        tmp_path,
        {"audio": "a.flac", "text": "The sea.", "words": words, "speaker": "ann", "end": 1.5},
        {"file": "a.flac", "transcript": "Hello.", "language": "de"},
    )
    assert is_reserved("Hello.")
    corpus = open_corpus(f"manifest:{path}")
    first, second = corpus.utterances()
    assert corpus.name == "manifest-test"
    assert (first.words, first.exact_times, first.group) == ((RefWord("The"), RefWord("sea.")), False, "ann")
    assert (first.seconds, len(first.audio())) == (1.5, 24000)
    assert (second.words, second.seconds, len(second.audio())) == ((RefWord("Hello."),), 2.0, 32000)
    assert (first.language, second.language) == ("en", "de")
    before = corpus.hash
    own(tmp_path, {"audio": "a.flac", "text": "The sea.", "end": 1.25})
    assert open_manifest(path).hash != before


def test_stretches_of_a_recording_whose_speaker_nobody_names_belong_together(tmp_path: Path) -> None:
    stretches: list[dict[str, Any]] = [{"start": 0.0, "end": 1.0}, {"start": 1.0, "end": 2.0}]
    lines = (*stretches, {"start": 1.0, "speaker": "ann"}, {})
    path = own(tmp_path, *({"audio": "a.flac", "text": "The sea.", **line} for line in lines))
    assert [one.group for one in open_manifest(path).utterances()] == ["a.flac", "a.flac", "ann", ""]


def test_lines_that_cannot_be_scored_are_named(tmp_path: Path) -> None:
    good = {"audio": "a.flac", "text": "The sea."}
    path = own(tmp_path, good, {"audio": "gone.flac", "text": "Hi."}, good | {"start": 3.0}, good | {"end": 2.5})
    write(tmp_path, "test.jsonl", [*map(json.loads, path.read_text().splitlines()), good | {"language": "elvish"}])
    with pytest.raises(CorpusError, match=r"4 lines") as caught:
        open_manifest(path)
    for told in (
        "line 2: there is no file",
        "line 3: expected a stretch within a.flac, 2.00 s",
        "line 4: expected a",
        "'elvish'",
    ):
        assert told in str(caught.value)
    with pytest.raises(CorpusError, match="lists none"):
        open_manifest(own(tmp_path))
    write(tmp_path, "manifest.jsonl", [good])
    with pytest.raises(CorpusError, match=r"expected an object with file; .* is named itself"):
        open_manifest(tmp_path)


def test_the_hash_follows_audio_and_text(tmp_path: Path) -> None:
    def hashed(**fields: Any) -> str:
        write(tmp_path, "manifest.jsonl", [entry(tmp_path, "a.flac", **fields)])
        return open_manifest(tmp_path).hash

    before = hashed()
    assert hashed() == before
    assert hashed(transcript="A sea.") != before
    write_flac(tmp_path / "a.flac", sound(16001))
    assert open_manifest(tmp_path).hash != before


def test_quick_reads_a_seeded_part(tmp_path: Path) -> None:
    entries = [entry(tmp_path, f"{k:02d}.flac", seconds=30.0) for k in range(12)]
    write(tmp_path, "manifest.jsonl", entries)
    parts = [[one.id for one in open_manifest(tmp_path, quick=True, seed=seed).utterances()] for seed in (0, 0, 1)]
    assert len(parts[0]) == 4
    assert parts[0] == parts[1] == sorted(parts[0])
    assert parts[0] != parts[2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{broken", "line 1: expected a JSON object"),
        ('{"seconds": 1}', "expected an object with file"),
        ('{"file": "a.flac", "ref_quality": "asr"}', "can be scored"),
        (
            '{"file": "manifest.jsonl", "transcript": "a", "ref_quality": "human", "words_source": "hand", '
            '"words": [{"word": "a"}]}',
            "expected words with word, start and end",
        ),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "manifest.jsonl").write_text(text)
    with pytest.raises(CorpusError, match=message):
        open_manifest(tmp_path)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    write(tmp_path, "manifest.jsonl", [{"file": "gone.flac", "ref_quality": "human", "transcript": "a", "seconds": 1}])
    with pytest.raises(CorpusError, match=r"gone\.flac"):
        _ = open_manifest(tmp_path).hash


def test_a_folder_without_manifest_is_said(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"expected manifest\.jsonl"):
        open_manifest(tmp_path)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"transcript": None}, "expected the transcript of a.flac, whose ref_quality is human; got None"),
        ({"transcript": " "}, "expected the transcript of a.flac"),
        ({"seconds": "long"}, "expected seconds of a.flac as a number above 0; got 'long'"),
        ({"seconds": 0}, "expected seconds of a.flac as a number above 0; got 0"),
    ],
)
def test_an_entry_that_cannot_be_scored_is_named(tmp_path: Path, fields: dict[str, Any], why: str) -> None:
    write(tmp_path, "manifest.jsonl", [entry(tmp_path, "a.flac", **fields)])
    with pytest.raises(CorpusError, match=why):
        open_manifest(tmp_path)


def test_a_file_that_is_missing_or_listed_twice_is_named(tmp_path: Path) -> None:
    entries = [entry(tmp_path, f"{name}.flac") for name in "abc"]
    write(tmp_path, "manifest.jsonl", [*entries, entries[0]])
    with pytest.raises(CorpusError, match=r"expected each file once; a.flac is there twice"):
        open_manifest(tmp_path)
    write(tmp_path, "manifest.jsonl", entries)
    (tmp_path / "b.flac").unlink()
    with pytest.raises(CorpusError, match=r"1 of 3 are missing, the first is b.flac"):
        open_manifest(tmp_path)


def test_a_group_of_files_that_nobody_listed_is_named(tmp_path: Path) -> None:
    write(tmp_path, "manifest.jsonl", [entry(tmp_path, "a.flac")])
    write(tmp_path, "longform_groups.jsonl", [{"group": "book", "files": ["a.flac", "b.flac"]}])
    with pytest.raises(CorpusError, match=r"'book' names 'b.flac'"):
        open_manifest(tmp_path)
