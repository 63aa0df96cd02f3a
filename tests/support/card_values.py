"""Model cards without measuring anything."""

from collections.abc import Sequence

from whispertide_lab.evaluation.card.results import Card, Result
from whispertide_lab.evaluation.card.sets import PADDED, Kind

Counted = tuple[int, int, int, int]  # hits, substitutions, deletions, insertions
RIGHT: Counted = (10, 0, 0, 0)
WRONG: Counted = (8, 1, 1, 1)


def make_result(
    words: Sequence[Counted],
    *,
    part: str = "trained voices, grammar",
    kind: Kind = "synthetic",
    mode: str = PADDED.name,
    corpus_hash: str = "0123456789ab",
    timing: tuple[tuple[tuple[int, int], ...], ...] = (),
    speakers: tuple[str, ...] = (),
) -> Result:
    return Result(
        part=part,
        kind=kind,
        mode=mode,
        corpus="sentences",
        corpus_hash=corpus_hash,
        ids=tuple(f"u{number}" for number in range(len(words))),
        seconds=(3.0,) * len(words),
        words=tuple(words),
        characters=tuple((5 * (sub + dele + ins), 5 * (hit + sub + dele)) for hit, sub, dele, ins in words),
        ran_away=tuple(counts[3] >= max(3, sum(counts[:3]) / 2) for counts in words),
        timing=timing,
        speakers=speakers,
    )


def make_card(*results: Result, name: str = "nano.en", quick: bool = False, **training: object) -> Card:
    dims = {
        "n_audio_layer": 4,
        "n_text_layer": 4,
        "n_audio_state": 256,
        "n_text_head": 4,
        "n_mels": 80,
        "n_vocab": 51864,
    }
    return Card(
        model={
            "name": name,
            "hash": "feedfeedfeedfeed",
            "dims": dims,
            "parameters": 21_400_000,
            "bytes": 42_800_000,
            "alignment_heads": [[2, 0], [3, 1]],
        },
        training=training,
        about={
            "date": "2026-01-01",
            "seed": 0,
            "quick": quick,
            "precision": "int8",
            "code": "c0dec0dec0de",
            "command": "whispertide train card nano.en --output FILE.md",
        },
        results=results,
    )
