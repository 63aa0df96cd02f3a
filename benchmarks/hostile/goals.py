"""What an honest session beside hostile clients may not lose, as the issue siege has it."""

from difflib import SequenceMatcher

from campaign.difference import other_words
from noted_rows import Row

MEDIAN_FACTOR, MEDIAN_MORE_S = 1.5, 0.3  # of the session alone
WORST_S = 2.0
HELD_S = 0.5  # more than alone, where a protocol holds words back by itself for longer than `WORST_S`
PROBE_S = 0.2
MEMORY_MB = 100.0  # more than before, when the hostile ones are gone


def missed_goals(row: Row) -> list[str]:
    """What a row misses, in words."""
    alone = row["alone"]
    median_s = MEDIAN_FACTOR * (alone["median_s"] or 0.0) + MEDIAN_MORE_S
    worst_s = max(WORST_S, (alone["worst_s"] or 0.0) + HELD_S)
    found = {
        f"median over {median_s:.2f} s": row["median_s"] is None or row["median_s"] > median_s,
        f"worst over {worst_s:.1f} s": row["worst_s"] is None or row["worst_s"] > worst_s,
        "not ended": not row["ended"],
        f"{lost(row)} words lost": bool(lost(row)),
        f"/healthz over {PROBE_S} s": row["probe_p99_s"] >= PROBE_S,
        f"memory over {MEMORY_MB:.0f} MB more": grown_mb(row) > MEMORY_MB,
    }
    return [goal for goal, missed in found.items() if missed]


def grown_mb(row: Row) -> float:
    """How much more memory the server has at the end than before, also after many attacks."""
    before, _, after = row["memory_mb"]
    return float(max([after, *row["rounds_mb"]]) - before)


def lost(row: Row) -> int:
    """Words of the session alone in whose place this one has none."""
    steps = SequenceMatcher(None, row["alone"]["words"], row["words"], autojunk=False).get_opcodes()
    return sum(max(0, (stop - start) - (to - at)) for _, start, stop, at, to in steps)


def changed(row: Row) -> int:
    """Words of the session alone that are not in their place here: rounds at other moments hear other words."""
    return other_words(row["alone"]["words"], row["words"]) - lost(row)
