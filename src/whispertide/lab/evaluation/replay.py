"""One cell of a benchmark: a recogniser hears every utterance of a corpus, and its traces become one line of scores.

    score, records = run_cell(streaming(transcriber, recipe), corpus, about)

A recogniser is a function from an utterance to its trace: `streaming` and `offline` make ours, peers bring their own.
`judge` turns a trace into the scores of its utterance, `aggregate` those into a `Score`: counts are summed, latencies
pooled word by word. Nothing is dropped on the way; what does not apply is None.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from functools import reduce
from operator import add

from whispertide.api import Transcriber
from whispertide.lab.evaluation import clock as clocks
from whispertide.lab.evaluation.cursor import Cursor, cursor_latency
from whispertide.lab.evaluation.energy import Meter
from whispertide.lab.evaluation.latency import (
    ENOUGH,
    MOMENTS,
    Latencies,
    final_word_s,
    first_shown_s,
    first_text_s,
    laal_s,
    last_shown_s,
    summarise,
    word_latencies,
)
from whispertide.lab.evaluation.revisions import hallucinated_words, revisions
from whispertide.lab.evaluation.score import About, Score, UtteranceScore
from whispertide.lab.evaluation.store import commit, machine
from whispertide.lab.evaluation.trace import FREE, ClockName, RoundCost, Shown, Trace
from whispertide.lab.evaluation.views import look
from whispertide.lab.evaluation.wer import Counts, align
from whispertide.lab.speech.utterance import Corpus, Utterance
from whispertide.options import DecodeOptions
from whispertide.streaming.recipe import Recipe

Recogniser = Callable[[Utterance], Trace]
Progress = Callable[[float], None]  # told how many seconds of audio are done


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
        first_text_s=first_shown_s(viewing),
        last_text_s=last_shown_s(viewing, trace.audio_s),
        word_times=utterance.word_times,
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
    if not utterance.word_times:
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
        first_text_s=_mean(result.first_text_s for result in results),
        last_text_s=_mean(result.last_text_s for result in results),
        word_times=" and ".join(sorted({result.word_times for result in results if result.word_times})) or None,
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
