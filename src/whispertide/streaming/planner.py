"""Plans the next round: where utterances begin and end, when the schedule wants a round, what is in flight.

Counts samples: it sees no audio and no words. Rounds are planned by the policy when the schedule says so, and an
utterance gets a last round when the gate hears a pause or the caller asks for its end. A turn is one utterance, or
several whose pauses were short and in mid-sentence. All decisions depend on the gate's events and the rounds' ends, not
on the portions of audio: a gate event counts from its `decided_at` on.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Literal

from whispertide.audio.vad import GateEvent, SpeechStarted, SpeechStopped, TurnJudged
from whispertide.errors import SessionError
from whispertide.events import End, SpeechStart, SpeechStop, TurnEnd, Unheard
from whispertide.streaming.ahead import HeardAhead
from whispertide.streaming.policy import RoundChoices
from whispertide.streaming.round import Commit, RoundPlan, RoundResult
from whispertide.streaming.schedule import UNTIL_JUDGED, Schedule
from whispertide.streaming.turn_state import EndRequest, PlannedRound, TurnState, Utterance
from whispertide.types import Word, align_down, to_samples


class RoundPlanner:
    """Plans the rounds of a session, whose owner sets `choices`, `schedule`, `state`, `emit` and `confirm` first, and
    may exchange them between calls. `schedule` may be another than that of the choices, where a record is replayed.
    `emit` makes an event of a kind, `at` so much audio, with its values; `confirm` adds a word to what was said, at an
    event's `at`.
    """

    choices: RoundChoices
    schedule: Schedule
    state: TurnState
    emit: Callable[..., None]
    confirm: Callable[[Word, int], None]

    def __init__(self, *, gated: bool, live: bool, max_in_flight: int) -> None:
        """`gated` False: there is no gate, and what is not flushed is one utterance. `live`: see `Session`."""
        self._gated = gated
        self._live = live
        self._max_in_flight = max_in_flight

    def receive(self, samples: int, gate_events: Iterable[GateEvent] = (), pause_end: int | None = None) -> None:
        """That much more audio is there, and this is what the gate says about it (`audio.vad.Gate`)."""
        self.state.received += samples
        self.state.hear(gate_events)
        self.state.pause_end = pause_end
        utterance = self.state.utterance
        if utterance is not None and utterance.due_at is None and self._scheduled(utterance) is not None:
            # From here on the round waits for the machine and not for audio: that is load.
            utterance.due_at = self.state.received

    def request(self, kind: Literal["flush", "finish"]) -> None:
        """Everything received so far is to be confirmed."""
        self.state.requests.append(EndRequest(kind, self.state.received))

    @property
    def finishing(self) -> bool:
        """True once the end of the session was asked for: nothing can be asked for after it."""
        return bool(self.state.requests) and self.state.requests[-1].kind == "finish"

    def due(self) -> RoundPlan | None:
        """The next round, or None until there is more audio or a result."""
        state = self.state
        self._give_up()
        while len(state.in_flight) < self._max_in_flight and not self._is_preparing:
            if state.utterance is None and not self._begin():
                if self._settle():
                    continue
                return None
            assert state.utterance is not None
            plan = self._next_plan(state.utterance)
            # With neither a plan nor an utterance, one has just ended that needed no round: look at the next.
            if plan is not None or state.utterance is not None:
                return plan
        return None

    def take(self, result: RoundResult[Any]) -> tuple[PlannedRound, Commit] | None:
        """The policy's verdict on the oldest round in flight; call `land` next. None if the round no longer matters, or
        if it was computed ahead and nobody knows yet whether it matters.

        Raises `SessionError` if another round is older.
        """
        state = self.state
        # A round that was given up was computed to its end all the same.
        if result.plan.id in state.stale:
            state.stale.remove(result.plan.id)
            return None
        if not state.in_flight or state.in_flight[0].plan.id != result.plan.id:
            expected = f"round {state.in_flight[0].plan.id}" if state.in_flight else "no result (no round is in flight)"
            raise SessionError(f"expected {expected}; got round {result.plan.id}: apply results in the order of `due`")
        utterance = state.utterance
        assert utterance is not None
        if result.plan.provisional and result.plan.is_last:
            utterance.ahead = result
            state.in_flight.pop(0)
            return None
        commit = self.choices.policy.apply(utterance.policy, result)
        utterance.keep_from, utterance.encoder = commit.keep_from, result.state
        # Elsewhere the result must not depend on how fast the machine is.
        if self._live:
            stats = result.stats
            utterance.spent = to_samples(stats.encode_s + stats.decode_s + stats.align_s)
        planned = state.in_flight.pop(0)
        if commit.goes_on and planned.plan.is_last:
            # It was not the last after all; what was computed ahead was this one, and must not be used again.
            utterance.last_planned, utterance.ahead = False, None
            planned = replace(planned, plan=replace(planned.plan, is_last=False))
        return planned, commit

    def land(self, planned: PlannedRound) -> None:
        """Take in a finished round: the utterance ends if it was the last."""
        if planned.plan.ends_turn and self.state.utterance is not None:
            self._end_turn(self.state.utterance, planned.at)

    def retract(self, plan: RoundPlan) -> None:
        """Take back the newest round in flight, as if it had not been planned. `SessionError` for any other."""
        state = self.state
        if not state.in_flight or state.in_flight[-1].plan.id != plan.id or state.utterance is None:
            raise SessionError(f"expected the newest round in flight to be given back; got round {plan.id}")
        state.take_back()

    def reconsider(self) -> None:
        """Settings have changed: what was computed ahead by those before is not used."""
        state = self.state
        if state.utterance is not None:
            state.utterance.ahead = None
        if self._is_preparing and state.in_flight[-1].plan.is_last:
            state.give_up()

    def clear(self) -> None:
        """Drop the open utterance, if any, and whatever the gate said: the next utterance begins here or later."""
        state = self.state
        at, utterance = state.received, state.utterance
        state.give_up_all()
        state.gate_events.clear()
        state.certain.clear()
        state.utterance, state.floor = None, at
        if utterance is not None and utterance.end is None and self._gated:
            self.emit(SpeechStop, at, end=at)
        if state.turn is not None or (utterance is not None and utterance.spoken):
            self._close_turn(at, end=at)

    def needed_from(self, gate_needs: int) -> int:
        """Audio before this sample can go. `gate_needs` is what the gate may still claim for an utterance to come."""
        state = self.state
        starts = [event.start for event in state.gate_events if isinstance(event, SpeechStarted)]
        if state.utterance is not None:
            starts.append(state.utterance.keep_from)
        else:
            starts.append(gate_needs if self._gated else state.floor)
        in_flight = [planned.plan.window.start for planned in state.in_flight]
        # Windows begin at whole frames of the encoder. What a round in flight looks at stays until that is back.
        return min(align_down(max(min(starts), state.floor)), *in_flight, state.received)

    @property
    def needs_result(self) -> bool:
        """True if nothing more can be planned before a round in flight comes back."""
        state, utterance = self.state, self.state.utterance
        if not state.in_flight or utterance is None:
            return False
        full = utterance.last_end >= self.choices.policy.limit(utterance.policy)
        # One ahead is not taken before it is known whether it is the last; any other is, so that one ahead may begin.
        known = bool(state.gate_events or state.requests)
        paused = known if state.in_flight[-1].plan.is_last else self._is_pause
        wanted = self.schedule.recorded or self._scheduled(utterance) is not None or paused
        busy = wanted if self._is_preparing else len(state.in_flight) >= self._max_in_flight
        return full or utterance.last_planned or busy

    def behind(self, planned: PlannedRound) -> int:
        """The audio after the last round. A replay has no lateness, and silence is nothing to be late for."""
        state = self.state
        is_speech = (state.utterance is not None and state.utterance.end is None) or state.gate_events
        if self.schedule.recorded or state.requests or not is_speech:
            return 0
        return state.received - planned.plan.window.end

    @property
    def _is_preparing(self) -> bool:
        """True if a provisional round is in flight: then there is nothing to plan but the end of the utterance."""
        return bool(self.state.in_flight) and self.state.in_flight[-1].plan.provisional

    def _give_up(self) -> None:
        """Take back a provisional round whose utterance is over. A replay's rounds came back, so they do again."""
        state = self.state
        first = state.gate_events[0] if state.gate_events else None
        stop = first if isinstance(first, SpeechStopped) and first.decided_at <= self._horizon else None
        if stop is not None and self._is_preparing and _is_last(state.in_flight[-1].plan, stop.end):
            return
        if (stop is not None or state.requests) and self._is_preparing and not self.schedule.recorded:
            state.give_up()

    @property
    def _horizon(self) -> int:
        """The end of the audio that may be looked at: not after a request until it is done."""
        return self.state.requests[0].at if self.state.requests else self.state.received

    def _begin(self) -> bool:
        """Open the next utterance, if there is one."""
        state = self.state
        if not self._gated:
            return self._horizon > state.floor and self._open(state.floor, state.floor, None)
        while state.gate_events and state.gate_events[0].decided_at <= self._horizon:
            self._close_silent_turn(state.gate_events[0].decided_at)
            event = state.gate_events.pop(0)
            if isinstance(event, TurnJudged):
                self._note_turn(event)
            # A stop without an utterance is that of one which `clear` has dropped.
            if isinstance(event, SpeechStarted):
                # The gate knows of no flush and no clear: an utterance never reaches back over what these have ended.
                start = min(max(event.start, state.floor), event.decided_at)
                self.emit(SpeechStart, event.decided_at, start=start)
                return self._open(start, event.decided_at, event.onset)
        self._close_silent_turn(self._horizon)
        return False

    def _close_silent_turn(self, at: int) -> None:
        """End the turn that was left in mid-sentence, where nobody has spoken for long enough by sample `at`."""
        turn, pause = self.state.turn, self.choices.schedule.turn_pause
        if turn is not None and at >= turn.end + pause:
            self._close_turn(turn.end + pause, turn.end)

    def _open(self, start: int, known: int, onset: int | None) -> bool:
        turn = self.state.turn
        policy = self.choices.policy.start(start, None if turn is None else turn.policy)
        language = None if turn is None else turn.language
        self.state.utterance = Utterance(
            start, known, policy, keep_from=start, last_end=start, language=language, onset=onset
        )
        return True

    def _next_plan(self, utterance: Utterance) -> RoundPlan | None:
        """The next round of the open utterance: as the schedule says, or because the utterance is over."""
        if utterance.end is None:
            frontier = self._frontier(utterance)
            # A stop that was decided on after the frontier does not count yet, or the result would depend on the
            # portions in which the audio came.
            stop = self.state.next_stop(self._horizon if frontier is None else frontier)
            if stop is not None:
                # Audio that a round has looked at stays in the utterance, whatever the gate thinks of it later.
                utterance.end, utterance.closed_at = max(stop.end, utterance.last_end), stop.decided_at
                self.emit(SpeechStop, stop.decided_at, end=utterance.end)
            elif frontier is not None:
                return self._launch(utterance, frontier, at=frontier, is_last=False, record=True)
            elif self.state.requests:
                utterance.end = utterance.closed_at = self._horizon
                self.state.certain.append(self._horizon)  # nobody knows whether a voice would have gone on
            elif self._is_pause:
                return self._launch_ahead(utterance)
        return self._closing_plan(utterance)

    def _frontier(self, utterance: Utterance) -> int | None:
        """The end of the round that the schedule wants now, if any."""
        if self.state.requests and not self.schedule.recorded:
            return None  # the last round will look at everything anyway
        frontier = self._scheduled(utterance)
        if frontier is None:
            return None
        frontier = min(frontier, self.choices.policy.limit(utterance.policy))
        return frontier if frontier > utterance.last_end else None

    def _scheduled(self, utterance: Utterance) -> int | None:
        if self._is_pause:
            return None  # a round would hear nothing new
        last, known, spent = utterance.last_end, utterance.known, utterance.spent
        return self.schedule.frontier(last, known, self._horizon, spent)

    def _closing_plan(self, utterance: Utterance) -> RoundPlan | None:
        """The next of the rounds that take a closed utterance to its end: usually the only one."""
        if utterance.end is None or utterance.last_planned:
            return None
        # A flush right where the speech begins leaves an utterance without audio.
        if utterance.end <= utterance.start:
            self._end_turn(utterance, utterance.closed_at)
            return None
        # More audio than a window holds takes several rounds; only the one that reaches the end is the last.
        target = min(utterance.end, self.choices.policy.limit(utterance.policy))
        is_last = target == utterance.end
        if target <= utterance.last_end and (self.state.in_flight or not is_last):
            return None  # a round in flight has to make room first, or hears all there is
        # Not recorded: a replay finds these rounds by itself, from the end of the utterance.
        return self._launch(utterance, target, at=utterance.closed_at, is_last=is_last, record=False)

    def _launch(self, utterance: Utterance, frontier: int, *, at: int, is_last: bool, record: bool) -> RoundPlan:
        state, load = self.state, 0
        if record:
            # What came in before the round was due was waited for, and is nobody's debt.
            waited = 0 if utterance.due_at is None else max(frontier - utterance.due_at, 0)
            load = self.schedule.load(utterance.last_end, frontier, utterance.spent, waited)
        plan = self._plan(utterance, frontier, is_last=is_last, load=load)
        if utterance.ahead is not None and is_last and _is_last(utterance.ahead.plan, frontier):
            plan = replace(plan, hearing=HeardAhead(plan.hearing, utterance.ahead))
        state.next_round += 1
        state.in_flight.append(PlannedRound(plan, at, utterance.last_end, record))
        utterance.last_end = max(utterance.last_end, frontier)
        utterance.last_planned = is_last
        utterance.due_at = None
        if record:
            state.boundaries.append(frontier)
            state.loads.append(load)
        return plan

    def _plan(self, utterance: Utterance, end: int, *, is_last: bool, load: int = 0) -> RoundPlan:
        """The policy's plan of a round up to sample `end`."""
        state = self.state
        plan = self.choices.policy.plan(
            utterance.policy, end, search=self.choices.search, round_id=state.next_round, is_last=is_last, load=load
        )
        return replace(plan, spoken=state.spoken)

    @property
    def _is_pause(self) -> bool:
        """True if it is time to compute the last round ahead, or was, and nobody has spoken since."""
        return self.schedule.ahead and self.state.pause_end is not None

    def _launch_ahead(self, utterance: Utterance) -> RoundPlan | None:
        """The last round, as it will be if nobody speaks on; once in a pause. It is no part of a record: the same round
        at the end of the utterance finds the same.
        """
        state, end = self.state, self.state.pause_end
        assert end is not None
        computed = utterance.ahead is not None and _is_last(utterance.ahead.plan, end)
        room = utterance.last_end < end <= self.choices.policy.limit(utterance.policy)
        if state.in_flight or computed or not room:
            return None
        plan = replace(self._plan(utterance, end, is_last=True), provisional=True)
        state.next_round += 1
        state.in_flight.append(PlannedRound(plan, state.received, utterance.last_end, recorded=False))
        return plan

    def _end_turn(self, utterance: Utterance, at: int) -> None:
        """The utterance is done. If its end is what a flush asked for, the flush is done too."""
        state, end = self.state, utterance.end
        assert end is not None
        # With its place: a pause may have ended this utterance, and the flush still waits for the next one.
        flushed = bool(state.requests) and state.requests[0] == EndRequest("flush", utterance.closed_at)
        state.utterance, state.floor = None, end
        state.certain = [at for at in state.certain if at > utterance.closed_at]
        if flushed:
            state.requests.pop(0)
        if self._gated and end > utterance.start and not utterance.spoken:
            self.emit(Unheard, at, start=utterance.start, end=end)
        # A flush is always answered, also where nothing was left to hear.
        if flushed or not self._goes_on(utterance, end):
            self._close_turn(at, end, announced=flushed or end > utterance.start)

    def _goes_on(self, utterance: Utterance, end: int) -> bool:
        """Leave the turn open if the utterance ended in mid-sentence; returns true if it is open."""
        pause = self.choices.schedule.turn_pause
        if not self._gated or not pause:
            return False
        return self.state.leave_open(utterance, end, always=pause == UNTIL_JUDGED)

    def _note_turn(self, judged: TurnJudged) -> None:
        """The gate says that a turn is over, or may be; of one in which no word was heard nothing is open here."""
        turn, at, confidence = self.state.turn, judged.decided_at, judged.confidence
        if turn is not None and judged.is_over:
            self._close_turn(at, turn.end, confidence=confidence)
        elif turn is not None:
            self._write_closing(at)
            self.emit(TurnEnd, at, end=turn.end, eager=True, confidence=confidence)

    def _close_turn(self, at: int, end: int, *, announced: bool = True, confidence: float = 1.0) -> None:
        """A turn is over; what comes next begins anew."""
        self.state.turn = None
        self._write_closing(at)
        if announced:
            self.emit(TurnEnd, at, end=end, confidence=confidence)

    def _write_closing(self, at: int) -> None:
        """Confirm the mark after the last word, as if the turn ended here."""
        if self.state.closing is not None:
            self.confirm(self.state.closing, at)
            self.state.closing = None

    def _settle(self) -> bool:
        """Nothing is left of what a request asked for: answer it. Returns whether anything may follow."""
        state = self.state
        if not state.requests:
            return False
        request = state.requests.pop(0)
        if request.kind == "flush":
            self._close_turn(request.at, end=request.at)
            return True
        if state.turn is not None:
            self._close_turn(request.at, state.turn.end)
        self.emit(End, request.at, duration=request.at)
        state.ended = True
        return False


def _is_last(plan: RoundPlan, end: int) -> bool:
    """True if that is the last round of an utterance that ends there."""
    return plan.is_last and plan.window.end == end
