"""What is kept of an utterance under a recogniser (`judge`), and of a whole cell (`aggregate`): rows that are JSON.

Counts are summed, latencies pooled word by word. Nothing is dropped on the way; what does not apply is None.

A row of an utterance:

    seconds        of audio
    hits ...       words of the normalised reference that were right, and errors by kind; `char_...` of characters
    confirmed_s    latencies of matched words, in order; `settled_s` and `first_seen_s` alike; `unmatched_s` from an
                   unmatched word's end to the end of the run; None without word times
    first_text_s   from the beginning of the recording to the first text; `last_text_s` from its end until the last
                   word is final: what can be had without word times. Who never shows a word shows it at the end of
                   the run; None where nobody spoke
    word_times     where the times come from (`Utterance.word_times`)
    final_words    words of the final text; `hallucinated`: those of them where nobody spoke, None where somebody did
    cursor         latency times weight, clamped and not, and the weight, of all that was shown; `cursor_confirmed` of
                   confirmed text

The row of a cell begins with what was measured. Rates are per reference word, latencies in seconds, costs per second of
audio. `matched_offline` is the share of words that the same weights find offline in the same audio, and
`matched_as_offline` False if the cell finds 3 points fewer: then its latencies are no basis for a claim. Both are None
where nothing was compared. `alignment` tells how far off word times by forced alignment are where people know better.
`case_errors_per_100` and `punctuation_errors_per_100` are against the offline text, per 100 words that both have
(`writing`), and `case_punctuation_per_100` is their sum. `prompted` utterances are scored against what their speakers
were asked to read.
`word_times` are "exact", or "aligned by MODEL", on which no claim about latency should rest, or None: there are no
latencies. `cursor_s` is clamped as published by OpenBench, `cursor_unclamped_s` is not. `avg_beam` is the mean number
of hypotheses in a decoder run that looks for text, `reduce_ratio` the share of those runs with one (WhisperFlow,
table 4); sampling counts, alignment does not, nor does the run that feeds the prompt.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple
from itertools import chain
from typing import Any

from whispertide_lab.evaluation.core_speed import core_gflops
from whispertide_lab.evaluation.cursor import Cursor, cursor_latency
from whispertide_lab.evaluation.latency import (
    FEWER,
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
from whispertide_lab.evaluation.revisions import revisions
from whispertide_lab.evaluation.store import Json, commit, machine
from whispertide_lab.evaluation.trace import Trace
from whispertide_lab.evaluation.views import look
from whispertide_lab.evaluation.waits import PARTS, word_waits
from whispertide_lab.evaluation.wer import Counts, align
from whispertide_lab.evaluation.writing import writing_errors
from whispertide_lab.speech.utterance import Utterance

_LATENCIES = (*MOMENTS, "unmatched")  # the fields of `Latencies`
_WRITING = ("written_words", "case_errors", "punctuation_errors")  # as in `WritingErrors`
_CURSORS = ("cursor", "cursor_confirmed")
_OFFLINE = ("wer_offline", "matched_offline")
_COSTS = ("decoder_runs", "search_runs", "search_rows", "narrow_runs", "prompt_runs", "tokens", "encoder_gflop")


def judge(utterance: Utterance, trace: Trace, offline: Trace | None = None) -> Json:
    """The row of one utterance: one alignment with the reference, one look at what was shown.

    `offline` is what the same weights write of it offline, if that is known.
    """
    viewing = look(trace, utterance.language)
    alignment = align([word.text for word in utterance.words], viewing.words, utterance.language)
    words, letters = alignment.words, alignment.characters
    timed, end = bool(utterance.word_times), max(viewing.end_s, trace.audio_s)
    late = word_latencies(utterance, viewing, alignment, end_s=end) if timed else None
    final = len(viewing.keyed(0))
    return {
        "id": utterance.id,
        "seconds": trace.audio_s,
        "group": utterance.group,
        "language": utterance.language,
        "prompted": utterance.prompted,
        **_writing(utterance, viewing.words, offline),
        **asdict(words),
        "words": words.reference,
        "errors": words.errors,
        "char_errors": letters.errors,
        "characters": letters.reference,
        **{f"{name}_s": getattr(late, name, None) for name in _LATENCIES},
        "waits_s": word_waits(utterance, trace, viewing, alignment) if timed else {},
        "ttft_s": first_text_s(utterance, viewing, end_s=end) if timed else None,
        "final_s": final_word_s(utterance, viewing, alignment, end_s=end) if timed else None,
        "laal_s": laal_s(trace, viewing, len(utterance.words)),
        "first_text_s": first_shown_s(viewing, end_s=end) if utterance.words else None,
        "last_text_s": last_shown_s(viewing, trace.audio_s, end_s=end) if utterance.words else None,
        "word_times": utterance.word_times,
        "final_words": final,
        "revisions": revisions(viewing),
        "hallucinated": None if utterance.words else final,
        "cursor": cursor_latency(utterance, trace).sums,
        "cursor_confirmed": cursor_latency(utterance, trace, "confirmed").sums,
        "rounds": len(trace.rounds),
        "compute_s": sum(cost.seconds for cost in trace.rounds),
        **{name: sum(getattr(cost, name) for cost in trace.rounds) for name in _COSTS},
        "cpu_s": trace.cpu_s,
        "peak_mb": trace.peak_mb,
        "energy_j": trace.energy_j,
    }


def _writing(utterance: Utterance, heard: Sequence[str], offline: Trace | None) -> Json:
    """Case and punctuation against the offline text; nothing of it where there is none or nothing was said."""
    if offline is None or not utterance.words:
        return dict.fromkeys(_WRITING)
    found = writing_errors(look(offline, utterance.language).words, heard)
    return dict(zip(_WRITING, astuple(found), strict=True))


def aggregate(rows: Sequence[Json], about: Mapping[str, Any]) -> Json:
    """The row of a cell; `about` says what was measured, with the word error rate (`wer_offline`) and the share of
    matched words (`matched_offline`) of the same weights offline, if they are known.
    """

    def total(name: str) -> float:
        return sum(row[name] or 0 for row in rows)

    def mean(name: str) -> float | None:
        known = [row[name] for row in rows if row[name] is not None]
        return _ratio(sum(known), len(known))

    words = Counts(*(int(total(name)) for name in ("hits", "substitutions", "deletions", "insertions")))
    timed = [row for row in rows if row["confirmed_s"] is not None]
    latencies = Latencies(*(tuple(chain(*(row[f"{name}_s"] for row in timed))) for name in _LATENCIES))
    cursor, confirmed = (Cursor(*map(sum, zip(*(row[key] for row in rows), strict=True))) for key in _CURSORS)
    audio, prompts, offline = total("seconds"), total("prompt_runs"), about.get("wer_offline")
    found_offline = about.get("matched_offline")
    runs = total("search_runs") - prompts  # a prompt is fed in one row, whatever the beam is
    silent_s = sum(row["seconds"] for row in rows if row["hallucinated"] is not None)
    return {
        **{name: value for name, value in about.items() if name not in _OFFLINE},
        "utterances": len(rows),
        "prompted": int(total("prompted")),
        "audio_s": audio,
        "words": words.reference,
        "wer": words.rate,
        "wer_offline": offline,
        "wer_minus_offline": None if words.rate is None or offline is None else words.rate - offline,
        "cer": _ratio(total("char_errors"), total("characters")),
        "substitutions": words.substitutions,
        "deletions": words.deletions,
        "insertions": words.insertions,
        **{f"{moment}_{k}": v for moment in reversed(MOMENTS) for k, v in asdict(summarise(latencies, moment)).items()},
        "matched": latencies.matched,
        "matched_offline": found_offline,
        "matched_as_offline": _enough(latencies.matched, found_offline),
        **{f"{kind}_errors_per_100": _per_100(rows, kind) for kind in ("case", "punctuation")},
        "case_punctuation_per_100": _per_100(rows, "case", "punctuation"),
        "waits_s": {part: found for part in PARTS if (found := _mean([row["waits_s"].get(part, ()) for row in rows]))},
        **{name: mean(name) for name in ("ttft_s", "final_s", "laal_s", "first_text_s", "last_text_s")},
        "word_times": " and ".join(sorted({row["word_times"] for row in rows} - {""})) or None,
        "cursor_s": cursor.clamped_s,
        "cursor_unclamped_s": cursor.unclamped_s,
        "cursor_confirmed_s": confirmed.clamped_s,
        "cursor_confirmed_unclamped_s": confirmed.unclamped_s,
        "gflop_per_s": _ratio(total("encoder_gflop"), audio) or None,
        "decoder_runs_per_s": _ratio(total("decoder_runs"), audio) or None,
        "tokens_per_s": _ratio(total("tokens"), audio) or None,
        "rounds_per_s": _ratio(total("rounds"), audio),
        "compute_s_per_s": _ratio(total("compute_s"), audio),
        "cpu_s_per_s": _ratio(total("cpu_s"), audio) or None,
        "energy_j_per_s": _ratio(total("energy_j"), audio)
        if all(row["energy_j"] is not None for row in rows)
        else None,
        "peak_mb": max((row["peak_mb"] for row in rows), default=0.0) or None,
        "revisions_per_100": _ratio(100 * total("revisions"), total("final_words")),
        "hallucinated_per_min": _ratio(60 * total("hallucinated"), silent_s),
        "avg_beam": _ratio(total("search_rows") - prompts, runs),
        "reduce_ratio": _ratio(total("narrow_runs") - prompts, runs),
        "machine": machine(),
        "core_gflops": core_gflops(),
        "commit": commit(),
    }


def _enough(matched: float | None, offline: float | None) -> bool | None:
    """Whether about as many words are found as offline; None where one of the shares is not known."""
    return None if matched is None or offline is None else round(offline - matched, 9) < FEWER


def _per_100(rows: Sequence[Json], *kinds: str) -> float | None:
    """Errors of these kinds per 100 words that were compared with the offline text."""
    compared = [row for row in rows if row["written_words"] is not None]
    errors = sum(row[f"{kind}_errors"] for row in compared for kind in kinds)
    return _ratio(100 * errors, sum(row["written_words"] for row in compared))


def _mean(lists: Iterable[Sequence[float]]) -> float | None:
    values = list(chain(*lists))
    return sum(values) / len(values) if values else None


def _ratio(value: float, per: float) -> float | None:
    return value / per if per else None
