"""WhisperKit's policy: two rounds must agree, and the last words they agree on are held back and forced in the next.

Each round decodes what follows the held words. What the round before found in the same place is agreed on. All of it
but the last `hold` words is confirmed, and these are held: the next decode begins with them. The *cursor*, where the
next window begins, is where the first of them does. So nothing confirmed is heard again, and words that are new follow
on words that are known. Whatever is not agreed on is the hypothesis, the second stream of text.

The app's code loses words, which is mended here: its last second is never decoded, its audio never let go of, its
early stop depends on the machine, its energy gate cannot see the newest second, and words on which fewer than two
agree can vanish from the hypothesis. Also ours: a round that the model itself finds unlikely agrees with nothing; a
window starts a tenth of a second before the cursor, since no word's start is known more exactly; a full one is cut.

Sources: WhisperKit (arXiv 2507.10860), 2.1.2; the streaming loop of Argmax's open app. The policy sees words and
tokens, no audio and no model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from whispertide.decoding.token_words import TokenWord, spoken, tokens_of
from whispertide.errors import OptionError
from whispertide.methods.agreement.early_stop import EarlyStop
from whispertide.methods.attention.listening import HeardWords
from whispertide.methods.attention.single_pass import SinglePass
from whispertide.streaming.choice import setting
from whispertide.streaming.policy import Bounded, commit
from whispertide.streaming.repetition import normalise
from whispertide.streaming.round import Commit, RoundPlan, RoundResult
from whispertide.streaming.searches import Search
from whispertide.streaming.trimming import MARGIN, forced_cut
from whispertide.streaming.window_state import ROOM, WindowState
from whispertide.types import Span, align_down

Cut = Literal["cursor", "full"]


@dataclass(slots=True)
class HeldState(WindowState):
    """The state between rounds.

    held  words that two rounds agreed on and that are not confirmed yet: forced after `words`, the guess follows them
    """

    held: tuple[TokenWord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldAgreement(Bounded):
    """The policy."""

    kind: ClassVar[str] = "held-agreement"
    searches: ClassVar[tuple[str, ...]] = ("greedy", "beam")

    hold: int = setting(2, "number of agreed words that wait for the next round", least=1, most=20)
    cut: Cut = setting(
        "cursor",
        'start of the next window: at the first held word ("cursor"), or the same until it is "full", so that '
        "its encoded blocks can be kept",
    )
    least_logprob: float = setting(
        -1.0, "a round whose tokens are less likely on average agrees with nothing", least=-20, most=0
    )
    stop_tokens: int = setting(
        60, "a decode ends when this many newest tokens repeat themselves (0 = never)", least=0, most=224
    )
    stop_ratio: float = setting(
        2.4, "compression ratio of their text from which they count as repetition", least=1.1, most=20
    )

    def check(self) -> None:
        """One token repeats nothing."""
        Bounded.check(self)
        if self.stop_tokens == 1:
            raise OptionError("expected stop_tokens=0, which is never, or at least 2; got 1")

    def start(self, at: int, after: HeldState | None = None) -> HeldState:
        """Nothing heard yet."""
        return HeldState(start=align_down(at))

    def plan(
        self, state: HeldState, frontier: int, *, search: Search, round_id: int, is_last: bool, load: int = 0
    ) -> RoundPlan:
        """The words after those that are certain."""
        forced = (*state.words, *state.held)
        hearing = SinglePass(
            watch=(EarlyStop(self.stop_tokens, self.stop_ratio),) if self.stop_tokens else (),
            no_speech=self.no_speech,
            loop_guard=self.loop_guard,
            unheard_from=(forced[-1].end if forced else state.start) if is_last else None,
        )
        return RoundPlan(
            round_id,
            Span(state.start, frontier),
            hearing,
            prefix=tokens_of(forced),
            is_last=is_last,
        )

    def apply(self, state: HeldState, result: RoundResult[HeardWords]) -> Commit:
        """Confirm what two rounds agree on (everything, in the last round) but for the words that are held."""
        end, is_last = result.plan.window.end, result.plan.is_last
        before = state.guess
        if result.heard is not None:  # else the window is too short to be heard
            state.guess = tuple(spoken(result.heard.words))
        if is_last:
            confirmed = self._confirm(state, len(state.guess), hold=0)
        else:
            confirmed = self._confirm(state, self._agreed(before, result.heard, state.guess), self.hold)
            confirmed += self._move(state, end)
        return commit(confirmed, (*state.held, *state.guess), state, end)

    # --- which words --------------------------------------------------------------------------------------------------

    def _agreed(self, before: Sequence[TokenWord], heard: HeardWords | None, now: Sequence[TokenWord]) -> int:
        """The number of words at the front of `now` that the round before found too."""
        # What the model itself hardly believes in confirms nothing, even if it says the same as before.
        if heard is None or heard.avg_logprob < self.least_logprob:
            return 0
        pairs = enumerate(zip(before, now, strict=False))
        differs = (place for place, (old, new) in pairs if _key(old) != _key(new))
        return next(differs, min(len(before), len(now)))

    def _confirm(self, state: HeldState, count: int, hold: int) -> list[TokenWord]:
        """Take the first words of the guess as certain; the last `hold` of what is certain wait."""
        certain = (*state.held, *state.guess[:count])
        # Fewer words may be certain than are held back.
        sure = max(len(certain) - hold, 0)
        words, state.held, state.guess = certain[:sure], certain[sure:], state.guess[count:]
        return state.take(words, loop_guard=self.loop_guard)

    # --- which audio --------------------------------------------------------------------------------------------------

    def _move(self, state: HeldState, end: int) -> list[TokenWord]:
        """Move the window to its next beginning; what nothing confirms in a full one is confirmed now, and returned."""
        # A window that begins where the last one did keeps its encoded blocks; so it moves only when it must.
        full = end - state.start > self.hard_cap - ROOM
        if self.cut == "cursor" or full:
            state.begin_at(self._cursor(state))
        if end - state.start <= self.hard_cap - ROOM:
            return []
        unsure = (*state.held, *state.guess)
        cut = forced_cut([word.word for word in unsure], Span(state.start, end), ROOM)
        # The cut counts held words and guess together; `_confirm` takes words of the guess and holds back what is over.
        confirmed = self._confirm(state, max(cut.confirm - len(state.held), 0), len(state.held) - cut.confirm)
        state.begin_at(align_down(cut.cut))
        return confirmed

    def _cursor(self, state: HeldState) -> int:
        """A little before the first held word, once there are enough of them."""
        if len(state.held) < self.hold:
            return state.start
        return align_down(max(state.held[0].start - MARGIN, state.start))


def _key(word: TokenWord) -> str:
    return normalise(word.word.text)
