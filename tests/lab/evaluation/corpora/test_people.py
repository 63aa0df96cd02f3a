import re
from pathlib import Path
from typing import Any

import pytest

import whispertide
from lab.evaluation.corpora.test_manifest import entry, timed, write
from whispertide.errors import CorpusError, OptionError
from whispertide_lab.evaluation.corpora import check_corpus, open_corpus
from whispertide_lab.evaluation.corpora.parts import part_of
from whispertide_lab.evaluation.corpora.people import HALVES, NAMES, half_of, open_people

ONE_EACH: dict[str, dict[str, Any]] = {
    "readings": {"speaker": "libri-1", "tags": ["read"]},
    "utterances": {"speaker": "mary", "tags": ["read"], **timed(("the", 0.1, 0.2), ("sea", 0.2, 0.9))},
    "accents": {"speaker": "so-1", "tags": ["read", "non-native"], "ref_quality": "prompt"},
    "dictation": {"speaker": "dan", "tags": ["voice note"], "ref_quality": "prompt"},
    "digits": {"speaker": "fsdd-1", "tags": ["isolated digit", "German accent"], "transcript": "one"},
    "languages": {"speaker": "ana", "language": "es", "transcript": "El mar."},
    "nonspeech": {"speaker": "-", "language": "none", "ref_quality": "none", "transcript": None},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A recording of each part, and one that nobody checked."""
    entries = [entry(tmp_path, f"{part}.flac", **fields) for part, fields in ONE_EACH.items()]
    entries.append(entry(tmp_path, "asr.flac", ref_quality="asr"))
    write(tmp_path, "manifest.jsonl", entries)
    write(tmp_path, "longform_groups.jsonl", [{"group": "readings.flac", "files": ["readings.flac"]}])
    return tmp_path


def ids(spec: str) -> list[str]:
    return [one.id for one in open_corpus(spec).utterances()]


@pytest.mark.parametrize("part", ONE_EACH)
def test_each_recording_is_in_one_part(folder: Path, part: str) -> None:
    assert ids(f"people-{part}:{folder}") == [f"{part}.flac"]
    assert f"people-{part}" in NAMES


def test_several_parts_are_one_corpus(folder: Path) -> None:
    corpus = open_corpus(f"people-accents+dictation:{folder}")
    assert (corpus.name, sorted(one.id for one in corpus.utterances())) == (
        "people-accents+dictation",
        ["accents.flac", "dictation.flac"],
    )


def test_people_are_all_parts_and_nothing_unchecked(folder: Path) -> None:
    assert sorted(ids(f"people:{folder}")) == sorted(f"{part}.flac" for part in ONE_EACH)


def test_a_single_word_is_a_short_command_whoever_says_it(tmp_path: Path) -> None:
    write(tmp_path, "manifest.jsonl", [entry(tmp_path, "no.flac", transcript="No!", tags=["non-native"])])
    assert ids(f"people-digits:{tmp_path}") == ["no.flac"]


def test_what_a_speaker_was_asked_to_read_says_so(folder: Path) -> None:
    prompted = {one.id for one in open_corpus(f"people:{folder}").utterances() if one.prompted}
    assert prompted == {"accents.flac", "dictation.flac"}


def test_hand_labelled_recordings_of_other_parts_are_known(folder: Path) -> None:
    corpus = open_people("people-dictation", str(folder))
    assert [one.id for one in corpus.hand_labelled] == ["utterances.flac"]


def test_no_speaker_is_in_both_halves_and_none_is_lost(tmp_path: Path) -> None:
    entries = [entry(tmp_path, f"{who}-{k}.flac", speaker=f"speaker {who}") for who in range(8) for k in range(2)]
    write(tmp_path, "manifest.jsonl", entries)
    choose, report = ({one.split("-")[0] for one in ids(f"people/{half}:{tmp_path}")} for half in HALVES)
    assert choose | report == {str(who) for who in range(8)}
    assert not choose & report
    assert choose
    assert report
    write(tmp_path, "manifest.jsonl", [entry(tmp_path, "new.flac", speaker="somebody else"), *entries])
    assert choose <= {one.split("-")[0] for one in ids(f"people/choose:{tmp_path}")}, "nobody moves"


def test_a_speaker_stays_in_the_half_that_published_figures_name() -> None:
    assert [half_of(name) for name in ("libri-1688", "libri-3005", "so-9619")] == ["choose", "report", "report"]


def test_unknown_speakers_of_a_folder_are_one_and_sounds_are_each_their_own(tmp_path: Path) -> None:
    unknown = [entry(tmp_path, f"cards/{k}.flac", speaker="unknown") for k in range(12)]
    sounds = [entry(tmp_path, f"rain/{k}.flac", speaker="-", language="none") for k in range(12)]
    write(tmp_path, "manifest.jsonl", unknown + sounds)
    sizes = [len(ids(f"people-nonspeech/{half}:{tmp_path}")) for half in HALVES]
    assert sum(sizes) == 12
    assert all(sizes)
    (half,) = (half for half in HALVES if half == half_of("cards"))
    assert len(ids(f"people-utterances/{half}:{tmp_path}")) == 12


def test_the_name_says_which_part_and_half(folder: Path) -> None:
    half = half_of("so-1")
    assert open_corpus(f"people-accents/{half}:{folder}").name == f"people-accents-{half}"


def test_an_empty_half_says_why(folder: Path) -> None:
    (other,) = set(HALVES) - {half_of("dan")}
    with pytest.raises(
        CorpusError, match=f"speakers of people-dictation in the half '{other}'; all 1 are in the other"
    ):
        open_corpus(f"people-dictation/{other}:{folder}")


def test_an_empty_part_says_what_there_is(tmp_path: Path) -> None:
    write(tmp_path, "manifest.jsonl", [entry(tmp_path, "a.flac")])
    with pytest.raises(CorpusError, match=r"the part dictation in .*; it has none, but utterances"):
        open_corpus(f"people-dictation:{tmp_path}")


@pytest.mark.parametrize("spec", ["people/train", "people-accents/:x"])
def test_there_are_two_halves(spec: str) -> None:
    with pytest.raises(OptionError, match="one of choose, report"):
        check_corpus(spec)


@pytest.mark.parametrize("spec", ["people-songs", "people-", "people-accents+songs", "people-accents+"])
def test_a_part_that_does_not_exist_is_an_unknown_corpus(spec: str) -> None:
    with pytest.raises(OptionError, match=rf"people-accents.*got {re.escape(repr(spec))}"):
        check_corpus(spec)


def test_the_named_folder_wins_and_without_one_it_lies_beside_the_checkout(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path_factory.mktemp("work")
    package = place / "checkout" / "src" / "whispertide"
    monkeypatch.setattr(whispertide, "__file__", str(package / "__init__.py"))
    with pytest.raises(CorpusError, match="'people:FOLDER'"):
        check_corpus("people-accents")
    (place / "checkout").mkdir()
    (place / "checkout" / "pyproject.toml").touch()
    beside = place / "shared" / "speech"
    beside.mkdir(parents=True)
    write(beside, "manifest.jsonl", [entry(beside, "beside.flac")])
    check_corpus("people-accents")
    assert ids("people") == ["beside.flac"]
    assert "beside.flac" not in ids(f"people:{folder}")


def test_a_folder_that_is_not_there_is_said_before_anything_is_made(tmp_path: Path) -> None:
    for place in (str(tmp_path / "nowhere"), "~no-such-user/nowhere"):
        with pytest.raises(CorpusError, match="it does not exist: check the path"):
            check_corpus(f"people:{place}")


def test_a_model_of_english_says_that_it_writes_no_other_language(folder: Path) -> None:
    corpus = open_corpus(f"people-languages:{folder}")
    with pytest.raises(CorpusError, match=r"language that tiny.en writes; all 1 of people-languages are in es: .*base"):
        part_of(corpus, {"en"}, None, writer="tiny.en")
