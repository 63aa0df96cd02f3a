"""Bootstrap intervals: they cover what is true about as often as they say."""

import numpy as np
import pytest

from whispertide.errors import OptionError
from whispertide_lab.evaluation import bootstrap
from whispertide_lab.evaluation.bootstrap import (
    MANY,
    by_unit,
    compare,
    figure_interval,
    interval,
    latencies,
    paired,
    paired_over,
    times,
)

UTTERANCES, EXPERIMENTS = 60, 300


def test_how_many_times_has_an_interval_of_the_same_draws() -> None:
    """Where one is three times the other on every utterance, no draw says otherwise."""
    slow = [(3.0 * n, 2.0) for n in range(1, 30)]
    fast = [(float(n), 2.0) for n in range(1, 30)]
    assert times(slow, fast, draws=200) == pytest.approx((3.0, 3.0, 3.0))
    found, low, high = times(slow, [(float(n % 5 + 1), 2.0) for n in range(1, 30)], draws=200)
    assert low < found < high
    with pytest.raises(OptionError, match="the same utterances"):
        times(slow, fast[1:])


@pytest.mark.slow
def test_intervals_of_a_rate_cover_the_truth_about_as_often_as_they_say() -> None:
    """300 experiments with a word error rate of 0.2: 95 % of 300 is 285, three standard deviations are 11."""
    rng = np.random.default_rng(0)
    covered = 0
    for seed in range(EXPERIMENTS):
        words = rng.integers(10, 40, UTTERANCES)
        errors = rng.binomial(words, 0.2)
        low, high = interval(list(zip(errors, words, strict=True)), draws=400, seed=seed)
        covered += low <= 0.2 <= high
    assert 268 <= covered <= 297  # percentile intervals of 60 utterances are a little narrow


@pytest.mark.slow
def test_intervals_of_a_difference_cover_the_truth_and_pairing_makes_them_narrow() -> None:
    """Two systems share the difficulty of each utterance; B is 0.05 better per word."""
    rng = np.random.default_rng(1)
    covered, widths = 0, []
    for seed in range(EXPERIMENTS):
        words = rng.integers(10, 40, UTTERANCES)
        hard = rng.uniform(0.1, 0.5, UTTERANCES)
        a, b = rng.binomial(words, hard), rng.binomial(words, hard - 0.05)
        found = paired(list(zip(a, words, strict=True)), list(zip(b, words, strict=True)), draws=400, seed=seed)
        covered += found.low <= -0.05 <= found.high
        widths.append(found.high - found.low)
    assert 268 <= covered <= 297
    alone = interval(list(zip(a, words, strict=True)))[1] - interval(list(zip(a, words, strict=True)))[0]
    assert np.mean(widths) < alone * 2**0.5


def test_the_difference_is_of_sums_not_of_means() -> None:
    found = paired([(1, 10), (0, 90)], [(2, 10), (9, 90)])
    assert found.a == pytest.approx(0.01)
    assert found.b == pytest.approx(0.11)
    assert found.difference == pytest.approx(0.10)
    assert found.units == 2


def test_equal_systems_do_not_differ() -> None:
    same = [(float(errors), 10.0) for errors in range(10)]
    found = paired(same, same)
    assert (found.low, found.difference, found.high) == (0, 0, 0)
    assert not found.certain
    assert paired(same, [(errors + 1, words) for errors, words in same]).certain


def test_the_same_seed_gives_the_same_interval() -> None:
    values = [(float(value % 7), 10.0) for value in range(30)]
    assert interval(values, draws=500, seed=3) == interval(values, draws=500, seed=3)
    assert interval(values, draws=500, seed=3) != interval(values, draws=500, seed=4)


def test_draws_that_are_kept_are_those_that_would_be_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [(float(value % 7), 10.0) for value in range(40)]
    kept = [interval(values, draws=700, seed=seed) for seed in (1, 2, 1)]
    monkeypatch.setattr(bootstrap, "_FEW", 0)
    assert [interval(values, draws=700, seed=seed) for seed in (1, 2, 1)] == kept


def test_records_are_paired_by_id() -> None:
    def record(name: str, errors: int, *confirmed: float) -> dict[str, object]:
        latencies = {key: list(confirmed) for key in ("confirmed_s", "settled_s")}
        return {"id": name, "errors": errors, "words": 10, "first_seen_s": None, **latencies}

    a = [record("x", 1, 1.0, 2.0), record("only a", 10, 9.0), record("y", 2, 3.0)]
    b = [record("y", 1, 2.0), record("x", 1, 1.0, 1.0)]
    found = compare(a, b)
    assert found.keys() == {"wer", "confirmed_mean_s", "settled_mean_s"}
    assert found["wer"].a == pytest.approx(3 / 20)
    assert found["wer"].b == pytest.approx(2 / 20)
    assert found["confirmed_mean_s"].difference == pytest.approx(4 / 3 - 6 / 3)
    assert compare(a, [record("other", 1, 1.0)]) == {}


