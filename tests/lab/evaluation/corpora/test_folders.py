import json
from pathlib import Path

import numpy as np
import pytest

from corpus_layouts import librispeech, sound, write_flac, write_sphere, write_text
from whispertide.errors import CorpusError
from whispertide_lab.evaluation.corpora.published import (
    open_fleurs,
    open_librispeech,
    open_meanwhile,
    open_tedlium,
    open_timit,
)
from whispertide_lab.speech.utterance import RefWord, Utterance


def text_of(utterance: Utterance) -> str:
    return " ".join(word.text for word in utterance.words)


def test_librispeech(tmp_path: Path) -> None:
    root = librispeech(tmp_path)
    for folder in (root, root / "test-clean"):
        first, second = open_librispeech(folder).utterances()
        assert (first.id, first.group, first.seconds) == ("61-70968-0000", "61", 1.0)
        assert text_of(first) == "HE BEGAN A CONFUSED COMPLAINT"
        assert not first.exact_times
        assert len(second.audio()) == 8000
    assert open_librispeech(root).hash == open_librispeech(root / "test-clean").hash


def test_librispeech_without_an_audio_file(tmp_path: Path) -> None:
    next((root := librispeech(tmp_path)).rglob("*0001.flac")).unlink()
    with pytest.raises(CorpusError, match="names 61-70968-0001"):
        open_librispeech(root)


STM = """;; comment
Ann_2010 1 Ann_2010 0.00 1.00 <o,f0,unknown> ignore_time_segment_in_scoring
Ann_2010 1 Ann_2010 2.50 3.00 <o,f0,female> second <unk> part {COUGH} it 's here
Ann_2010 1 Ann_2010 1.00 2.25 <o,f0,female> the first
Ann_2010 1 Ann_2010 3.00 4.00 <o,f0,unknown> ignore_time_segment_in_scoring
"""


@pytest.mark.parametrize("below", ["", "legacy/test", "test"])
def test_tedlium_is_read_as_whole_talks(tmp_path: Path, below: str) -> None:
    write_text(tmp_path / below / "stm" / "Ann_2010.stm", STM)
    write_sphere(tmp_path / below / "sph" / "Ann_2010.sph", samples := sound(4 * 16000))
    (talk,) = open_tedlium(tmp_path).utterances()
    assert text_of(talk) == "the first second part it's here"
    assert talk.seconds == 2.0
    assert np.array_equal(np.rint(talk.audio() * 32768), samples[16000:48000])
    assert not talk.exact_times


def test_tedlium_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="a folder stm"):
        open_tedlium(tmp_path)
    write_text(tmp_path / "stm" / "Ann_2010.stm", STM)
    with pytest.raises(CorpusError, match="no audio of it"):
        open_tedlium(tmp_path)
    write_text(tmp_path / "stm" / "Ann_2010.stm", "Ann_2010 1 Ann soon later <o> text\n")
    with pytest.raises(CorpusError, match="expected 'file channel speaker"):
        open_tedlium(tmp_path)


def test_meanwhile_cuts_segments_out_of_whole_videos(tmp_path: Path) -> None:
    index = {
        "aaa": {"begin": "0:02.0", "end": "0:04.5", "text": "FOLKS,\nHERE WE ARE"},
        "bbb": {"begin": "1:04.0", "end": "1:06.0", "text": "MEANWHILE!"},
        "gone": {"begin": "0:00.0", "end": "0:01.0", "text": "NO AUDIO"},
    }
    write_text(tmp_path / "meanwhile.json", json.dumps(index))
    write_flac(tmp_path / "aaa.flac", samples := sound(10 * 16000))  # the whole video
    write_flac(tmp_path / "audio" / "bbb.flac", sound(2 * 16000))  # cut already
    first, second = open_meanwhile(tmp_path).utterances()
    assert (first.id, first.seconds, text_of(first)) == ("aaa", 2.5, "FOLKS, HERE WE ARE")
    assert np.array_equal(np.rint(first.audio() * 32768), samples[32000:72000])
    assert (second.seconds, len(second.audio())) == (2.0, 32000)


