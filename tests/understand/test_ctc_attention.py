"""The search by decoder and CTC against every possible text, and what a pilot may change and what it may not."""

from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from few_examples import quick
from whispertide.errors import OptionError
from whispertide.types import FloatArray, IntArray
from whispertide.understand import ctc_attention
from whispertide.understand.ctc_attention import END, CtcAttentionOptions, Found, ctc_attention_search
from whispertide.understand.ctc_prefix import Sums, beginnings, empty, longer

TOKENS = 4  # the end among them
WIDE = CtcAttentionOptions(beam=500, longest=6, attention=0.5)


@dataclass(frozen=True)
class Said:
    """The last token of each row."""

    tokens: IntArray

    def rows(self, chosen: IntArray) -> "Said":
        return Said(self.tokens[chosen])

    def cut(self, length: int) -> "Said":
        return Said(self.tokens[:1])  # the last token alone counts, and it is given anew


@dataclass
class Pairs:
    """A decoder that looks at the last token alone: `table` [tokens, tokens] of log probabilities. Counts its work."""

    table: FloatArray
    runs: int = 0
    rows: int = 0

    def start(self) -> Said:
        return Said(np.array([END]))

    def score(self, state: Said, tokens: IntArray) -> tuple[FloatArray, Said]:
        assert len(state.tokens) == len(tokens)
        self.runs, self.rows = self.runs + 1, self.rows + len(tokens)
        return self.table[tokens], Said(tokens)

    def read(self, tokens: IntArray) -> tuple[FloatArray, Said]:
        self.runs, self.rows = self.runs + 1, self.rows + tokens.size
        return self.table[tokens], Said(tokens[:, -1])


def counted(ctc: Sums, pairs: Pairs, options: CtcAttentionOptions, pilot: Found | None = None) -> tuple[Found, Pairs]:
    """What a search finds, and the decoder that it alone has used."""
    mine = Pairs(pairs.table)
    return ctc_attention_search(ctc, mine, options, pilot), mine


def normal(logits: Sums) -> Sums:
    return np.asarray(logits - np.logaddexp.reduce(logits, axis=-1)[..., None])


def utterance(seed: int, frames: int, sharp: float = 2.0) -> tuple[Sums, Pairs]:
    dice = np.random.default_rng(seed)
    ctc = sharp * dice.standard_normal((frames, TOKENS + 1))
    ctc[:, END] = -50  # CTC has no end of text
    return normal(ctc), Pairs(normal(sharp * dice.standard_normal((TOKENS, TOKENS))).astype(np.float32))


def score_of(ctc: Sums, pairs: Pairs, text: tuple[int, ...], weight: float) -> float:
    prefix = empty(ctc)
    for token in text:
        one = np.array([token])
        prefix = longer(ctc, prefix, np.array([0]), one, beginnings(ctc, prefix, one[None], 0, len(ctc))[0])
    places = zip((END, *text), (*text, END), strict=True)
    return weight * sum(float(pairs.table[place]) for place in places) + (1 - weight) * float(prefix.wholes[0])


@pytest.mark.slow
@quick(10)
@given(st.integers(0, 10**6), st.integers(1, 5), st.sampled_from([0.0, 0.3, 0.5, 0.9]))
def test_a_wide_beam_finds_the_best_of_all_texts(seed: int, frames: int, weight: float) -> None:
    ctc, pairs = utterance(seed, frames)
    texts = [text for length in range(5) for text in product(range(1, TOKENS), repeat=length)]
    best = max(score_of(ctc, pairs, text, weight) for text in texts)
    found = ctc_attention_search(ctc, pairs, replace(WIDE, attention=weight))
    if len(found.best.tokens) < 5:
        assert found.best.score == pytest.approx(best, abs=1e-5)
        assert found.best.score == pytest.approx(score_of(ctc, pairs, found.best.tokens, weight), abs=1e-5)
    else:
        assert found.best.score > best - 1e-5


@given(st.integers(0, 10**6), st.integers(4, 9), st.integers(0, 3), st.integers(1, 5))
def test_leaping_over_the_same_frames_changes_no_text(seed: int, frames: int, more: int, beam: int) -> None:
    """Also over those that a pilot has leapt over, of which it knows no more than the one before it."""
    ctc, pairs = utterance(seed, frames + more)
    options = CtcAttentionOptions(beam=beam, longest=8, cap=False, overlap=1.0)
    first = ctc_attention_search(ctc[: frames - 1], pairs, replace(options, beam=3, pilot=True))
    pilot = ctc_attention_search(ctc[:frames], pairs, replace(options, beam=3, pilot=True), first)
    without = ctc_attention_search(ctc, pairs, replace(options, leap=False), pilot)
    leapt = ctc_attention_search(ctc, pairs, options, pilot)
    assert leapt.best.tokens == without.best.tokens
    assert leapt.best.score == pytest.approx(without.best.score, abs=1e-6)


