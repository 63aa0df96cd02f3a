"""AlignAtt: a word is confirmed by one round, as soon as it attends to audio well before the end (Papi et al. 2023).

The rules are SimulStreaming's (Machacek, Polak 2025): docs/internals/attention.md. Confirmed words whose audio is still
in the window are forced as the decoder's prefix, so nothing is heard twice; words that leave the window become context.
Two ways to bound the window: "segments" drops the oldest rounds' audio once it is long, as SimulStreaming does;
"words" keeps it short, a few confirmed words in front of what is new.

Unlike the original, audio is only let go up to the last confirmed word or in a pause after it, or a second at a time
where two rounds in a row have failed to hear it; and a word whose next token is known to belong to it is held back. The
policy sees words, tokens and frames, no audio and no model.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar, Literal, NamedTuple

from whispertide.decoding.draft import Reference
from whispertide.decoding.guards import Frontier
from whispertide.decoding.token_words import TokenWord, spoken, tokens_of
from whispertide.methods.attention.delay import LATEST_S, Patience, patience
from whispertide.methods.attention.listening import HeardWords
from whispertide.methods.attention.marks import is_mark, unsure_mark, without_last_mark
from whispertide.methods.attention.said_once import said_once, without_loops
from whispertide.methods.attention.single_pass import Attending, SinglePass, frames
from whispertide.methods.attention.steadiness import Facts, calm, facts_of, read_rule, steady
from whispertide.options import check_range
from whispertide.streaming.choice import setting
from whispertide.streaming.repetition import CONTEXT
from whispertide.streaming.round import Commit, RoundPlan, RoundResult
from whispertide.streaming.searches import Search
from whispertide.streaming.trimming import MARGIN, forced_cut
from whispertide.types import CHUNK_SECONDS, FRAME_SAMPLES, SAMPLE_RATE, Span, Word, align_down, to_samples

Truncate = Literal["none", "last-word", "detector"]
Memory = Literal["segments", "words"]

UNSETTLED = SAMPLE_RATE  # so much audio before the frontier may hold a word of which nothing was heard yet
AFTER_WORD = SAMPLE_RATE // 5  # a cut in a pause keeps this far from the word before it
SKIPPED = SAMPLE_RATE  # of audio that rounds cannot hear, at a time
CONTEXT_CHARS = 1200  # of text before the window is remembered; more than fits into the text context


@dataclass(slots=True)
class AlignAttState:
    """What is remembered between rounds.

    start     first sample of the next window, a multiple of 320
    ends      where the rounds ended whose audio is in the window
    words     confirmed words in the window: the forced prefix
    said      the last confirmed words of the utterance, wherever the window begins
    context   confirmed text before the window
    attended  the sample that the newest token attended to; None: not known, any place is right
    guess     the words after the confirmed ones, each of which so many `rounds` in a row heard
    shown     what of the guess is shown, where not all of it is
    """

    start: int
    ends: list[int] = field(default_factory=list)
    words: list[TokenWord] = field(default_factory=list)
    said: list[TokenWord] = field(default_factory=list)
    context: str = ""
    attended: int | None = None
    guess: tuple[TokenWord, ...] = ()
    rounds: tuple[int, ...] = ()
    shown: tuple[Word, ...] = ()

    def copy(self) -> "AlignAttState":
        """An independent copy."""
        return replace(self, ends=list(self.ends), words=list(self.words), said=list(self.said))

    def add(self, words: Sequence[TokenWord]) -> None:
        """They are confirmed."""
        self.words += words
        self.said = [*self.said, *words][-CONTEXT:]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignAtt(Attending):
    """The policy. A round's attention must keep away from the frontier.

    A window whose decode ends in a backward shift is heard once more in another framing: in the last round, where what
    is dropped is lost, and wherever `shift_guard` watches. Where one of these guards is on, rewinds count in the last
    round, too; as published they do not.
    """

    kind: ClassVar[str] = "align-att"
    searches: ClassVar[tuple[str, ...]] = ("greedy", "beam", "verified")

    margin_s: float = setting(0.5, "a token must attend so far before the end", least=0, most=CHUNK_SECONDS)
    margin_last_s: float = setting(0.08, "the same in the last round", least=0, most=CHUNK_SECONDS)
    rewind_s: float = setting(
        4.0, "a jump back of the attention that voids a round (0 = none)", least=0, most=CHUNK_SECONDS
    )
    backward_s: float = setting(
        0.0,
        "a word that attends so far before the one it follows ends the decode (0 = none does); in the last round the "
        "window is then heard once more, padded to 30 s, or bare where it was padded",
        least=0,
        most=CHUNK_SECONDS,
    )
    attention_floor: float = setting(
        0.0,
        "keeps frames that nobody attends to from counting: a share of the strongest attention, by which the spread "
        "that attention is standardised by is taken to be larger (0 = as published)",
        least=0,
        most=1,
    )
    truncate: Truncate = setting(
        "last-word",
        'what is held back of the last word: "none", "last-word", "detector" (unless the word-truncation detector, '
        "which the model then must have, fires)",
    )
    steadiness: float = setting(
        0.0,
        "the accepted share of confirmed words that would have changed: what is more likely to stay, by a learned "
        "rule, is confirmed, and what has waited for `settle_s`; `margin_s` and `truncate` decide nothing then "
        "(0 = they decide)",
        least=0,
        most=0.5,
    )
    settle_s: float = setting(1.0, "the end of the window in which unlikely words wait", least=0, most=CHUNK_SECONDS)
    delay_s: float = setting(
        0.0,
        "how long after its end a word is confirmed, on average, from 0.35 on; `steadiness` and `settle_s` follow "
        "from it (0 = they are as they are set)",
        least=0,
        most=LATEST_S,
    )
    calm: float = setting(
        0.0, "words of the guess that are less likely to stay are not shown (0 = all are)", least=0, most=0.99
    )
    rule: str = setting("", "the learned rule, as `whispertide train steadiness` prints it; empty: the shipped one")
    memory: Memory = setting(
        "segments",
        '"segments": the oldest rounds\' audio goes when the window is full; "words": windows of about `window_s`, '
        "begun `carry` confirmed words before what is new",
    )
    window_s: float = setting(5.0, "see `memory`", least=1, most=CHUNK_SECONDS)
    reopen_s: float = setting(
        0.0,
        "where a text ends by itself so long before its window does, the next window begins after it, without text in "
        "front (0 = never)",
        least=0,
        most=CHUNK_SECONDS,
    )
    carry: int = setting(2, "see `memory`", least=1, most=20)
    must_speak: bool = setting(False, "every round says at least one token")
    beyond: int = setting(0, "tokens that are decoded after the frontier, as a guess", least=0, most=224)
    guess_least: float = setting(
        0.0, "a guess ends with a token that is less likely (0 = it does not)", least=0, most=1
    )
    waiting_marks: bool = setting(
        False,
        "a mark at the end of what was heard waits for what follows it; in the last round it may attend anywhere, and "
        "one that is not likely waits for the end of the turn",
    )
    rescue_logprob: float = setting(
        0.0,
        "a decode whose tokens are less likely on average is tried again with `rescue_beam` hypotheses (0 = never)",
        least=-20,
        most=0,
    )
    rescue_beam: int = setting(5, "see `rescue_logprob`", least=1, most=64)
    shed_s: float = setting(
        0.0,
        "when computing keeps rounds further apart than this there is no guess; at half of it no text is searched "
        "again, at twice of it windows get short (0 = never)",
        least=0,
        most=CHUNK_SECONDS,
    )

    def check(self) -> None:
        """A usual window fits into the longest."""
        Attending.check(self)
        check_range("window_s", self.window_s, 1, self.hard_cap_s)
        if self.rule:
            read_rule(self.rule)

    @property
    def patience(self) -> Patience:
        """How long words wait: as the delay that was asked for takes, or as it is set."""
        return patience(self.delay_s) if self.delay_s else Patience(self.steadiness, self.settle_s)

    @property
    def usual_s(self) -> float:
        """How long windows usually get at most."""
        return self.window_s if self.memory == "words" else self.hard_cap_s

    @property
    def margin(self) -> int:
        """`margin_s` in frames."""
        return frames(self.margin_s)

    @property
    def window(self) -> int:
        """`window_s` in samples."""
        return to_samples(self.window_s)

    def start(self, at: int, after: AlignAttState | None = None) -> AlignAttState:
        """Nothing confirmed, nothing attended to; what was said in the same turn is context."""
        context = "" if after is None else after.context + "".join(one.word.text for one in after.words)
        return AlignAttState(start=align_down(at), context=context[-CONTEXT_CHARS:])

    def plan(
        self, state: AlignAttState, frontier: int, *, search: Search, round_id: int, is_last: bool, load: int = 0
    ) -> RoundPlan:
        """The window up to `frontier`, after the confirmed words in it."""
        level = self.level(load)
        rewind = frames(self.rewind_s) or None
        last_frame = -(rewind or 0)  # nothing known: so far back that no first token looks like a rewind
        if state.attended is not None:
            # It may be negative: what was attended to may have left the window.
            last_frame = (state.attended - state.start) // FRAME_SAMPLES
        always = _always(self, search)
        guesses = always.one_text and not is_last and level < 2
        guards_last = is_last and (self.backward_s > 0 or self.shift_guard)
        rule = Frontier(
            margin=frames(self.margin_last_s) if is_last else self.margin,
            rewind=rewind if guards_last or not is_last else None,
            last_frame=last_frame,
            beyond=self.beyond if guesses else 0,
            doubtful=math.log(self.guess_least) if self.guess_least else -math.inf,
            back=frames(self.backward_s) or None,
            floor=self.attention_floor,
            marks=is_last and self.waiting_marks,
        )
        hearing = replace(
            always.hearing,
            watch=(rule, self.shift()) if self.shift_guard else (rule,),
            again=(_far(rule),) if guards_last else (rule,) if self.shift_guard else None,
            believes_jumps=guards_last,
            unheard_from=self._heard_to(state) if is_last else None,
            unbounded=(replace(_far(rule), margin=None),) if guards_last else (),
            rescue=None if level else always.hearing.rescue,
        )
        window = Span(state.start, frontier)
        guess = tokens_of(state.guess)
        return RoundPlan(
            round_id,
            window,
            hearing,
            prompt=state.context if self.context_tokens else "",
            prefix=tokens_of(state.words),
            reference=Reference.exactly(guess) if guess and always.checks_guess else None,
            is_last=is_last,
            level=level,
        )

    def level(self, load: int) -> int:
        """Declared steps of lowered quality under that load (`schedule.Schedule.load`).

        1: an unlikely text is not searched again; 2: there is no guess either; 3: the window is cut short, too.
        """
        shed = to_samples(self.shed_s)
        return sum(load > bound for bound in (shed // 2, shed, 2 * shed)) if shed else 0

    def apply(self, state: AlignAttState, result: RoundResult[HeardWords]) -> Commit:
        """Confirm what stands before the frontier (everything, in the last round), then bound the window."""
        end, is_last = result.plan.window.end, result.plan.is_last
        heard = result.heard
        rewound = heard is not None and heard.halt is not None and heard.halt.reason == "rewind"
        confirmed: list[TokenWord] = []
        closing: TokenWord | None = None
        if rewound:
            state.attended = None  # as void as the round; else the next would be void for the same reason
            if is_last:  # in both framings; what an earlier round has heard is the best there is
                confirmed = self._confirm_guess(state, len(state.guess))
        elif heard is not None:
            confirmed, closing = self._take(state, self._new_in(state, heard), result.plan)
        elif is_last:  # too short to be heard
            confirmed = self._confirm_guess(state, len(state.guess))
        state.ends.append(end)
        reopened = self._reopen(state, result)
        if reopened:  # after the mark at the end of the text that is over
            confirmed += [*self._confirm_guess(state, len(state.guess)), *([closing] if closing else [])]
            state.words, closing = [], None
        if not is_last and not reopened:
            confirmed += self._bound(state, end, result.plan.level, cut_short=self._is_cut_short(heard))
        guess = tuple(word.word for word in state.guess)
        return Commit(
            tuple(word.word for word in confirmed),
            state.shown if self.calm and not is_last else guess,
            min(state.start, align_down(end)),
            result.plan.level,
            goes_on=reopened,
            guess=guess,
            closing=None if closing is None else closing.word,
        )

    # --- which words --------------------------------------------------------------------------------------------------

    def _take(
        self, state: AlignAttState, heard: HeardWords, plan: RoundPlan
    ) -> tuple[list[TokenWord], TokenWord | None]:
        """The words that are confirmed now; the others become the guess. And a mark at the end of the last round that
        is not likely.
        """
        words, facts, waiting = spoken(heard.words), self.known(state, heard, plan), self.patience
        chances = read_rule(self.rule).chances(facts) if waiting.steadiness or self.calm else ()
        closing: TokenWord | None = None
        if plan.is_last:
            if self.waiting_marks:
                words, closing = unsure_mark(heard, words)
            firm = len(words)
            chances = chances[:firm]
        elif waiting.steadiness:  # a word that is known to go on waits
            firm = steady(facts, chances, waiting.steadiness, settle=to_samples(waiting.settle_s))
            firm = min(firm, len(words) - (heard.word_ended is False and bool(words)))
        else:
            firm = self.attentive(heard)
        rounds = [known.rounds for known in facts]
        if self.waiting_marks and not plan.is_last:
            words, firm = without_last_mark(heard, words, firm)
            parted = len(words) - len(rounds)  # the mark is as certain as its word
            rounds, chances = [*rounds, *rounds[-1:] * parted], (*chances, *chances[-1:] * parted)
        if heard.last_frame is not None:
            state.attended = state.start + heard.last_frame * FRAME_SAMPLES
        confirmed = self._without_loops(state, words[:firm])
        state.add(confirmed)
        state.guess, state.rounds = tuple(words[firm:]), tuple(rounds[firm:])
        if self.calm:
            at = words[firm - 1].end if firm else state.start
            guess, sure = state.guess, chances[firm:]
            state.shown = calm(state.shown, guess, sure, least=self.calm, confirmed=at, end=plan.window.end)
        return confirmed, closing

    def _new_in(self, state: AlignAttState, heard: HeardWords) -> HeardWords:
        """What was heard, without copies of what was said, and without a loop where what is in front of it begot it."""
        if not self.loop_guard:
            return heard
        if self.reopen_s and state.words and _loops(heard):
            return replace(heard, words=(), firm=0)
        kept = said_once(state.said, heard.words)
        return replace(heard, words=tuple(heard.words[at] for at in kept), firm=sum(at < heard.firm for at in kept))

    def _without_loops(self, state: AlignAttState, words: Sequence[TokenWord]) -> list[TokenWord]:
        return without_loops(state.said, words) if self.loop_guard else list(words)

    def _confirm_guess(self, state: AlignAttState, count: int) -> list[TokenWord]:
        """The first words of the guess are confirmed, certain or not, and no longer shown as a guess."""
        taken = state.guess[:count]
        words = self._without_loops(state, taken)
        state.add(words)
        state.guess, state.rounds = state.guess[count:], state.rounds[count:]
        if taken:
            state.shown = tuple(word for word in state.shown if word.lies_after(taken[-1].end))
        return words

    def known(self, state: AlignAttState, heard: HeardWords, plan: RoundPlan) -> tuple[Facts, ...]:
        """What is known of each word that was heard, before the round is applied."""
        firm, end = len(spoken(heard.words[: heard.firm])), plan.window.end
        step = end - (state.ends[-1] if state.ends else state.start)
        return facts_of(spoken(heard.words), state.guess, state.rounds, firm=firm, end=end, step=step)

    def attentive(self, heard: HeardWords) -> int:
        """How many words stand by the thresholds."""
        firm = len(spoken(heard.words[: heard.firm]))
        held = self._holds(heard, is_newest=firm == len(spoken(heard.words)))
        return firm - 1 if firm and held else firm

    def _holds(self, heard: HeardWords, *, is_newest: bool) -> bool:
        """Whether the last firm word may still be spoken."""
        if heard.word_ended is False or self.truncate == "last-word":
            return True
        return self.truncate == "detector" and is_newest and heard.word_ended is not True

    def _heard_to(self, state: AlignAttState) -> int:
        """Where the confirmed words in the window end."""
        if not state.words:
            return state.start
        # What a word's last piece attends to may lie before the word.
        return max(state.words[-1].spoken_by, state.words[-1].start)

    def _said_to(self, state: AlignAttState) -> int:
        """Where what is unheard begins."""
        return self._heard_to(state) + (AFTER_WORD if state.words else 0)

    def _reopen(self, state: AlignAttState, result: RoundResult[HeardWords]) -> bool:
        """Begin anew after words that were forced on a decoder, which then took its text to be over, or looped.

        Above all after a full stop a checkpoint may end its text whatever is said next, and after "no, no, no" say it
        for ever. Asked about the rest alone, without any text before it, it hears the rest.
        """
        heard, end = result.heard, result.plan.window.end
        if not self.reopen_s or not result.plan.prefix or any(not is_mark(word) for word in state.guess):
            return False
        if heard is None or heard.halt is not None or heard.no_speech_prob > self.no_speech:
            return False
        rest = end - self._heard_to(state)
        is_over = heard.stop == "end_of_text" and rest > to_samples(self.reopen_s)
        if not is_over and not (self.loop_guard and _loops(heard) and rest > UNSETTLED):
            return False
        state.start = max(state.start, align_down(min(self._said_to(state), end)))
        state.words, state.context, state.attended = [], "", None
        state.ends = [at for at in state.ends if at > state.start]
        return True

    # --- which audio --------------------------------------------------------------------------------------------------

    def _bound(self, state: AlignAttState, end: int, level: int, *, cut_short: bool) -> list[TokenWord]:
        """Let go of audio at the front; returns words that had to be confirmed because the window is full.

        `cut_short`: the decode has not heard the window to its end.
        """
        step = end - (state.ends[-2] if len(state.ends) > 1 else state.start)
        # Of what one round alone has failed to hear nothing goes, and of what two have failed to hear a second, in
        # which what stops them both may lie; or as much as comes in meanwhile, so that the window does not grow.
        skipped = max(SKIPPED, min(step, 2 * SKIPPED)) + FRAME_SAMPLES
        keep_from = min(end - step, self._said_to(state) + skipped) if cut_short else end
        reserve = self._reserve(end - state.start, step)
        if cut_short:  # what is unheard is worth more than room for a large step, which can be taken in two
            reserve = min(reserve, self.hard_cap // 8)
        if self.memory == "words":
            carry = 1 if level >= 3 else self.carry
            if level >= 3 or end - state.start > self.window:
                self._cut(state, max(self._in_front_of(state, carry), end - self.window), end, keep_from)
        else:
            # The oldest first; the newest round's audio stays in any case.
            while len(state.ends) > 1 and end - state.start > self.hard_cap - reserve:
                self._cut(state, state.ends.pop(0), end, keep_from)
        forced: list[TokenWord] = []
        if end - state.start > self.hard_cap - reserve:
            # Still too long: neither rounds nor pauses have let go of enough.
            if cut_short and not state.guess:
                self._move(state, end - (self.hard_cap - reserve))  # and of what is unheard no more than must
            else:
                forced = self._make_room(state, end, max(reserve, self.hard_cap // 8))
        state.ends = [at for at in state.ends if at > state.start]
        return forced

    def _is_cut_short(self, heard: HeardWords | None) -> bool:
        """Whether a guard or the limit has ended the text before the audio does; the frontier alone is no such end, and
        of silence nothing is unheard.
        """
        if heard is None or heard.no_speech_prob > self.no_speech:
            return False
        if heard.halt is None:
            return heard.stop != "end_of_text"
        return heard.halt.reason != "frontier"

    def _reserve(self, length: int, step: int) -> int:
        """Room for the audio of the next round, in a window of that length. Segments leave room for a step like the
        last one, so that the window grows to its full length; where it is full there may be more to catch up with.
        """
        if self.memory == "words":
            step = max(step, self.hard_cap // 8)
        elif length >= self.hard_cap:
            step *= 2
        # Never more than half, or after one long step there would be no window left to hear.
        return min(step, self.hard_cap // 2)

    def _in_front_of(self, state: AlignAttState, carry: int) -> int:
        return state.words[-carry].start - MARGIN if len(state.words) >= carry else state.start

    def _cut(self, state: AlignAttState, wanted: int, end: int, keep_from: int) -> None:
        """Move the window's start to `wanted`, or before it where a word that will be needed is in the way, or audio
        from `keep_from` on that no word was heard in.
        """
        pending = state.guess[0].start - MARGIN if state.guess else end - self.margin * FRAME_SAMPLES - UNSETTLED
        wanted = min(wanted, pending, max(keep_from, self._said_to(state)))
        # A cut this close to the last word would take its end away, and the rest would be heard as another word.
        if state.words and wanted < state.words[-1].end + AFTER_WORD:
            wanted = min(wanted, state.words[-1].start - MARGIN)
        self._move(state, wanted)

    def _move(self, state: AlignAttState, to: int) -> None:
        state.start = max(state.start, align_down(max(to, 0)))
        inside = [word for word in state.words if word.word.lies_after(state.start)]
        gone = state.words[: len(state.words) - len(inside)]
        state.words = state.words[len(gone) :]
        state.context = (state.context + "".join(word.word.text for word in gone))[-CONTEXT_CHARS:]

    def _make_room(self, state: AlignAttState, end: int, least: int) -> list[TokenWord]:
        """The window is full of words that nothing confirms: confirm the older part of the guess, and cut after it."""
        cut = forced_cut([word.word for word in state.guess], Span(state.start, end), least)
        forced = self._confirm_guess(state, cut.confirm)
        state.attended = None
        self._move(state, cut.cut)
        return forced


def _loops(heard: HeardWords) -> bool:
    """Whether the guard against repetition ended the text: no guard of the attention did."""
    return heard.stop == "guard" and heard.halt is None


def _far(rule: Frontier) -> Frontier:
    """The rule where the last window is heard once more: only a word's jump as long as a rewind is believed. It ends
    the text, and what was said before it stays.
    """
    return replace(rule, back=rule.rewind, words_only=True)


class _Always(NamedTuple):
    """What is the same in every round.

    one_text      whether the search has one hypothesis, so that a guess after the frontier is worth its tokens
    checks_guess  whether it checks that guess in the next round
    """

    hearing: SinglePass
    one_text: bool
    checks_guess: bool


# The values are frozen, so the same hearing need not be made anew in every round.
@lru_cache(maxsize=64)
def _always(policy: AlignAtt, search: Search) -> _Always:
    hearing = replace(
        policy.hearing(search),
        must_speak=policy.must_speak,
        rescue=policy.rescue_logprob or None,
        rescue_beam=policy.rescue_beam,
        detect_end=policy.truncate == "detector",
    )
    one_text = search.hypotheses == 1
    return _Always(hearing, one_text, one_text and search.reuse is not None)
