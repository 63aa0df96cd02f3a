"""One cell of a benchmark: a recogniser hears every utterance of a corpus, and its traces become one line of scores.

    score, records = run_cell(streaming(transcriber, recipe), corpus, about)

A recogniser is a function from an utterance to its trace: `streaming` and `offline` make ours, peers bring their own.
`judge` turns a trace into the scores of its utterance, `aggregate` those into a `Score`: counts are summed, latencies
pooled word by word. Nothing is dropped on the way; what does not apply is None.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import reduce
from operator import add
from typing import Any

from whispertide.api import Transcriber
from whispertide.evaluation import clock as clocks
from whispertide.evaluation.cursor import Cursor, cursor_latency
from whispertide.evaluation.energy import Meter
from whispertide.evaluation.latency import (
    ENOUGH,
    MOMENTS,
    Latencies,
    final_word_s,
    first_text_s,
    laal_s,
    summarise,
    word_latencies,
)
from whispertide.evaluation.revisions import hallucinated_words, revisions
from whispertide.evaluation.store import commit, machine
from whispertide.evaluation.trace import FREE, ClockName, Corpus, RoundCost, Shown, Trace, Utterance
from whispertide.evaluation.views import look
from whispertide.evaluation.wer import Counts, align
from whispertide.options import DecodeOptions
from whispertide.streaming.recipe import Recipe

Recogniser = Callable[[Utterance], Trace]
Progress = Callable[[float], None]  # told how many seconds of audio are done


@dataclass(frozen=True, slots=True)
class UtteranceScore:
    """All that is kept of one utterance under one recogniser; `asdict` of it is JSON-ready, `from_record` reads it.

    seconds        of audio
    hits ...       words of the normalised reference that were right, and errors by kind
    char_...       the same for characters
    confirmed_s    latencies of matched words, in order; `settled_s` and `first_seen_s` alike; `unmatched_s` from an
                   unmatched word's end to the end of the run; None without exact word times
    final_words    words of the final text
    hallucinated   those of them where nobody spoke; None where somebody did
    cursor         latency times weight, clamped and not, and the weight, of all that was shown; `cursor_confirmed` of
                   confirmed text
    """

    id: str
    seconds: float
    group: str = ""
    hits: int = 0
    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0
    words: int = 0
    errors: int = 0
    char_errors: int = 0
    characters: int = 0
    first_seen_s: tuple[float, ...] | None = None
    settled_s: tuple[float, ...] | None = None
    confirmed_s: tuple[float, ...] | None = None
    unmatched_s: tuple[float, ...] | None = None
    ttft_s: float | None = None
    final_s: float | None = None
    laal_s: float | None = None
    final_words: int = 0
    revisions: int = 0
    hallucinated: int | None = None
    cursor: tuple[float, float, float] = (0.0, 0.0, 0.0)
    cursor_confirmed: tuple[float, float, float] = (0.0, 0.0, 0.0)
    rounds: int = 0
    compute_s: float = 0.0
    decoder_runs: int = 0
    search_runs: int = 0
    search_rows: int = 0
    narrow_runs: int = 0
    tokens: int = 0
    encoder_gflop: float = 0.0
    cpu_s: float = 0.0
    peak_mb: float = 0.0
    energy_j: float | None = None

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "UtteranceScore":
        """The inverse of `asdict`, also after JSON."""
        values: dict[str, Any] = {key: tuple(item) if isinstance(item, list) else item for key, item in record.items()}
        return cls(**values)

    @property
    def latencies(self) -> Latencies | None:
        """The latencies; None without exact word times."""
        if self.confirmed_s is None:
            return None
        return Latencies(self.first_seen_s or (), self.settled_s or (), self.confirmed_s, self.unmatched_s or ())


@dataclass(frozen=True, slots=True)
class About:
    """What a cell measured, for its line."""

    recipe: str
    model: str
    corpus: str
    corpus_hash: str
    clock: ClockName = "simulated"
    step_s: float | None = None
    threads: int | None = None
    wer_offline: float | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """One cell. Rates are per reference word, latencies in seconds, costs per second of audio; None: not applicable.

    `substitutions`, `deletions` and `insertions` are numbers of words. `matched_enough` False: the latencies cover less
    than 95 % of the reference words and are no basis for a claim. `cursor_s` is clamped as published by OpenBench,
    `cursor_unclamped_s` is not. `avg_beam` is the mean number of hypotheses in a decoder run that looks for text,
    `reduce_ratio` the share of those runs with one (WhisperFlow, table 4); sampling counts, alignment does not.
    """

    recipe: str
    model: str
    corpus: str
    corpus_hash: str
    clock: ClockName
    step_s: float | None
    threads: int | None
    utterances: int
    audio_s: float
    words: int
    wer: float | None
    wer_offline: float | None
    wer_minus_offline: float | None
    cer: float | None
    substitutions: int
    deletions: int
    insertions: int
    confirmed_mean_s: float | None
    confirmed_median_s: float | None
    confirmed_p90_s: float | None
    confirmed_p99_s: float | None
    confirmed_p99_matched_s: float | None
    settled_mean_s: float | None
    settled_median_s: float | None
    settled_p90_s: float | None
    settled_p99_s: float | None
    settled_p99_matched_s: float | None
    first_seen_mean_s: float | None
    first_seen_median_s: float | None
    first_seen_p90_s: float | None
    first_seen_p99_s: float | None
    first_seen_p99_matched_s: float | None
    matched: float | None
    matched_enough: bool | None
    ttft_s: float | None
    final_s: float | None
    laal_s: float | None
    cursor_s: float | None
    cursor_unclamped_s: float | None
    cursor_confirmed_s: float | None
    cursor_confirmed_unclamped_s: float | None
    gflop_per_s: float | None
    decoder_runs_per_s: float | None
    tokens_per_s: float | None
    rounds_per_s: float | None
    compute_s_per_s: float | None
    cpu_s_per_s: float | None
    energy_j_per_s: float | None
    peak_mb: float | None
    revisions_per_100: float | None
    hallucinated_per_min: float | None
    avg_beam: float | None
    reduce_ratio: float | None
    machine: str
    commit: str

    def line(self) -> str:
        """The score as one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_line(cls, line: str) -> "Score":
        """The inverse of `line`. Raises `ValueError` or `TypeError` where it is none."""
        return cls(**json.loads(line))


