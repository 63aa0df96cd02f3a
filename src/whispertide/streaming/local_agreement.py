"""LocalAgreement-n: a word is confirmed when n rounds in a row hear it in the same place (Machacek et al. 2023).

The rules are whisper_streaming's (`OnlineASRProcessor`, `HypothesisBuffer`), with these corrections:

- words are compared without case and punctuation, so that "the" and "The," agree (`compare="exact"`: as written);
- words heard again are told from new ones by alignment, so that "no, no" is kept (`boundary="time"`: as it does);
- the audio of the last confirmed word stays in the window as an anchor: cuts go in front of it;
- a window never outgrows `hard_cap`: then the older part of the hypothesis is confirmed as it is;
- the last round decodes what arrived since the one before, and confirms everything;
- loops are cut down before they can be confirmed, and what is left of them never becomes prompt.

The policy sees words and times. It knows nothing of audio, tokens or the model.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

from whispertide.decoding.reference import Reference
from whispertide.decoding.search import Guard
from whispertide.options import check_choice
from whispertide.streaming.boundary import first_fresh, fresh_by_time
from whispertide.streaming.doubt import Doubt
from whispertide.streaming.policy import align_down
from whispertide.streaming.repetition import CONTEXT, Guarded, cut_loops
from whispertide.streaming.round import Commit, RoundPlan, RoundResult
from whispertide.streaming.trimming import MARGIN, forced_cut, segment_cut, sentence_cut
from whispertide.types import SAMPLE_RATE, Span, Word

Compare = Literal["normalised", "exact"]
Boundary = Literal["align", "time"]
Trim = Literal["segment", "sentence"]


@lru_cache(maxsize=8192)  # a round compares every word of its window again
def normalise(text: str) -> str:
    """What of a word counts when words are compared: letters, digits and marks, without case or width."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(c for c in folded if c.isalnum() or unicodedata.category(c).startswith("M"))


@dataclass(frozen=True, slots=True)
class Kept:
    """A confirmed word. One that is not `trusted` belongs to what may be a loop: prompts begin behind it."""

    word: Word
    trusted: bool = True


@dataclass(slots=True)
class AgreementState:
    """What is remembered between rounds.

    start      first sample of the next window, a multiple of 320
    last_time  end of the newest confirmed word; at first, of the utterance's beginning
    confirmed  the newest confirmed words, as far back as prompt and alignment need them
    earlier    the hypotheses of the last n-1 rounds, oldest first, without the words confirmed since
    heard      what the last round with words heard in its window, for the next one to follow
    """

    start: int
    last_time: int
    confirmed: list[Kept] = field(default_factory=list)
    earlier: tuple[tuple[Word, ...], ...] = ()
    heard: Reference | None = None

    def copy(self) -> "AgreementState":
        """An independent copy."""
        return replace(self, confirmed=list(self.confirmed))


