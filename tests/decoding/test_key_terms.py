import gc
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from few_examples import quick
from few_words import PIECES, FewWords, text_of
from scripted_decoder import EOT, SIZE, SOT, SPECIALS, VOCABULARY, ScriptedDecoder, random_script
from whispertide.decoding.accept import GREEDY, Beam
from whispertide.decoding.draft import Reference
from whispertide.decoding.key_terms import _VOCABULARIES, KeyTerms, Words, key_terms, spellings
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import Rules
from whispertide.decoding.search import SearchResult, run_search
from whispertide.decoding.token_search import TokenSearch
from whispertide.methods.causal.stable_search import Scored, StableSearch
from whispertide.types import FloatArray

TOKENIZER = FewWords()
WORDS = Words(TOKENIZER)  # type: ignore[arg-type]
PROMPT = Prompt((SOT,), sot_index=0, limit=9)


def terms(*texts: str, bonus: float = 2.0) -> KeyTerms:
    return KeyTerms([(text, TOKENIZER.encode(text)) for text in texts], WORDS, bonus=bonus, farthest=6.0)


def rules(known: KeyTerms | None) -> Rules:
    return Rules(VOCABULARY, suppressed=SPECIALS, terms=known)


def telling(*chances: dict[str, float]) -> Callable[[tuple[int, ...]], FloatArray]:
    """A script by how likely pieces are at each place; after the last place the text ends. "." is the end of text.

    A piece is only as likely if the one before it is the likeliest of its place, or one of `after` (" yo>rk").
    """

    def script(seen: tuple[int, ...]) -> FloatArray:
        at = len(seen) - 1
        logits = np.full(SIZE, -12.0, np.float32)
        for piece, chance in (chances[at] if at < len(chances) else {".": 1.0}).items():
            before, follows, text = piece.rpartition(">")
            if not follows or (seen and seen[-1] == PIECES.index(before)):
                logits[EOT if text == "." else PIECES.index(text)] = np.log(chance)
        return logits

    return script


def found(
    script: Callable[[tuple[int, ...]], FloatArray],
    known: KeyTerms | None,
    *,
    beam: int = 1,
    prompt: Prompt = PROMPT,
    reference: Sequence[int] | None = None,
) -> tuple[SearchResult, ScriptedDecoder]:
    decoder = ScriptedDecoder(script)
    given_rules = rules(known)
    draft = None
    if reference is not None:
        draft = Reference.exactly(reference).draft(TOKENIZER, given_rules)  # type: ignore[arg-type]
    accept = Beam(beam) if beam > 1 else GREEDY
    return run_search(TokenSearch(prompt, given_rules, accept, draft=draft), decoder), decoder


def said(
    script: Callable[[tuple[int, ...]], FloatArray],
    known: KeyTerms | None,
    *,
    beam: int = 1,
    prompt: Prompt = PROMPT,
    reference: Sequence[int] | None = None,
) -> str:
    return text_of(found(script, known, beam=beam, prompt=prompt, reference=reference)[0].best.tokens)


# " nut" is likelier than " new", and " gnu" after either than " yo" ... but "york" all together falls short by little.
NEW_YORKER = telling({" nut": 0.7, " new": 0.3}, {" yo": 0.3, " gnu": 0.7}, {" yo>rk": 0.9, " a": 0.1}, {".": 1.0})
TERM = " new york"  # not the piece " york": the tokens are " new", " york"
SPLIT = [(" new yo+rk", [0, 2, 3])]


def split_terms(bonus: float = 2.0) -> KeyTerms:
    return KeyTerms(SPLIT, WORDS, bonus=bonus, farthest=6.0)


