"""One stream of audio becoming words: connects gate, rounds and transcript.

    session.push(samples) -> events          simple use: every due round runs at once, in place
    session.finish() -> events

    session.ingest(samples)                  the same in parts, for callers that run rounds elsewhere
    while plan := session.due():
        result = executor.run(plan, session.window(plan), session.options, session.encoder)
        events = session.apply(result)
    events = session.drain()

A session does no I/O and has no clock and no thread: its output is a function of the audio, of the portions in
which it is pushed, and of where the caller flushed, cleared or configured. An event's `at` is the audio that had been
taken into account when it was made, not what may have arrived since.

Only where audio is said to arrive `live` does it matter how long a round was computed: the schedule then leaves the
machine room, and what comes out depends on where its rounds ended and under what load, too (`boundaries` and `loads`,
which `streaming.schedule.Recorded` replays).

With an executor that overlaps rounds (`streaming.stages`) `push` takes a result only where it could not begin another
round without. A live caller calls `collect` now and then; then the timing of results decides what the next round knows.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy.typing as npt

from whispertide.audio.buffer import check_samples
from whispertide.audio.vad import Gate
from whispertide.errors import SessionError
from whispertide.events import Error, Event
from whispertide.model.engine import EncoderState
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe
from whispertide.session_state import SessionState, Transcript
from whispertide.speakers.track import SpeakerTrack
from whispertide.streaming.planner import RoundPlanner
from whispertide.streaming.policy import Executor
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.streaming.schedule import Schedule
from whispertide.streaming.stages import depth_of
from whispertide.streaming.turn_gate import TurnGate
from whispertide.types import FloatArray


class Session:
    """One stream. Not safe for use by several threads at once; any number of sessions may share an executor."""

    def __init__(
        self,
        recipe: Recipe | str,
        executor: Executor | None = None,
        gate: Gate | None = None,
        *,
        options: DecodeOptions | None = None,
        schedule: Schedule | None = None,
        live: bool = False,
        max_in_flight: int | None = None,
        possible: Callable[[DecodeOptions], DecodeOptions] | None = None,
        speakers: SpeakerTrack | None = None,
    ) -> None:
        """`gate` None: the whole stream is one utterance, whatever the recipe says (`schedule.Rounds.gate`).

        `live`: the audio arrives as it is spoken, so the schedule counts how long rounds were computed and a machine
        that is too slow can keep up. Otherwise the result does not depend on the machine's speed.
        `schedule` replaces that of the recipe. `max_in_flight` is how many rounds may be planned before the first of
        them comes back; None: as many as the executor overlaps. `possible` gives the form in which the model takes
        options that change, or raises `OptionError` for what it cannot do. `speakers` hears whose words they are.
        Raises `UnknownRecipeError`.
        """
        recipe = get_recipe(recipe) if isinstance(recipe, str) else recipe
        self.executor = executor  # what runs its rounds; None: somebody else does
        self._gate = gate
        self._own_schedule = schedule
        self._possible = possible
        self.speakers = speakers  # hears whose words they are; None: nobody asked
        self._state = SessionState(recipe, options or DecodeOptions())
        self.tells_lag = True  # else its owner does: see `note_lag`
        self._lowered = 0  # steps of quality, by the policy
        depth = depth_of(executor) if max_in_flight is None else max_in_flight
        self._planner = RoundPlanner(gated=gate is not None, live=live, max_in_flight=depth)
        self._connect()
        recipe.warn_of_ignored(self._state.options)

    # --- what can be asked -------------------------------------------------------------------------------------------

    @property
    def encoder(self) -> EncoderState | None:
        """The encoder's state that the newest finished round hands to the next one of the utterance."""
        return self._state.turns.encoder

    @property
    def recipe(self) -> Recipe:
        """The recipe, with all changes by `configure`."""
        return self._state.recipe

    @property
    def options(self) -> DecodeOptions:
        """The decode options of the next round.

        A language that was detected holds from the first confirmed word to the end of its turn.
        """
        utterance, options = self._state.turns.utterance, self._decode_options
        if utterance is None or utterance.language is None or options.language is not None:
            return options
        return replace(options, language=utterance.language)

    @property
    def transcript(self) -> Transcript:
        """The transcript so far."""
        return self._state.transcript

    @property
    def received(self) -> int:
        """The number of samples received."""
        return self._state.buffer.end

    @property
    def buffered(self) -> int:
        """The number of samples kept."""
        return len(self._state.buffer)

    @property
    def replaced(self) -> int:
        """The number of samples that were no numbers and became silence."""
        return self._state.replaced

    @property
    def boundaries(self) -> tuple[int, ...]:
        """The ends of all rounds but those that ended an utterance: the gate or the caller decides about these."""
        return tuple(self._state.turns.boundaries)

    @property
    def loads(self) -> tuple[int, ...]:
        """For each of `boundaries`, the share of the step to it that computing took, in samples; 0: not late."""
        return tuple(self._state.turns.loads)

    @property
    def ended(self) -> bool:
        """True if the session is over."""
        return self._state.turns.ended

    # --- simple use --------------------------------------------------------------------------------------------------

    def push(self, samples: npt.NDArray[Any]) -> list[Event]:
        """Take audio (see `ingest`) and run every round that is due. Returns what happened.

        A round looks at all that has arrived, so push what arrives as it arrives, not a whole file at once. If the
        executor raises, all rounds in flight count as not planned and no event is lost: they come with the next call or
        `drain`.
        """
        self._require_executor()
        self.ingest(samples)
        return self._run_due()

    def flush(self) -> list[Event]:
        """End the utterance here, not the session: all of it is confirmed. The last event is `TurnEnd`."""
        self._require_executor()
        asked = self._state.turns.requests
        if not asked or asked[-1].at < self.received:  # else a call before failed, and this one tries again
            self.request("flush")
        return self._run_due()

    def finish(self) -> list[Event]:
        """End the session: all audio is confirmed. The last event is `End`; then nothing is accepted."""
        self._require_executor()
        if not self._planner.finishing:  # else the call before failed, and this one tries again
            self.request("finish")
        return self._run_due()

    def step(self, *, wait: bool = True) -> RoundPlan | None:
        """Begin the next round that is due, or take the oldest result; returns the round. None: there is nothing to do.

        The result of a round is taken where no other can be begun without it, and where everything is asked for. With
        `wait` it is waited for there; without, it is taken as soon as it is there. Events come with the next call or
        `drain`. If the executor raises, all rounds in flight count as not planned, and the same call can be made again.
        """
        executor, turns = self._require_executor(), self._state.turns
        if not wait and turns.is_ready:
            return self._land_oldest()
        if (plan := self.due()) is not None:
            try:
                turns.begin(executor, self.window(plan), self.options)
            except BaseException:  # also an interrupt: the round can be run again
                self.retract(plan)
                self.close()
                raise
        is_stuck = self._planner.needs_result or (bool(turns.requests) and plan is None)
        if turns.in_flight and is_stuck and (wait or turns.is_ready):
            return self._land_oldest()
        return plan

    def collect(self) -> list[Event]:
        """Take results that an executor with overlapping rounds has ready, without waiting. Returns the new events."""
        while self._state.turns.is_ready:
            self._land_oldest()
        return self.drain()

    def close(self) -> None:
        """Give up the rounds under way: they count as not planned. For a caller that leaves before the end."""
        self._state.turns.abandon()

    # --- taken apart -------------------------------------------------------------------------------------------------

    def ingest(self, samples: npt.NDArray[Any]) -> None:
        """Take audio: [n] mono at 16 kHz, float32 or float64 (full scale 1) or int16.

        NaN and infinities become silence and are counted in `replaced`. Raises `AudioError` for anything else,
        `SessionError` once the session is ending, and what the gate raises. Then nothing was taken.
        """
        self._require_going_on()
        audio, replaced = check_samples(samples)
        # First, since it may fail.
        heard = self._gate.feed(audio) if self._gate is not None else ()
        self._state.replaced += replaced
        self._state.buffer.append(audio)
        self._planner.receive(len(audio), heard, self._gate.pause_end if self._gate is not None else None)
        self._release()
        if self.speakers is not None:
            self.speakers.feed(audio)

    def request(self, kind: Literal["flush", "finish"]) -> None:
        """Request a `flush` or a `finish`: its rounds are due from now on, and after those of a `finish` is `End`."""
        self._require_going_on()
        self._planner.receive(0, self._gate.finish() if self._gate is not None else ())
        self._planner.request(kind)

    def due(self) -> RoundPlan | None:
        """The next round to run, or None until there is more audio or a result. May also make events: see `drain`."""
        self._require_open()
        return self._planner.due()

    def window(self, plan: RoundPlan) -> FloatArray:
        """The audio of a round in flight, [len(plan.window)]."""
        return self._state.buffer.read(plan.window.start, plan.window.end)

    def apply(self, result: RoundResult[Any]) -> list[Event]:
        """Take the result of the oldest round in flight. Returns the events since the last call.

        The result of a round that `clear` overtook is ignored. Raises `SessionError` if another round is older.
        """
        self._require_open()
        self._take(result)
        return self.drain()

    def retract(self, plan: RoundPlan) -> None:
        """Take back the newest round in flight, which was not run: it counts as never planned."""
        self._planner.retract(plan)

    def drain(self) -> list[Event]:
        """The events that no call has returned yet."""
        events, self._state.outbox = self._state.outbox, []
        return events

    # --- control -----------------------------------------------------------------------------------------------------

    def clear(self) -> list[Event]:
        """Drop all audio that is not confirmed, and the hypothesis; confirmed words stay. Audio may go on.

        A turn of which something was confirmed ends; results of rounds in flight will be ignored.
        """
        self._require_open()
        if self._gate is not None:
            self._gate.finish()
        self.close()
        self._state.show(self._state.transcript.drop_hypothesis(), self.received)
        self._planner.clear()
        self._release()
        return self.drain()

    def forget(self) -> None:
        """Drop old words that nothing later depends on, so that a session can go on for days.

        `transcript` then has some last words, `boundaries` and `loads` only later ones. No event changes by it.
        """
        self._state.forget()

    def configure(self, **changes: Any) -> None:
        """Change fields of the recipe or of the decode options, from the next planned round on.

        Raises `OptionError` for unknown fields, impossible values, what the model cannot write, and what a session is
        built with (gate, framing, policy, executor); then nothing is changed.
        """
        self._require_open()
        before = self.recipe.policy, self.recipe.search, self._decode_options
        self._state.configure(changes, self._possible)
        self._connect()
        if before != (self.recipe.policy, self.recipe.search, self._decode_options):
            self._planner.reconsider()
            self.recipe.warn_of_ignored(self._state.options)

    def note_lag(self, at: int, behind: int, lowered: int = 0) -> None:
        """Make a `Lag` event, if the number of samples that wait, or of `lowered` steps of quality, has changed enough.

        For an owner that holds audio back, who sets `tells_lag` to False and says after each round what waits in all.
        What the policy has lowered counts as well.
        """
        self._state.note_lag(at, behind, max(lowered, self._lowered))

    def fail(self, message: str, *, fatal: bool = True) -> list[Event]:
        """Report a failure as an `Error` event; confirmed words stay. A fatal one ends the session without `End`."""
        self._require_open()
        if fatal:
            self.close()
        self._state.emit(Error, self.received, message=message, fatal=fatal)
        self._state.turns.ended = fatal
        return self.drain()

    def snapshot(self) -> SessionState:
        """Copy the session's state, to be handed to `restore`; the session may go on.

        Rounds that are under way are not in it: they would be run again.
        """
        state = self._state.copy()
        for planned in self._state.turns.in_flight:
            if planned.under_way is not None:
                state.turns.take_back()
        state.gate = self._gate.snapshot() if self._gate is not None else None
        state.speakers = self.speakers.snapshot() if self.speakers is not None else None
        return state

    def restore(self, state: SessionState) -> None:
        """Go on from a snapshot of this session or of one built alike: the same audio gives the same events again."""
        self.close()
        self._state = state.copy()
        if self._gate is not None:
            self._gate.restore(state.gate)
        if self.speakers is not None and state.speakers is not None:
            self.speakers.restore(state.speakers)
        self._connect()

    # --- inside ------------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        """Give the rounds the present state and recipe."""
        self._planner.state = self._state.turns
        self._planner.confirm = self._state.add
        self._planner.emit = self._state.emit  # not a method of the session: nothing may keep it once its owner lets go
        recipe = self._state.recipe
        self._planner.choices, self._planner.schedule = recipe, self._own_schedule or recipe.schedule
        if isinstance(self._gate, TurnGate):
            self._gate.limits = recipe.schedule.turn_limits
        self._decode_options = recipe.search.options(self._state.options)

    def _run_due(self) -> list[Event]:
        while self.step() is not None:
            pass
        if self._state.turns.requests:
            raise SessionError("expected the policy to make room for the rest of the audio; it did not")
        return self.drain()

    def _land_oldest(self) -> RoundPlan:
        """Wait for the oldest round under way, and take its result."""
        try:
            result = self._state.turns.oldest()
        except BaseException:  # also an interrupt: the rounds can be run again
            self.close()
            raise
        self._take(result)
        return result.plan

    def _take(self, result: RoundResult[Any]) -> None:
        """Turn a result into words: the only place that confirms any."""
        if (taken := self._planner.take(result)) is None:
            return
        planned, verdict = taken
        self._state.commit_round(planned, result, verdict, gated=self._gate is not None, labels=self.speakers)
        self._planner.land(planned)
        self._lowered = verdict.level
        if self.tells_lag:
            self._state.note_lag(planned.at, self._planner.behind(planned), verdict.level)
        self._release()

    def _release(self) -> None:
        """Drop audio that no round and no utterance to come can need."""
        gate_needs = self._gate.needed_from if self._gate is not None else 0
        self._state.buffer.drop_before(self._planner.needed_from(gate_needs))

    def _require_open(self) -> None:
        if self._state.turns.ended:
            raise SessionError("expected an open session; this one has ended. Start another")

    def _require_going_on(self) -> None:
        self._require_open()
        if self._planner.finishing:
            raise SessionError("expected an open session; this one was asked to finish. Start another")

    def _require_executor(self) -> Executor:
        if self.executor is None:
            raise SessionError("expected a session with an executor; this one has none: use ingest, due and apply")
        if any(planned.under_way is None for planned in self._state.turns.in_flight):
            raise SessionError("expected no round in flight; one is: apply its result or give it back with `retract`")
        return self.executor
