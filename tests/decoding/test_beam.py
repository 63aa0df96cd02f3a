"""Beam search on scripted logits, against openai-whisper's own decoder classes run on the same script."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripted_decoder import (
    EOT,
    NO_TIMESTAMPS,
    SIZE,
    SOT,
    SPECIALS,
    TIME,
    VOCABULARY,
    Script,
    ScriptedDecoder,
    one_hot,
    random_script,
    telling,
)
from whispertide.decoding.accept import Beam
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import Rules
from whispertide.decoding.search import SearchResult, Steps, run_search
from whispertide.decoding.token_search import TokenSearch
from whispertide.errors import OptionError
from whispertide.types import FloatArray

PROMPT = Prompt((SOT,), sot_index=0, limit=7)
BLANK = (7, EOT)


def rules(timestamps: bool) -> Rules:
    return Rules(
        VOCABULARY, suppressed=SPECIALS, blank=BLANK, timestamps=timestamps, max_initial_index=4 if timestamps else None
    )


def ours(
    script: Script, timestamps: bool = False, beam: int = 3, patience: float = 1.0, **options: Any
) -> tuple[SearchResult, Any]:
    decoder = ScriptedDecoder(script)
    search = TokenSearch(PROMPT, rules(timestamps), Beam(beam, patience), **options)
    return run_search(search, decoder), decoder


def openai_beam(
    script: Script, timestamps: bool, beam: int, patience: float, penalty: float | None
) -> tuple[list[int], float]:
    """The main loop of openai-whisper's `DecodingTask` with its own beam, filters and ranker, on `script`."""
    import torch
    from whisper import decoding as whisper

    names = SimpleNamespace(eot=EOT, no_timestamps=NO_TIMESTAMPS, timestamp_begin=TIME, encode=lambda text: [7])
    filters = [whisper.SuppressBlank(names, 1), whisper.SuppressTokens(SPECIALS)]
    if timestamps:
        filters.append(whisper.ApplyTimestampRules(names, 1, 4))
    decoder = whisper.BeamSearchDecoder(beam, EOT, SimpleNamespace(rearrange_kv_cache=lambda sources: None), patience)
    decoder.reset()
    tokens = torch.tensor([list(PROMPT.tokens)] * beam)
    totals = torch.zeros(beam)
    for _ in range(PROMPT.limit):
        logits = torch.from_numpy(np.stack([script(tuple(row)) for row in tokens.tolist()]))
        for each in filters:
            each.apply(logits, tokens)
        tokens, completed = decoder.update(tokens, logits, totals)
        if completed:
            break
    found, scores = decoder.finalize(tokens[None], totals[None])
    cut = [[row[1 : row.tolist().index(EOT)] for row in found[0]]]
    best = whisper.MaximumLikelihoodRanker(penalty).rank(cut, scores)[0]
    return cut[0][best].tolist(), scores[0][best]


@pytest.mark.slow
@given(
    seed=st.integers(0, 100_000),
    timestamps=st.booleans(),
    beam=st.integers(1, 5),
    patience=st.sampled_from([0.5, 1.0, 1.6]),
    penalty=st.sampled_from([None, 0.0, 0.6, 1.0]),
    eot_bonus=st.sampled_from([0.0, 2.0, 4.0]),
)
def test_equals_openai_whisper(
    seed: int, timestamps: bool, beam: int, patience: float, penalty: float | None, eot_bonus: float
) -> None:
    if round(beam * patience) < 1:
        return
    script = random_script(seed, spread=1.5, eot_bonus=eot_bonus)
    tokens, total = openai_beam(script, timestamps, beam, patience, penalty)
    result, _ = ours(script, timestamps, beam, patience=patience, length_penalty=penalty)
    assert list(result.best.tokens) == tokens
    assert result.best.sum_logprob == pytest.approx(total, abs=1e-3)


@pytest.mark.slow
def test_a_wide_beam_asks_for_the_whole_distribution() -> None:
    script = random_script(1, eot_bonus=3.0)
    result, decoder = ours(script, beam=12)
    assert {request.need for request in decoder.requests} == {"logits"}
    tokens, _ = openai_beam(script, False, 12, 1.0, None)
    assert list(result.best.tokens) == tokens


def test_runs_one_row_first_and_then_one_per_beam() -> None:
    result, decoder = ours(random_script(5))
    rows = [len(request.tokens) for request in decoder.requests]
    assert rows[0] == 1
    assert set(rows[1:]) == {3}
    assert decoder.requests[1].parents == (0, 0, 0)
    assert result.steps == Steps(len(rows), sum(rows), rows.count(1), prompts=1)


def test_finds_what_greedy_search_misses() -> None:
    def script(seen: tuple[int, ...]) -> FloatArray:
        logits = np.full(SIZE, -9.0, np.float32)
        if len(seen) == 1:
            logits[[1, 2]] = 0.1, 0.0  # 1 looks better at first
        elif seen[1] == 2:
            logits[3 if len(seen) == 2 else EOT] = 5.0
        elif len(seen) < 4:
            logits[:10] = 0.0  # but nobody knows how to go on from it
        else:
            logits[EOT] = 5.0
        return logits

    assert ours(script, beam=1)[0].best.tokens[0] == 1
    assert ours(script, beam=2)[0].best.tokens == (2, 3)


def test_a_search_at_its_limit_ranks_the_unfinished() -> None:
    result, _ = ours(lambda seen: one_hot(3))
    assert result.best.tokens == (3,) * PROMPT.limit
    assert result.best.stop == "length"


def test_impossible_continuations_take_no_row() -> None:
    def script(seen: tuple[int, ...]) -> FloatArray:
        if len(seen) < 3:
            logits = np.full(SIZE, -np.inf, np.float32)
            logits[[3, 4]] = 0.0
            return logits
        return one_hot(EOT)

    result, decoder = ours(script, beam=5)
    assert [len(request.tokens) for request in decoder.requests][:3] == [1, 2, 4]
    assert result.best.tokens[0] in (3, 4)


def test_nothing_possible_at_all_gives_an_empty_result() -> None:
    result, _ = ours(lambda seen: np.full(SIZE, np.nan, np.float32))
    assert result.best.tokens == ()
    assert result.best.stop == "aborted"


def test_a_guard_on_the_leader_ends_the_search() -> None:
    class Guard:
        seen: list[float]

        def check(self, tokens: Any, attention: FloatArray | None, logprob: float) -> int | None:
            assert attention is not None
            self.seen = [*getattr(self, "seen", []), float(attention[0, -1, 0])]
            return 2 if len(tokens) == 3 else None

    guard = Guard()
    decoder = ScriptedDecoder(
        telling(PROMPT.tokens, [3, 1, 4, 5]), attend=lambda seen: np.array([[len(seen)]], np.float32)
    )
    result = run_search(TokenSearch(PROMPT, rules(False), Beam(3), guards=[guard]), decoder)
    assert result.best.tokens == (3, 1)
    assert result.best.stop == "guard"
    assert guard.seen == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(("beam", "patience"), [(0, 1.0), (1, 0.1)])
def test_a_beam_without_candidates_is_refused(beam: int, patience: float) -> None:
    with pytest.raises(OptionError, match="beam"):
        Beam(beam, patience)
