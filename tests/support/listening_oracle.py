"""A model that is told what was said, for policies that watch attention: it hears words after a forced prefix, and its
attention lies in the middle of each word.

One token per word: its number in the truth, so that the same word said twice is two tokens. A word cut by the end of
the window comes out as something unlikely, else each time, or not at all; one cut by the front may leave a fragment,
unless a prefix says that it was heard before. What guards of attention would do with that is done here by their own
rules.
"""

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

from oracle import JITTER, Oracle, audio_between
from whispertide.decoding.guards import Frontier, Halt
from whispertide.decoding.token_words import TokenWord
from whispertide.events import RoundStats
from whispertide.methods.agreement.early_stop import EarlyStop
from whispertide.methods.attention.backward_shift import BackwardShift
from whispertide.methods.attention.listening import HeardWords
from whispertide.methods.attention.single_pass import SinglePass
from whispertide.options import DecodeOptions
from whispertide.streaming.round import RoundPlan, RoundResult
from whispertide.types import FRAME_SAMPLES, FloatArray, Span, Word

MANGLED = 10**6  # tokens from here on are words that nobody said


@dataclass
class ListeningOracle(Oracle):
    """The executor. `sees_cut` False: a word cut by the end is heard right; `shifts`: share of rounds that a backward
    shift ends early; `deaf`: share of rounds with a prefix that take the text to be over after it; `slow_s`: rounds
    claim to have been computed for up to so long.
    """

    slow_s: float = 0.0
    sees_cut: bool = True
    shifts: float = 0.0
    deaf: float = 0.0
    jitter: int = JITTER

    def run(self, plan: RoundPlan, audio: FloatArray, options: DecodeOptions, state: Any = None) -> RoundResult[Any]:
        window, listen = plan.window, plan.hearing
        assert isinstance(listen, SinglePass)
        assert len(audio) == len(window)
        np.testing.assert_array_equal(audio[:2], audio_between(window.start, min(window.start + 2, window.end)))
        self.plans.append(plan)
        if len(audio) < listen.least and not plan.is_last:
            return RoundResult(plan)
        rng = random.Random(f"{self.seed} {window.start} {window.end} {plan.is_last}")
        deaf = self.deaf > 0 and bool(plan.prefix) and rng.random() < self.deaf
        heard = [] if deaf else self._listen(window, plan.prefix, rng)
        stats = RoundStats(encode_s=self.seconds(plan))
        return RoundResult(plan, self._watched(heard, plan, rng), stats=stats)

    def seconds(self, plan: RoundPlan) -> float:
        """How long the round took."""
        return self.slow_s * random.Random(plan.window.end).random()

    def _listen(self, window: Span, prefix: tuple[int, ...], rng: random.Random) -> list[TokenWord]:
        known = [token for token in prefix if token < MANGLED]
        first = known[-1] + 1 if known else 0
        heard: list[TokenWord] = []
        floor = window.start
        for number, truth in enumerate(self.words[first:], start=first):
            if truth.start >= window.end:
                break
            middle = (truth.start + truth.end) // 2
            if middle < window.start:  # after a prefix only its own tail can be left
                if not prefix and truth.end > window.start + 1600 and rng.random() < 0.3:
                    heard.append(self._word(f" frag{window.start}", MANGLED, window.start, truth.end, window))
                continue
            start = self._near(truth.start, rng, floor, window.end)
            end = self._near(truth.end, rng, start, window.end)
            floor = start
            if truth.end > window.end and self.sees_cut:
                if rng.random() < 0.7:
                    heard.append(self._word(f" cut{window.end}", MANGLED + 1, start, end, window, sure=0.2))
                continue
            heard.append(self._word(truth.text, number, start, end, window))
        return heard

    def _word(self, text: str, token: int, start: int, end: int, window: Span, sure: float = 0.9) -> TokenWord:
        return TokenWord(Word(text, start, min(end, window.end), sure), (token,))

    def _watched(self, heard: list[TokenWord], plan: RoundPlan, rng: random.Random) -> HeardWords:
        frames = -(-len(plan.window) // FRAME_SAMPLES)
        places = [((word.start + word.end) // 2 - plan.window.start) // FRAME_SAMPLES for word in heard]
        listened = HeardWords(tuple(heard), len(heard), None, places[-1] if places else None, frames)
        assert isinstance(plan.hearing, SinglePass)
        for watch in plan.hearing.watch:
            if isinstance(watch, Frontier):
                return self._after_frontier(listened, places, watch)
            if isinstance(watch, EarlyStop):  # nothing here repeats itself
                continue
            assert isinstance(watch, BackwardShift)
            return self._grounded(listened, places, watch, rng)
        return listened

    def _after_frontier(self, listened: HeardWords, places: list[int], rule: Frontier) -> HeardWords:
        for index, place in enumerate(places):
            if rule.margin is not None and listened.frames - place <= rule.margin:
                words = listened.words[: index + rule.lookahead_tokens]
                halt = Halt("frontier", index, listened.words[index].tokens[0])
                return HeardWords(words, index, halt, place, listened.frames)
        return listened

    def _grounded(self, listened: HeardWords, places: list[int], rule: BackwardShift, rng: random.Random) -> HeardWords:
        count, halt = len(places), None
        if places and rng.random() < self.shifts:
            count = rng.randrange(len(places))
            halt = Halt("backward-shift", count, listened.words[count].tokens[0])
        for index, place in enumerate(places[:count]):
            if rule.near_end is not None and place > listened.frames - rule.near_end:
                count, halt = index + 1, Halt("near-end", index, listened.words[index].tokens[0])
                break
        return HeardWords(listened.words[:count], count, halt, None, listened.frames)
