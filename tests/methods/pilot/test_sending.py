"""Commands that are not certain here are heard by a server, and every failure of it leaves what was understood here."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from fake_remote import FAILURES, TEXT, closed_port, fake_remote
from small_late import TEXTS, late_model, small_late, told_by_words
from told_gate import STREAM, Told
from wav_file import save_wav
from whispertide.cli.exit import ExitCode
from whispertide.cli.main import app
from whispertide.errors import OptionError
from whispertide.methods.pilot.circuit_breaker import CircuitBreaker
from whispertide.methods.pilot.remote import Remote, Server
from whispertide.methods.pilot.sending import Question, Sending
from whispertide.types import Span
from whispertide.understand.checkpoint import LateCheckpoint
from whispertide.understand.ctc_attention import CtcAttentionOptions, Found, ctc_attention_search
from whispertide.understand.model import LateModel
from whispertide.understand.understanding import PilotTimes, Understanding, Understood
from whispertide_lab.training.latecontext.folder import save_late

ALARM, MUSIC = 0, 1  # in the order of the vocabulary
SPOKEN = STREAM[:56_000]
SEARCH = CtcAttentionOptions(beam=2, longest=6)
AT_PAUSES = PilotTimes(every_s=9.0, pause_s=0.09)


def knowing() -> LateCheckpoint:
    """One that tells music from alarms by their words; what the fake server says is an alarm."""
    texts = [*TEXTS[:2], TEXT]
    return replace(small_late(), intent_words=told_by_words(texts, (MUSIC, ALARM, ALARM)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("late") / "model"
    save_late(knowing(), folder)
    return folder


@pytest.fixture(scope="module")
def model(folder: Path) -> Iterator[LateModel]:
    with late_model(folder) as opened:
        yield opened


@contextmanager
def sending(url: str, below: float = 1.0, within_s: float = 20.0) -> Iterator[Sending]:
    remote = Remote(Server(url, tries=1))
    try:
        yield Sending(remote, below, within_s, breaker=CircuitBreaker(most=10**9))
    finally:
        remote.close()


def final(model: LateModel, to: Sending | None) -> Understood:
    stream = Understanding(model, gate=Told(), pilots=PilotTimes(every_s=0), search=SEARCH, sending=to)
    (said,) = [each for each in [*stream.push(SPOKEN), *stream.finish()] if each.final]
    return said


def test_the_servers_words_tell_the_intent(model: LateModel) -> None:
    with fake_remote() as server, sending(server.url) as to:
        here, there = final(model, None), final(model, to)
    assert (there.intent, there.text, there.sent) == ("alarm_set", TEXT, True)
    assert (there.start, there.end, there.perplexity) == (here.start, here.end, here.perplexity)
    assert not here.sent
    assert to.counts == {"sent": 1}
    assert len(server.bodies) == 1


@pytest.mark.parametrize("way", FAILURES)
def test_whatever_the_server_does_what_was_understood_here_stands(model: LateModel, way: str) -> None:
    with fake_remote(way) as server, sending(server.url, within_s=0.3) as to:
        assert final(model, to) == final(model, None)
    assert to.counts == {"sent": 1, "failed": 1}


def test_a_server_that_is_gone_costs_nothing(model: LateModel) -> None:
    with sending(f"http://127.0.0.1:{closed_port()}") as to:
        assert final(model, to) == final(model, None)


def test_what_is_certain_stays_here(model: LateModel) -> None:
    certain = final(model, None).chance
    assert certain is not None
    with fake_remote() as server, sending(server.url, below=certain) as to:
        assert not final(model, to).sent
        to.below = float(np.nextafter(certain, 1))
        assert final(model, to).sent
    assert len(server.bodies) == 1


def test_a_network_that_does_not_tell_how_likely_it_is_keeps_all(model: LateModel) -> None:
    silent = replace(model, checkpoint=replace(model.checkpoint, intent_words=None))
    with fake_remote() as server, sending(server.url) as to:
        assert final(silent, to) == final(silent, None)
    assert final(silent, None).chance is None
    assert not server.bodies


def test_a_server_that_failed_again_and_again_is_left_alone(model: LateModel) -> None:
    with sending(f"http://127.0.0.1:{closed_port()}") as to:
        to.breaker = CircuitBreaker(most=2)
        assert [final(model, to).sent for _ in range(4)] == [False] * 4
    assert to.counts == {"sent": 2, "failed": 2}


def test_an_answer_too_long_for_its_audio_is_none() -> None:
    with fake_remote() as server, sending(server.url) as to:
        assert answered(to) == TEXT
        server.ways = ["a novel"]
        assert answered(to) is None


def answered(to: Sending) -> str | None:
    question = to.ask(np.zeros(160, np.float32), Span(0, 160), certainty=0.0)
    assert question is not None
    return to.text(question, time.perf_counter())


@pytest.mark.parametrize("here_s", [0.0, 0.5, 3.0])
def test_the_deadline_counts_from_the_end_of_speech(here_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was computed here since then is part of it."""
    waits: list[float | None] = []

    class Silent(Future[Any]):
        def result(self, timeout: float | None = None) -> Any:
            waits.append(timeout)
            raise TimeoutError

    monkeypatch.setattr("whispertide.methods.pilot.sending.time.perf_counter", lambda: 100.0 + here_s)
    with sending(f"http://127.0.0.1:{closed_port()}", within_s=2.0) as to:
        answer = Silent()
        assert to.text(Question(Span(0, 160), answer), since=100.0) is None
    assert waits == [max(2.0 - here_s, 0.0)]
    assert answer.cancelled()


