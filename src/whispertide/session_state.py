"""All that a session remembers, and how what a round heard becomes words and events of it."""

from dataclasses import dataclass, field, replace
from typing import Any

from whispertide.audio.buffer import AudioBuffer
from whispertide.events import Confirmed, Event, Hypothesis, Lag, Language
from whispertide.options import DecodeOptions
from whispertide.streaming.recipe import Recipe
from whispertide.streaming.round import Commit, RoundResult
from whispertide.streaming.schedule import ON_TIME, Lateness
from whispertide.streaming.turns import Flight, TurnState
from whispertide.transcript import Change, Transcript
from whispertide.types import to_samples


@dataclass(slots=True)
class SessionState:
    """All that a session remembers. `gate` is the gate's state, and only set in snapshots.

    `language` was detected last, `spoken` in this utterance.
    """

    recipe: Recipe
    options: DecodeOptions
    turns: TurnState = field(default_factory=TurnState)
    buffer: AudioBuffer = field(default_factory=AudioBuffer)
    transcript: Transcript = field(default_factory=Transcript)
    gate: Any = None
    outbox: list[Event] = field(default_factory=list)
    seq: int = 0
    language: str | None = None
    spoken: str | None = None
    lateness: Lateness = ON_TIME
    replaced: int = 0

    def emit(self, kind: type[Event], at: int, **values: Any) -> None:
        """Number an event and keep it for whoever asks next."""
        self.outbox.append(kind(self.seq, at, **values))
        self.seq += 1

    def forget(self) -> None:
        """See `Session.forget`."""
        self.transcript.forget()
        self.turns.forget()

    def copy(self) -> "SessionState":
        """An independent copy; values that never change are shared."""
        return replace(
            self,
            turns=self.turns.copy(),
            buffer=self.buffer.copy(),
            transcript=self.transcript.copy(),
            outbox=list(self.outbox),
        )

    def say(self, flight: Flight, result: RoundResult[Any], commit: Commit) -> None:
        """A result becomes words: the only place where anything is confirmed."""
        plan = flight.plan
        self._note_language(result, flight.at)
        stats = replace(result.stats, round_id=plan.id, window_start=plan.window.start, window_end=plan.window.end)
        change = self.transcript.apply(commit, end=plan.window.end, loop_guard=self.recipe.policy.loop_guard)
        self.show(change, flight.at, stats=stats)
        if change.confirmed:
            self.spoken = result.language
        if plan.is_last:
            self.spoken = None
            self.show(self.transcript.drop_hypothesis(), flight.at, stats=stats)

    def show(self, change: Change, at: int, **values: Any) -> None:
        """Make events of what changed in the transcript."""
        if change.confirmed:
            self.emit(Confirmed, at, words=change.confirmed, **values)
        if change.hypothesis is not None:
            self.emit(Hypothesis, at, words=change.hypothesis, **values)

    def note_lag(self, at: int, behind: int, lowered: int) -> None:
        """Say when the audio that waits passes another `lag_s`, and when it is well below that again.

        Steps by which the policy has `lowered` its quality count too.
        """
        now = self.lateness.after(behind, lowered, to_samples(self.recipe.schedule.lag_s))
        if now != self.lateness:
            self.emit(Lag, at, behind=behind, level=max(now.steps, now.lowered))
        self.lateness = now

    def _note_language(self, result: RoundResult[Any], at: int) -> None:
        """Say which language was detected, when that is news and nobody set one."""
        if result.language is None or self.options.language is not None or result.language == self.language:
            return
        self.language = result.language
        self.emit(Language, at, language=result.language, probability=result.language_probability)


def built_in(recipe: Recipe) -> dict[str, Any]:
    """What a session is built with and cannot change afterwards."""
    schedule = recipe.schedule
    return {
        "name": recipe.name,
        "policy": recipe.policy.kind,
        "framing": recipe.framing,
        "executor": recipe.executor,
        "vad": schedule.vad,
        "vad_pause_s": schedule.vad_pause_s,
        "vad_pre_roll_s": schedule.vad_pre_roll_s,
    }