@given(st.integers(0, 10**6), st.integers(2, 8), st.integers(1, 5))
def test_a_pilot_that_no_candidate_agrees_with_changes_nothing(seed: int, frames: int, beam: int) -> None:
    ctc, pairs = utterance(seed, frames)
    pairs.table[END, 3] = -1e9
    ctc[:, 3] = -1e9  # what begins with 3 is never the best
    options = CtcAttentionOptions(beam=beam, longest=8, cap=False)
    alone = ctc_attention_search(ctc, pairs, options)
    pilot = replace(alone, best=replace(alone.best, tokens=(3, 1, 2)), sums=(), early=())
    assert ctc_attention_search(ctc, pairs, options, pilot).best == alone.best


def test_a_decoder_alone_may_say_more_than_there_are_frames() -> None:
    """Also where a pilot did: what it says again has sums of no frame."""
    ctc, pairs = utterance(1, 6)
    pairs.table[:] = -1e9
    pairs.table[[END, 1, 2], [1, 2, 1]] = 0.0  # it never ends
    options = CtcAttentionOptions(attention=1.0, longest=9)
    pilot = ctc_attention_search(ctc[:3], pairs, options)
    assert len(pilot.best.tokens) == 9
    assert ctc_attention_search(ctc, pairs, options, pilot).best.tokens == pilot.best.tokens


def sure_of_three() -> tuple[Sums, Pairs]:
    """The decoder is nearly sure of 2 1 3 and the end, CTC of nothing."""
    ctc, pairs = utterance(3, 12, sharp=0.5)
    sure = np.full((TOKENS, TOKENS), -3.0)
    sure[[END, 2, 1, 3], [2, 1, 3, END]] = 3.0
    pairs.table = normal(sure).astype(np.float32)
    return ctc, pairs


def test_what_is_said_again_needs_one_row() -> None:
    ctc, pairs = sure_of_three()
    options = CtcAttentionOptions(longest=8, cap=False, leap=False)
    pilot, first = counted(ctc, pairs, options)
    assert pilot.best.tokens == (2, 1, 3)
    again, second = counted(ctc, pairs, options, pilot)
    assert again.best.tokens == pilot.best.tokens
    assert second.rows < first.rows
    assert second.runs == 1, "the pilot's text is read in one run"
    _, off = counted(ctc, pairs, replace(options, collapse=False), pilot)
    assert off.rows == first.rows


def test_a_search_comes_back_to_the_pilot() -> None:
    """Its first token is not the best at first. As soon as it is, the pilot's text is followed again."""
    table = np.full((5, 5), -3.0)
    table[[2, 1, 3], [1, 3, END]] = 3.0
    table[END, [2, 4]] = 3.0, 3.2  # 4 seems better than 2, until nothing follows it
    ctc, pairs = normal(np.zeros((12, 6))), Pairs(normal(table).astype(np.float32))
    options = CtcAttentionOptions(longest=8, cap=False, attention=0.9)
    alone, first = counted(ctc, pairs, options)
    assert alone.best.tokens == (2, 1, 3)
    again, second = counted(ctc, pairs, options, alone)
    assert again.best.tokens == alone.best.tokens
    assert second.runs < first.runs


@dataclass
class Asked:
    """What CTC was asked about, each time: the tokens, and from which frame to which they may begin."""

    calls: list[tuple[IntArray, int, int]]

    @property
    def work(self) -> int:
        """Tokens times frames."""
        return sum(tokens.size * max(end - start, 0) for tokens, start, end in self.calls)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    noted = Asked([])

    def note(scores: Sums, prefixes: Any, tokens: IntArray, start: int, end: int) -> Sums:
        noted.calls.append((tokens, start, end))
        return beginnings(scores, prefixes, tokens, start, end)

    monkeypatch.setattr(ctc_attention, "beginnings", note)
    return noted


def of_twenty(frames: int, sharp: float = 1.0) -> tuple[Sums, Pairs]:
    """A decoder that is sure of 1 2 3 4 and the end, and next to these likes the tokens with the lowest numbers."""
    table = np.tile(-0.1 * np.arange(20.0), (20, 1))
    table[[END, 1, 2, 3, 4], [1, 2, 3, 4, END]] = 9.0
    return normal(sharp * np.random.default_rng(0).standard_normal((frames, 21))), Pairs(normal(table).astype("f4"))


def test_a_pilot_asks_about_ten_tokens_and_what_goes_by_it_about_seven(asked: Asked) -> None:
    """The rule of the paper's section 6, with a beam of 5."""
    ctc, pairs = of_twenty(10)
    pilot = ctc_attention_search(ctc[:8], pairs, CtcAttentionOptions(beam=3, pilot=True))
    assert {tokens.shape[1] for tokens, *_ in asked.calls} == {10}
    asked.calls.clear()
    ctc_attention_search(ctc, pairs, CtcAttentionOptions(), pilot)
    assert {tokens.shape[1] for tokens, *_ in asked.calls} == {CtcAttentionOptions().likely} == {7}


