"""From traces to one line: sums and pools by hand, and the real thing on the bundled model."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import whispertide
from each_row import each_row
from evaluation_traces import reference, trace
from whispertide.audio.file import load_audio
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import get_recipe
from whispertide.types import SAMPLE_RATE
from whispertide_lab.evaluation.flops import encoder_gflop
from whispertide_lab.evaluation.replay import offline, run_cell, streaming
from whispertide_lab.evaluation.score import aggregate, judge
from whispertide_lab.evaluation.trace import RoundCost, Trace
from whispertide_lab.speech.utterance import Recordings, RefWord, Utterance

CLIPS = Path(__file__).parents[2] / "clips"
ABOUT: dict[str, Any] = {
    **{"recipe": "r", "model": "m", "corpus": "c", "corpus_hash": "0123456789ab"},
    **{"step_s": 1.0, "threads": 2, "wer_offline": 0.1},
}
KEYS = (  # what a line must at least have
    "recipe model corpus corpus_hash step_s threads wer wer_offline confirmed_mean_s confirmed_p99_s settled_mean_s "
    "first_seen_mean_s matched ttft_s gflop_per_s cpu_s_per_s peak_mb revisions_per_100 avg_beam reduce_ratio "
    "hallucinated_per_min machine commit"
)

CAT = reference(("the", 0.0, 1.0), ("cat", 1.0, 2.0), seconds=4.0)
DOG = replace(reference(("a", 0.0, 1.0), ("big", 1.0, 2.0), ("dog", 2.0, 3.0), seconds=6.0), id="v")
SILENCE = Utterance("s", (), 30.0, lambda: np.zeros(480_000, np.float32), exact_times=True)


def cat_trace() -> Trace:
    cost = RoundCost(1.0, 0.5, 2.0, decoder_runs=4, tokens=3, encoder_gflop=10.0)
    return replace(
        trace((1.5, "", "the"), (2.5, "the", "bat"), (3.5, "cat", ""), audio_s=4.0),
        rounds=(cost, cost),
        cpu_s=2.0,
        peak_mb=100.0,
    )


def dog_trace() -> Trace:
    return replace(
        trace((3.0, "a big", ""), (6.5, "hog hog", ""), audio_s=6.0), utterance="v", cpu_s=3.0, peak_mb=120.0
    )


def test_one_utterance_by_hand() -> None:
    score = judge(CAT, cat_trace())
    assert (score["hits"], score["substitutions"], score["words"], score["errors"]) == (2, 0, 2, 0)
    assert score["first_seen_s"] == (0.5, 1.5)
    assert score["settled_s"] == (0.5, 1.5)
    assert score["confirmed_s"] == (1.5, 1.5)
    assert score["unmatched_s"] == ()
    assert score["ttft_s"] == 1.5
    assert score["final_s"] == 1.5
    assert score["revisions"] == 1
    assert score["final_words"] == 2
    assert (score["rounds"], score["decoder_runs"], score["tokens"], score["encoder_gflop"]) == (2, 8, 6, 20.0)
    assert score["hallucinated"] is None


def test_no_text_is_late_and_made_up_text_is_no_first_text() -> None:
    nothing = trace((4.5, "", ""), audio_s=4.0)
    mute = judge(CAT, nothing)
    assert (mute["first_text_s"], mute["last_text_s"], mute["laal_s"]) == (4.5, 0.5, 4.5)
    made_up = judge(SILENCE, trace((2.0, "oh", ""), audio_s=30.0))
    assert (made_up["first_text_s"], made_up["last_text_s"], made_up["laal_s"]) == (None, None, None)
    quick = judge(CAT, cat_trace())
    score = aggregate([quick, mute, made_up], ABOUT)
    assert score["first_text_s"] == (1.5 + 4.5) / 2


def test_a_cell_sums_counts_and_pools_latencies() -> None:
    score = aggregate([judge(CAT, cat_trace()), judge(DOG, dog_trace())], ABOUT)
    assert (score["words"], score["substitutions"], score["insertions"], score["deletions"]) == (5, 1, 1, 0)
    assert score["wer"] == 2 / 5  # not the mean of 0 and 2/3
    assert score["confirmed_mean_s"] == pytest.approx((1.5 + 1.5 + 2.0 + 1.0) / 4)  # word by word
    assert score["confirmed_p99_s"] == pytest.approx(np.percentile([1.5, 1.5, 2.0, 1.0, 3.5], 99))
    assert score["confirmed_p99_matched_s"] == pytest.approx(np.percentile([1.5, 1.5, 2.0, 1.0], 99))
    assert score["matched"] == 4 / 5
    assert (score["matched_offline"], score["matched_as_offline"]) == (None, None), "nobody heard it offline"
    assert score["audio_s"] == 10.0
    assert score["gflop_per_s"] == 2.0
    assert score["decoder_runs_per_s"] == pytest.approx(0.8)
    assert score["cpu_s_per_s"] == 0.5
    assert score["compute_s_per_s"] == pytest.approx(0.1)
    assert score["peak_mb"] == 120.0
    assert score["revisions_per_100"] == pytest.approx(100 / 6)
    assert score["hallucinated_per_min"] is None
    assert score["energy_j_per_s"] is None
    assert (score["wer_offline"], score["threads"], score["step_s"]) == (0.1, 2, 1.0)
    assert score["wer_minus_offline"] == pytest.approx(0.3)


@each_row(("offline", "enough"), [(0.8, True), (0.829, True), (0.83, False), (1.0, False), (0.1, True)])
def test_matched_words_are_held_against_those_that_are_found_offline(offline: float, enough: bool) -> None:
    score = aggregate([judge(CAT, cat_trace()), judge(DOG, dog_trace())], {**ABOUT, "matched_offline": offline})
    assert score["matched"] == 0.8
    assert (score["matched_offline"], score["matched_as_offline"]) == (offline, enough)


def test_case_and_punctuation_are_held_against_the_offline_text() -> None:
    said = trace((10.0, "One two", ""), (11.0, "Three.", ""), audio_s=10.0)
    text = trace((10.0, "One two three.", ""), audio_s=10.0)
    three = replace(CAT, words=tuple(map(RefWord, ("one", "two", "three"))), exact_times=False)
    row = judge(three, said, text)
    assert (row["written_words"], row["case_errors"], row["punctuation_errors"]) == (3, 1, 0)
    alone = judge(three, said)
    score = aggregate([row, alone, judge(SILENCE, said, text)], ABOUT)
    assert alone["written_words"] is None
    assert score["case_punctuation_per_100"] == score["case_errors_per_100"] == pytest.approx(100 / 3)
    assert score["punctuation_errors_per_100"] == 0
    assert aggregate([alone], ABOUT)["case_punctuation_per_100"] is None


def test_a_cell_counts_what_speakers_were_asked_to_read() -> None:
    rows = [judge(replace(CAT, prompted=True), cat_trace()), judge(DOG, dog_trace())]
    assert aggregate(rows, ABOUT)["prompted"] == 1


def test_words_in_silence_are_hallucinated_and_have_no_error_rate() -> None:
    said = trace((10.0, "thank you", ""), audio_s=30.0)
    score = aggregate([judge(SILENCE, said)], ABOUT)
    assert score["hallucinated_per_min"] == 4.0
    assert score["wer"] is None
    assert score["wer_minus_offline"] is None
    assert score["insertions"] == 2
    assert score["confirmed_mean_s"] is None
    assert score["matched"] is None


def test_no_latency_is_claimed_without_exact_times() -> None:
    vague = judge(replace(CAT, exact_times=False), cat_trace())
    assert vague["confirmed_s"] is None
    assert vague["ttft_s"] is None
    assert aggregate([vague], ABOUT)["confirmed_mean_s"] is None
    assert aggregate([vague], ABOUT)["wer"] == 0


def test_energy_is_told_only_if_all_of_it_is_known() -> None:
    known = judge(CAT, cat_trace()) | {"energy_j": 8.0}
    assert aggregate([known], ABOUT)["energy_j_per_s"] == 2.0
    assert aggregate([known, judge(DOG, dog_trace())], ABOUT)["energy_j_per_s"] is None


def test_a_line_has_the_keys() -> None:
    score = aggregate([judge(CAT, cat_trace())], ABOUT)
    line = json.dumps(score)
    assert "\n" not in line
    assert json.loads(line).keys() >= set(KEYS.split())


def test_a_cell_of_nothing() -> None:
    score = aggregate([], ABOUT)
    assert score["utterances"] == 0
    assert score["wer"] is None


def test_beams_are_those_that_ran() -> None:
    """What feeds the prompt has one row in every search, so it says nothing of the beam."""
    wide = RoundCost(1.0, 0.5, 2.0, search_runs=4, search_rows=16, narrow_runs=1, prompt_runs=1)
    narrow = RoundCost(2.0, 0.5, 2.0, search_runs=2, search_rows=2, narrow_runs=2, prompt_runs=1)
    score = aggregate([judge(CAT, replace(cat_trace(), rounds=(wide, narrow)))], ABOUT)
    assert score["avg_beam"] == pytest.approx(16 / 4)
    assert score["reduce_ratio"] == pytest.approx(1 / 4)


def test_offline_text_is_there_when_the_audio_and_the_computing_are_over() -> None:
    segments = [SimpleNamespace(text=" the cat"), SimpleNamespace(text=" sat")]
    model: Any = SimpleNamespace(warm_up=lambda: None, transcribe_segments=lambda samples, options: iter(segments))
    timed, free = offline(model)(CAT), offline(model, clock="free")(CAT)
    assert timed.words == free.words == ("the", "cat", "sat")
    assert (timed.clock, free.clock) == ("simulated", "free")
    assert timed.shown[0].at_s > CAT.seconds
    assert free.shown[0].at_s == CAT.seconds
    misled = offline(model, clock="free")(replace(CAT, seconds=3.0))  # by a manifest
    assert (misled.audio_s, misled.shown[0].at_s) == (CAT.seconds, CAT.seconds), "as for streams, the samples count"


@pytest.mark.slow
def test_the_bundled_model_streams_a_cell() -> None:
    samples = load_audio(CLIPS / "quiet.flac")
    words = tuple(RefWord(word) for word in (CLIPS / "quiet.txt").read_text().split())
    utterance = Utterance("quiet", words, len(samples) / SAMPLE_RATE, lambda: samples)
    corpus = Recordings("listed", "0123456789ab", (utterance,))
    model = whispertide.load("nano.en", threads=1)
    recipe = get_recipe("whisper-streaming").replace(step_s=2.0, search="greedy")
    options = DecodeOptions(temperatures=(0.0,))
    recogniser = streaming(model, recipe, clock="free", options=options)
    score, records = run_cell(recogniser, corpus, ABOUT)
    whole, _ = run_cell(offline(model, options=options), corpus, ABOUT)
    assert [record["id"] for record in records] == ["quiet"]
    for cell in (score, whole):
        assert cell["words"] == len(words)
        assert cell["wer"] is not None
        assert cell["wer"] < 0.8  # a small model: the figure is not the matter here
    encoded = records[0]["encoder_gflop"] / encoder_gflop(model.dims, 1500)  # whole windows, as the recipe pads to 30 s
    assert encoded == pytest.approx(round(encoded))
    assert encoded >= records[0]["rounds"] >= 2
    assert records[0]["decoder_runs"] > records[0]["tokens"] / 2
    assert 0 < records[0]["narrow_runs"] == records[0]["search_runs"] == records[0]["search_rows"]
    assert score["cpu_s_per_s"] is not None
    assert whole["rounds_per_s"] == pytest.approx(1 / utterance.seconds)
