"""Rules of which token may come next, as Whisper has them, and the chance of each from the decoder's output.

All rules but one are known *before* the decoder runs: they forbid ranges of ids, and `Rules.suppression` turns the
ranges into the vector that the graph adds to its logits. The last one (`timestamp_outweighs_text`) compares
probabilities and therefore needs the logits. This module knows nothing of audio, searches or graphs.

Source: `SuppressBlank`, `SuppressTokens` and `ApplyTimestampRules` in openai/whisper, decoding.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.tokenizer import Tokenizer
from whispertide.decoding.key_terms import KeyTerms, Place, key_terms
from whispertide.decoding.prompt import Prompt
from whispertide.errors import OptionError
from whispertide.graphs.contract import TOP
from whispertide.model.engine import DecodeOutput, DecodeRequest, required
from whispertide.model.whisper import WhisperModel
from whispertide.options import DecodeOptions
from whispertide.types import CHUNK_SECONDS, FloatArray, IntArray

Range = tuple[int, int]  # half-open range of token ids

_MAX_INITIAL_TIMESTAMP_S = 1.0  # openai/whisper, `DecodingOptions.max_initial_timestamp`
NON_SPEECH = -1  # in a list of suppressed tokens: "and everything that nobody says", as in openai/whisper
_CACHED_VECTORS = 16  # one per distinct state; a beam needs a handful at a time


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The few token ids that the rules are about. `size` is the width of the logits."""

    size: int
    eot: int
    no_speech: int
    no_timestamps: int
    timestamp_begin: int

    def is_timestamp(self, token: int) -> bool:
        """True if `token` is a timestamp instead of text."""
        return token >= self.timestamp_begin


def pairing(sampled: Sequence[int], vocabulary: Vocabulary) -> tuple[Range, ...]:
    """Timestamps come in pairs (end of one segment, start of the next), except right before the end of the text."""
    if not sampled or not vocabulary.is_timestamp(sampled[-1]):
        return ()
    # After the timestamp that opens a segment text must follow, or the end; the first of all opens one, and so does the
    # second of two in a row. After one that closes a segment only another timestamp may follow, or the end.
    opened = len(sampled) < 2 or vocabulary.is_timestamp(sampled[-2])
    return ((vocabulary.timestamp_begin, vocabulary.size),) if opened else ((0, vocabulary.eot),)


def monotone(sampled: Sequence[int], vocabulary: Vocabulary) -> tuple[Range, ...]:
    """Times never go back, and a segment never ends where it starts (that would loop for ever)."""
    last = next((token for token in reversed(sampled) if vocabulary.is_timestamp(token)), None)
    if last is None:
        return ()
    # The next segment may begin at the very time at which the last one ended.
    just_closed = sampled[-1] == last and len(sampled) >= 2 and not vocabulary.is_timestamp(sampled[-2])
    first_allowed = last if just_closed else last + 1
    return ((vocabulary.timestamp_begin, first_allowed),)


def initial(sampled: Sequence[int], vocabulary: Vocabulary, max_index: int | None) -> tuple[Range, ...]:
    """The first token is a timestamp, no later than `max_index` encoder frames."""
    if sampled:
        return ()
    text = (0, vocabulary.timestamp_begin)
    if max_index is None:
        return (text,)
    return (text, (min(vocabulary.timestamp_begin + max_index + 1, vocabulary.size), vocabulary.size))


def timestamp_outweighs_text(logits: FloatArray, timestamp_begin: int) -> npt.NDArray[np.bool_]:
    """Per row: are all timestamps together likelier than the likeliest text token?

    logits [rows, vocab] after suppression -> [rows]. Such rows must sample a timestamp.
    """
    text = logits[:, :timestamp_begin].max(axis=-1)
    times = logits[:, timestamp_begin:]
    peak = times.max(axis=-1)
    # Where all timestamps are forbidden the peak is -inf, and taking it away from itself would give nan.
    safe = np.where(np.isfinite(peak), peak, 0)
    # Where all are forbidden the sum is 0, and its logarithm -inf, as it should be.
    with np.errstate(divide="ignore"):
        mass = safe + np.log(np.exp(times - safe[:, None]).sum(axis=-1))
    # Logits will do: as log-probabilities both sides would be smaller by the same number.
    return np.asarray(mass > text)