def streaming(
    transcriber: Transcriber,
    recipe: Recipe,
    *,
    clock: ClockName = "simulated",
    block: int = clocks.BLOCK,
    options: DecodeOptions | None = None,
) -> Recogniser:
    """Our recogniser by that recipe, a new session for each utterance, under one of the three clocks.

    Unless `options` say otherwise it is told the utterance's language. The graphs are opened now, so that no round
    pays for it. Raises `UnknownLanguageError` for an utterance in a language that the model cannot write.
    """
    transcriber.warm_up()
    play = {"simulated": clocks.simulate, "free": clocks.free, "live": clocks.live}[clock]

    def recognise(utterance: Utterance) -> Trace:
        asked = options or DecodeOptions(language=utterance.language)
        session = transcriber.session(recipe, options=asked, live=True)
        return play(
            session,
            utterance.audio(),
            block=block,
            utterance=utterance.id,
            recogniser=recipe.name,
            dims=transcriber.dims,
        )

    return recognise


def offline(
    transcriber: Transcriber, *, clock: ClockName = "simulated", options: DecodeOptions | None = None
) -> Recogniser:
    """Our offline transcription: all text is confirmed when it is done, which began when the last sample was spoken.

    With the free clock it is done at once. Its encoder work is not counted.
    """
    transcriber.warm_up()

    def recognise(utterance: Utterance) -> Trace:
        samples = utterance.audio()
        chosen = options or DecodeOptions(language=utterance.language, word_timestamps=False)
        meter = Meter()
        segments = list(transcriber.transcribe_segments(samples, options=chosen))
        usage = meter.read()
        end = utterance.seconds + (0.0 if clock == FREE else usage.wall_s)
        words = tuple(word for segment in segments for word in segment.text.split())
        return Trace(
            utterance=utterance.id,
            recogniser="offline",
            clock=clock if clock == FREE else "simulated",
            audio_s=utterance.seconds,
            shown=(Shown(end, words),),
            rounds=(RoundCost(utterance.seconds, usage.wall_s, utterance.seconds),),
            wall_s=usage.wall_s,
            cpu_s=usage.cpu_s,
            peak_mb=usage.peak_mb,
            energy_j=usage.energy_j,
        )

    return recognise


def run_cell(
    recogniser: Recogniser, corpus: Corpus, about: About, *, progress: Progress | None = None
) -> tuple[Score, tuple[UtteranceScore, ...]]:
    """Every utterance of the corpus, one after the other."""
    results: list[UtteranceScore] = []
    for utterance in corpus.utterances():
        results.append(judge(utterance, recogniser(utterance)))
        if progress is not None:
            progress(utterance.seconds)
    return aggregate(results, about), tuple(results)


