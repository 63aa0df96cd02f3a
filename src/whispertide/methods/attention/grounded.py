"""NPUsper's policy: short windows of a carried-over word and new audio, decoded until attention shifts backward.

A round's window begins a little before a word that an earlier round heard, and that word is forced as prefix; so the
encoder sees each second of audio about once. Three ways to carry over (docs/internals/attention.md):

    1   everything is confirmed, the window begins at the last word (the paper)
    2   the last word stays a guess until it is heard again; the window begins at the one before it
    3   as 2, and a decode that halts twice in the same place is repeated on a window padded to 30 s

Words of a decode whose times cannot be trusted are speculative: they are shown as a guess, and the next round hears the
same audio again. Unlike the published code nothing that was shown as confirmed is ever taken back, and the last round
decodes what is left. The policy sees words, tokens and halts, no audio and no model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from whispertide.decoding.guards import Halt
from whispertide.decoding.token_words import TokenWord, spoken, tokens_of
from whispertide.errors import OptionError
from whispertide.methods.attention.attending import AttendingEnds
from whispertide.methods.attention.backward_shift import BackwardShift, ShiftRow
from whispertide.methods.attention.listening import HeardWords
from whispertide.options import check_range
from whispertide.streaming.choice import in_frames, in_samples, setting
from whispertide.streaming.policy import commit
from whispertide.streaming.repetition import CONTEXT, normalise
from whispertide.streaming.round import Commit, RoundPlan, RoundResult
from whispertide.streaming.searches import Search
from whispertide.streaming.trimming import MARGIN
from whispertide.types import CHUNK_SECONDS, Span, Word, align_down, to_samples

_DUPLICATES = 2  # leading words of a repeated decode that may be confirmed ones heard again
_TIMED_SHARE = 0.3  # word times that end before this share of the window are not trusted


@dataclass(slots=True)
class GroundedState:
    """The state between rounds.

    start    first sample of the next window, a multiple of 320
    prefix   the carried-over word, confirmed before
    guess    words that were found and are not confirmed
    tail     the newest confirmed words
    halt     where the last decode shifted backward, if it did; `halt_at` is the window's start then
    ended    where the last round ended
    """

    start: int
    prefix: tuple[TokenWord, ...] = ()
    guess: tuple[TokenWord, ...] = ()
    tail: list[Word] = field(default_factory=list)
    halt: Halt | None = None
    halt_at: int = 0
    ended: int = 0

    def copy(self) -> "GroundedState":
        """An independent copy."""
        return replace(self, tail=list(self.tail))


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounded(AttendingEnds):
    """The policy. In the last round nothing ends the decode near the end."""

    kind: ClassVar[str] = "grounded"
    searches: ClassVar[tuple[str, ...]] = ("greedy", "beam")

    near_end_s: float = setting(
        0.5, "a word this close to the end ends the decode (0 = none)", least=0, most=CHUNK_SECONDS
    )
    finish_word: bool = setting(False, "whether such a word is decoded to its end first")
    way: int = setting(2, "how audio is carried over: 1, 2 or 3 (docs/internals/attention.md)", least=1, most=3)
    carry_back_s: float = setting(0.2, "start of the window before the carried word", least=0, most=CHUNK_SECONDS)
    carry_most_s: float = setting(
        4.0, "most audio that is carried over (published: twice the step)", least=1, most=CHUNK_SECONDS
    )
    real_end: bool = setting(
        True, "whether end of text ends a decode; else the second-best token is taken, unless it is empty"
    )
    same_token: int = setting(
        0, "number of copies of a token in a row that end a decode and are dropped (0 = none)", least=0, most=100
    )
    shift_guard: bool = setting(False, "whether backward shifts end a decode")
    shift_median: int = setting(7, "width of the median filter, in frames", least=1, most=101)
    shift_average: int = setting(10, "width of the moving average, in frames", least=1, most=100)
    shift_row: ShiftRow = setting(
        "predicting", 'attention row of a token: of the query that predicted it, or of the one it was "fed" to'
    )
    shift_from_s: float = setting(
        0.0, "where in the window the search for the arrival begins", least=0, most=CHUNK_SECONDS
    )
    least_s: float = setting(
        0.0, "shorter windows are not decoded, unless they are the last", least=0, most=CHUNK_SECONDS
    )
    heads_first: bool = setting(False, "whether heads are averaged before word times are computed")

    near_end: int = in_frames("near_end_s")
    shift_from: int = in_frames("shift_from_s")
    carry_back: int = in_samples("carry_back_s")
    carry_most: int = in_samples("carry_most_s")

    def check(self) -> None:
        """Check that the carried part fits the longest window, a median has a middle, and a copy has several tokens."""
        AttendingEnds.check(self)
        if self.shift_median % 2 == 0:
            raise OptionError(f"expected shift_median to be odd; got {self.shift_median}")
        check_range("carry_most_s", self.carry_most_s, 1, self.hard_cap_s)
        if self.same_token == 1:
            raise OptionError("expected same_token=0, which is never, or at least 2; got 1")

    def derive(self) -> dict[str, Any]:
        """The settings as the decode takes them."""
        hearing = replace(
            AttendingEnds.derive(self)["hearing"],
            least=to_samples(self.least_s),
            heads_first=self.heads_first,
            real_end=self.real_end,
            same_token=self.same_token,
        )
        return {"hearing": hearing}

    @property
    def usual_s(self) -> float:
        """The usual limit of windows, without what is new."""
        return self.carry_most_s

    @property
    def most(self) -> int:
        """`carry_most_s` in samples, or less: the longest window has room for new audio, too."""
        return min(self.carry_most, self.hard_cap - self.hard_cap // 8)

    def start(self, at: int, after: GroundedState | None = None) -> GroundedState:
        """Nothing carried over."""
        return GroundedState(start=align_down(at))

    def plan(
        self, state: GroundedState, frontier: int, *, search: Search, round_id: int, is_last: bool, load: int = 0
    ) -> RoundPlan:
        """Carried-over and new audio, after the carried word."""
        watch = BackwardShift(
            detect=self.shift_guard,
            median=self.shift_median,
            average=self.shift_average,
            row=self.shift_row,
            search_from=self.shift_from,
            near_end=None if is_last else self.near_end or None,
            finish_word=self.finish_word,
        )
        # Only where the window begins where it did: a second halt at the same token of it asks for padding.
        again = state.halt if self.way == 3 and state.halt_at == state.start else None
        return RoundPlan(
            round_id,
            Span(state.start, frontier),
            replace(
                self.hearing,
                watch=(watch,),
                retry=again,
                unheard_from=(state.prefix[-1].end if state.prefix else state.start) if is_last else None,
            ),
            prefix=tokens_of(state.prefix),
            is_last=is_last,
        )

    def apply(self, state: GroundedState, result: RoundResult[HeardWords]) -> Commit:
        """Confirm what is certain (everything, in the last round), and choose what to carry over."""
        window, heard = result.plan.window, result.heard
        words = self._words(state, heard)
        # Together with where the window began: only the same audio can halt in the same way.
        state.halt, state.halt_at = _backward(heard), state.start
        # A halt leaves the rest unheard: what is new to this round is carried over, however much it is.
        most_from = window.end if state.halt is None else min(window.end, state.ended + self.most)
        state.ended = window.end
        if result.plan.is_last:
            confirmed = words or list(state.guess)
            state.guess = ()
        elif not words:
            # A window that was too short to be heard says nothing about silence, so it waits for more audio.
            confirmed = self._carry_all(state, most_from) if heard is not None else []
        elif self._is_speculative(words, window):
            state.guess, confirmed = tuple(words), []
        else:
            confirmed = self._carry_word(state, words, most_from)
        # What is new comes on top of what is carried, so there must be room for both.
        if not result.plan.is_last and window.end - state.start > self.hard_cap - self.most:
            confirmed += self._carry_all(state, window.end)
        state.tail = [*state.tail, *(word.word for word in confirmed)][-CONTEXT:]
        return commit(confirmed, state.guess, state, window.end)

    # --- which words --------------------------------------------------------------------------------------------------

    def _words(self, state: GroundedState, heard: HeardWords | None) -> list[TokenWord]:
        """The words after the carried one, without those that are confirmed already and without loops."""
        if heard is None:
            return []
        words = spoken(heard.words)
        if heard.retried:
            words = words[_repeated(state.tail, words) :]
        return self.without_loops(state.tail, words)

    def _is_speculative(self, words: Sequence[TokenWord], window: Span) -> bool:
        """True if the times of these words cannot be trusted, or there is but one, which may still be spoken."""
        last = words[-1]
        if len(words) == 1:
            # A pause of half of what may be carried settles a single word; else the window would grow to 30 s.
            return window.end - last.end < self.most // 2
        # All words in one place: the alignment has found no times at all.
        return last.end - window.start < _TIMED_SHARE * len(window) or words[0].start == last.end

    # --- which audio --------------------------------------------------------------------------------------------------

    def _carry_word(self, state: GroundedState, words: list[TokenWord], end: int) -> list[TokenWord]:
        """Begin the next window at the last certain word; returns what is confirmed."""
        certain = len(words) if self.way == 1 else max(len(words) - 1, 0)
        state.guess = tuple(words[certain:])
        if certain:
            state.prefix = (words[certain - 1],)
            self._move(state, words[certain - 1].start - self.carry_back, end)
        return [*words[:certain], *self._overtaken(state)]

    def _carry_all(self, state: GroundedState, end: int) -> list[TokenWord]:
        """Nothing was heard: carry everything, up to `most`. A guess whose audio is let go of is confirmed."""
        self._move(state, state.start, end)
        return self._overtaken(state)

    def _move(self, state: GroundedState, to: int, end: int) -> None:
        """The next window begins at `to`, or later where that is too much audio.

        If the carried word is not in it whole, it is left out, prefix and audio.
        """
        to = max(to, end - self.most)
        if state.prefix and state.prefix[0].start + MARGIN < to:
            following = state.guess[0].start if state.guess else end
            to = max(to, min(state.prefix[0].end, following))
            state.prefix = ()
        state.start = max(state.start, align_down(max(to, 0)))

    def _overtaken(self, state: GroundedState) -> list[TokenWord]:
        """Words of the guess that the next window does not hear whole."""
        gone = sum(word.start + MARGIN < state.start for word in state.guess)
        overtaken, state.guess = list(state.guess[:gone]), state.guess[gone:]
        if overtaken and overtaken[-1].end > state.start:
            state.start = max(state.start, align_down(overtaken[-1].end))
        return overtaken


def _backward(heard: HeardWords | None) -> Halt | None:
    """The place where the decode shifted backward; a repeated decode starts anew."""
    if heard is None or heard.retried or heard.halt is None or heard.halt.reason != "backward-shift":
        return None
    return heard.halt


def _repeated(tail: Sequence[Word], words: Sequence[TokenWord]) -> int:
    """The number of leading words that repeat the last confirmed ones."""
    for count in range(min(_DUPLICATES, len(tail), len(words)), 0, -1):
        if [normalise(word.text) for word in tail[-count:]] == [normalise(word.word.text) for word in words[:count]]:
            return count
    return 0