def log_softmax(logits: FloatArray | npt.NDArray[np.float64]) -> FloatArray:
    """Log-probabilities over the last axis; -inf stays -inf."""
    # The largest becomes 0, so that exp cannot overflow.
    shifted = logits - logits.max(axis=-1, keepdims=True)
    total = np.exp(shifted).sum(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(total), dtype=np.float32)


class Rules:
    """The rules of one decode, and the suppression vectors that they lead to (cached: they seldom change).

    suppressed   ids that may never be sampled
    blank        ids that may not come first (a space, the end of the text); empty switches the rule off
    timestamps   whether the timestamp rules hold; without them nothing is known about timestamp tokens
    max_initial_index   the latest first timestamp, in encoder frames; None = any
    terms        what is to be found where it is said; None: nothing in particular
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        suppressed: Sequence[int] = (),
        blank: Sequence[int] = (),
        timestamps: bool = False,
        max_initial_index: int | None = None,
        terms: KeyTerms | None = None,
    ) -> None:
        self.vocabulary = vocabulary
        self.terms = terms
        self.timestamps = timestamps
        self._blank = tuple((token, token + 1) for token in blank)
        self._max_initial_index = max_initial_index
        self._base = np.zeros(vocabulary.size, dtype=np.float32)
        if wrong := [token for token in suppressed if not 0 <= token < vocabulary.size]:
            raise OptionError(f"expected tokens to suppress from 0 to {vocabulary.size - 1}; got {wrong[0]}")
        # A list, because numpy takes a tuple for one index with several axes.
        self._base[list(suppressed)] = -np.inf
        if timestamps:
            # It belongs into the prompt; sampled, it would say that no timestamps follow (so in openai/whisper).
            self._base[vocabulary.no_timestamps] = -np.inf
        self._vectors: dict[tuple[Range, ...], FloatArray] = {(): self._base}

    @property
    def need(self) -> Literal["top", "times", "logits"]:
        """The request of a search to the graph: the timestamp rules weigh text against timestamps, and key terms may be
        unlikely.
        """
        if self.terms is not None:
            return "logits"
        return "times" if self.timestamps else "top"

    def forbidden(self, sampled: Sequence[int]) -> tuple[Range, ...]:
        """Ranges of ids that may not follow `sampled`, besides those that never may."""
        ranges = () if sampled else self._blank
        if not self.timestamps:
            return ranges
        return (
            *ranges,
            *pairing(sampled, self.vocabulary),
            *monotone(sampled, self.vocabulary),
            *initial(sampled, self.vocabulary, self._max_initial_index),
        )

    def suppression(self, rows: Sequence[Sequence[int]]) -> FloatArray:
        """The addend to the logits of the next token of each row (0 or -inf).

        Returns [vocab] when it is the same for all rows, else [rows, vocab]. Do not write into it.
        """
        keys = [self.forbidden(sampled) for sampled in rows]
        if len(set(keys)) == 1:
            return self._vector(keys[0])
        return np.stack([self._vector(key) for key in keys])

    def log_probabilities(self, logits: FloatArray) -> FloatArray:
        """Suppressed logits [rows, vocab] -> log-probabilities after the rule that needs the logits."""
        if self.timestamps:
            begin = self.vocabulary.timestamp_begin
            forced = timestamp_outweighs_text(logits, begin)
            if forced.any():
                # They may be a view of what the decoder gave, whose other places are read later.
                logits = logits.copy()
                logits[forced, :begin] = -np.inf
        return log_softmax(logits)

    def _vector(self, key: tuple[Range, ...]) -> FloatArray:
        vector = self._vectors.get(key)
        if vector is None:
            vector = self._base.copy()
            for start, stop in key:
                vector[start:stop] = -np.inf
            if len(self._vectors) >= _CACHED_VECTORS:
                # The oldest; any of them can be made again.
                self._vectors.pop(next(iter(self._vectors)))
            self._vectors[key] = vector
        return vector


def suppressed_tokens(
    tokenizer: Tokenizer, wanted: Sequence[int] | None, of_checkpoint: Sequence[int] | None
) -> tuple[int, ...]:
    """Ids that may never be sampled: what the user wants, else the checkpoint's list, else everything nobody says.

    `NON_SPEECH` (-1) in a list stands for the tokenizer's non-speech tokens. Task, start and no-speech tokens are
    always suppressed (openai/whisper, `DecodingTask._get_suppress_tokens`), and what a fine-tuned model has more.
    """
    chosen = wanted if wanted is not None else of_checkpoint if of_checkpoint is not None else (NON_SPEECH,)
    ids = {token for token in chosen if token >= 0}
    if NON_SPEECH in chosen:
        ids.update(tokenizer.non_speech_tokens)
    ids.update((tokenizer.transcribe, tokenizer.translate, tokenizer.sot, tokenizer.sot_prev, tokenizer.sot_lm))
    # How likely it is after sot tells silence; as a part of the text it would say nothing.
    ids.add(tokenizer.no_speech)
    # After the timestamps, and taken for one they would be times beyond the window.
    ids.update(tokenizer.added_tokens)
    return tuple(sorted(ids))


def build_rules(model: WhisperModel | Checkpoint, options: DecodeOptions) -> Rules:
    """The rules that `options` ask for, with the ids of `model`'s vocabulary."""
    tokenizer = model.tokenizer
    return Rules(
        Vocabulary(
            size=model.dims.n_vocab,
            eot=tokenizer.eot,
            no_speech=tokenizer.no_speech,
            no_timestamps=tokenizer.no_timestamps,
            timestamp_begin=tokenizer.timestamp_begin,
        ),
        suppressed=suppressed_tokens(tokenizer, options.suppress_tokens, model.generation.suppress_tokens),
        blank=tokenizer.blank_tokens if options.suppress_blank else (),
        timestamps=options.timestamps,
        max_initial_index=_max_initial_index(model, options),
        terms=key_terms(tokenizer, options.keyterms),
    )