def test_what_was_computed_before_the_end_takes_no_time_from_the_answer(
    model: LateModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole recording may be pushed at once."""
    searched: list[float] = []
    since: list[float] = []

    def search(*given: Any, **more: Any) -> Found:
        found = ctc_attention_search(*given, **more)
        searched.append(time.perf_counter())
        return found

    monkeypatch.setattr("whispertide.understand.understanding.ctc_attention_search", search)
    monkeypatch.setattr(Sending, "text", lambda self, question, ended: since.append(ended))
    with sending(f"http://127.0.0.1:{closed_port()}") as to:
        said = Understanding(model, gate=Told(), pilots=PilotTimes(pause_s=0), search=SEARCH, sending=to).push(SPOKEN)
    assert [each.final for each in said] == [False, False, True]
    assert searched[1] <= since[0] <= searched[2]


# --- in a pause -------------------------------------------------------------------------------------------------------


class Rests(Told):
    """Somebody rests for half a second in the middle, and speaks on."""

    @property
    def quiet(self) -> int:
        return self.received - 20_000 if 20_000 < self.received <= 28_000 else super().quiet


def stream_to(model: LateModel, gate: Told, to: Sending) -> Understanding:
    return Understanding(model, gate=gate, pilots=AT_PAUSES, search=SEARCH, sending=to)


def test_the_server_is_asked_in_the_pause_that_may_be_the_end(model: LateModel) -> None:
    with fake_remote() as server, sending(server.url) as to:
        stream = stream_to(model, Told(), to)
        (guess,) = stream.push(SPOKEN[:53_800])[1:]
        assert stream._open is not None
        assert stream._open.question is not None
        stream._open.question.answer.result()  # it is there before speech has ended
        (told,) = stream.push(SPOKEN[53_800:])
    assert (told.intent, told.text, told.sent) == ("alarm_set", TEXT, True)
    assert (told.start, told.end) == (guess.start, 54_272)
    assert (to.counts, len(server.bodies)) == ({"sent": 1}, 1)


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_question_is_withdrawn_where_somebody_speaks_on_or_all_is_forgotten(model: LateModel, goes_on: bool) -> None:
    with fake_remote("silent") as server, sending(server.url, within_s=0.3) as to:
        stream = stream_to(model, Rests(), to)
        stream.push(SPOKEN[:24_000])
        assert stream._open is not None
        assert stream._open.question is not None
        answer = stream._open.question.answer
        if not goes_on:
            stream.clear()
            assert to.counts == {"withdrawn": 1}
        else:
            said = stream.push(SPOKEN[24_000:])
            assert [each.sent for each in said if each.final] == [False]
            assert to.counts == {"withdrawn": 1, "sent": 1, "failed": 1}
        assert answer.cancelled()


@pytest.mark.parametrize(("below", "within_s"), [(-0.1, 1.0), (1.1, 1.0), (float("nan"), 1.0), (0.5, 0.0)])
def test_impossible_settings_are_refused(below: float, within_s: float) -> None:
    remote = Remote(Server("http://127.0.0.1:9"))
    with pytest.raises(OptionError, match="from 0 to 1"):
        Sending(remote, below, within_s)
    remote.close()


@pytest.mark.slow
def test_the_command_sends_what_it_is_not_sure_of(
    model: LateModel, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(folder.parent))
    monkeypatch.setattr("whispertide.understand.understanding.SpeechGate", Told)
    save_wav(tmp_path / "said.wav", SPOKEN)
    asked = ["understand", str(tmp_path / "said.wav"), "--model", str(folder), "--json"]
    monkeypatch.delenv("WHISPERTIDE_REMOTE", raising=False)
    refused = CliRunner().invoke(app, [*asked, "--send-below", "1"])
    assert refused.exit_code == ExitCode.USAGE
    assert "WHISPERTIDE_REMOTE" in refused.stderr
    with fake_remote() as server:
        monkeypatch.setenv("WHISPERTIDE_REMOTE", server.url)
        kept, sent = (CliRunner().invoke(app, [*asked, "--send-below", below]) for below in ("0", "1"))
    lasts = [json.loads(result.stdout.splitlines()[-1]) for result in (kept, sent)]
    assert [last["sent"] for last in lasts] == [False, True]
    assert lasts[1]["text"] == TEXT
    assert 0 <= lasts[0]["chance"] <= 1
