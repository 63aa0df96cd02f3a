"""What is kept of an utterance under a recogniser, and of a whole cell: values and their JSON. Measures nothing."""

import json
from dataclasses import asdict, dataclass

from whispertide.lab.evaluation.latency import Latencies
from whispertide.lab.evaluation.trace import ClockName


@dataclass(frozen=True, slots=True)
class UtteranceScore:
    """All that is kept of one utterance under one recogniser; `asdict` of it is JSON-ready.

    seconds        of audio
    hits ...       words of the normalised reference that were right, and errors by kind
    char_...       the same for characters
    confirmed_s    latencies of matched words, in order; `settled_s` and `first_seen_s` alike; `unmatched_s` from an
                   unmatched word's end to the end of the run; None without word times
    first_text_s   from the beginning of the recording to the first text; `last_text_s` from its end until the last
                   word is final: what can be had without word times
    word_times     where the times come from (`Utterance.word_times`)
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
    first_text_s: float | None = None
    last_text_s: float | None = None
    word_times: str = ""
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

    @property
    def latencies(self) -> Latencies | None:
        """The latencies; None without word times."""
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
    than 95 % of the reference words and are no basis for a claim. `word_times` are "exact", or "aligned by MODEL", on
    which no claim about latency should rest, or None: there are no latencies; `first_text_s` and `last_text_s` need
    none. `cursor_s` is clamped as published by OpenBench, `cursor_unclamped_s` is not. `avg_beam` is the mean number of
    hypotheses in a decoder run that looks for text, `reduce_ratio` the share of those runs with one (WhisperFlow,
    table 4); sampling counts, alignment does not.
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
    first_text_s: float | None
    last_text_s: float | None
    word_times: str | None
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