def _max_initial_index(model: WhisperModel | Checkpoint, options: DecodeOptions) -> int:
    """The latest timestamp that a text may begin with: the user's, else the checkpoint's, else Whisper's."""
    given, of_checkpoint = options.max_initial_timestamp, model.generation.max_initial_timestamp_index
    if given is None and of_checkpoint is not None:
        return of_checkpoint
    latest_s = _MAX_INITIAL_TIMESTAMP_S if given is None else given
    return round(latest_s * model.dims.n_audio_ctx / CHUNK_SECONDS)


def opening_request(prompt: Prompt, draft: Sequence[int] = ()) -> DecodeRequest:
    """Feed the whole prompt and a `draft` after it; ask for the raw logits at start-of-transcript, at the prompt's
    end and along the draft.
    """
    tokens = (*prompt.tokens, *draft)
    positions = range(len(prompt.tokens) - 1, len(tokens))
    # The no-speech probability is that of sot's own query, before anything is suppressed.
    at = (*positions,) if prompt.sot_index in positions else (prompt.sot_index, *positions)
    return DecodeRequest(
        tokens=np.array([tokens], dtype=np.int64),
        logits_at=at,
        need="logits",
        draft=len(draft),
    )


def step_request(
    rows: Sequence[Sequence[int]],
    rules: Rules,
    *,
    parents: tuple[int, ...],
    whole: bool = False,
    draft: Sequence[int] = (),
) -> DecodeRequest:
    """Feed the newest token of each row of sampled tokens, and after that of a single row a `draft`.

    The best candidates are asked for, and where text is weighed against timestamps the best of these; with `whole` the
    whole distribution.
    """
    if draft and rules.timestamps:  # every place of the draft forbids other tokens, but the graph suppresses by row
        whole, suppress = True, None
    else:
        suppress = rules.suppression(rows)
    return DecodeRequest(
        tokens=np.array([[sampled[-1], *draft] for sampled in rows], dtype=np.int64),
        logits_at=tuple(range(len(draft) + 1)),
        parents=parents,
        suppress=suppress,
        need="logits" if whole else rules.need,
        draft=len(draft),
    )


def trial_request(trial: Sequence[int], *, parent: int) -> DecodeRequest:
    """Feed a `trial` of tokens after the newest one of the only row; ask for the raw logits."""
    return DecodeRequest(
        tokens=np.array([trial], dtype=np.int64),
        logits_at=tuple(range(len(trial))),
        parents=(parent,),
        need="logits",
        draft=len(trial),
    )


def no_speech(output: DecodeOutput, rules: Rules) -> float:
    """The no-speech probability, after an opening."""
    if output.logits is None:
        return output.no_speech_prob
    return float(np.exp(log_softmax(output.logits[0, 0])[rules.vocabulary.no_speech]))


