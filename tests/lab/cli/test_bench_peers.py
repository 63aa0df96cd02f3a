"""Peers next to recipes, and recordings in several languages."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench_lines import ONE, lines
from command_line import Run
from evaluation_cells import make_trace
from fake_recognisers import Heard, talks
from whispertide_lab.evaluation import corpora, peers
from whispertide_lab.evaluation.corpora import parts
from whispertide_lab.evaluation.runner import Runner
from whispertide_lab.evaluation.trace import Trace
from whispertide_lab.speech.utterance import Recordings, RefWord, Utterance


@pytest.fixture
def peer_asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[str, ...], dict[str, object]]]:
    """Peers that are all installed, and what they were asked."""
    asked: list[tuple[str, tuple[str, ...], dict[str, object]]] = []

    def over(name: str, folder: Path, batch: list[Utterance], settings: dict[str, object]) -> list[Trace]:
        asked.append((name, tuple(item.id for item in batch), dict(settings)))
        return [make_trace(item.id, late_s=3.0, seconds=item.seconds) for item in batch]

    monkeypatch.setattr(peers, "why_not", lambda peer: peer.reason)
    monkeypatch.setattr(peers, "run_peer_over", over)
    return asked


@pytest.mark.slow
def test_peers_are_compared_with_recipes(
    run: Run, heard: Heard, peer_asked: list[tuple[str, tuple[str, ...], dict[str, object]]]
) -> None:
    command = (*ONE, "--peers", "simulstreaming,faster-whisper", "--steps", "0.5,1", "--threads", "1")
    result = run(*command)
    cells = [(cell["recipe"], cell["step_s"], cell["confirmed_mean_s"]) for cell in lines(result.stdout)]
    assert cells[2:] == [
        ("peer:simulstreaming", 0.5, 3.0),
        ("peer:simulstreaming", 1.0, 3.0),
        ("peer:faster-whisper", None, 3.0),
        ("peer:faster-whisper fallback=false", None, 3.0),
        ("peer:faster-whisper fallback=false compute_type=int8", None, 3.0),
    ]
    assert [name for name, _, _ in peer_asked] == 2 * ["simulstreaming"] + 3 * ["faster-whisper"]
    assert {batch for _, batch, _ in peer_asked} == {("talk/0", "talk/1")}
    assert [settings.get("step_s") for _, _, settings in peer_asked] == [0.5, 1.0, None, None, None]
    assert [settings.get("fallback") for _, _, settings in peer_asked] == [None, None, True, False, False]
    assert {settings["threads"] for _, _, settings in peer_asked} == {1}
    run(*command)
    assert len(peer_asked) == 5


@pytest.mark.slow
@pytest.mark.parametrize(("conversion", "compared"), [("ct2", 1.0), ("", None)])
def test_a_peer_is_compared_with_the_same_weights_offline_unless_it_has_its_own(
    run: Run,
    heard: Heard,
    peer_asked: list[tuple[str, tuple[str, ...], dict[str, object]]],
    monkeypatch: pytest.MonkeyPatch,
    conversion: str,
    compared: float | None,
) -> None:
    peer = replace(peers.get_peer("whisper-streaming"), conversion=conversion, variants=())
    monkeypatch.setattr(peers, "get_peer", lambda name: peer)
    result = run("bench", "run", "--recipes", "", "--peers", "whisper-streaming")
    (cell,) = lines(result.stdout)
    assert (cell["matched_offline"], cell["wer_offline"] is None) == (compared, compared is None)
    assert ("not compared" in result.stdout) == (compared is None)


@pytest.mark.slow
def test_a_peer_with_fallback_has_a_row_without_it(
    run: Run, heard: Heard, peer_asked: list[tuple[str, tuple[str, ...], dict[str, object]]]
) -> None:
    result = run("bench", "run", "--recipes", "", "--peers", "whisper-streaming", "--steps", "0.5,1")
    assert [(cell["recipe"], cell["step_s"]) for cell in lines(result.stdout)] == [
        ("peer:whisper-streaming", 0.5),
        ("peer:whisper-streaming", 1.0),
        ("peer:whisper-streaming fallback=false", 0.5),
        ("peer:whisper-streaming fallback=false", 1.0),
    ]
    assert [settings["fallback"] for _, _, settings in peer_asked] == [True, True, False, False]


@pytest.mark.slow
def test_a_program_that_runs_live_is_not_let_loose_on_hours(
    run: Run, heard: Heard, peer_asked: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpora, "open_corpus", lambda spec, **_: talks(count=90))
    live = ("bench", "run", "--recipes", "", "--peers", "whisperlivekit-localagreement")
    result = run(*live, "--excerpt", "all")
    assert "--excerpt 600" in result.stderr
    assert peer_asked == []
    result = run(*live, "--excerpt", "100")
    assert [cell["audio_s"] for cell in lines(result.stdout)] == [100.0, 100.0]
    result = run(*live, "--excerpt", "100", "--clock", "free")
    assert "real time" in result.stderr


def polyglot() -> Recordings:
    """Three recordings in English and one each in German and in a mixture."""
    five, languages = talks(count=5), ("en", "de", "en", "en+de", "en")
    items = (replace(item, language=name) for item, name in zip(five.items, languages, strict=True))
    return replace(five, items=tuple(items))


def test_recordings_in_languages_that_the_model_does_not_write_are_left_out_and_named(
    run: Run, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpora, "open_corpus", lambda spec, **_: polyglot())
    result = run(*ONE)
    assert result.exit_code == 0
    assert "left out: 2 recordings of talks-seed0 in de, en+de: nano.en does not write that" in result.stderr
    (cell,) = lines(result.stdout)
    assert cell["utterances"] == 3
    assert cell["corpus_hash"] != polyglot().hash
    assert {utterance for _, utterance in heard.asked} == {"talk/0", "talk/2", "talk/4"}


@pytest.mark.slow
def test_a_peer_is_told_the_language_and_takes_no_corpus_of_several(
    run: Run,
    heard: Heard,
    peer_asked: list[tuple[str, tuple[str, ...], dict[str, object]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Runner, "_languages", lambda self, model: frozenset({"en", "de", "en+de"}))
    monkeypatch.setattr(corpora, "open_corpus", lambda spec, **_: polyglot())
    result = run(*ONE, "--peers", "simulstreaming")
    assert "told one language, and talks-seed0 has de, en, en+de" in result.stderr
    monkeypatch.setattr(corpora, "open_corpus", lambda spec, **_: parts.in_languages(polyglot(), {"de"}))
    assert run(*ONE, "--peers", "simulstreaming").exit_code == 0
    assert [settings["language"] for _, _, settings in peer_asked] == ["de"]


def test_an_excerpt_in_which_nothing_fits_is_refused(run: Run, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = polyglot()
    corpus = replace(corpus, items=tuple(replace(item, words=(RefWord("word"),)) for item in corpus.items))
    monkeypatch.setattr(corpora, "open_corpus", lambda spec, **_: corpus)
    result = run(*ONE, "--excerpt", "30")
    assert "use a longer excerpt" in result.stderr
    assert result.exit_code != 0
    assert heard.asked == []