@dataclass(frozen=True, slots=True)
class LocalAgreement:
    """The policy; times in samples. See the module for the rules and `streaming.recipes` for the checks.

    agreement     rounds that must agree
    trim          windows longer than this are cut at a confirmed segment or sentence end, by `trim_at`
    hard_cap      windows never get longer than this
    no_speech     segments that Whisper takes for silence with a higher probability are dropped
    prompt_chars  the prompt has at least that many characters, if so much was said
    doubt         which words agreement alone does not confirm, judged by where they end
    guard         cut down repetition loops
    reread        what lies behind the last word, where a window is one segment without an end, is decoded as a window
                  of its own; else that is left to the next round, if there is one
    reuse         how the search of a round uses what the rounds before it heard, as a reference without a text; None:
                  not at all
    """

    agreement: int = 2
    compare: Compare = "normalised"
    boundary: Boundary = "align"
    trim_at: Trim = "segment"
    trim: int = 15 * SAMPLE_RATE
    hard_cap: int = 28 * SAMPLE_RATE
    no_speech: float = 0.9
    prompt_chars: int = 200
    doubt: Doubt = field(default_factory=Doubt)
    guard: bool = True
    reread: bool = True
    reuse: Reference | None = None

    def __post_init__(self) -> None:
        check_choice("compare", self.compare, ("normalised", "exact"))
        check_choice("boundary", self.boundary, ("align", "time"))
        check_choice("trim_at", self.trim_at, ("segment", "sentence"))

    def start(self, at: int) -> AgreementState:
        """Nothing confirmed, nothing heard: also the prompt starts anew (whisper_streaming, `init`)."""
        return AgreementState(start=align_down(at), last_time=at)

    def limit(self, state: AgreementState) -> int:
        """The end of a window of `hard_cap` samples."""
        return state.start + self.hard_cap

    def plan(self, state: AgreementState, frontier: int, *, round_id: int, is_last: bool, load: int = 0) -> RoundPlan:
        """The whole window again, up to `frontier`."""
        window = Span(state.start, frontier)
        reference = self.reference(state)
        reread = self.reread or is_last
        return RoundPlan(
            round_id, window, prompt=self.prompt(state), reference=reference, is_last=is_last, reread=reread
        )

    def guards(self, plan: RoundPlan) -> Sequence[Guard]:
        """None: whole hypotheses are compared, so all of them are wanted."""
        return ()

    def apply(self, state: AgreementState, result: RoundResult) -> Commit:
        """Confirm what the rounds agree on (everything, in the last round), then cut the window if it got long."""
        fresh = self._fresh(state, result)
        words = fresh.words
        agreed = len(words) if result.plan.is_last else self._agreed(state, words, result.plan.window.end)
        self._confirm(state, fresh, 0, agreed)
        end = result.plan.window.end
        if not result.plan.is_last:
            if agreed or self.trim_at == "segment":
                self._trim(state, result)
            if end - state.start >= self.hard_cap:
                agreed = self._make_room(state, result, fresh, agreed)
        hypothesis = words[agreed:]
        return Commit(words[:agreed], hypothesis, min(state.start, align_down(end)))

    def prompt(self, state: AgreementState) -> str:
        """The newest words before the window, whole words, at least `prompt_chars` characters if there are so many."""
        texts: list[str] = []
        length = 0
        for kept in reversed(state.confirmed):
            if kept.word.lies_behind(state.start):
                continue
            if length >= self.prompt_chars or not kept.trusted:
                break
            texts.append(kept.word.text)
            length += len(kept.word.text)
        return "".join(reversed(texts)).strip()

    def reference(self, state: AgreementState) -> Reference | None:
        """What the next round is likely to hear: what the last one did, as far as that is in the window still.

        WhisperFlow takes what was confirmed and the newest hypothesis. But a word that was confirmed may be heard
        otherwise ever after, and each time the search would leave the text there.
        """
        if self.reuse is None or state.heard is None:
            return None
        guarded = cut_loops((), state.heard.words, self._key)  # what may be a loop is not to be followed
        words = tuple(
            word
            for word, suspect in zip(guarded.words, guarded.suspect, strict=True)
            if not suspect and word.lies_behind(state.start)
        )
        return replace(self.reuse, tokens=state.heard.tokens, start=state.heard.start, words=words) if words else None

    def _key(self, text: str) -> str:
        return normalise(text) if self.compare == "normalised" else text

    def _fresh(self, state: AgreementState, result: RoundResult) -> Guarded:
        """The words of the result that are not confirmed yet, loops cut down."""
        heard = [
            word
            for segment in result.segments
            if not segment.no_speech_prob > self.no_speech  # nan = not asked for
            for word in segment.words
            if word.text.strip()
        ]
        if heard:
            state.heard = Reference(result.tokens, result.plan.window.start, tuple(heard))
        window_start = result.plan.window.start
        again = [kept.word for kept in state.confirmed if kept.word.lies_behind(window_start)]
        if self.boundary == "time":
            fresh = fresh_by_time(heard, again, state.last_time, self._key)
        else:
            old = first_fresh(heard, again, window_start=window_start, last_time=state.last_time, key=self._key)
            fresh = tuple(heard[old:])
        if not self.guard:
            return Guarded(fresh, (False,) * len(fresh))
        guarded = cut_loops([kept.word for kept in state.confirmed[-CONTEXT:]], fresh, self._key)
        for i, suspect in enumerate(reversed(guarded.suspect_context), start=1):
            if suspect:
                state.confirmed[-i] = replace(state.confirmed[-i], trusted=False)
        return guarded

    def _agreed(self, state: AgreementState, fresh: Sequence[Word], end: int) -> int:
        """How many words at the front of `fresh` the earlier rounds heard too, without doubt in view of `end`."""
        if len(state.earlier) < self.agreement - 1:
            return 0
        agreed = 0
        for hypotheses in zip(fresh, *state.earlier, strict=False):
            if len({self._key(word.text) for word in hypotheses}) > 1:
                break
            newest = hypotheses[0]
            if self.doubt.waits(newest.probability, newest.end, end):
                break
            agreed += 1
        return agreed

    def _confirm(self, state: AgreementState, fresh: Guarded, start: int, end: int) -> None:
        """Take words `start` to `end` of `fresh` as confirmed (the newest copy counts), the rest as hypothesis."""
        for word, suspect in zip(fresh.words[start:end], fresh.suspect[start:end], strict=True):
            state.confirmed.append(Kept(word, not suspect))
        if end > start:
            state.last_time = fresh.words[end - 1].end
        earlier = (*(hypothesis[end - start :] for hypothesis in state.earlier), fresh.words[end:])
        state.earlier = earlier[max(0, len(earlier) - (self.agreement - 1)) :]
        self._forget(state)

    def _forget(self, state: AgreementState) -> None:
        """Drop confirmed words that neither prompt nor alignment can need any more."""
        needed = len(state.confirmed) - CONTEXT
        length = 0
        while needed > 0 and (length < self.prompt_chars or state.confirmed[needed].word.lies_behind(state.start)):
            needed -= 1
            word = state.confirmed[needed].word
            length += 0 if word.lies_behind(state.start) else len(word.text)
        del state.confirmed[: max(needed, 0)]

    def _trim(self, state: AgreementState, result: RoundResult) -> None:
        """Cut at a confirmed segment or sentence end, if the window is longer than `trim`."""
        if not state.confirmed or result.plan.window.end - state.start <= self.trim:
            return
        if self.trim_at == "segment":
            self._cut(state, segment_cut(result.segments, state.last_time))
        else:
            self._cut(state, sentence_cut([kept.word for kept in state.confirmed]))

    def _cut(self, state: AgreementState, to: int | None) -> None:
        """Move the window's start to `to`, but not behind the start of the last confirmed word: it is the anchor."""
        if to is not None:
            anchor = state.confirmed[-1].word.start - MARGIN
            state.start = max(state.start, align_down(min(to, anchor)))

    def _make_room(self, state: AgreementState, result: RoundResult, fresh: Guarded, agreed: int) -> int:
        """The window is full: cut at what is confirmed, else confirm more. Returns how many of `fresh` are
        confirmed.
        """
        end = result.plan.window.end
        least = self.hard_cap // 8
        if state.confirmed:
            self._cut(state, segment_cut(result.segments, state.last_time))
            if end - state.start > self.hard_cap - least:
                self._cut(state, state.last_time)
        if end - state.start <= self.hard_cap - least:
            return agreed
        forced = forced_cut(fresh.words[agreed:], Span(state.start, end), least)
        state.earlier = ()
        self._confirm(state, fresh, agreed, agreed + forced.confirm)
        state.start = max(state.start, align_down(forced.cut))
        return agreed + forced.confirm
