"""WhisperRT's policy: one stream of audio that only grows, and a text that continues with it.

The encoder hears each block of audio once. Every round the newest tokens of the text so far are scored again; those
that no longer hold are unwound, and the text goes on from there (`stable_search`). As published nothing of it is ever
certain, because unwinding can go back word by word. Here a word that has been found again for `confirm_s` is confirmed,
an unlikely one not before it lies far enough back: from then on its tokens are forced, and nothing unwinds them.

A stream lasts at most `stream_s`, since a Whisper has no more positions. The next one begins with the last confirmed
words, which are heard again and forced, so that nothing is lost or said twice; the published code begins with nothing.
So does one whose decoder has lost its place; if the words do not help, it begins with nothing and goes by what comes.
The policy sees words and tokens, no audio and no model.
"""

from dataclasses import dataclass, replace
from itertools import takewhile
from typing import ClassVar

from whispertide.decoding.token_words import TokenWord, spoken, tokens_of
from whispertide.methods.causal.stable_beam import HeardStream, StableBeam
from whispertide.methods.causal.stable_search import Rule, Scored
from whispertide.streaming.choice import Choice, in_samples, setting
from whispertide.streaming.policy import commit, drop_below_setting, least_probability_setting
from whispertide.streaming.repetition import CONTEXT, waits, without_loops
from whispertide.streaming.round import Commit, RoundPlan, RoundResult
from whispertide.streaming.searches import Search
from whispertide.streaming.trimming import MARGIN, forced_cut
from whispertide.streaming.window_state import ROOM
from whispertide.types import CHUNK_SECONDS, SAMPLE_RATE, Span, align_down

TOKENS_PER_S = 12  # more than anybody says


