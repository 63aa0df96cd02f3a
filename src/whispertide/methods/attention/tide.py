"""A word is confirmed by one round, once a learned rule finds it likely enough to stay: the policy of `tide`.

Built on AlignAtt's forced prefix (docs/internals/attention.md). Windows are short: a few confirmed words in front of
what is new. The decoder goes on after the frontier, where words are a guess; of the guess only what is likely to stay
is shown, and the next round checks it. Where a text ends long before its window, the next window begins after it. The
policy sees words, tokens and frames, no audio and no model.

From a result to a commit is `Tide.apply`; `Tide.stands` decides which words are confirmed.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from whispertide.decoding.draft import Reference
from whispertide.decoding.guards import Frontier
from whispertide.decoding.token_words import TokenWord, spoken, tokens_of
from whispertide.methods.attention.attending import AttendingEnds
from whispertide.methods.attention.backward_shift import BackwardShift
from whispertide.methods.attention.delay import LATEST_S, Patience
from whispertide.methods.attention.forced_window import UNSETTLED, ForcedWindow
from whispertide.methods.attention.listening import HeardWords, is_mark, unsure_mark, without_copies, without_last_mark
from whispertide.methods.attention.steadiness import Facts, facts_of, likely_shown, read_curve, read_rule
from whispertide.options import check_range
from whispertide.punctuation import runs_on
from whispertide.streaming.choice import in_frames, in_samples, setting
from whispertide.streaming.round import Commit, RoundPlan, RoundResult
from whispertide.streaming.searches import Search
from whispertide.streaming.trimming import MARGIN
from whispertide.types import CHUNK_SECONDS, FRAME_SAMPLES, Span, Word, align_down, to_samples


@dataclass(slots=True)
class TideState(ForcedWindow):
    """The window, in how many `rounds` in a row each word of its guess was heard, and what of it is `shown`."""

    rounds: tuple[int, ...] = ()
    shown: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """The `words` after the confirmed ones, of which the first `firm` stand.

    rounds   in how many rounds in a row each was heard
    chances  how likely each is to stay; None: nothing was heard, they are as they were
    closing  an unlikely mark at the end of the last round
    """

    words: Sequence[TokenWord]
    firm: int
    rounds: tuple[int, ...]
    chances: tuple[float, ...] | None = None
    closing: TokenWord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tide(AttendingEnds):
    """The policy.

    A window whose decode ends in a backward shift is heard once more in another framing: in the last round, where what
    is dropped is lost, and wherever `shift_guard` watches. Where one of these guards is on, rewinds count in the last
    round, too.
    """

    kind: ClassVar[str] = "tide"
    searches: ClassVar[tuple[str, ...]] = ("greedy", "beam", "verified")

    # which words stand
    max_revision_rate: float = setting(
        0.03,
        "accepted share of confirmed words that would have changed; a learned rule predicts it, and words "
        "that have waited for `settle_s` are confirmed anyway",
        least=0,
        most=0.5,
    )
    settle_s: float = setting(
        1.0, "length of the end of the window in which uncertain words wait", least=0, most=CHUNK_SECONDS
    )
    delay_s: float = setting(
        0.0,
        "average delay from the end of a word to its confirmation, from 0.35 on; sets `max_revision_rate`, `settle_s` "
        "and `step_s` (0 = does not)",
        least=0,
        most=LATEST_S,
    )
    rule: str = setting(
        "",
        "learned rule, as printed by `whispertide train steadiness`, or `general` or `base`, which are bundled; empty: "
        "the one that suits the checkpoint",
    )
    waiting_marks: bool = setting(
        True,
        "whether a punctuation mark at the end of the text waits for the next words; in the last round it may "
        "attend anywhere, and an unlikely one waits for the end of the turn",
    )
    # what is shown of the others
    min_shown_probability: float = setting(
        0.7, "words of the hypothesis that are less likely to stay are not shown (0 = all are)", least=0, most=0.99
    )
    lookahead_tokens: int = setting(12, "tokens decoded after the frontier, as hypothesis", least=0, most=224)
    guess_least: float = setting(0.3, "the hypothesis ends at a less likely token (0 = never)", least=0, most=1)
    # how a window is heard
    margin_s: float = setting(0.24, "distance of the frontier from the end", least=0, most=CHUNK_SECONDS)
    margin_last_s: float = setting(0.04, "the same in the last round", least=0, most=CHUNK_SECONDS)
    rewind_s: float = setting(2.0, "jump back that voids a round (0 = none)", least=0, most=CHUNK_SECONDS)
    backward_s: float = setting(
        0.06,
        "a word that attends this far before the previous word ends the decode (0 = none); in the last round "
        "the window is then decoded once more, padded to 30 s, or bare if it was padded",
        least=0,
        most=CHUNK_SECONDS,
    )
    attention_floor: float = setting(
        0.1,
        "share of the strongest attention that is added to the standard deviation of a frame, so that frames "
        "without attention do not count (0 = as published)",
        least=0,
        most=1,
    )
    shift_guard: bool = setting(
        False,
        "whether NPUsper's backward shifts end a decode; the window is then decoded once more, as with `backward_s`",
    )
    silence_s: float = setting(
        1.0, "silence after the last window of an utterance, so that its text can end", least=0, most=CHUNK_SECONDS
    )
    rescue_logprob: float = setting(
        -1.0,
        "a decode whose tokens are less likely on average is repeated with `rescue_beam` hypotheses (0 = never)",
        least=-20,
        most=0,
    )
    rescue_beam: int = setting(5, "see `rescue_logprob`", least=1, most=64)
    # which audio and text a window has
    window_s: float = setting(9.0, "approximate length of windows", least=1, most=CHUNK_SECONDS)
    carry: int = setting(2, "confirmed words before the new audio in the window", least=1, most=20)
    reopen_s: float = setting(
        1.6,
        "if a text ends by itself this long before its window, the next window begins after it, without text "
        "in front (0 = never)",
        least=0,
        most=CHUNK_SECONDS,
    )
    overload_s: float = setting(
        1.5,
        "if computing delays rounds by more than this, there is no hypothesis; at half of it no decode is "
        "repeated, at twice this windows become short (0 = never)",
        least=0,
        most=CHUNK_SECONDS,
    )

    margin: int = in_frames("margin_s")
    margin_last: int = in_frames("margin_last_s")
    rewind: int = in_frames("rewind_s")
    backward: int = in_frames("backward_s")
    window: int = in_samples("window_s")
    reopen: int = in_samples("reopen_s")
    overload: int = in_samples("overload_s")
    settle: int = field(init=False, repr=False, compare=False)
    patience: Patience = field(init=False, repr=False, compare=False)

    def check(self) -> None:
        """A usual window fits into the longest."""
        AttendingEnds.check(self)
        check_range("window_s", self.window_s, 1, self.hard_cap_s)
        if self.rule:
            read_rule(self.rule)

    def derive(self) -> dict[str, Any]:
        """Derive the words' waiting from the wanted delay, and the settings as the decode takes them."""
        hearing = replace(
            AttendingEnds.derive(self)["hearing"],
            rescue_beam=self.rescue_beam,
        )
        asked = Patience(self.max_revision_rate, self.settle_s)
        waits = read_curve(self.rule).patience(self.delay_s) if self.delay_s else asked
        return {"hearing": hearing, "patience": waits, "settle": to_samples(waits.settle_s)}

    @property
    def usual_s(self) -> float:
        """The usual limit of windows."""
        return self.window_s

    def start(self, at: int, after: TideState | None = None) -> TideState:
        """Nothing confirmed; what was said in the same turn is context."""
        return TideState.begin(at, after)

    # --- the next round -----------------------------------------------------------------------------------------------

    def plan(
        self, state: TideState, frontier: int, *, search: Search, round_id: int, is_last: bool, load: int = 0
    ) -> RoundPlan:
        """The window up to `frontier`, after the confirmed words in it."""
        level = self.level(load)
        guards_last = is_last and (self.backward > 0 or self.shift_guard)
        # A search of several hypotheses neither has a guess that is worth its tokens, nor checks one.
        guesses, guess = search.hypotheses == 1, tokens_of(state.guess)
        rule = Frontier(
            margin=self.margin_last if is_last else self.margin,
            rewind=self.rewind or None if guards_last or not is_last else None,
            last_frame=state.last_frame(-self.rewind),  # so far back that no first token looks like a rewind
            lookahead_tokens=self.lookahead_tokens if guesses and not is_last and level < 2 else 0,
            doubtful=math.log(self.guess_least) if self.guess_least else -math.inf,
            back=self.backward or None,
            floor=self.attention_floor,
            marks=is_last and self.waiting_marks,
        )
        # Where the last window is heard once more, only a word's jump as long as a rewind is believed. It ends the
        # text, and what was said before it stays.
        far = replace(rule, back=rule.rewind, words_only=True)
        hearing = replace(
            self.hearing,
            watch=(rule, BackwardShift()) if self.shift_guard else (rule,),
            again=(far,) if guards_last else (rule,) if self.shift_guard else None,
            believes_jumps=guards_last,
            unheard_from=state.heard_to if is_last else None,
            unbounded=(replace(far, margin=None),) if guards_last else (),
            rescue=None if level else self.rescue_logprob or None,
        )
        return RoundPlan(
            round_id,
            Span(state.start, frontier),
            hearing,
            # After a text without sentences Whisper goes on without any, and in small letters.
            prompt="" if not self.context_tokens or runs_on(state.context) else state.context,
            prefix=tokens_of(state.words),
            reference=Reference.exactly(guess) if guess and guesses and search.reuse is not None else None,
            is_last=is_last,
            level=level,
        )

    def level(self, load: int) -> int:
        """Declared steps of lowered quality under that load (`schedule.Schedule.load`).

        1: an unlikely text is not searched again; 2: there is no guess either; 3: the window is cut short, too.
        """
        # The number of bounds that the load exceeds.
        return bisect_left((self.overload // 2, self.overload, 2 * self.overload), load) if self.overload else 0

    # --- what came of it ----------------------------------------------------------------------------------------------

    def apply(self, state: TideState, result: RoundResult[HeardWords]) -> Commit:
        """Confirm the words that stand (everything, in the last round), then move the window."""
        judged = self._judge(state, result)
        state.rounds = judged.rounds[judged.firm :]
        confirmed = state.confirm(judged.words, judged.firm, loop_guard=self.loop_guard)
        self._show(state, judged, result.plan)
        forced, reopened = self._move_window(state, judged, result)
        return self._commit(state, judged, [*confirmed, *forced], result.plan, reopened=reopened)

    def _judge(self, state: TideState, result: RoundResult[HeardWords]) -> Judgement:
        """Judge which words of the round stand, and which wait."""
        heard, plan = result.heard, result.plan
        if heard is not None and heard.rewound:
            state.attended = None  # as void as the round; else the next would be void for the same reason
        if heard is None or heard.rewound:  # too short to be heard, or nothing of it counts: as it was
            return Judgement(state.guess, len(state.guess) if plan.is_last else 0, state.rounds)
        heard = self._new_in(state, heard, plan)
        state.note_attended(heard.last_frame)
        words, facts, closing = spoken(heard.words), self.known(state, heard, plan), None
        chances, rounds = read_rule(self.rule).chances(facts), tuple(known.rounds for known in facts)
        if plan.is_last:
            if self.waiting_marks:
                words, closing = unsure_mark(heard, words)
            return Judgement(words, len(words), rounds, chances[: len(words)], closing)
        firm = min(self.stands(facts, chances), len(words) - (heard.word_ended is False and bool(words)))
        if self.waiting_marks:
            words, firm = without_last_mark(heard, words, firm)
            parted = len(words) - len(rounds)  # the mark is as certain as its word
            rounds, chances = (*rounds, *rounds[-1:] * parted), (*chances, *chances[-1:] * parted)
        return Judgement(words, firm, rounds, chances)

    def stands(self, facts: Sequence[Facts], chances: Sequence[float]) -> int:
        """The number of words to confirm: those before the first one that is more likely to change than is accepted.

        A word that the frontier's guard let stand waits no longer than for `settle_s` of audio after it. Some words
        never get likely, and a window that grows with what waits is decoded worse.
        """
        least = 1 - self.patience.max_revision_rate
        for number, (known, chance) in enumerate(zip(facts, chances, strict=True)):
            if chance < least and not (known.firm and known.frontier >= self.settle):
                return number
        return len(chances)

    def known(self, state: TideState, heard: HeardWords, plan: RoundPlan) -> tuple[Facts, ...]:
        """The facts of each word of the transcript, before the round is applied."""
        firm, end = len(spoken(heard.words[: heard.firm])), plan.window.end
        return facts_of(spoken(heard.words), state.guess, state.rounds, firm=firm, end=end, step=state.step(end))

    def _new_in(self, window: ForcedWindow, heard: HeardWords, plan: RoundPlan) -> HeardWords:
        """The words without copies of earlier ones. Of a loop that began with the text in front of it there are none,
        where another round hears that audio.
        """
        if not self.loop_guard:
            return heard
        if self.reopen and window.words and heard.loops and (not plan.is_last or _rest(window, plan) > UNSETTLED):
            return replace(heard, words=(), firm=0)
        return without_copies(window.said, heard)

    def _show(self, state: TideState, judged: Judgement, plan: RoundPlan) -> None:
        """The part of the guess to show: new words only if they are likely to stay."""
        if judged.chances is None or not self.min_shown_probability:
            return
        state.shown = likely_shown(
            state.shown,
            judged.words[: judged.firm],
            state.guess,
            judged.chances[judged.firm :],
            least=self.min_shown_probability,
            start=state.start,
            end=plan.window.end,
        )

    def _move_window(
        self, state: TideState, judged: Judgement, result: RoundResult[HeardWords]
    ) -> tuple[list[TokenWord], bool]:
        """Let go of audio at the front. Returns words that had to be confirmed for that, and whether the next window
        begins anew, after all that was said.
        """
        end, guess = result.plan.window.end, state.guess
        step = state.step(end)
        state.ends.append(end)
        reopened = self._ends_early(state, result)
        if reopened:  # after the mark at the end of the text that is over
            forced = state.reopen(end, loop_guard=self.loop_guard)
            forced += [judged.closing] if judged.closing else []
        else:
            forced = [] if result.plan.is_last else self._shorten(state, step, result)
        if taken := guess[: len(guess) - len(state.guess)]:
            state.rounds = state.rounds[len(taken) :]
            state.shown = tuple(word for word in state.shown if word.lies_after(taken[-1].end))
        return forced, reopened

    def _ends_early(self, window: ForcedWindow, result: RoundResult[HeardWords]) -> bool:
        """True if words that were forced on a decoder made it take its text to be over, or loop.

        Above all after a full stop a checkpoint may end its text whatever comes next, and after "no, no, no" repeat it
        for ever. Asked about the rest alone, without any text before it, it finds the rest.
        """
        heard = result.heard
        if not self.reopen or not result.plan.prefix or any(not is_mark(word) for word in window.guess):
            return False
        if heard is None or heard.halt is not None or heard.no_speech_prob > self.no_speech:
            return False
        rest = _rest(window, result.plan)
        if heard.stop == "end_of_text" and rest > self.reopen:
            return True
        return self.loop_guard and heard.loops and rest > UNSETTLED

    def _shorten(self, window: ForcedWindow, step: int, result: RoundResult[HeardWords]) -> list[TokenWord]:
        """Keep a few confirmed words in front of what is new; returns words that had to be confirmed because the window
        is full.
        """
        end, level = result.plan.window.end, result.plan.level
        frontier = end - self.margin * FRAME_SAMPLES
        cut_short = result.heard is not None and result.heard.stops_short(self.no_speech)
        if level >= 3 or end - window.start > self.window:
            carry = 1 if level >= 3 else self.carry
            in_front = window.words[-carry].start - MARGIN if len(window.words) >= carry else window.start
            keep_from = window.keep_from(end, step, cut_short=cut_short)
            window.cut(max(in_front, end - self.window), keep_from, frontier=frontier)
        # Room for the audio of the next round, but what is unheard is worth more than room for a large step, which can
        # be taken in two. Never more than half, or after one long step there would be no window left to hear.
        least = self.hard_cap // 8
        reserve = least if cut_short else min(max(step, least), self.hard_cap // 2)
        longest, guard = self.hard_cap - reserve, self.loop_guard
        return window.shorten(end, longest, least=reserve, frontier=frontier, cut_short=cut_short, loop_guard=guard)

    def _commit(
        self, state: TideState, judged: Judgement, confirmed: Sequence[TokenWord], plan: RoundPlan, *, reopened: bool
    ) -> Commit:
        guess = tuple(word.word for word in state.guess)
        closing = None if reopened or judged.closing is None else judged.closing.word
        return Commit(
            tuple(word.word for word in confirmed),
            state.shown if self.min_shown_probability and not plan.is_last else guess,
            min(state.start, align_down(plan.window.end)),
            plan.level,
            goes_on=reopened,
            guess=guess,
            closing=closing,
        )


def _rest(window: ForcedWindow, plan: RoundPlan) -> int:
    """The samples after the last confirmed word."""
    return plan.window.end - window.over_by
