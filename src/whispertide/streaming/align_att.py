"""AlignAtt: a word is confirmed by one round, as soon as it attends to audio well before the end (Papi et al. 2023).

The rules are SimulStreaming's (Machacek, Polak 2025), see docs/attention.md. Confirmed words whose audio is still in
the window are forced as the decoder's prefix, so nothing is heard twice; words that leave the window become context.
Two ways to bound the window: "segments" drops the oldest rounds' audio once it is long, as SimulStreaming does;
"words" keeps it short, a few confirmed words in front of what is new.

Unlike the original, audio is only let go up to the last confirmed word or in a pause behind it, and a word whose next
token is known to belong to it is held back. The policy sees words, tokens and frames, no audio and no model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from whispertide.decoding.backward_shift import BackwardShift
from whispertide.decoding.frontier import Frontier
from whispertide.decoding.reference import Reference
from whispertide.decoding.search import Guard
from whispertide.decoding.token_words import TokenWord
from whispertide.decoding.watch import Watch
from whispertide.options import check_choice
from whispertide.streaming.doubt import Doubt
from whispertide.streaming.local_agreement import normalise
from whispertide.streaming.policy import align_down
from whispertide.streaming.repetition import CONTEXT, cut_loops
from whispertide.streaming.round import Commit, Listened, Listening, RoundPlan, RoundResult
from whispertide.streaming.trimming import MARGIN, forced_cut
from whispertide.types import FRAME_SAMPLES, SAMPLE_RATE, Span

Truncate = Literal["none", "last-word", "near-end", "detector"]
Memory = Literal["segments", "words"]

UNSETTLED = SAMPLE_RATE  # so much audio before the frontier may hold a word of which nothing was heard yet
AFTER_WORD = SAMPLE_RATE // 5  # a cut in a pause keeps this far from the word before it
CONTEXT_CHARS = 1200  # of text before the window is remembered; more than fits into the text context


@dataclass(slots=True)
class AlignAttState:
    """What is remembered between rounds.

    start     first sample of the next window, a multiple of 320
    ends      where the rounds ended whose audio is in the window
    words     confirmed words in the window: the forced prefix
    context   confirmed text before the window
    attended  the sample that the newest token attended to; None: not known, any place is right
    guess     the words behind the confirmed ones
    """

    start: int
    ends: list[int] = field(default_factory=list)
    words: list[TokenWord] = field(default_factory=list)
    context: str = ""
    attended: int | None = None
    guess: tuple[TokenWord, ...] = ()

    def copy(self) -> "AlignAttState":
        """An independent copy."""
        return replace(self, ends=list(self.ends), words=list(self.words))


@dataclass(frozen=True, slots=True)
class AlignAtt:
    """The policy. Times in samples, attention in frames of 20 ms; `streaming.recipes` has the checks.

    margin        a token must attend so many frames before the end; `margin_last` in the last round
    rewind        a token that attends so many frames behind the one before it voids its round; None: never
    back          a word that attends so many frames behind the one before it ends the decode; None: none does
    floor         of the spread of attention (`decoding.watch.attended_frame`)
    shift         ends a decode too, where attention shifts backward (NPUsper); None: nothing does
                  A window whose decode ends in a backward shift is heard once more in another framing: in the last
                  round, where what is dropped is lost, and wherever `shift` watches
    truncate      what is held back of the last word: "none"; "last-word": always; "near-end": where it attends to the
                  last `hold` of the window; "detector": unless the word-truncation detector fires
    doubt         which words are held back, with whatever follows them, judged by where they attend
    memory        "segments": windows of up to `hard_cap`; "words": of about `window`, cut in front of the last `carry`
                  confirmed words
    context       whether text that left the window precedes it as prompt
    beyond        tokens decoded behind the frontier as a guess; none in the last round, which confirms what it hears
    verify        the guess of the round before is checked as one block instead of being decoded again
    shed          from such a load on there is no guess, from twice that the window is cut to one word; 0: never
    loop_guard    cut down repetition loops before they are confirmed
    listen        how rounds are decoded otherwise
    """

    margin: int = 25
    margin_last: int = 4
    rewind: int | None = 200
    back: int | None = None
    floor: float = 0.0
    shift: BackwardShift | None = None
    truncate: Truncate = "last-word"
    hold: int = SAMPLE_RATE // 2
    doubt: Doubt = field(default_factory=Doubt)
    memory: Memory = "segments"
    window: int = 5 * SAMPLE_RATE
    carry: int = 2
    hard_cap: int = 30 * SAMPLE_RATE
    context: bool = True
    beyond: int = 0
    verify: bool = False
    shed: int = 0
    loop_guard: bool = True
    listen: Listening = field(default_factory=Listening)

    def __post_init__(self) -> None:
        check_choice("truncate", self.truncate, ("none", "last-word", "near-end", "detector"))
        check_choice("memory", self.memory, ("segments", "words"))

    def start(self, at: int) -> AlignAttState:
        """Nothing confirmed, nothing attended to, no context."""
        return AlignAttState(start=align_down(at))

    def limit(self, state: AlignAttState) -> int:
        """The end of a window of `hard_cap` samples."""
        return state.start + self.hard_cap

    def plan(self, state: AlignAttState, frontier: int, *, round_id: int, is_last: bool, load: int = 0) -> RoundPlan:
        """The window up to `frontier`, behind the confirmed words in it."""
        level = self.level(load)
        last_frame = -(self.rewind or 0)
        if state.attended is not None:
            last_frame = (state.attended - state.start) // FRAME_SAMPLES
        rule = Frontier(
            margin=self.margin_last if is_last else self.margin,
            rewind=None if is_last else self.rewind,
            last_frame=last_frame,
            beyond=0 if is_last or level >= 2 else self.beyond,
            back=self.back,
            floor=self.floor,
        )
        listen = replace(
            self.listen,
            watch=(rule,) if self.shift is None else (rule, self.shift),
            again=self._again(rule, is_last),
            detect_end=self.truncate == "detector",
            unheard_from=self._heard_to(state) if is_last else None,
        )
        window = Span(state.start, frontier)
        guess = tuple(token for word in state.guess for token in word.tokens)
        return RoundPlan(
            round_id,
            window,
            prompt=state.context if self.context else "",
            prefix=tuple(token for word in state.words for token in word.tokens),
            reference=Reference.exactly(guess) if self.verify and guess else None,
            is_last=is_last,
            level=level,
            listen=listen,
        )

    def _again(self, rule: Frontier, is_last: bool) -> tuple[Watch, ...] | None:
        """What watches a window that is heard once more. No audio follows the last round, so then it may look back."""
        if is_last:
            return None if self.shift is None and self.back is None else (replace(rule, back=None),)
        return None if self.shift is None else (rule,)

    def guards(self, plan: RoundPlan) -> Sequence[Guard]:
        """None: what watches is in the plan."""
        return ()

    def level(self, load: int) -> int:
        """Declared steps of lowered quality under that load (`schedule.Schedule.load`).

        1: steps are longer; 2: there is no guess either; 3: the window is cut short, too.
        """
        return sum(load > bound for bound in (self.shed // 2, self.shed, 2 * self.shed)) if self.shed else 0

    def apply(self, state: AlignAttState, result: RoundResult) -> Commit:
        """Confirm what stands before the frontier (everything, in the last round), then bound the window."""
        end, is_last = result.plan.window.end, result.plan.is_last
        heard = result.listened
        rewound = heard is not None and heard.halt is not None and heard.halt.reason == "rewind"
        confirmed: list[TokenWord] = []
        if rewound:
            state.attended = None
        elif heard is not None:
            confirmed = self._take(state, heard, is_last)
        elif is_last:  # too short to be heard
            confirmed, state.guess = list(state.guess), ()
        state.ends.append(end)
        if not is_last:
            confirmed += self._bound(state, end, result.plan.level)
        return Commit(
            tuple(word.word for word in confirmed),
            tuple(word.word for word in state.guess),
            min(state.start, align_down(end)),
            result.plan.level,
        )

    # --- which words --------------------------------------------------------------------------------------------------

    def _take(self, state: AlignAttState, heard: Listened, is_last: bool) -> list[TokenWord]:
        """The words that are confirmed now; the others become the guess."""
        words = [word for word in heard.words if word.word.text.strip()]
        firm = len(words) if is_last else sum(bool(word.word.text.strip()) for word in heard.words[: heard.firm])
        if not is_last and firm and self._holds(words[firm - 1], heard, state, is_newest=firm == len(words)):
            firm -= 1
        if not is_last:
            firm = self._certain(words[:firm], state.start + heard.frames * FRAME_SAMPLES)
        if heard.last_frame is not None:
            state.attended = state.start + heard.last_frame * FRAME_SAMPLES
        confirmed = self._without_loops(state, words[:firm])
        state.words += confirmed
        state.guess = tuple(words[firm:])
        return confirmed

    def _holds(self, word: TokenWord, heard: Listened, state: AlignAttState, *, is_newest: bool) -> bool:
        """Whether the last firm word may still be spoken."""
        if heard.word_ended is False:
            return True
        if self.truncate == "none":
            return False
        if self.truncate == "last-word":
            return True
        if self.truncate == "detector":
            return is_newest and heard.word_ended is not True
        return word.spoken_by > state.start + heard.frames * FRAME_SAMPLES - self.hold

    def _certain(self, words: list[TokenWord], end: int) -> int:
        """How many words stand before the first one that more audio up to `end` may still change."""
        for number, word in enumerate(words):
            if self.doubt.waits(word.word.probability, word.spoken_by, end):
                return number
        return len(words)

    def _without_loops(self, state: AlignAttState, words: list[TokenWord]) -> list[TokenWord]:
        if not self.loop_guard:
            return words
        before = [word.word for word in state.words[-CONTEXT:]]
        kept = cut_loops(before, [word.word for word in words], normalise).words
        ids = {id(word) for word in kept}
        return [word for word in words if id(word.word) in ids]

    def _heard_to(self, state: AlignAttState) -> int:
        """Where the confirmed words in the window end."""
        return state.words[-1].spoken_by if state.words else state.start

    # --- which audio --------------------------------------------------------------------------------------------------

    def _bound(self, state: AlignAttState, end: int, level: int) -> list[TokenWord]:
        """Let go of audio at the front; returns words that had to be confirmed because the window is full."""
        reserve = self._reserve(state, end)
        if self.memory == "words":
            carry = 1 if level >= 3 else self.carry
            if level >= 3 or end - state.start > self.window:
                self._cut(state, max(self._in_front_of(state, carry), end - self.window), end)
        else:
            while len(state.ends) > 1 and end - state.start > self.hard_cap - reserve:
                self._cut(state, state.ends.pop(0), end)
        forced: list[TokenWord] = []
        if end - state.start > self.hard_cap - reserve:
            forced = self._make_room(state, end, max(reserve, self.hard_cap // 8))
        state.ends = [at for at in state.ends if at > state.start]
        return forced

    def _reserve(self, state: AlignAttState, end: int) -> int:
        """Room for the audio of the next round. Segments leave room for a step like the last one, so that the window
        grows to its full length; where it is full there may be more to catch up with.
        """
        step = end - (state.ends[-2] if len(state.ends) > 1 else state.start)
        if self.memory == "words":
            step = max(step, self.hard_cap // 8)
        elif end - state.start >= self.hard_cap:
            step *= 2
        return min(step, self.hard_cap // 2)

    def _in_front_of(self, state: AlignAttState, carry: int) -> int:
        return state.words[-carry].start - MARGIN if len(state.words) >= carry else state.start

    def _cut(self, state: AlignAttState, wanted: int, end: int) -> None:
        """Move the window's start to `wanted`, or before it where a word that will be needed is in the way."""
        pending = state.guess[0].start - MARGIN if state.guess else end - self.margin * FRAME_SAMPLES - UNSETTLED
        wanted = min(wanted, pending)
        if state.words and wanted < state.words[-1].end + AFTER_WORD:
            wanted = min(wanted, state.words[-1].start - MARGIN)
        self._move(state, wanted)

    def _move(self, state: AlignAttState, to: int) -> None:
        state.start = max(state.start, align_down(max(to, 0)))
        inside = [word for word in state.words if word.word.lies_behind(state.start)]
        gone = state.words[: len(state.words) - len(inside)]
        state.words = state.words[len(gone) :]
        state.context = (state.context + "".join(word.word.text for word in gone))[-CONTEXT_CHARS:]

    def _make_room(self, state: AlignAttState, end: int, least: int) -> list[TokenWord]:
        """The window is full of words that nothing confirms: confirm the older part of the guess, and cut behind it."""
        cut = forced_cut([word.word for word in state.guess], Span(state.start, end), least)
        forced = list(state.guess[: cut.confirm])
        state.words += forced
        state.guess = state.guess[cut.confirm :]
        state.attended = None
        self._move(state, cut.cut)
        return forced