def test_a_figure_of_a_run_has_the_interval_of_its_utterances() -> None:
    records = [{"errors": n % 3, "words": 10, "confirmed_s": [0.1 * n] * (n % 2) or None} for n in range(MANY)]
    assert figure_interval("wer", records) == interval([(n % 3, 10) for n in range(MANY)])
    late = [(0.1 * n, 1) if n % 2 else (0, 0) for n in range(MANY)]
    assert figure_interval("confirmed_mean_s", records) == interval(late)
    assert figure_interval("gflop_per_s", records) is None
    assert figure_interval("wer", records[1:]) is None, "too few"


def spoken(errors: int, speaker: str, number: int, words: int = 10) -> dict[str, object]:
    return {
        "id": f"{speaker}/{number}",
        "group": speaker,
        "errors": errors,
        "words": words,
        "confirmed_s": [0.1 * errors],
    }


def test_the_utterances_of_a_speaker_are_drawn_together() -> None:
    """Four utterances of a speaker that are heard alike tell no more than one: the interval is that of 20 units."""
    speakers = [n % 5 for n in range(MANY)]
    records = [spoken(errors, f"speaker {n}", part) for part in range(4) for n, errors in enumerate(speakers)]
    alone = [(float(errors), 10.0) for errors in speakers]
    assert figure_interval("wer", records) == pytest.approx(interval(alone))
    assert figure_interval("wer", [one for one in records if one["group"] != "speaker 0"]) is None, "19 speakers"
    better = [{**record, "errors": int(str(record["errors"])) // 2} for record in records]
    found = compare(records, better)["wer"]
    by_speaker = paired(alone, [(errors // 2, words) for errors, words in alone])
    assert (found.low, found.high) == pytest.approx((by_speaker.low, by_speaker.high))
    assert found.units == MANY
    assert len(latencies(records)) == MANY


@pytest.mark.parametrize("nobody", ["", "-", "unknown"])
def test_who_is_not_known_is_not_one_speaker(nobody: str) -> None:
    records = [spoken(n % 3, nobody, n) for n in range(MANY)]
    assert figure_interval("wer", records) == interval([(n % 3, 10) for n in range(MANY)])


def test_sounds_of_one_kind_are_not_one_speaker() -> None:
    """Where nobody speaks the group is the kind of noise."""
    silent = [spoken(n % 2, "rain", n, words=0) for n in range(MANY)]
    found = compare([spoken(1, "ann", 0), *silent], [spoken(2, "ann", 0), *silent])["wer"]
    assert found.units == MANY + 1


def test_a_difference_over_speakers_draws_all_of_one_together() -> None:
    a, b = [(1, 10), (2, 10), (0, 10)], [(3, 10), (2, 10), (1, 10)]
    found = paired_over(["ann", "ann", ""], a, b)
    assert found == paired([(3, 20), (0, 10)], [(5, 20), (1, 10)])
    assert found.units == 2


def test_units_keep_the_sums() -> None:
    assert by_unit([(1, 10), (2, 20), (4, 40)], ["ann", 1, "ann"]) == [(5, 50), (2, 20)]


@pytest.mark.slow
def test_intervals_cover_the_truth_where_speakers_are_easy_or_hard() -> None:
    """30 speakers, 8 utterances each, their rates between 0.05 and 0.35. By utterances intervals would cover it far
    less often than they say.
    """
    rng = np.random.default_rng(2)
    covered, by_utterance = 0, 0
    for seed in range(EXPERIMENTS):
        rates = rng.uniform(0.05, 0.35, 30)
        errors = rng.binomial(20, np.repeat(rates, 8))
        ratios = [(float(count), 20.0) for count in errors]
        low, high = interval(by_unit(ratios, list(np.repeat(np.arange(30), 8))), draws=400, seed=seed)
        covered += low <= 0.2 <= high
        low, high = interval(ratios, draws=400, seed=seed)
        by_utterance += low <= 0.2 <= high
    assert 263 <= covered <= 297  # percentile intervals of 30 units are a little narrow
    assert by_utterance < 240


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(OptionError, match="same utterances"):
        paired([(1, 2)], [])
    with pytest.raises(OptionError, match="something to count"):
        interval([(0, 0)])
    with pytest.raises(OptionError, match="something to count"):
        interval([])