def judge(utterance: Utterance, trace: Trace) -> UtteranceScore:
    """The scores of one utterance: one alignment with the reference, one look at what was shown."""
    viewing = look(trace, utterance.language)
    alignment = align([word.text for word in utterance.words], viewing.words, utterance.language)
    words, letters = alignment.words, alignment.characters
    score = UtteranceScore(
        id=utterance.id,
        seconds=trace.audio_s,
        group=utterance.group,
        hits=words.hits,
        substitutions=words.substitutions,
        deletions=words.deletions,
        insertions=words.insertions,
        words=words.reference,
        errors=words.errors,
        char_errors=letters.errors,
        characters=letters.reference,
        laal_s=laal_s(trace, viewing, len(utterance.words)),
        final_words=len(viewing.keyed(0)),
        revisions=revisions(viewing),
        hallucinated=None if utterance.words else hallucinated_words(viewing),
        cursor=_parts(cursor_latency(utterance, trace)),
        cursor_confirmed=_parts(cursor_latency(utterance, trace, "confirmed")),
        rounds=len(trace.rounds),
        compute_s=sum(cost.seconds for cost in trace.rounds),
        decoder_runs=sum(cost.decoder_runs for cost in trace.rounds),
        search_runs=sum(cost.search_runs for cost in trace.rounds),
        search_rows=sum(cost.search_rows for cost in trace.rounds),
        narrow_runs=sum(cost.narrow_runs for cost in trace.rounds),
        tokens=sum(cost.tokens for cost in trace.rounds),
        encoder_gflop=sum(cost.encoder_gflop for cost in trace.rounds),
        cpu_s=trace.cpu_s,
        peak_mb=trace.peak_mb,
        energy_j=trace.energy_j,
    )
    if not utterance.exact_times:
        return score
    end = max(viewing.end_s, trace.audio_s)
    latencies = word_latencies(utterance, viewing, alignment, end_s=end)
    return replace(
        score,
        first_seen_s=latencies.first_seen,
        settled_s=latencies.settled,
        confirmed_s=latencies.confirmed,
        unmatched_s=latencies.unmatched,
        ttft_s=first_text_s(utterance, viewing),
        final_s=final_word_s(utterance, viewing, alignment, end_s=end),
    )


def aggregate(results: Iterable[UtteranceScore], about: About) -> Score:
    """One line for all utterances of a cell."""
    results = tuple(results)
    words = sum((_counts(result) for result in results), Counts())
    latencies = reduce(add, (result.latencies for result in results if result.latencies is not None), Latencies())
    cursor = sum((Cursor(*result.cursor) for result in results), Cursor())
    confirmed_cursor = sum((Cursor(*result.cursor_confirmed) for result in results), Cursor())
    audio = sum(result.seconds for result in results)
    runs = sum(result.search_runs for result in results)
    silent = [result for result in results if result.hallucinated is not None]
    moments = {
        f"{moment}_{name}": value for moment in MOMENTS for name, value in asdict(summarise(latencies, moment)).items()
    }
    return Score(
        **asdict(about),
        **moments,
        utterances=len(results),
        audio_s=audio,
        words=words.reference,
        wer=words.rate,
        wer_minus_offline=_difference(words.rate, about.wer_offline),
        cer=_ratio(sum(result.char_errors for result in results), sum(result.characters for result in results)),
        substitutions=words.substitutions,
        deletions=words.deletions,
        insertions=words.insertions,
        matched=latencies.matched,
        matched_enough=None if latencies.matched is None else latencies.matched >= ENOUGH,
        ttft_s=_mean(result.ttft_s for result in results),
        final_s=_mean(result.final_s for result in results),
        laal_s=_mean(result.laal_s for result in results),
        cursor_s=cursor.clamped_s,
        cursor_unclamped_s=cursor.unclamped_s,
        cursor_confirmed_s=confirmed_cursor.clamped_s,
        cursor_confirmed_unclamped_s=confirmed_cursor.unclamped_s,
        gflop_per_s=_ratio(sum(result.encoder_gflop for result in results), audio) or None,
        decoder_runs_per_s=_ratio(sum(result.decoder_runs for result in results), audio) or None,
        tokens_per_s=_ratio(sum(result.tokens for result in results), audio) or None,
        rounds_per_s=_ratio(sum(result.rounds for result in results), audio),
        compute_s_per_s=_ratio(sum(result.compute_s for result in results), audio),
        cpu_s_per_s=_ratio(sum(result.cpu_s for result in results), audio) or None,
        energy_j_per_s=_energy(results, audio),
        peak_mb=max((result.peak_mb for result in results), default=0.0) or None,
        revisions_per_100=_ratio(
            100 * sum(result.revisions for result in results), sum(result.final_words for result in results)
        ),
        hallucinated_per_min=_ratio(
            60 * sum(result.hallucinated or 0 for result in silent), sum(result.seconds for result in silent)
        ),
        avg_beam=_ratio(sum(result.search_rows for result in results), runs),
        reduce_ratio=_ratio(sum(result.narrow_runs for result in results), runs),
        machine=machine(),
        commit=commit(),
    )


def _counts(result: UtteranceScore) -> Counts:
    return Counts(result.hits, result.substitutions, result.deletions, result.insertions)


def _parts(cursor: Cursor) -> tuple[float, float, float]:
    return cursor.clamped, cursor.unclamped, cursor.weight


def _ratio(value: float, per: float) -> float | None:
    return value / per if per else None


def _difference(value: float | None, less: float | None) -> float | None:
    return None if value is None or less is None else value - less


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _energy(results: Iterable[UtteranceScore], audio: float) -> float | None:
    joules = [result.energy_j for result in results]
    return _ratio(sum(value or 0.0 for value in joules), audio) if joules and None not in joules else None
