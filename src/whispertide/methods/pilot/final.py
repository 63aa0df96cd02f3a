"""Pilot inference's policy: an utterance is confirmed as a whole after its end; pilots prepare this during speech.

A pilot hears all there is of the utterance with a small beam. What it finds is shown as a guess, and it is what the
next pilot and the round after the last word begin with: as long as these find the same, they have one hypothesis to
follow, in one run (`methods.pilot.pilot`). A pilot that is still under way when speech ends is given up.

An utterance of more than `hard_cap_s` is cut at a pause, because Whisper hears no more than 30 s: so much of it is
confirmed earlier. Source: pilot inference (arXiv 2311.17065). The policy sees words and tokens, no audio and no model.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from whispertide.decoding.draft import Reference
from whispertide.decoding.token_words import TokenWord, spoken, tokens_of
from whispertide.methods.pilot.length_cap import ALLOWANCE, expected_length
from whispertide.methods.pilot.pilot import LONGEST, HeardUtterance, Pilot
from whispertide.streaming.choice import setting
from whispertide.streaming.policy import Bounded, commit
from whispertide.streaming.round import Commit, RoundPlan, RoundResult
from whispertide.streaming.searches import Search
from whispertide.streaming.trimming import forced_cut
from whispertide.streaming.window_state import ROOM, WindowState
from whispertide.types import Span, align_down


@dataclass(slots=True)
class FinalState(WindowState):
    """The state between rounds.

    pilot  the newest round's text after the confirmed words; `heard_to` is where its window ended
    """

    pilot: HeardUtterance | None = None
    heard_to: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Final(Bounded):
    """The policy."""

    kind: ClassVar[str] = "final"
    forces: ClassVar[bool] = False
    searches: ClassVar[tuple[str, ...]] = ("greedy", "beam")

    pilot_beam: int = setting(3, "number of hypotheses of a pilot, at most that of the search", least=1, most=64)
    pilot_tokens: int = setting(15, "most tokens that a pilot adds to the one before", least=1, most=LONGEST)
    chain: bool = setting(True, "whether a pilot begins with the text of the one before")
    collapse: bool = setting(True, "whether the last round has one hypothesis while it agrees with the newest pilot")
    length_cap: bool = setting(
        True, "whether the last round ends with its first hypothesis from the length on that the newest pilot predicts"
    )
    allowance: int = setting(ALLOWANCE, "tokens added to that length", least=0, most=LONGEST)

    def start(self, at: int, after: FinalState | None = None) -> FinalState:
        """Nothing heard yet."""
        return FinalState(start=align_down(at))

    def plan(
        self, state: FinalState, frontier: int, *, search: Search, round_id: int, is_last: bool, load: int = 0
    ) -> RoundPlan:
        """A pilot; at the end of the utterance, and where the window is full, the whole search."""
        # A full window is searched whole although the utterance goes on: its older part is going to be confirmed.
        is_pilot = not is_last and frontier < self.limit(state)
        known = state.pilot.tokens if state.pilot is not None else ()
        follows = bool(known) and (self.chain if is_pilot else self.collapse)
        scores = state.pilot.scores if state.pilot is not None else None
        hearing = Pilot(no_speech=self.no_speech, loop_guard=self.loop_guard, before=scores)
        if is_pilot:
            hearing = replace(hearing, beam=self.pilot_beam, most=min(len(known) + self.pilot_tokens, LONGEST))
        elif state.pilot is not None:
            hearing = replace(hearing, cap=self._cap(state, state.pilot, frontier))
        return RoundPlan(
            round_id,
            Span(state.start, frontier),
            hearing,
            prefix=tokens_of(state.words),
            reference=Reference.exactly(known) if follows else None,
            is_last=is_last,
            provisional=is_pilot,
        )

    def apply(self, state: FinalState, result: RoundResult[HeardUtterance]) -> Commit:
        """A pilot's words are a guess. The last round's are confirmed, and those in the older part of a full window."""
        window, confirmed = result.plan.window, list[TokenWord]()
        if result.heard is not None:  # else the window is too short to be heard
            state.pilot, state.heard_to = result.heard, window.end
            state.guess = tuple(spoken(result.heard.words))
        if result.plan.is_last:
            confirmed = self._confirm(state, len(state.guess))
        elif window.end >= self.limit(state):
            confirmed = self._make_room(state, window.end)
        return commit(confirmed, state.guess, state, window.end)

    def _cap(self, state: FinalState, pilot: HeardUtterance, frontier: int) -> int | None:
        """The most tokens of the whole text; None where nobody knows, as the pilot did not come to an end."""
        heard = state.heard_to - state.start
        # A text that was cut off says nothing of how long it would have been.
        if not self.length_cap or not pilot.tokens or pilot.stop != "end_of_text" or heard <= 0:
            return None
        return expected_length(len(pilot.tokens), heard, frontier - state.start, self.allowance)

    def _make_room(self, state: FinalState, end: int) -> list[TokenWord]:
        """Confirm the older part of a full window and begin the next one after it."""
        cut = forced_cut([word.word for word in state.guess], Span(state.start, end), ROOM)
        confirmed = self._confirm(state, cut.confirm)
        # What it found began at the old window's start.
        state.pilot = None
        state.begin_at(align_down(cut.cut))
        return confirmed

    def _confirm(self, state: FinalState, count: int) -> list[TokenWord]:
        """Take the first words of the guess as certain."""
        words, state.guess = state.guess[:count], state.guess[count:]
        return state.take(words, loop_guard=self.loop_guard)