@pytest.mark.parametrize("beam", [1, 3])
class TestSearch:
    def test_a_term_that_falls_short_by_little_is_written(self, beam: int) -> None:
        assert said(NEW_YORKER, None, beam=beam) != " new york"
        assert said(NEW_YORKER, split_terms(), beam=beam) == " new york"

    def test_a_term_that_nobody_said_changes_nothing(self, beam: int) -> None:
        script = telling({" nut": 0.9, " new": 0.1}, {" gnu": 0.99}, {" a": 1.0}, {".": 1.0})
        assert said(script, split_terms(), beam=beam) == said(script, None, beam=beam) == " nut gnu a"

    def test_a_term_that_is_left_unfinished_is_given_back(self, beam: int) -> None:
        """Its first token alone would win."""
        script = telling({" nut": 0.6, " new": 0.4}, {" new>er": 0.95, " nut>s": 0.99, " yo": 0.001})
        assert said(script, split_terms(), beam=beam) == said(script, None, beam=beam) == " nuts"

    def test_a_word_that_only_begins_like_a_term_is_none(self, beam: int) -> None:
        """ "new" is a term, "newer" another word."""
        script = telling({" nut": 0.55, " new": 0.45}, {" new>er": 1.0, " nut>s": 1.0})
        assert said(script, terms(" new"), beam=beam) == " nuts"
        ends = telling({" nut": 0.55, " new": 0.45}, {" new> a": 1.0, " nut>s": 1.0})
        assert said(ends, terms(" new"), beam=beam) == " new a"

    def test_no_term_is_added_where_the_text_ends(self, beam: int) -> None:
        script = telling({" a": 1.0}, {".": 0.7, " new": 0.2}, {".": 1.0})
        assert said(script, terms(" new"), beam=beam) == " a"

    def test_no_term_is_said_twice_in_a_row_for_its_bonus(self, beam: int) -> None:
        script = telling({" new": 1.0}, {" nut": 0.7, " new": 0.3}, {".": 1.0})
        assert said(script, terms(" new"), beam=beam) == " new nut"

    def test_a_term_goes_on_after_a_forced_beginning(self, beam: int) -> None:
        script = telling({}, {" nut": 0.8, " yo": 0.2}, {" yo>rk": 1.0, " nut>s": 1.0})
        prompt = Prompt((SOT, PIECES.index(" new")), sot_index=0, limit=9)
        assert said(script, None, prompt=prompt, beam=beam) == " nuts"
        assert said(script, split_terms(), prompt=prompt, beam=beam) == " york"
        elsewhere = Prompt((SOT, PIECES.index(" a")), sot_index=0, limit=9)
        assert said(script, split_terms(), prompt=elsewhere, beam=beam) == " nuts"

    def test_a_script_without_spaces_has_terms_anywhere(self, beam: int) -> None:
        script = telling({"の": 1.0}, {" a": 0.6, "海": 0.4}, {"海>の": 1.0, " a>s": 1.0})
        assert said(script, terms("海"), beam=beam) == "の海の"  # no letter after it makes another word of it
        letters = telling({" a": 1.0}, {"s": 0.6, "new": 0.4}, {".": 1.0})
        assert said(letters, terms("new"), beam=beam) == " as"  # in the middle of a word


def test_a_search_that_goes_on_from_an_earlier_text_tries_terms_at_once() -> None:
    """As `whisperrt` does in every round."""
    script = telling({" a": 1.0}, {" nut": 0.7, " new": 0.3}, {" new> yo": 0.9, " a": 0.9}, {" yo>rk": 1.0})
    earlier = Scored((PIECES.index(" a"),), (0.0,))
    for beam in (1, 3):
        search = StableSearch(PROMPT, rules(split_terms()), Beam(beam), [earlier], guards=())
        assert text_of(run_search(search, ScriptedDecoder(script)).best.tokens) == " a new york"


def test_one_hypothesis_is_tried_in_a_run_of_its_own() -> None:
    result, decoder = found(NEW_YORKER, split_terms())
    tried = [request for request in decoder.requests if request.draft]
    assert [request.tokens.tolist() for request in tried] == [[[0, 2, 3]]]
    assert len(result.best.tokens) == len(result.best.logprobs) == 3
    assert all(logprob <= 0 for logprob in result.best.logprobs)


def test_the_attention_has_a_query_for_every_token() -> None:
    """Words are timed by it, and guards count it."""

    def attend(seen: tuple[int, ...]) -> FloatArray:
        return np.full((1, 4), len(seen), np.float32)

    decoder = ScriptedDecoder(NEW_YORKER, attend)
    best = run_search(TokenSearch(PROMPT, rules(split_terms()), GREEDY), decoder).best
    queries = np.concatenate(best.attention, axis=1)[0, :, 0]
    assert queries.tolist() == [1, 2, 3, 4]  # by how many tokens each had been fed


def test_terms_that_begin_alike_are_told_apart_by_what_follows() -> None:
    known = terms(" kyoto", " kyo zoo", " kyos")
    script = telling({" c": 0.6, " kyo": 0.4}, {" kyo> zo": 0.8, " kyo>to": 0.1, " c": 0.9}, {" zo>o": 1.0}, {".": 1.0})
    assert said(script, known) == " kyo zoo"


def test_the_longest_term_wins_where_it_is_said() -> None:
    known = terms(" new", " new york")
    script = telling({" new": 1.0}, {" york": 0.4, " nut": 0.6}, {".": 1.0})
    assert said(script, known) == " new york"
    assert said(script, known, beam=3) == " new york"


