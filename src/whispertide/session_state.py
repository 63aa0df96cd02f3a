"""The state of a session, and the step from a round's result to words and events.

The transcript is confirmed words, which are only ever added to, and one guess after them. Policies say what to confirm;
here it becomes final. A policy goes on with all that it has confirmed, or it would be decoded again; here some of that
is left out, put off or settled first (`SessionState.filter_commit`). Time is in samples.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from whispertide.audio.buffer import AudioBuffer
from whispertide.decoding.voice import begun_with
from whispertide.errors import OptionError
from whispertide.events import Confirmed, Event, Hypothesis, Lag, Language
from whispertide.options import DecodeOptions
from whispertide.punctuation import ends_sentence, may_stand
from whispertide.recipes.recipe import Recipe, divided
from whispertide.speakers.track import SpeakerTrack, TrackState
from whispertide.streaming.repetition import BEFORE, CONTEXT, cut_loops, normalise, without_unlikely
from whispertide.streaming.round import Commit, RoundResult
from whispertide.streaming.schedule import ON_TIME, Lateness
from whispertide.streaming.turn_state import PlannedRound, TurnState, Utterance
from whispertide.types import Word, clip_times, goes_on, join_words, seconds


@dataclass(frozen=True, slots=True)
class Change:
    """The effect of a commit on a transcript: words added for good, and the guess after them, if that has changed."""

    confirmed: tuple[Word, ...]
    hypothesis: tuple[Word, ...] | None


@dataclass(slots=True)
class Transcript:
    """Confirmed words in the order they were spoken, and the current `hypothesis` of what follows them.

    Times rise from word to word and lie inside the audio: `start <= end <= next start`.
    """

    words: list[Word] = field(default_factory=list)
    hypothesis: tuple[Word, ...] = ()

    @property
    def end(self) -> int:
        """The end of the confirmed words."""
        return self.words[-1].end if self.words else 0

    @property
    def text(self) -> str:
        return join_words(self.words)

    def apply(self, commit: Commit, *, end: int) -> Change:
        """Apply a commit for audio that ends at `end`. Word times are brought into order and into the audio."""
        # Before the guess: its times start where the words that are confirmed here end.
        confirmed = clip_times(commit.confirmed, self.end, end)
        self.words += confirmed
        hypothesis = clip_times(commit.hypothesis, self.end, end)
        changed = hypothesis != self.hypothesis
        self.hypothesis = hypothesis
        return Change(confirmed, hypothesis if changed else None)

    def drop_hypothesis(self) -> Change:
        """Forget the guess."""
        return self.apply(Commit((), (), 0), end=self.end)

    def forget(self) -> None:
        """Drop words that no later commit looks at, for streams that do not end.

        `words` and `text` are then of the last ones only.
        """
        del self.words[:-CONTEXT]

    def copy(self) -> "Transcript":
        return Transcript(list(self.words), self.hypothesis)


def drop_unlikely(
    verdict: Commit, chances: Sequence[float], own: int, below: float
) -> tuple[Commit, tuple[float, ...]]:
    """A policy's verdict without unlikely words, and the probabilities of the last words that it confirmed.

    `chances` are those of the words before, the last `own` of which are of the same utterance.
    """
    rest = verdict.hypothesis if verdict.guess is None else verdict.guess
    kept = without_unlikely(verdict.confirmed, below, before=chances, own=own, after=rest)
    now = (*chances, *(word.probability for word in verdict.confirmed))[-BEFORE:]
    shown = without_unlikely(verdict.hypothesis, below, before=now, own=own + len(verdict.confirmed))
    return replace(verdict, confirmed=kept, hypothesis=shown), now


def _hold_back(utterance: Utterance, commit: Commit, *, certain: bool, is_last: bool) -> Commit:
    """Words wait until it is `certain` that somebody speaks, and of a click none are written.

    A cry or a tick may sound like a word as well as like a voice.
    """
    words = (*utterance.withheld, *commit.confirmed)
    utterance.withheld = () if certain or is_last else words
    if certain:
        return replace(commit, confirmed=words)
    return replace(commit, confirmed=(), closing=None, hypothesis=() if is_last else (*words, *commit.hypothesis))


def _await_labels(utterance: Utterance, commit: Commit, labels: SpeakerTrack, *, is_last: bool) -> Commit:
    """Words wait until their labels are settled, as these stand once they are confirmed."""
    words = (*utterance.unsettled, *commit.confirmed)
    count = (
        len(words) if is_last else next((n for n, word in enumerate(words) if not labels.is_settled(word)), len(words))
    )
    while 0 < count < len(words) and goes_on(words[count].text):
        count -= 1
    utterance.unsettled = words[count:]
    return replace(commit, confirmed=words[:count], hypothesis=(*words[count:], *commit.hypothesis))


@dataclass(slots=True)
class SessionState:
    """The state of a session. `gate` and `speakers` are the states of those, and only set in snapshots.

    `language` was detected last.
    """

    recipe: Recipe
    options: DecodeOptions
    turns: TurnState = field(default_factory=TurnState)
    buffer: AudioBuffer = field(default_factory=AudioBuffer)
    transcript: Transcript = field(default_factory=Transcript)
    gate: Any = None
    speakers: TrackState | None = None
    outbox: list[Event] = field(default_factory=list)
    seq: int = 0
    language: str | None = None
    lateness: Lateness = ON_TIME
    replaced: int = 0

    def emit(self, kind: type[Event], at: int, **values: Any) -> None:
        """Number an event and keep it for the next call that returns events."""
        self.outbox.append(kind(self.seq, at, **values))
        self.seq += 1

    def forget(self) -> None:
        self.transcript.forget()
        self.turns.forget()

    def configure(
        self, changes: Mapping[str, Any], possible: Callable[[DecodeOptions], DecodeOptions] | None = None
    ) -> None:
        of_recipe, of_options = divided(self.recipe, dict(changes))
        recipe, options = self.recipe.replace(**of_recipe), replace(self.options, **of_options)
        if options.speakers != self.options.speakers:
            raise OptionError("expected a setting that can change in a session; got speakers: start another")
        if fixed := [name for name in _built_in(recipe) if _built_in(recipe)[name] != _built_in(self.recipe)[name]]:
            raise OptionError(f"expected settings that can change in a session; got {', '.join(fixed)}: start another")
        options = possible(options) if possible else options
        recipe.search.options(options)  # raises for a search in which nothing could end
        self._check_room(recipe)
        self.recipe, self.options = recipe, options

    def _check_room(self, recipe: Recipe) -> None:
        """Raise `OptionError` if the window of the open utterance is longer than `recipe` allows."""
        utterance = self.turns.utterance
        if utterance is None:
            return
        limit = recipe.policy.limit(utterance.policy)
        # a window that is full at the moment is no reason: the round in flight makes room
        if limit <= utterance.last_end and limit < self.recipe.policy.limit(utterance.policy):
            window_s = seconds(utterance.last_end - utterance.keep_from)
            raise OptionError(
                f"expected room for the {window_s:.1f} s of the utterance that is being decoded; got windows of at "
                f"most {recipe.policy.hard_cap_s:g} s: change them after its end"
            )

    def copy(self) -> "SessionState":
        """An independent copy; values that never change are shared."""
        return replace(
            self,
            turns=self.turns.copy(),
            buffer=self.buffer.copy(),
            transcript=self.transcript.copy(),
            outbox=list(self.outbox),
        )

    def commit_round(
        self,
        planned: PlannedRound,
        result: RoundResult[Any],
        verdict: Commit,
        *,
        gated: bool,
        labels: SpeakerTrack | None = None,
    ) -> None:
        """A policy's verdict on a result becomes words: the only place where anything is confirmed. `labels` says whose
        they are.
        """
        plan = planned.plan
        commit = self._begun(self.filter_commit(verdict, result, gated=gated, labels=labels))
        if labels is not None:
            confirmed, hypothesis = labels.label(commit.confirmed), labels.label(commit.hypothesis)
            commit = replace(commit, confirmed=confirmed, hypothesis=hypothesis)
            if self.turns.closing is not None:
                (self.turns.closing,) = labels.label((self.turns.closing,))
        self._note_language(result, planned.at)
        stats = replace(result.stats, round_id=plan.id, window_start=plan.window.start, window_end=plan.window.end)
        change = self.transcript.apply(commit, end=plan.window.end)
        self.show(change, planned.at, stats=stats)
        if plan.ends_turn:
            self.show(self.transcript.drop_hypothesis(), planned.at, stats=stats)

    def filter_commit(
        self, verdict: Commit, result: RoundResult[Any], *, gated: bool, labels: SpeakerTrack | None = None
    ) -> Commit:
        """The verdict without words that are unlikely where it is noisy, or that may be a click, or whose `labels` are
        not settled, and without loops in the guess; with the mark that was left to what follows. The state notes what
        that needs to know.

        `gated`: a voice gate finds the utterances.
        """
        turns, policy, utterance = self.turns, self.recipe.policy, self.turns.utterance
        assert utterance is not None
        # A server does not tell it, nor a round that heard nothing new, whose words may have settled meanwhile.
        language = result.language or turns.spoken
        # How unlikely made-up words are was found out on English; elsewhere right ones are as unlikely.
        below = policy.drop_below if language in (None, "en") else 0.0
        commit, turns.chances = drop_unlikely(verdict, turns.chances, utterance.words, below)
        certain = not gated or turns.is_certain(utterance, result.plan.window.end)
        commit = _hold_back(utterance, commit, certain=certain, is_last=result.plan.is_last)
        if labels is not None:
            commit = _await_labels(utterance, commit, labels, is_last=result.plan.is_last)
        # Where none of its words were written, its mark closes nothing.
        if commit.closing is not None and not (commit.confirmed or utterance.spoken):
            commit = replace(commit, closing=None)
        # Where every utterance is a turn, nothing follows that the mark could wait for.
        if commit.closing is not None and not (gated and self.recipe.schedule.turn_pause):
            commit = replace(commit, confirmed=(*commit.confirmed, commit.closing), closing=None)
        utterance.words += len(verdict.confirmed)
        utterance.spoken = utterance.spoken or bool(commit.confirmed)
        if commit.confirmed:
            # From here on the turn is in this language, whatever a later window sounds like.
            utterance.language = turns.spoken = language
            utterance.unfinished = not ends_sentence(commit.confirmed[-1].text)
            if turns.closing is not None and may_stand(turns.closing.text, commit.confirmed[0].text):
                commit = replace(commit, confirmed=(turns.closing, *commit.confirmed))
            turns.closing = None
        if commit.closing is not None:
            utterance.unfinished, turns.closing = True, commit.closing
        if not policy.loop_guard:
            return commit
        before = [*self.transcript.words[-CONTEXT:], *commit.confirmed][-CONTEXT:]
        return replace(commit, hypothesis=tuple(cut_loops(before, commit.hypothesis, normalise, guess=True).words))

    def _begun(self, commit: Commit) -> Commit:
        """The commit, whose words begin with the voice of their utterance where they began in the pause before it."""
        utterance = self.turns.utterance
        if utterance is None or utterance.onset is None:
            return commit
        begun = partial(begun_with, utterance.onset)
        return replace(
            commit, confirmed=tuple(map(begun, commit.confirmed)), hypothesis=tuple(map(begun, commit.hypothesis))
        )

    def add(self, word: Word, at: int) -> None:
        """Confirm one more word without a round: the end of the turn has settled it."""
        self.show(self.transcript.apply(Commit((word,), (), 0), end=max(word.end, self.transcript.end)), at)

    def show(self, change: Change, at: int, **values: Any) -> None:
        """Make events of the changes in the transcript."""
        if change.confirmed:
            self.emit(Confirmed, at, words=change.confirmed, **values)
        if change.hypothesis is not None:
            self.emit(Hypothesis, at, words=change.hypothesis, **values)

    def note_lag(self, at: int, behind: int, lowered: int) -> None:
        """Make an event when the audio that waits passes another `lag_s`, when it is well below that again, and when
        the steps by which the policy has `lowered` its quality change.
        """
        now = self.lateness.after(behind, lowered, self.recipe.schedule.lag)
        if now != self.lateness:
            self.emit(Lag, at, behind=behind, level=now.lowered)
        self.lateness = now

    def _note_language(self, result: RoundResult[Any], at: int) -> None:
        """Make an event of a newly detected language, if none was set."""
        if result.heard is None or result.language in (None, self.language) or self.options.language is not None:
            return
        self.language = result.language
        utterance = self.turns.utterance
        took = 0 if utterance is None else max(0, result.plan.window.end - utterance.start)
        self.emit(Language, at, language=result.language, probability=result.language_probability, took=took)


def _built_in(recipe: Recipe) -> dict[str, Any]:
    """The settings of a session that cannot change afterwards."""
    schedule = recipe.schedule
    return {
        "name": recipe.name,
        "policy": recipe.policy.kind,
        "framing": recipe.framing,
        "executor": recipe.executor,
        "vad": schedule.vad,
        "vad_pause_s": schedule.vad_pause_s,
        "vad_turn_s": schedule.vad_turn_s,
        "vad_pre_roll_s": schedule.vad_pre_roll_s,
        "turn_end": schedule.turn_end,
    }
