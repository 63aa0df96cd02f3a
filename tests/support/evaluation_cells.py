"""Finished cells without measuring anything, for tests of what comes after."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from whispertide_lab.evaluation.store import Cell, CellSpec, Results
from whispertide_lab.evaluation.trace import RoundCost, Shown, Trace

SPEC = CellSpec(
    recogniser="whisper-streaming",
    model="nano.en",
    corpus="talks",
    corpus_hash="0123456789ab",
    clock="simulated",
    corpus_name="talks-seed0",
    step_s=1.0,
    settings={"step_s": "1.0", "beam": "5"},
    model_hash="feedfeedfeed",
    engine={"precision": "int8", "threads": "2"},
    machine="Some Processor, 2 cores, Linux",
    code="c0dec0dec0de",
)


def make_trace(utterance: str, *, late_s: float = 1.0, seconds: float = 6.0) -> Trace:
    """A word per second, each guessed when it ends, and confirmed `late_s` after its end."""
    count = int(seconds)
    shown = [Shown(float(n), (), (f" word{n}",)) for n in range(1, count)]
    shown += [Shown(n + late_s, (f" word{n}",), ()) for n in range(1, count)]
    a_round = RoundCost(0.0, 0.25, 0.0, 0.1, 0.1, 0.05, decoder_runs=9, search_runs=8, search_rows=40, tokens=3)
    a_round = replace(a_round, encoder_gflop=1.5, cpu_s=0.2)
    rounds = tuple(
        replace(a_round, start_s=float(n), window_s=min(n, 15.0), window_end_s=float(n)) for n in range(1, count)
    )
    return Trace(
        utterance, "whisper-streaming", "simulated", seconds, tuple(sorted(shown, key=lambda s: s.at_s)), rounds
    )


def make_record(utterance: str, *, words: int = 100, errors: int = 5, late: tuple[float, ...] = ()) -> dict[str, Any]:
    return {
        "id": utterance,
        "seconds": 6.0,
        "words": words,
        "errors": errors,
        "confirmed_s": list(late),
        "settled_s": list(late),
        "first_seen_s": [value / 2 for value in late],
    }


def make_cell(
    results: Results,
    *,
    wer: float = 0.05,
    late_s: float = 1.0,
    utterances: int = 24,
    score: dict[str, Any] | None = None,
    **changes: Any,
) -> Cell:
    """A finished cell of `results` in which every word is `late_s` late, give or take."""
    spec = replace(SPEC, **changes)
    results.begin(spec)
    records = []
    for number in range(utterances):
        name = f"talk/{number}"
        results.save_trace(spec, make_trace(name, late_s=late_s))
        late = tuple(late_s + 0.01 * ((7 * number + word) % 5 - 2) for word in range(5))
        records.append(make_record(name, errors=round(100 * wer) + number % 3 - 1, late=late))
    values = {
        "recipe": spec.recogniser,
        "wer": wer,
        "wer_offline": 0.04,
        "confirmed_mean_s": late_s,
        "confirmed_p99_s": 2 * late_s,
        "gflop_per_s": None,
        "commit": "84601a0",
        **(score or {}),
    }
    return results.save(spec, values, records)


def results_in(folder: Path) -> Results:
    return Results(folder / "results")
