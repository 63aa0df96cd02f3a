"""Commands understood as they come: portions change nothing, pilots help, what is final is what there was."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from heard_commands import SEARCH, heard
from slow_rows import slow_but
from small_late import TEXTS, told_by_words
from told_gate import STREAM, Loud, Told
from wav_file import save_wav
from whispertide.audio.vad import SpeechGate
from whispertide.cli.exit import ExitCode
from whispertide.cli.main import app
from whispertide.cli.source import Source
from whispertide.errors import AudioError, OptionError
from whispertide.types import SAMPLE_RATE
from whispertide.understand.ctc_attention import Candidate, CtcAttentionOptions, Found, ctc_attention_search
from whispertide.understand.model import Contextualised, Ingested, LateModel
from whispertide.understand.understanding import PilotTimes, Understanding


class AlwaysOpen(Told):
    """Somebody speaks from the first sample on, for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.edges = [0]


def test_guesses_come_while_somebody_speaks_and_then_what_was_said(model: LateModel) -> None:
    said = heard(model, [STREAM])
    assert [(each.start, each.end, each.final) for each in said] == [
        (8_000, 32_000, False),
        (8_000, 48_000, False),
        (8_000, 54_272, True),
        (60_000, 77_312, True),
    ]


@settings(max_examples=12)
@given(st.lists(st.integers(1, 30_000), max_size=8))
def test_portions_change_nothing(model: LateModel, sizes: list[int]) -> None:
    portions = [part for part in np.split(STREAM, np.minimum(np.cumsum(sizes), len(STREAM))) if len(part)]
    for one, whole in zip(heard(model, portions), heard(model, [STREAM]), strict=True):
        assert (one.intent, one.text, one.start, one.end) == (whole.intent, whole.text, whole.start, whole.end)
        assert one.perplexity == pytest.approx(whole.perplexity, rel=1e-3)


