"""AlignAtt: a word is confirmed by one round, as soon as it attends to audio well before the end (Papi et al. 2023).

The rules are SimulStreaming's (Machacek, Polak 2025): docs/internals/attention.md. Confirmed words whose audio is still
in the window are forced as the decoder's prefix; the oldest rounds' audio goes once the window is long, and its words
become context. Unlike the original, no audio goes in which nothing was heard yet (`forced_window`), and a word whose
next token is known to belong to it is held back. The policy sees words, tokens and frames, no audio and no model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from whispertide.decoding.guards import Frontier
from whispertide.decoding.token_words import TokenWord, spoken, tokens_of
from whispertide.methods.attention.attending import Attending
from whispertide.methods.attention.forced_window import ForcedWindow
from whispertide.methods.attention.listening import HeardWords, without_copies
from whispertide.streaming.choice import in_frames, setting
from whispertide.streaming.policy import commit
from whispertide.streaming.round import Commit, RoundPlan, RoundResult
from whispertide.streaming.searches import Search
from whispertide.types import CHUNK_SECONDS, FRAME_SAMPLES, Span

Truncate = Literal["none", "last-word", "detector"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignAtt(Attending):
    """The policy. A round's attention must keep away from the frontier."""

    kind: ClassVar[str] = "align-att"
    searches: ClassVar[tuple[str, ...]] = ("greedy", "beam")

    margin_s: float = setting(0.5, "least distance of a token's attention from the end", least=0, most=CHUNK_SECONDS)
    margin_last_s: float = setting(0.08, "the same in the last round", least=0, most=CHUNK_SECONDS)
    rewind_s: float = setting(
        4.0, "jump back of the attention that voids a round (0 = none)", least=0, most=CHUNK_SECONDS
    )
    truncate: Truncate = setting(
        "last-word",
        'whether the last word is held back: "none" (no), "last-word" (yes), "detector" (as the model\'s '
        "word-truncation detector decides)",
    )
    must_speak: bool = setting(False, "whether every round has at least one token")

    margin: int = in_frames("margin_s")
    margin_last: int = in_frames("margin_last_s")
    rewind: int = in_frames("rewind_s")

    def derive(self) -> dict[str, Any]:
        """The settings as the decode takes them."""
        hearing = Attending.derive(self)["hearing"]
        return {"hearing": replace(hearing, must_speak=self.must_speak, detect_end=self.truncate == "detector")}

    def start(self, at: int, after: ForcedWindow | None = None) -> ForcedWindow:
        """Nothing confirmed; what was said in the same turn is context."""
        return ForcedWindow.begin(at, after)

    def plan(
        self, state: ForcedWindow, frontier: int, *, search: Search, round_id: int, is_last: bool, load: int = 0
    ) -> RoundPlan:
        """The window up to `frontier`, after the confirmed words in it."""
        rule = Frontier(
            margin=self.margin_last if is_last else self.margin,
            rewind=None if is_last else self.rewind or None,
            last_frame=state.last_frame(-self.rewind),  # so far back that no first token looks like a rewind
        )
        hearing = replace(
            self.hearing,
            watch=(rule,),
            unheard_from=state.heard_to if is_last else None,
        )
        return RoundPlan(
            round_id,
            Span(state.start, frontier),
            hearing,
            prompt=state.context if self.context_tokens else "",
            prefix=tokens_of(state.words),
            is_last=is_last,
        )

    def apply(self, state: ForcedWindow, result: RoundResult[HeardWords]) -> Commit:
        """Confirm what stands before the frontier (everything, in the last round), then bound the window."""
        words, firm = self._judge(state, result)
        confirmed = state.confirm(words, firm, loop_guard=self.loop_guard)
        confirmed += self._move_window(state, result)
        return commit(confirmed, state.guess, state, result.plan.window.end)

    def _judge(self, state: ForcedWindow, result: RoundResult[HeardWords]) -> tuple[Sequence[TokenWord], int]:
        """The words after the confirmed ones, and how many of them are confirmed now."""
        heard, is_last = result.heard, result.plan.is_last
        if heard is not None and heard.rewound:
            state.attended = None  # as void as the round; else the next would be void for the same reason
        if heard is None or heard.rewound:  # too short to be heard, or nothing of it counts: as it was
            return state.guess, len(state.guess) if is_last else 0
        if self.loop_guard:
            heard = without_copies(state.said, heard)
        state.note_attended(heard.last_frame)
        words = spoken(heard.words)
        return words, len(words) if is_last else self.firm(heard)

    def firm(self, heard: HeardWords) -> int:
        """The number of words of the transcript that stand."""
        firm = len(spoken(heard.words[: heard.firm]))
        held = self._holds(heard, is_newest=firm == len(spoken(heard.words)))
        return firm - 1 if firm and held else firm

    def _holds(self, heard: HeardWords, *, is_newest: bool) -> bool:
        """True if the last firm word may still be spoken."""
        if heard.word_ended is False or self.truncate == "last-word":
            return True
        return self.truncate == "detector" and is_newest and heard.word_ended is not True

    def _move_window(self, state: ForcedWindow, result: RoundResult[HeardWords]) -> list[TokenWord]:
        """Let go of the oldest rounds' audio; returns words that had to be confirmed because the window is full."""
        end = result.plan.window.end
        step = state.step(end)
        state.ends.append(end)
        if result.plan.is_last:
            return []
        cut_short = result.heard is not None and result.heard.stops_short(self.no_speech)
        keep_from = state.keep_from(end, step, cut_short=cut_short)
        # Room for a step like the last one, so that the window grows to its full length; where it is full there may be
        # more to catch up with. Never more than half, or after one long step there would be no window left to hear.
        reserve = min(2 * step if end - state.start >= self.hard_cap else step, self.hard_cap // 2)
        if cut_short:  # what is unheard is worth more than room for a large step, which can be taken in two
            reserve = min(reserve, self.hard_cap // 8)
        longest = self.hard_cap - reserve
        frontier = end - self.margin * FRAME_SAMPLES
        # The oldest first; the newest round's audio stays in any case.
        while len(state.ends) > 1 and end - state.start > longest:
            state.cut(state.ends.pop(0), keep_from, frontier=frontier)
        least, guard = max(reserve, self.hard_cap // 8), self.loop_guard
        return state.shorten(end, longest, least=least, frontier=frontier, cut_short=cut_short, loop_guard=guard)