def test_a_leap_saves_the_pilots_frames(asked: Asked) -> None:
    """Of a pilot over 8 of 10 frames, of which 0.8 are taken over: 6 of 10."""
    ctc, pairs = of_twenty(10)
    pilot = ctc_attention_search(ctc[:8], pairs, CtcAttentionOptions(beam=3, pilot=True))
    work = []
    for leap in (False, True):
        asked.calls.clear()
        found = ctc_attention_search(ctc, pairs, CtcAttentionOptions(leap=leap), pilot)
        assert found.best.tokens == (1, 2, 3, 4)
        work.append(asked.work)
    assert work[1] == pytest.approx(0.4 * work[0])


def test_where_the_pilot_asked_about_others_there_is_no_leap(asked: Asked) -> None:
    """Seven of the decoder's best ten must be among the pilot's."""
    ctc, pairs = of_twenty(10)
    pilot = ctc_attention_search(ctc[:8], pairs, CtcAttentionOptions(beam=3, pilot=True))
    for shared, starts in ((7, {6, 8}), (6, {0, 8})):
        known = [
            replace(each, tokens=np.array([*each.tokens[:shared], *range(17, 20 - shared + 7)])) for each in pilot.early
        ]
        asked.calls.clear()
        ctc_attention_search(ctc, pairs, CtcAttentionOptions(), replace(pilot, early=tuple(known)))
        assert {start for _, start, _ in asked.calls} == starts


@pytest.mark.parametrize("longest", [1, 2])
def test_a_search_that_is_cut_off_gives_the_best_of_what_there_is(longest: int) -> None:
    ctc, pairs = sure_of_three()
    found = ctc_attention_search(ctc, pairs, CtcAttentionOptions(longest=longest))
    assert found.best.tokens == (2, 1, 3)[:longest]
    assert not found.best.ended
    assert len(found.sums) == pairs.runs == longest


def test_a_text_ends_where_the_pilots_pace_says() -> None:
    table = normal(np.full((TOKENS, TOKENS), 0.0)).astype(np.float32)  # nothing is known, so it would go on
    ctc, pairs = utterance(5, 10, sharp=0.1)[0], Pairs(table)
    long, free = counted(ctc, pairs, CtcAttentionOptions(longest=40, leap=False))
    pilot = replace(long, best=replace(long.best, tokens=(), ended=True), frames=10)
    options = CtcAttentionOptions(longest=40, leap=False, collapse=False, spare=1)
    _, capped = counted(ctc, pairs, options, pilot)
    assert capped.runs == 1 < free.runs
    unfinished = replace(pilot, best=replace(pilot.best, ended=False))
    _, again = counted(ctc, pairs, options, unfinished)
    assert again.runs == free.runs, "it does not know how long the text is"


@given(st.integers(0, 10**6), st.integers(2, 9), st.integers(1, 5))
@example(3, 9, 3)
def test_a_search_that_stops_where_nothing_can_win_finds_the_same(seed: int, frames: int, beam: int) -> None:
    ctc, pairs = utterance(seed, frames)
    options = CtcAttentionOptions(beam=beam, longest=20)
    soon, few = counted(ctc, pairs, options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ctc_attention, "_settled", lambda beam: False)
        late, many = counted(ctc, pairs, options)
    assert (soon.best.tokens, soon.best.score) == (late.best.tokens, late.best.score)
    assert few.runs <= many.runs
    if (seed, frames, beam) == (3, 9, 3):
        assert few.runs < many.runs


def test_perplexity_is_that_of_the_decoder() -> None:
    ctc, pairs = utterance(4, 6, sharp=4.0)
    best = ctc_attention_search(ctc, pairs, CtcAttentionOptions()).best
    places = zip((END, *best.tokens), (*best.tokens, END), strict=True)
    said = [float(pairs.table[place]) for place in places]
    assert best.perplexity == pytest.approx(float(np.exp(-np.mean(said))), rel=1e-5)


@pytest.mark.parametrize("wrong", [{"beam": 0}, {"attention": 1.1}, {"overlap": 0.4}, {"spare": -1}])
def test_impossible_options_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(OptionError, match="expected"):
        CtcAttentionOptions(**wrong)  # type: ignore[arg-type]


def test_a_search_can_be_given_up_before_each_token() -> None:
    ctc, pairs = utterance(3, 6)
    asked = iter([False, False, True])

    def check() -> None:
        if next(asked):
            raise CancelledError

    with pytest.raises(CancelledError):
        ctc_attention_search(ctc, pairs, replace(WIDE, beam=2), check=check)
    assert pairs.rows == 1 + 2
