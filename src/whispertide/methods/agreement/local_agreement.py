"""LocalAgreement-n: a word is confirmed when n consecutive rounds find it in the same place (Machacek et al. 2023).

The rules are whisper_streaming's (`OnlineASRProcessor`, `HypothesisBuffer`), with these corrections:

- words are compared without case and punctuation, so that "the" and "The," agree (`compare="exact"`: as written);
- words heard again are told from new ones by alignment, so that "no, no" is kept (`boundary="time"`: as it does);
- the audio of the last confirmed word stays in the window as an anchor: cuts go in front of it;
- a window never outgrows `hard_cap`: then the older part of the hypothesis is confirmed as it is;
- the last round decodes what arrived since the one before, and confirms everything;
- loops are cut down before they can be confirmed, and what is left of them never becomes prompt.

The policy sees words and times. It knows nothing of audio, tokens or the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from whispertide.decoding.draft import Reference
from whispertide.methods.agreement.boundary import first_fresh, fresh_by_time
from whispertide.methods.agreement.whole_window import HeardSegment, HeardSegments, WholeWindow, segment_cut
from whispertide.options import check_range
from whispertide.streaming.choice import in_samples, setting
from whispertide.streaming.policy import Bounded, least_probability_setting
from whispertide.streaming.repetition import CONTEXT, Guarded, cut_loops, normalise, waits
from whispertide.streaming.round import Commit, RoundPlan, RoundResult
from whispertide.streaming.searches import Search
from whispertide.streaming.trimming import MARGIN, forced_cut, sentence_cut
from whispertide.types import CHUNK_SECONDS, Span, Word, align_down

Compare = Literal["normalised", "exact"]
Boundary = Literal["align", "time"]
Trim = Literal["segment", "sentence"]


@dataclass(frozen=True, slots=True)
class Kept:
    """A confirmed word. One that is not `trusted` belongs to what may be a loop: prompts begin after it."""

    word: Word
    trusted: bool = True


@dataclass(slots=True)
class AgreementState:
    """The state between rounds.

    start      first sample of the next window, a multiple of 320
    last_time  end of the newest confirmed word; at first, of the utterance's beginning
    confirmed  the newest confirmed words, as far back as prompt and alignment need them
    earlier    the hypotheses of the last n-1 rounds, oldest first, without the words confirmed since
    heard      the words of the last round that had any in its window, for the next one to follow
    """

    start: int
    last_time: int
    confirmed: list[Kept] = field(default_factory=list)
    earlier: tuple[tuple[Word, ...], ...] = ()
    heard: Reference | None = None

    def copy(self) -> "AgreementState":
        """An independent copy."""
        return replace(self, confirmed=list(self.confirmed))


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalAgreement(Bounded):
    """The policy; see the module for the rules. Whole hypotheses are compared, so nothing watches a decode."""

    kind: ClassVar[str] = "local-agreement"
    overlaps: ClassVar[bool] = True
    forces: ClassVar[bool] = False
    searches: ClassVar[tuple[str, ...]] = ("greedy", "beam", "pruned", "verified")

    agreement: int = setting(2, "number of rounds that must agree on a word", least=2, most=10)
    compare: Compare = setting("normalised", '"normalised": without case and punctuation; "exact": as written')
    boundary: Boundary = setting(
        "align", 'how repeated words are recognised: by "align"ment or, as in whisper_streaming, by "time"'
    )
    trim: Trim = setting("segment", 'windows are cut at the end of a confirmed "segment" or "sentence"')
    trim_s: float = setting(15.0, "windows longer than this are cut", least=1, most=CHUNK_SECONDS)
    reread: bool = setting(
        True,
        "if a round's text is one segment without an end, whether the audio after its last word is decoded as "
        "a window of its own, as in whisper_streaming; else up to 2 s are left to the next round",
    )
    prompt_chars: int = setting(
        200, "least confirmed text before the window as prompt, in characters (0 = none)", least=0, most=2000
    )
    least_probability: float = least_probability_setting()
    settle_s: float = setting(
        1.0, "length of the end of the window in which such words wait", least=0, most=CHUNK_SECONDS
    )

    trim_after: int = in_samples("trim_s")
    settle: int = in_samples("settle_s")

    def check(self) -> None:
        """A window that is cut fits into the longest."""
        Bounded.check(self)
        check_range("trim_s", self.trim_s, 1, self.hard_cap_s)

    @property
    def usual_s(self) -> float:
        """The usual limit of windows."""
        return self.trim_s

    def start(self, at: int, after: AgreementState | None = None) -> AgreementState:
        """Nothing heard. The prompt starts anew (whisper_streaming, `init`), unless the turn goes on."""
        confirmed = [] if after is None else list(after.confirmed)
        return AgreementState(start=align_down(at), last_time=at, confirmed=confirmed)

    def plan(
        self, state: AgreementState, frontier: int, *, search: Search, round_id: int, is_last: bool, load: int = 0
    ) -> RoundPlan:
        """The whole window again, up to `frontier`."""
        window = Span(state.start, frontier)
        reference = self.reference(state, search)
        # Nothing is left to a next round by the last one.
        hearing = WholeWindow(reread=self.reread or is_last)
        return RoundPlan(round_id, window, hearing, self.prompt(state), reference=reference, is_last=is_last)

    def apply(self, state: AgreementState, result: RoundResult[HeardSegments]) -> Commit:
        """Confirm what the rounds agree on (everything, in the last round), then cut the window if it got long."""
        fresh = self._fresh(state, result)
        words = fresh.words
        agreed = len(words) if result.plan.is_last else self._agreed(state, words, result.plan.window.end)
        self._confirm(state, fresh, 0, agreed)
        end = result.plan.window.end
        if not result.plan.is_last:
            # Sentences are cut only by a round that confirmed something, segments by any (whisper_streaming).
            if agreed or self.trim == "segment":
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
            if kept.word.lies_after(state.start):
                # What lies in the window is heard again, and would be there twice.
                continue
            # No gaps: it begins after a word that may be part of a loop, which the decoder would go on with.
            if length >= self.prompt_chars or not kept.trusted:
                break
            texts.append(kept.word.text)
            length += len(kept.word.text)
        return "".join(reversed(texts)).strip()

    def reference(self, state: AgreementState, search: Search) -> Reference | None:
        """The likely text of the next round: that of the last one, as far as that is in the window still.

        WhisperFlow takes what was confirmed and the newest hypothesis (`follows=shown`). But a word that was confirmed
        may be written otherwise ever after, and each time the search would leave the text there.
        """
        if search.reuse is None or state.heard is None:
            return None
        if search.reuse.follows == "shown":
            return replace(search.reuse, start=state.start, words=_shown(state))
        guarded = cut_loops((), state.heard.words, self._key)  # what may be a loop is not to be followed
        words = tuple(
            word
            for word, suspect in zip(guarded.words, guarded.suspect, strict=True)
            if not suspect and word.lies_after(state.start)
        )
        return replace(search.reuse, tokens=state.heard.tokens, start=state.heard.start, words=words) if words else None

    def _key(self, text: str) -> str:
        return normalise(text) if self.compare == "normalised" else text

    def _fresh(self, state: AgreementState, result: RoundResult[HeardSegments]) -> Guarded:
        """The words of the result that are not confirmed yet, loops cut down."""
        words = [
            word
            for segment in _segments(result)
            if not segment.no_speech_prob > self.no_speech  # nan = not asked for
            for word in segment.words
            if word.text.strip()
        ]
        # A round that heard nothing says nothing about what the next one will hear, so the older text stays.
        if words and result.heard is not None:
            state.heard = Reference(result.heard.tokens, result.plan.window.start, tuple(words))
        window_start = result.plan.window.start
        again = [kept.word for kept in state.confirmed if kept.word.lies_after(window_start)]
        if self.boundary == "time":
            fresh = fresh_by_time(words, again, state.last_time, self._key)
        else:
            old = first_fresh(words, again, window_start=window_start, last_time=state.last_time, key=self._key)
            fresh = tuple(words[old:])
        if not self.loop_guard:
            return Guarded(fresh, (False,) * len(fresh))
        guarded = cut_loops([kept.word for kept in state.confirmed[-CONTEXT:]], fresh, self._key)
        # Counted from the end: the context is only the newest part of what is confirmed.
        for i, suspect in enumerate(reversed(guarded.suspect_context), start=1):
            if suspect:
                state.confirmed[-i] = replace(state.confirmed[-i], trusted=False)
        return guarded

    def _agreed(self, state: AgreementState, fresh: Sequence[Word], end: int) -> int:
        """The number of first words in `fresh` that earlier rounds had too, up to one that waits at the `end`."""
        if len(state.earlier) < self.agreement - 1:
            return 0
        agreed = 0
        # As far as the shortest reaches: a round does not confirm what it has not heard.
        for hypotheses in zip(fresh, *state.earlier, strict=False):
            if len({self._key(word.text) for word in hypotheses}) > 1:
                break
            newest = hypotheses[0]
            if waits(newest.probability, newest.end, end, below=self.least_probability, settle=self.settle):
                break
            agreed += 1
        return agreed

    def _confirm(self, state: AgreementState, fresh: Guarded, start: int, end: int) -> None:
        """Take words `start` to `end` of `fresh` as confirmed (the newest copy counts), the rest as hypothesis."""
        for word, suspect in zip(fresh.words[start:end], fresh.suspect[start:end], strict=True):
            state.confirmed.append(Kept(word, not suspect))
        if end > start:
            state.last_time = fresh.words[end - 1].end
        # The rounds before heard the confirmed words as well, so they go there, too.
        earlier = (*(hypothesis[end - start :] for hypothesis in state.earlier), fresh.words[end:])
        state.earlier = earlier[max(0, len(earlier) - (self.agreement - 1)) :]
        self._forget(state)

    def _forget(self, state: AgreementState) -> None:
        """Drop confirmed words that neither prompt nor alignment can need any more."""
        # From the newest back: as many as loops are looked for in, then on until the prompt is long enough.
        needed = len(state.confirmed) - CONTEXT
        length = 0
        while needed > 0 and (length < self.prompt_chars or state.confirmed[needed].word.lies_after(state.start)):
            needed -= 1
            word = state.confirmed[needed].word
            length += 0 if word.lies_after(state.start) else len(word.text)
        del state.confirmed[: max(needed, 0)]

    def _trim(self, state: AgreementState, result: RoundResult[HeardSegments]) -> None:
        """Cut at a confirmed segment or sentence end, if the window is longer than `trim`."""
        if not state.confirmed or result.plan.window.end - state.start <= self.trim_after:
            return
        if self.trim == "segment":
            self._cut(state, segment_cut(_segments(result), state.last_time))
        else:
            self._cut(state, sentence_cut([kept.word for kept in state.confirmed]))

    def _cut(self, state: AgreementState, to: int | None) -> None:
        """Move the window's start to `to`, but not after the start of the last confirmed word: it is the anchor."""
        if to is not None:
            anchor = state.confirmed[-1].word.start - MARGIN
            state.start = max(state.start, align_down(min(to, anchor)))

    def _make_room(self, state: AgreementState, result: RoundResult[HeardSegments], fresh: Guarded, agreed: int) -> int:
        """The window is full: cut at what is confirmed, else confirm more. Returns how many of `fresh` are
        confirmed.
        """
        end = result.plan.window.end
        # An eighth has to become free, or the next round would find the window full again.
        least = self.hard_cap // 8
        if state.confirmed:
            self._cut(state, segment_cut(_segments(result), state.last_time))
            # Only where that frees too little: the end of a segment is the safer place to cut.
            if end - state.start > self.hard_cap - least:
                self._cut(state, state.last_time)
        if end - state.start <= self.hard_cap - least:
            return agreed
        forced = forced_cut(fresh.words[agreed:], Span(state.start, end), least)
        # `_confirm` takes as many words off the earlier hypotheses, which is right only where they agreed.
        state.earlier = ()
        self._confirm(state, fresh, agreed, agreed + forced.confirm)
        state.start = max(state.start, align_down(forced.cut))
        return agreed + forced.confirm


def _shown(state: AgreementState) -> tuple[Word, ...]:
    """The confirmed words in the window, at least the last word, and the newest guess (WhisperFlow)."""
    confirmed = [kept.word for kept in state.confirmed]
    inside = [word for word in confirmed if word.lies_after(state.start)] or confirmed[-1:]
    return (*inside, *(state.earlier[-1] if state.earlier else ()))


def _segments(result: RoundResult[HeardSegments]) -> tuple[HeardSegment, ...]:
    return result.heard.segments if result.heard is not None else ()