def test_a_recording_that_is_cut_off_is_an_error(tmp_path: Path) -> None:
    """A download that broke off: the reference would be held against less than its audio."""
    index = {"aaa": {"begin": "0:10.0", "end": "0:18.0", "text": "FOLKS"}}
    write_text(tmp_path / "meanwhile.json", json.dumps(index))
    write_flac(tmp_path / "aaa.flac", sound(15 * 16000))
    (segment,) = open_meanwhile(tmp_path).utterances()
    with pytest.raises(
        CorpusError, match=r"aaa\.flac to last until 18 s, where what was labelled ends; it ends at 15 s"
    ):
        segment.audio()
    write_text(tmp_path / "stm" / "Ann_2010.stm", STM)
    write_sphere(tmp_path / "sph" / "Ann_2010.sph", sound(8000))
    (talk,) = open_tedlium(tmp_path).utterances()
    with pytest.raises(CorpusError, match="to last until 3 s"):
        talk.audio()


def test_copies_of_a_recording_in_two_folders_are_an_error(tmp_path: Path) -> None:
    """The second would be scored by what was heard in the first."""
    librispeech(tmp_path / "one")
    librispeech(tmp_path / "two")
    with pytest.raises(CorpusError, match=r"2 names are there several times, the first is '61-70968-0000'"):
        open_librispeech(tmp_path)


def test_meanwhile_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"expected meanwhile\.json"):
        open_meanwhile(tmp_path)
    write_text(tmp_path / "meanwhile.json", '{"aaa": {"begin": "0:02", "end": "x", "text": ""}}')
    with pytest.raises(CorpusError, match="named like the entries"):
        open_meanwhile(tmp_path)
    write_flac(tmp_path / "aaa.flac", sound(100))
    with pytest.raises(CorpusError, match="begin, end and text of aaa"):
        open_meanwhile(tmp_path)


@pytest.mark.parametrize("upper", [True, False])
def test_timit_has_exact_times(tmp_path: Path, upper: bool) -> None:
    def named(*parts: str) -> Path:
        return tmp_path.joinpath(*(part.upper() if upper else part.lower() for part in parts))

    for part in ("test", "train"):
        write_text(named(part, "dr1", "faks0", "sa1.wrd"), "3050 5723 she\n5723 10337 had\n")
        write_sphere(named(part, "dr1", "faks0", "sa1.wav"), sound(16000))
    (one,) = open_timit(tmp_path).utterances()
    assert one.id.lower() == "faks0-sa1"
    assert one.words == (RefWord("she", 3050, 5723), RefWord("had", 5723, 10337))
    assert one.exact_times
    assert (one.seconds, len(one.audio())) == (1.0, 16000)
    (train,) = open_timit(named("train")).utterances()
    assert train.words == one.words


def test_timit_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="found none"):
        open_timit(tmp_path)
    write_text(tmp_path / "SA1.WRD", "3050 she\n")
    with pytest.raises(CorpusError, match=r"SA1\.WAV"):
        open_timit(tmp_path)
    write_sphere(tmp_path / "SA1.WAV", sound(16000))
    with pytest.raises(CorpusError, match="first-sample last-sample word"):
        open_timit(tmp_path)


@pytest.mark.parametrize("places", ["audio/test", "test"])
def test_fleurs(tmp_path: Path, places: str) -> None:
    folder = tmp_path / "cmn_hans_cn"
    rows = ["7\tx.wav\t一，二。\t一二\t一 二\t16000\tFEMALE", "7\ty.wav\t一，二。\t一二\t一 二\t8000\tMALE"]
    write_text(folder / "test.tsv", "\n".join(rows) + "\n")
    for name, count in (("x", 16000), ("y", 8000)):
        write_sphere(folder / places / f"{name}.wav", sound(count))
    first, second = open_fleurs(folder).utterances()
    assert (first.id, second.id) == ("7-1", "7-2")
    assert [word.text for word in first.words] == ["一，", "二。"]
    assert (first.language, first.group, second.group) == ("zh", "", ""), "a gender is no speaker"
    assert (first.seconds, len(second.audio())) == (1.0, 8000)
    assert open_fleurs(folder).name == "fleurs-cmn_hans_cn-test"


def test_fleurs_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"expected test\.tsv"):
        open_fleurs(tmp_path)
    write_text(tmp_path / "test.tsv", "7\tx.wav\n")
    with pytest.raises(CorpusError, match="4 columns"):
        open_fleurs(tmp_path)
    write_text(tmp_path / "test.tsv", "7\tx.wav\ta\ta\n")
    with pytest.raises(CorpusError, match=r"names x\.wav"):
        open_fleurs(tmp_path)