@pytest.mark.parametrize(
    ("longest_s", "first_s", "at"),
    slow_but([(30.0, 1.5, 32_000), (30.0, 2.2, 43_200), (2.0, 1.5, 40_000)], (30.0, 1.5, 32_000)),
)
def test_nothing_is_heard_that_comes_after(
    model: LateModel, longest_s: float, first_s: float, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A portion that ends a little after a pilot, or after the end of an utterance that is cut."""
    monkeypatch.setattr("whispertide.understand.understanding.LONGEST", round(longest_s * SAMPLE_RATE))
    frames = []

    def noted(heard: Ingested) -> Contextualised:
        frames.append(heard.frames)
        return contextualise(heard)

    contextualise = model.contextualise
    monkeypatch.setattr(LateModel, "contextualise", lambda _, heard: noted(heard))
    pilots = PilotTimes(first_s=first_s, pause_s=0)
    heard(model, [STREAM], pilots)
    whole = frames.copy()
    for more in (240, 420, 511):
        frames.clear()
        heard(model, [STREAM[: at + more], STREAM[at + more :]], pilots)
        for ours, theirs in zip(frames, whole, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_after_a_clear_an_utterance_begins_there(model: LateModel) -> None:
    """What comes before the speech, and is kept for it, was cleared."""

    stream = Understanding(model, gate=SpeechGate(detector=Loud()), pilots=PilotTimes(every_s=0), search=SEARCH)
    assert stream.push(np.zeros(20_000, np.float32)) == []
    stream.clear()
    said = stream.push(STREAM[:30_000]) + stream.finish()
    assert [(each.start, each.end, each.final) for each in said] == [(20_000, 50_000, True)]


@pytest.mark.slow
@settings(max_examples=8)
@given(st.lists(st.integers(1, 30_000), max_size=6))
def test_of_a_click_nothing_is_understood(model: LateModel, sizes: list[int]) -> None:
    """A cry or a tick opens the gate; an eighth of a second of it is no voice, a third is."""
    sounds = np.zeros(64_000, np.float32)
    for at, blocks in ((16_384, 4), (40_960, 10)):
        sounds[at : at + blocks * 512] = 0.1
    stream = Understanding(
        model,
        gate=SpeechGate(detector=Loud()),
        pilots=PilotTimes(first_s=0.04, every_s=0.04, pause_s=0.05),
        search=SEARCH,
    )
    portions = np.split(sounds, np.minimum(np.cumsum(sizes), len(sounds)))
    said = [each for portion in portions if len(portion) for each in stream.push(portion)] + stream.finish()
    finals = [(each.start, each.end) for each in said if each.final]
    assert len(finals) == 1
    assert all(each.start == finals[0][0] > 16_384 + 4 * 512 for each in said)
    assert len(said) > 1  # guesses, too


def test_without_pilots_there_are_no_guesses(model: LateModel) -> None:
    assert all(each.final for each in heard(model, [STREAM], PilotTimes(every_s=0, pause_s=0.09)))


@settings(max_examples=8)
@given(st.lists(st.integers(1, 30_000), max_size=8))
def test_a_pause_is_heard_once_and_then_nothing_until_somebody_speaks(model: LateModel, sizes: list[int]) -> None:
    portions = [part for part in np.split(STREAM, np.minimum(np.cumsum(sizes), len(STREAM))) if len(part)]
    pilots = PilotTimes(first_s=2.78, every_s=0.05, pause_s=0.05)  # a pilot every 800 samples from 52,480 on
    assert [(each.end, each.final) for each in heard(model, portions, pilots)] == [
        (52_480, False),
        (53_248, False),  # the pause, not 53,280 and what follows
        (54_272, True),
        (76_288, False),
        (77_312, True),
    ]


def test_no_pilot_delays_the_answer(model: LateModel) -> None:
    """One is due in the very block in which the end of speech is told."""
    pilots = PilotTimes(first_s=(54_272 - 8_000 - 100) / SAMPLE_RATE, pause_s=0)
    assert [each.final for each in heard(model, [STREAM], pilots)] == [True, True]


def test_the_wait_is_all_that_happens_after_the_audio_was_there(
    model: LateModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pilot in the same portion, too."""
    clock = iter(range(1000))
    monkeypatch.setattr("whispertide.understand.understanding.time.perf_counter", lambda: float(next(clock)))
    first, second, final, *_ = heard(model, [STREAM])
    assert [first.wait_s, second.wait_s] == [1, 1]
    assert final.wait_s == 7  # of the push, the two pilots, the end, the search and what comes after it


def test_what_a_pilot_adds_is_limited(model: LateModel, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    def noted(scores: Any, scorer: Any, options: CtcAttentionOptions, pilot: Any, **more: Any) -> Found:
        asked.append((options.longest, 0 if pilot is None else len(pilot.best.tokens)))
        return ctc_attention_search(scores, scorer, options, pilot, **more)

    monkeypatch.setattr("whispertide.understand.understanding.ctc_attention_search", noted)
    stream = Understanding(model, gate=Told(), pilots=PilotTimes(tokens=2))
    stream.push(STREAM[:56_000])
    (first, none), (second, known), final = asked
    assert (none, first, second) == (0, 2, known + 2)
    assert final[0] == CtcAttentionOptions().longest


def test_at_a_pause_it_is_searched_as_at_the_end(model: LateModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the start and with all hypotheses. What that finds is the answer, if nobody speaks on."""
    asked: list[tuple[CtcAttentionOptions, Found | None]] = []

    def noted(scores: Any, scorer: Any, options: CtcAttentionOptions, pilot: Any, **more: Any) -> Found:
        asked.append((options, pilot))
        return ctc_attention_search(scores, scorer, options, pilot, **more)

    monkeypatch.setattr("whispertide.understand.understanding.ctc_attention_search", noted)
    stream = Understanding(model, gate=Told(), pilots=PilotTimes(every_s=5.0, pause_s=0.09, beam=2), search=SEARCH)
    said = stream.push(STREAM[:56_000])
    assert [each.end for each in said] == [32_000, 53_760, 54_272]
    assert [options == SEARCH for options, _ in asked] == [False, True]
    assert asked[1][1] is None
    assert said[2] == replace(said[1], end=54_272, final=True)


def test_the_words_decide_the_intent_whatever_a_pilot_named(model: LateModel, monkeypatch: pytest.MonkeyPatch) -> None:
    music, alarm = (model.checkpoint.vocabulary.intent(name) for name in ("play_music", "alarm_set"))
    assert music is not None
    assert alarm is not None
    words = model.checkpoint.vocabulary.encode("set an alarm for seven")

    def found(scores: Any, scorer: Any, options: CtcAttentionOptions, pilot: Any, **more: Any) -> Found:
        best = Candidate((music, *words), (-1.0,) * (len(words) + 1), -5.0)
        return replace(ctc_attention_search(scores, scorer, options), best=best)

    monkeypatch.setattr("whispertide.understand.understanding.ctc_attention_search", found)
    assert {each.intent for each in heard(model, [STREAM[:56_000]])} == {"play_music"}
    by_words = replace(model, checkpoint=replace(model.checkpoint, intent_words=told_by_words(TEXTS[:2], (1, 0))))
    assert {(each.intent, each.text) for each in heard(by_words, [STREAM[:56_000]])} == {
        ("alarm_set", "set an alarm for seven")
    }


# --- ends -------------------------------------------------------------------------------------------------------------


def test_an_utterance_that_is_cut_off_is_understood_as_far_as_it_went(model: LateModel) -> None:
    said = heard(model, [STREAM[:30_000]])
    assert [(each.end, each.final) for each in said] == [(30_000, True)]
    assert heard(model, [STREAM[:9_000]]) == []


@pytest.mark.parametrize("portion", [80_000, 7_001, 40_000])
def test_speech_without_a_pause_is_cut(model: LateModel, portion: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whispertide.understand.understanding.LONGEST", 2 * SAMPLE_RATE)
    said = heard(model, [STREAM[at : at + portion] for at in range(0, len(STREAM), portion)])
    assert [(each.start, each.end, each.final) for each in said] == [
        (8_000, 32_000, False),
        (8_000, 40_000, True),
        (40_000, 54_272, True),
        (60_000, 77_312, True),
    ]


@pytest.mark.parametrize("cut", [52_700, 53_240, 53_500, 54_271])
def test_a_cut_in_a_pause_leaves_nothing_to_understand(
    model: LateModel, cut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whispertide.understand.understanding.LONGEST", cut - 8_000)
    said = heard(model, [STREAM], PilotTimes(every_s=9, pause_s=0.05))
    finals = [(each.start, each.end) for each in said if each.final]
    assert finals == [(8_000, cut), (60_000, 77_312)]
    assert all(each.start in (8_000, 60_000) for each in said)


def test_a_pilot_of_no_frame_says_nothing(model: LateModel) -> None:
    said = heard(model, [STREAM], PilotTimes(first_s=0.001, every_s=9, pause_s=0))
    assert [each.final for each in said] == [True, True]


@pytest.mark.slow
def test_hours_of_it_need_no_more_memory(model: LateModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate that never closes, as in steady noise: audio and frames are those of one utterance."""
    monkeypatch.setattr("whispertide.understand.understanding.LONGEST", 2 * SAMPLE_RATE)
    stream = Understanding(
        model, gate=AlwaysOpen(), search=CtcAttentionOptions(beam=1, longest=2), pilots=PilotTimes(every_s=0)
    )
    kept = []
    for _ in range(20):
        stream.push(STREAM)
        assert stream._open is not None
        kept.append((len(stream._buffer), len(stream._open.heard.frames)))
    assert max(kept[10:]) <= max(kept[:10])
    assert max(length for length, _ in kept) <= 2 * SAMPLE_RATE + len(STREAM)


def test_bad_input_is_refused(model: LateModel) -> None:
    for bad in (-1.0, float("nan"), float("inf")):
        for refused in (
            partial(PilotTimes, first_s=bad),
            partial(PilotTimes, every_s=bad),
            partial(PilotTimes, pause_s=bad),
        ):
            with pytest.raises(OptionError, match="pilots"):
                refused()
    with pytest.raises(OptionError, match=r"every_s 0 or from 0\.04"):
        PilotTimes(every_s=1e-9)
    with pytest.raises(AudioError, match="mono"):
        Understanding(model, gate=Told()).push(np.zeros((2, 100), np.float32))


@pytest.mark.slow
def test_the_command_tells_every_utterance_of_a_file(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whispertide.understand.understanding.SpeechGate", Told)
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(folder.parent))
    save_wav(tmp_path / "said.wav", STREAM, SAMPLE_RATE)
    ended = CliRunner().invoke(app, ["understand", str(tmp_path / "said.wav"), "--model", str(folder)])
    assert ended.exit_code == 0, ended.output
    lines = ended.stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [["0.50", "3.39"], ["3.75", "4.83"]]
    asked = CliRunner().invoke(app, ["understand", str(tmp_path / "none.wav"), "--model", str(folder)])
    assert asked.exit_code != 0
    bundled = CliRunner().invoke(app, ["understand", str(tmp_path / "said.wav")])
    assert bundled.exit_code == 0, bundled.output
    assert [line.split()[:2] for line in bundled.stdout.splitlines()] == [["0.50", "3.39"], ["3.75", "4.83"]]


def test_an_interrupt_tells_what_was_heard_and_ends_all_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def blocks(_: Source) -> Iterator[np.ndarray]:
        yield STREAM[: 60_000 + 8_000]
        raise KeyboardInterrupt

    monkeypatch.setattr("whispertide.understand.understanding.SpeechGate", Told)
    monkeypatch.setattr(Source, "blocks", blocks)
    ended = CliRunner().invoke(app, ["understand", "one.wav", "two.wav", "--model", str(folder)])
    assert ended.exit_code == ExitCode.INTERRUPTED, ended.output
    assert [line.split()[:2] for line in ended.stdout.splitlines()] == [["one.wav:", "0.50"], ["one.wav:", "3.75"]]


def test_where_the_audio_breaks_off_what_was_heard_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def blocks(_: Source) -> Iterator[np.ndarray]:
        yield STREAM[: 60_000 + 8_000]
        raise AudioError("it breaks off")

    monkeypatch.setattr("whispertide.understand.understanding.SpeechGate", Told)
    monkeypatch.setattr(Source, "blocks", blocks)
    ended = CliRunner().invoke(app, ["understand", "one.wav", "--model", str(folder)])
    assert ended.exit_code not in (ExitCode.OK, ExitCode.INTERRUPTED)
    assert "breaks off" in ended.stderr
    assert [line.split()[0] for line in ended.stdout.splitlines()] == ["0.50", "3.75"]


def test_a_file_without_audio_is_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Source, "blocks", lambda _: iter(()))
    ended = CliRunner().invoke(app, ["understand", "one.wav", "--model", str(folder)])
    assert ended.exit_code == ExitCode.AUDIO, ended.output