@dataclass(slots=True)
class StableState:
    """The state between rounds.

    start       first sample of the stream, a multiple of 320
    first_end   where its first round ended; 0: there has been none
    words       its confirmed words: the forced prefix
    hypotheses  what the last round found after them, the best first
    found_at    for each token of the best, where the round ended that found it first
    guess       the words of the best
    carried     so many of the words were spoken before the stream began
    tried       where a new stream last began because nothing was spoken
    """

    start: int
    first_end: int = 0
    words: tuple[TokenWord, ...] = ()
    hypotheses: tuple[Scored, ...] = ()
    found_at: tuple[int, ...] = ()
    guess: tuple[TokenWord, ...] = ()
    carried: int = 0
    tried: int = 0

    def copy(self) -> "StableState":
        """An independent copy; all its parts are values."""
        return replace(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stable(Choice):
    """The policy. It needs a checkpoint that was trained to hear no later audio (`whispertide train causal`)."""

    # Not `Bounded`: its cap is the length of a stream, `stream_s`.
    kind: ClassVar[str] = "stable"
    streams: ClassVar[bool] = True
    overlaps: ClassVar[bool] = False
    forces: ClassVar[bool] = True
    searches: ClassVar[tuple[str, ...]] = ("greedy", "beam")
    ignores: ClassVar[tuple[str, ...]] = ("prompt", "max_tokens")  # its rounds go on with a text: see `most_tokens`

    confirm_s: float = setting(
        0.3, "a word is confirmed when it has been found for this long", least=0, most=CHUNK_SECONDS
    )
    least_probability: float = least_probability_setting()
    settle_s: float = setting(
        1.0, "length of the end of the stream in which such words wait", least=0, most=CHUNK_SECONDS
    )
    drop_below: float = drop_below_setting()
    rescored: int = setting(2, "number of newest tokens that are scored again in each round", least=0, most=20)
    holds: Rule = setting(
        "either",
        'which of them stay: those among the best or no less likely than before ("either"), those that are '
        '"both", or those among the "best"',
    )
    most_tokens: int = setting(28, "most tokens that a round adds", least=1, most=200)
    stuck_s: float = setting(
        2.0,
        "if this much audio after the last word gives no word, a new stream begins (0 = never)",
        least=0,
        most=CHUNK_SECONDS,
    )
    stream_s: float = setting(
        12.0, "longest stream; at this length words are confirmed, certain or not", least=4, most=29
    )
    carry: int = setting(
        2, "number of confirmed words at the beginning of the next stream (0 = none, as published)", least=0, most=20
    )
    loop_guard: bool = setting(
        True, "whether repetition loops are cut before they are confirmed, and in the hypothesis"
    )

    confirm: int = in_samples("confirm_s")
    settle: int = in_samples("settle_s")
    stuck: int = in_samples("stuck_s")
    longest: int = in_samples("stream_s")

    @property
    def usual_s(self) -> float:
        """A stream may get as long as it can."""
        return self.stream_s

    @property
    def hard_cap_s(self) -> float:
        """Streams never get longer."""
        return self.stream_s

    def start(self, at: int, after: StableState | None = None) -> StableState:
        """Nothing heard yet."""
        return StableState(start=align_down(at))

    def limit(self, state: StableState) -> int:
        """The end of a stream of `stream_s`."""
        return state.start + self.longest

    def plan(
        self, state: StableState, frontier: int, *, search: Search, round_id: int, is_last: bool, load: int = 0
    ) -> RoundPlan:
        """All of the stream; what it adds is encoded, and the text goes on."""
        return RoundPlan(
            round_id,
            Span(state.start, frontier),
            StableBeam(
                (state.first_end or frontier) - state.start,
                state.hypotheses,
                self.rescored,
                self.holds,
                self._most(state, frontier) if is_last else self.most_tokens,
                self.loop_guard,
            ),
            prefix=tokens_of(state.words),
            is_last=is_last,
        )

    def apply(self, state: StableState, result: RoundResult[HeardStream]) -> Commit:
        """Confirm what has settled (everything, in the last round); make room where the stream is full."""
        end, is_last = result.plan.window.end, result.plan.is_last
        state.first_end = state.first_end or end
        if result.heard is not None:
            self._take(state, result.heard, end)
        settled = len(state.guess) if is_last else self._settled(state, end)
        confirmed = self._confirm(state, settled)
        if not is_last and end - state.start > self.longest - ROOM:
            confirmed += self._begin_again(state, end)
        elif not is_last and self._is_stuck(state, end):
            self._try_again(state, end)
        return commit(spoken(confirmed), spoken(state.guess), state, end)

    def _most(self, state: StableState, end: int) -> int:
        """The most tokens that the last round may add, after which none comes: enough for all audio without words."""
        known = (*state.words, *state.guess)
        unsaid = end - (known[-1].end if known else state.start)
        return max(self.most_tokens, -(-unsaid * TOKENS_PER_S // SAMPLE_RATE))

    # --- which words --------------------------------------------------------------------------------------------------

    def _take(self, state: StableState, heard: HeardStream, end: int) -> None:
        """Replace the state by the round's result; a token that was there already keeps its age."""
        before, now = _tokens(state.hypotheses), _tokens(heard.hypotheses)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False)))
        state.found_at = (*state.found_at[:same], *(end for _ in now[same:]))
        state.hypotheses, state.guess = heard.hypotheses, heard.words

    def _settled(self, state: StableState, end: int) -> int:
        """The number of words of the guess that have been found for long enough."""
        done = 0
        for number, word in enumerate(state.guess):
            done += len(word.tokens)
            # A word is as old as the youngest token up to its end: what follows a change has to settle anew.
            if end - max(state.found_at[:done], default=end) < self.confirm:
                return number
            settle, probability = self.settle, word.word.probability
            if waits(probability, word.spoken_by, end, below=self.least_probability, settle=settle):
                return number
        return len(state.guess)

    def _confirm(self, state: StableState, count: int) -> list[TokenWord]:
        """The first words of the guess become the forced prefix; hypotheses that say otherwise go."""
        words, state.guess = state.guess[:count], state.guess[count:]
        state.words += words
        tokens = tokens_of(words)
        state.found_at = state.found_at[len(tokens) :]
        state.hypotheses = tuple(
            Scored(each.tokens[len(tokens) :], each.logprobs[len(tokens) :])
            for each in state.hypotheses
            if each.tokens[: len(tokens)] == tokens
        )
        if not self.loop_guard:
            return list(words)
        before = state.words[: len(state.words) - len(words)][-CONTEXT:]
        return without_loops([word.word for word in before], words)

    # --- which audio --------------------------------------------------------------------------------------------------

    def _begin_again(self, state: StableState, end: int) -> list[TokenWord]:
        """A new stream, from the last confirmed words on; what nothing confirms in a full one is confirmed now."""
        forced: list[TokenWord] = []
        start = self._carried_from(state, self.carry)
        if start - state.start < ROOM:
            cut = forced_cut([word.word for word in state.guess], Span(state.start, end), ROOM)
            forced = self._confirm(state, cut.confirm)
            start = align_down(self._beside_words(state, cut.cut))
            start = max(self._carried_from(state, self.carry), start) if forced else start
        self._begin(state, start, tuple(word for word in state.words if word.start >= start))
        return forced

    def _beside_words(self, state: StableState, cut: int) -> int:
        """`cut`, or where it would part a confirmed word, whose rest would be heard as another: in front of that, or
        after it where that makes no room.
        """
        place = next((n for n, word in enumerate(state.words) if word.start < cut < word.end - MARGIN), None)
        if place is None:
            return cut
        parted, following = state.words[place], state.words[place + 1 :]
        before = parted.start - MARGIN
        if self.carry and before - state.start >= ROOM // 2:
            return before
        return min(parted.end, following[0].start) if following else parted.end

    def _begin(self, state: StableState, start: int, words: tuple[TokenWord, ...]) -> None:
        """A stream that begins with these words; what the rounds guessed goes on after them."""
        # One that begins at the same sample is the same stream, and its blocks stay where they are.
        if start != state.start:
            state.start, state.first_end = start, 0
        state.words, state.carried = words, len(words)

    def _is_stuck(self, state: StableState, end: int) -> bool:
        """True if the text has ended and the audio goes on: a decoder that has lost its place finds no more words."""
        if not self.stuck_s or state.guess:
            return False
        last = state.words[-1].end if state.words else state.start
        return end - max(last, state.tried) > self.stuck

    def _try_again(self, state: StableState, end: int) -> None:
        """A new stream, with the last words. If that one said nothing either, with none, and only what is newest: where
        a word ends is too uncertain to begin there.
        """
        carried = min(self.carry, len(state.words))
        start = self._carried_from(state, carried)
        if carried and len(state.words) > state.carried and start > state.start:
            self._begin(state, start, state.words[-carried:])
        else:
            self._begin(state, align_down(end - self.stuck), ())
        state.tried, state.hypotheses, state.found_at = end, (), ()

    def _carried_from(self, state: StableState, carried: int) -> int:
        """The sample at which the stream begins that begins with so many of the words."""
        if len(state.words) < max(carried, 1):
            return state.start
        first = state.words[-carried].start - MARGIN if carried else state.words[-1].end
        return align_down(max(first, state.start))


def _tokens(hypotheses: tuple[Scored, ...]) -> tuple[int, ...]:
    return hypotheses[0].tokens if hypotheses else ()