def test_with_a_draft_the_text_is_the_same_and_takes_fewer_runs() -> None:
    alone, slow = found(NEW_YORKER, split_terms())
    drafted, quick_one = found(NEW_YORKER, split_terms(), reference=alone.best.tokens)
    assert drafted.best.tokens == alone.best.tokens
    assert drafted.best.logprobs == pytest.approx(alone.best.logprobs)
    assert len(quick_one.requests) < len(slow.requests)


texts = st.lists(st.lists(st.integers(0, 19), min_size=1, max_size=3).map(tuple), min_size=1, max_size=3)


@pytest.mark.slow
@quick(25)
@given(st.integers(0, 10**6), texts, st.lists(st.integers(0, 19), max_size=6))
def test_whatever_was_drafted_the_terms_are_found_as_without(
    seed: int, tokens: list[tuple[int, ...]], drafted: list[int]
) -> None:
    known = KeyTerms([(text_of(each), each) for each in tokens], WORDS)
    script = random_script(seed)
    expected = found(script, known)[0].best
    assert found(script, known, reference=drafted or [0])[0].best.tokens == expected.tokens


@quick(25)
@given(st.integers(0, 10**6), texts)
def test_a_term_stands_whole_where_the_text_differs_from_greedy(seed: int, tokens: list[tuple[int, ...]]) -> None:
    """Up to the first difference and to the end of a term the text is made of nothing else."""
    known = KeyTerms([(text_of(each), each) for each in tokens], WORDS)
    script = random_script(seed)
    usual, now = found(script, None)[0].best.tokens, found(script, known)[0].best.tokens
    differing = next((at for at, (one, other) in enumerate(zip(usual, now, strict=False)) if one != other), None)
    if differing is not None:
        ends = [now[start : start + len(each)] == each for each in tokens for start in range(differing + 1)]
        assert any(ends)


@pytest.mark.slow
@quick(25)
@given(st.integers(0, 10**6), texts, st.integers(1, 4))
def test_without_a_bonus_terms_change_nothing(seed: int, tokens: list[tuple[int, ...]], beam: int) -> None:
    known = KeyTerms([(text_of(each), each) for each in tokens], WORDS, bonus=0.0)
    script = random_script(seed)
    usual, now = (found(script, each, beam=beam)[0].best for each in (None, known))
    assert usual.tokens == now.tokens
    assert now.sum_logprob == pytest.approx(usual.sum_logprob, abs=1e-4)


def test_what_was_added_comes_to_nothing_where_a_term_is_left() -> None:
    """The sum of the gains along any text is the bonus of the terms that stand in it."""
    known = terms(" new york", " new", " york", bonus=2.0)
    row = np.full(SIZE, -3.0, np.float32)
    for text, tokens in {
        " new york a": 2,
        " new a": 1,
        " newer a": 0,
        " a york new a": 2,
        " new yorkers": 1,
        " yorks": 0,
    }.items():
        place, gained = known.start, 0.0
        for token in [*TOKENIZER.encode(text), EOT]:
            gained += float(known.weigh(place, row)[0][token])
            place = known.after((token,), place)
        assert gained == pytest.approx(2.0 * tokens), text


def test_what_is_shown_of_a_term_is_its_chance_with_the_bonus() -> None:
    known = terms(" new", bonus=2.0)
    row = np.log(np.full(SIZE, 1 / SIZE, np.float32))
    shown = known.weigh(known.start, row)[1]
    weight = np.exp(2.0)
    assert np.exp(shown[0]) == pytest.approx(weight / (SIZE - 1 + weight), rel=1e-4)
    assert (shown[1:] == row[1:]).all()


def test_spellings_have_capitals_where_a_term_has_none() -> None:
    assert spellings("Ada") == ("Ada", " Ada")
    assert set(spellings("new york")) == {
        *("new york", " new york", "New york", " New york", "New York", " New York"),
    }
    assert spellings("海") == ("海", " 海")


def test_a_list_is_made_into_a_trie_once_for_a_tokenizer_and_goes_with_it() -> None:
    tokenizer = FewWords()
    first = key_terms(tokenizer, ("海", "の"))  # type: ignore[arg-type]
    assert first is not None
    assert key_terms(tokenizer, ("海", "の")) is first  # type: ignore[arg-type]
    assert key_terms(tokenizer, ()) is None  # type: ignore[arg-type]
    before = len(_VOCABULARIES)
    del tokenizer, first
    gc.collect()
    assert len(_VOCABULARIES) == before - 1
