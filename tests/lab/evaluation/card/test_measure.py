from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from reference import nano
from whispertide.audio.file import load_audio
from whispertide.model.whisper import WhisperModel
from whispertide.options import EngineOptions, ProviderName
from whispertide.types import Word
from whispertide_lab.evaluation import store as versions
from whispertide_lab.evaluation.card import measure as module
from whispertide_lab.evaluation.card.measure import Record, Records, measure, recognise, timing_errors
from whispertide_lab.evaluation.card.sets import MODES, PADDED, PADDED_TIMES, UNPADDED, Mode, Part
from whispertide_lab.evaluation.wer import Counts
from whispertide_lab.speech.utterance import RefWord, Utterance

CLIP = Path(__file__).parents[3] / "clips" / "quiet.flac"
TEXT = CLIP.with_suffix(".txt").read_text().split()


def utterance(name: str = "clip", *, exact: bool = False) -> Utterance:
    samples = load_audio(CLIP)
    step = len(samples) // len(TEXT)
    words = tuple(RefWord(text, step * n, step * (n + 1)) for n, text in enumerate(TEXT))
    return Utterance(name, words, len(samples) / 16000, lambda: samples, exact_times=exact)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Records:
    model = nano()  # its graphs are built in the user's cache
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path))
    return Records(model)


@pytest.mark.slow
def test_each_mode_gives_a_record_of_the_whole_reference() -> None:
    records = {record.mode: record for record in recognise(nano(), utterance(exact=True))}
    assert set(records) == {mode.name for mode in MODES}
    for record in records.values():
        assert record.words.reference == len(TEXT)
        assert record.text
    timed = records[PADDED_TIMES.name]
    assert len(timed.timing) == timed.words.hits
    assert not any(record.timing for name, record in records.items() if name != PADDED_TIMES.name)


@pytest.mark.slow
def test_long_recordings_are_heard_to_the_end() -> None:
    once = load_audio(CLIP)
    longer = np.concatenate([once, np.zeros(16000 * 31 - len(once), np.float32), once])
    said = Utterance("long", tuple(map(RefWord, TEXT * 2)), len(longer) / 16000, lambda: longer)
    (record,) = recognise(nano(), said, [PADDED_TIMES])
    (first,) = recognise(nano(), utterance(), [PADDED_TIMES])
    assert record.words.reference == 2 * len(TEXT)
    assert len(record.text) > len(first.text)


@pytest.mark.slow
def test_what_is_done_is_not_done_again(store: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    part = Part("set", "synthetic", "corpus", "hash", (utterance("a"), utterance("b")), (PADDED, UNPADDED))
    asked: list[tuple[str, str]] = []
    progress: list[int] = []

    def fake(model: WhisperModel, one: Utterance, modes: tuple[Mode, ...]) -> Iterator[Record]:
        if one.id == "b" and len(asked) == 2:
            asked.append(("b", "interrupted"))
            raise KeyboardInterrupt
        for mode in modes:
            asked.append((one.id, mode.name))
            yield Record(one.id, mode.name, "text", Counts(3, 1, 0, 2), Counts(9, 1, 0, 2), ((16, -32),))

    monkeypatch.setattr(module, "recognise", fake)
    with pytest.raises(KeyboardInterrupt):
        measure(nano(), part, store, progress.append)
    again = Records(nano())
    found = measure(nano(), part, again, progress.append)
    assert asked == [
        *(("a", "padded"), ("a", "unpadded"), ("b", "interrupted")),
        *(("b", "padded"), ("b", "unpadded")),
    ]
    assert [record.utterance for record in found["unpadded"]] == ["a", "b"]
    assert progress == [2, 2, 2]

    with again.path.open("a") as file:
        file.write('{"corpus": "hash", "utterance": "b", "mo')  # the program was killed here
    assert measure(nano(), part, Records(nano()), progress.append) == found
    assert len(asked) == 5


def test_another_corpus_of_the_same_names_is_measured(store: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = (Part("set", "synthetic", "corpus", digest, (utterance("a"),), (PADDED,)) for digest in "xy")
    store.add(first, [Record("a", PADDED.name, "", Counts(), Counts())])
    assert store.get(first, "a", PADDED) is not None
    assert store.get(other, "a", PADDED) is None


def test_records_depend_on_the_code_that_makes_them_and_on_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def key(provider: ProviderName = "cpu") -> str:
        for kept in (versions.code_version, versions.engine_version):
            kept.cache_clear()
        options = EngineOptions(precision="fp32", provider=provider)
        return Records(cast(WhisperModel, SimpleNamespace(content_hash="", generation=None, options=options))).key

    monkeypatch.setattr(versions, "_SOURCES", {"": tmp_path})
    places = [f"lab/evaluation/card/{name}.py" for name in ("measure", "sets", "page")]
    torch = ["lab/training/torch_engine.py", "lab/training/network.py"]
    for place in (*places, *torch):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text("a = 1\n")
    first, other = key(), key("torch")
    assert first != other
    changed = []
    for place in (*places, *torch):
        (tmp_path / place).write_text("a = 2\n")
        changed.append((key() != first, key("torch") != other))
        (tmp_path / place).write_text("a = 1\n")
    assert changed == [(True, True), (True, True), (False, False), (False, True), (False, True)]
    key()
    monkeypatch.undo()
    versions.code_version.cache_clear()
    versions.engine_version.cache_clear()


def test_errors_of_words_that_were_recognised() -> None:
    said = Utterance(
        "u",
        (RefWord("The", 0, 100), RefWord("big", 100, 300), RefWord("tree.", 300, 600)),
        1.0,
        lambda: np.zeros(1, np.float32),
    )
    heard = [Word(" The", 10, 90), Word(" wig", 90, 310), Word(" tree", 310, 650)]
    assert list(timing_errors(said, heard)) == [(10, -10), (10, 50)]
    assert list(timing_errors(said, [])) == []


def test_an_utterance_runs_away_with_words_that_nobody_said() -> None:
    def ran_away(*counts: int) -> bool:
        return Record("u", "padded", "", Counts(*counts), Counts()).ran_away

    assert not ran_away(10, 0, 0, 4)
    assert ran_away(10, 0, 0, 5)
    assert not ran_away(1, 0, 0, 2)
    assert ran_away(0, 0, 0, 3)
