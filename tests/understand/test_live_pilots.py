"""Live pilots: what they say, and what is given up or told when something goes wrong."""

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

import numpy as np
import pytest

from heard_commands import SEARCH, heard
from told_gate import STREAM, Told
from whispertide.errors import GraphError
from whispertide.types import SAMPLE_RATE
from whispertide.understand.ctc_attention import CtcAttentionOptions, Found, ctc_attention_search
from whispertide.understand.model import LateModel
from whispertide.understand.understanding import PilotTimes, Understanding, Understood


def live(model: LateModel, pilots: PilotTimes | None = None) -> Understanding:
    return Understanding(model, gate=Told(), pilots=pilots or PilotTimes(pause_s=0), search=SEARCH, live=True)


def landed(stream: Understanding) -> None:
    """Wait for the pilot that is under way."""
    if stream._open is not None and stream._open.flying is not None:
        stream._open.flying.result()


def test_live_pilots_that_are_done_say_and_help_as_others_do(model: LateModel) -> None:
    stream, said = live(model), list[Understood]()
    for portion in np.split(STREAM, range(1_600, len(STREAM), 1_600)):
        said += stream.push(portion)
        landed(stream)
    said += stream.finish()
    whole = heard(model, [STREAM], PilotTimes(pause_s=0))
    assert [(each.start, each.final) for each in said] == [(each.start, each.final) for each in whole]
    assert [(each.end, each.text, each.intent) for each in said if each.final] == [
        (each.end, each.text, each.intent) for each in whole if each.final
    ]
    assert [each.end for each in said if not each.final] == [33_280, 49_152]  # whole blocks of the portions


class Held:
    """Searches, of which pilots go on until they are given up; noted are what each was to go by and how it ended."""

    def __init__(self) -> None:
        self.began, self.gone = threading.Event(), threading.Event()
        self.known: list[Found | None] = []

    def __call__(
        self, scores: Any, scorer: Any, options: CtcAttentionOptions, pilot: Found | None, check: Callable[[], None]
    ) -> Found:
        self.known.append(pilot)
        while options.beam != SEARCH.beam:
            self.began.set()
            try:
                check()
            except CancelledError:
                self.gone.set()
                raise
        return ctc_attention_search(scores, scorer, options, pilot, check=check)


def test_a_live_pilot_is_given_up_at_the_end_of_speech(model: LateModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """The push with the end waits for nothing, and goes by the last pilot that was done: there is none."""
    held = Held()
    monkeypatch.setattr("whispertide.understand.understanding.ctc_attention_search", held)
    stream = live(model, PilotTimes(pause_s=0, beam=2))
    assert stream.push(STREAM[:33_000]) == []
    assert held.began.wait(60)
    assert stream.push(STREAM[33_000:50_000]) == []  # another is due, and left out
    assert [each.final for each in stream.push(STREAM[50_000:56_000])] == [True]
    assert held.gone.wait(60)
    assert held.known == [None, None]


@pytest.mark.parametrize("ended", [True, False])
def test_a_live_pilot_is_given_up_when_all_is_over(
    model: LateModel, ended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held()
    monkeypatch.setattr("whispertide.understand.understanding.ctc_attention_search", held)
    stream = live(model, PilotTimes(pause_s=0, beam=2))
    stream.push(STREAM[:33_000])
    assert held.began.wait(60)
    if ended:
        assert [each.final for each in stream.finish()] == [True]
    else:
        stream.clear()
    assert held.gone.wait(60)


def test_a_live_pause_needs_no_pilot_that_is_under_way(model: LateModel, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held()
    monkeypatch.setattr("whispertide.understand.understanding.ctc_attention_search", held)
    stream = live(model, PilotTimes(pause_s=0.09, beam=2))
    stream.push(STREAM[:33_000])
    assert held.began.wait(60)
    assert [(each.end, each.final) for each in stream.push(STREAM[33_000:53_800])] == [(53_760, False)]
    assert held.gone.wait(60)


def test_of_live_pilots_in_one_portion_the_newest_runs_and_none_with_the_end(model: LateModel) -> None:
    stream = live(model)
    assert stream.push(STREAM[:50_000]) == []
    landed(stream)
    assert [(each.end, each.final) for each in stream.push(STREAM[50_000:50_100])] == [(49_664, False)]
    assert [each.final for each in live(model).push(STREAM[:56_000])] == [True]


def test_what_goes_wrong_in_a_live_pilot_is_told_at_the_next_push(
    model: LateModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> Found:
        raise GraphError("no graph")

    stream = live(model)
    monkeypatch.setattr("whispertide.understand.understanding.ctc_attention_search", fails)
    stream.push(STREAM[:33_000])
    assert stream._open is not None
    assert stream._open.flying is not None
    with pytest.raises(GraphError, match="no graph"):
        stream._open.flying.result()
    with pytest.raises(GraphError, match="no graph"):
        stream.push(STREAM[33_000:34_000])
    monkeypatch.undo()
    # The audio that came with the error was taken: the end is told where it is.
    said = stream.push(STREAM[34_000:54_272])
    assert [(each.start, each.end) for each in said if each.final] == [(8_000, 54_272)]


@pytest.mark.parametrize("then", ["push", "finish", "clear"])
def test_after_a_pilot_that_goes_wrong_the_rest_of_its_portion_is_heard(
    model: LateModel, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    def fails(*_: Any, **__: Any) -> Found:
        raise GraphError("no graph")

    stream, whole = Understanding(model, gate=Told(), search=SEARCH), heard(model, [STREAM])
    with monkeypatch.context() as patch:
        patch.setattr("whispertide.understand.understanding.ctc_attention_search", fails)
        with pytest.raises(GraphError, match="no graph"):
            stream.push(STREAM[:56_000])
    if then == "clear":
        stream.clear()
        told = [each for each in whole if each.start == 60_000]
    else:
        told = whole[1:]  # all but the pilot that went wrong
    said = stream.finish() if then == "finish" else []
    said += stream.push(STREAM[56_000:]) + stream.finish()
    assert [(each.start, each.end, each.final) for each in said] == [
        (each.start, each.end, each.final) for each in told
    ]


@pytest.mark.parametrize(("longest_s", "finals"), [(30.0, []), (2.0, [(40_000, 54_272)])])
def test_an_utterance_whose_last_search_goes_wrong_is_over(
    model: LateModel, monkeypatch: pytest.MonkeyPatch, longest_s: float, finals: list[tuple[int, int]]
) -> None:
    """At the end of speech, and where an utterance is cut."""

    def fails(scores: Any, scorer: Any, options: CtcAttentionOptions, *rest: Any, **more: Any) -> Found:
        if options is SEARCH:
            raise GraphError("no graph")
        return ctc_attention_search(scores, scorer, options, *rest, **more)

    monkeypatch.setattr("whispertide.understand.understanding.LONGEST", round(longest_s * SAMPLE_RATE))
    stream = Understanding(model, gate=Told(), search=SEARCH, pilots=PilotTimes(every_s=0.1, pause_s=0, beam=2))
    with monkeypatch.context() as patch:
        patch.setattr("whispertide.understand.understanding.ctc_attention_search", fails)
        with pytest.raises(GraphError, match="no graph"):
            stream.push(STREAM)
    said = stream.push(STREAM[:0]) + stream.finish()
    assert [(each.start, each.end) for each in said if each.final] == [*finals, (60_000, 77_312)]
    assert all(each.start in (40_000, 60_000) for each in said)