@dataclass(frozen=True, slots=True)
class Distribution:
    """Of the token after one place of a run, for each row, under the rules.

    place  counted from the end of the places that were asked for, so -1 is the last
    rows   the tokens sampled before it
    raw    whether the decoder was not asked to suppress
    within where each row is in the key terms, if these are weighed
    """

    output: DecodeOutput
    place: int
    rows: Sequence[Sequence[int]]
    rules: Rules
    raw: bool
    within: Sequence[Place] | None = None

    def logprobs(self) -> FloatArray:
        """[rows, vocab] log-probabilities, where the whole distribution was asked for."""
        logits = required(self.output.logits, "logits")[:, self.place]
        return self.rules.log_probabilities(logits + self.rules.suppression(self.rows) if self.raw else logits)

    def weighed(self) -> tuple[FloatArray, FloatArray]:
        """[rows, vocab] each: what ranks the tokens, and their log-probabilities, by the key terms."""
        logprobs = self.logprobs()
        if self.rules.terms is None or self.within is None:
            return logprobs, logprobs
        found = [self.rules.terms.weigh(at, row) for at, row in zip(self.within, logprobs, strict=True)]
        return logprobs + np.stack([gains for gains, _ in found]), np.stack([shown for _, shown in found])

    def best(self, count: int) -> tuple[IntArray, FloatArray, FloatArray]:
        """The `count` best tokens of each row: ids, log-probabilities, and what key terms add to these for the ranking:
        [rows, count or fewer] each.
        """
        if self.within is None:
            ids, logprobs = self._likeliest(count)
            return ids, logprobs, np.zeros_like(logprobs)
        ranking, shown = self.weighed()
        ids, scores = best(ranking, count)
        logprobs = np.take_along_axis(shown, ids, axis=-1)
        # Both are without end where a token is forbidden, and it is not chosen.
        return ids, logprobs, np.subtract(scores, logprobs, out=np.zeros_like(scores), where=np.isfinite(logprobs))

    def _likeliest(self, count: int) -> tuple[IntArray, FloatArray]:
        output = self.output
        if output.logits is not None:
            return best(self.logprobs(), count)
        if count > TOP:
            raise ValueError(f"the graph returns {TOP} candidates; {count} need a request for the whole distribution")
        ids = required(output.top_ids, "top_ids")[:, self.place]
        logprobs = required(output.top_logprobs, "top_logprobs")[:, self.place]
        if self.rules.timestamps:
            ids, logprobs = self._times_or_text(ids, logprobs)
        return ids[:, :count], logprobs[:, :count]

    def _times_or_text(self, ids: IntArray, logprobs: FloatArray) -> tuple[IntArray, FloatArray]:
        """The rule `timestamp_outweighs_text` on candidates [rows, TOP] alone.

        If no text is among them, ten timestamps are each likelier than any text, and so is their sum.
        """
        mass = required(self.output.time_mass, "time_mass")[:, self.place]
        text = np.where(ids < self.rules.vocabulary.timestamp_begin, logprobs, -np.inf).max(axis=-1)
        forced = (mass > text)[:, None]
        times = required(self.output.time_ids, "time_ids")[:, self.place]
        # among timestamps alone, probabilities are shares of their mass
        with np.errstate(invalid="ignore"):
            # Where all timestamps are forbidden this is nan, but such a row takes its text.
            shares = required(self.output.time_logprobs, "time_logprobs")[:, self.place] - mass[:, None]
        return np.where(forced, times, ids), np.where(forced, shares, logprobs)


def best(logprobs: FloatArray, count: int) -> tuple[IntArray, FloatArray]:
    """The `count` best ids of each row and their log-probabilities, best first: [rows, count] each.

    A few passes of argmax are several times faster than a partial sort of 50,000 values.
    """
    rows = np.arange(len(logprobs))
    # The best are struck out one by one; a single one needs no copy.
    left = logprobs if count == 1 else logprobs.copy()
    ids = np.empty((len(rows), count), dtype=np.int64)
    for place in range(count):
        ids[:, place] = left.argmax(axis=-1)
        if place + 1 < count:
            left[rows, ids[:, place]] = -np.inf
    return ids, np.take_along_axis(logprobs, ids, axis=-1)
