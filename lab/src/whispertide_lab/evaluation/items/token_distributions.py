"""WhisperRT's figure 3: what a decoder expects as the third token of a sentence while the sentence is being heard.

At each moment the decoder is given the first two tokens and all audio so far, and the probabilities of the right third
token, of the end of the text and of the likeliest other token are taken. Whisper hears the audio padded to 30 s, as it
is used without fine-tuning; the causal model hears it block by block. The paper shows one sentence; these are means.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from whispertide.decoding.rules import log_softmax
from whispertide.features import log_mel
from whispertide.methods.causal.blocks import Blocks
from whispertide.model.engine import DecodeRequest
from whispertide.streaming.framing import PAD30
from whispertide.tuning.drawing import Curve, scatter
from whispertide.tuning.page import Table
from whispertide.types import SAMPLE_RATE, FloatArray, to_samples
from whispertide_lab.evaluation.clips import evenly
from whispertide_lab.evaluation.paper import Outcome, Plot

if TYPE_CHECKING:
    from whispertide.model.engine import Encoded
    from whispertide.model.whisper import WhisperModel
    from whispertide_lab.evaluation.runner import Runner
    from whispertide_lab.speech.utterance import Utterance

SENTENCES, QUICK_SENTENCES = 24, 4
OFFSETS_S = tuple(round(0.1 * step, 1) for step in range(-6, 13))  # from the end of the token's word
THIRD = 2  # counted from 0
PAUSE_S = 0.2  # of the audio before the sentence
_AFTER = "s after the end of its word"
_WHAT = ("third token", "end of text", "likeliest other")


@dataclass(frozen=True, slots=True)
class Sentence:
    """Audio from a little before a sentence on, its first tokens, and where the third one's word ends, in samples."""

    audio: FloatArray
    tokens: tuple[int, ...]
    end: int


Hear = Callable[["WhisperModel", Sentence], Iterator[tuple[float, "Encoded"]]]


def distribution_figure(runner: "Runner") -> Outcome:
    """WhisperRT, figure 3."""
    model = runner.transcriber(runner.models[0]).model
    sentences = _sentences(runner, model)
    found = {
        "Whisper, padded to 30 s": _means(model, sentences, _padded),
        "causal, block by block": _means(model.causal, sentences, _in_blocks),
    }
    rows = tuple(
        (name, f"{offset:+.1f}", *(f"{value:.2f}" for value in values))
        for name, means in found.items()
        for offset, values in means.items()
    )
    drawn = []
    for name, means in found.items():
        curves = [
            Curve(what, tuple(means), tuple(values[which] for values in means.values()))
            for which, what in enumerate(_WHAT)
        ]
        title = f"what is expected as the third token: {name}"
        drawing = scatter(curves, x_label=_AFTER, y_label="probability", title=title, zero=False)
        drawn.append(Plot(drawing, title))
    columns = ("model", _AFTER, *_WHAT)
    note = f"Means over {len(sentences)} sentences. Before the first block is whole the causal model expects nothing."
    return Outcome((Table(columns, rows),), tuple(drawn), note)


def _sentences(runner: "Runner", model: "WhisperModel") -> list[Sentence]:
    most = QUICK_SENTENCES if runner.quick else SENTENCES
    found = [one for utterance in runner.corpus.utterances() for one in sentences_of(utterance, model)]
    return evenly(found, most, runner.corpus)


def sentences_of(utterance: "Utterance", model: "WhisperModel") -> Iterator[Sentence]:
    """Those of an utterance that have a third token and 1.2 s of audio after it."""
    if not utterance.timed:
        return
    audio, words = utterance.audio(), utterance.words
    begins = [0, *(place + 1 for place, word in enumerate(words) if word.text.strip().endswith((".", "?", "!")))]
    for first in begins:
        tokens: list[int] = []
        for word in words[first:]:
            tokens += model.tokenizer.encode(" " + word.text.strip())
            if len(tokens) > THIRD:
                begin = max((words[first].start or 0) - to_samples(PAUSE_S), 0)
                end = (word.end or 0) - begin
                last = end + to_samples(OFFSETS_S[-1])
                if begin + last <= len(audio):
                    yield Sentence(audio[begin : begin + last], tuple(tokens[: THIRD + 1]), end)
                break


def _means(
    model: "WhisperModel", sentences: Sequence[Sentence], encode: "Hear"
) -> dict[float, tuple[float, float, float]]:
    """Offset -> mean probabilities of the three, over the sentences that have audio there."""
    sums: dict[float, list[tuple[float, float, float]]] = {}
    for sentence in sentences:
        for offset, encoded in encode(model, sentence):
            sums.setdefault(offset, []).append(expected(model, encoded, sentence.tokens))
    return {offset: _mean(values) for offset, values in sorted(sums.items())}


def _mean(values: Sequence[tuple[float, float, float]]) -> tuple[float, float, float]:
    first, second, third = np.mean(values, axis=0)
    return float(first), float(second), float(third)


def _moments(sentence: Sentence) -> Iterator[tuple[float, int]]:
    """The offsets, and how many samples have been heard then."""
    for offset in OFFSETS_S:
        heard = sentence.end + round(offset * SAMPLE_RATE)
        if heard > 0:
            yield offset, min(heard, len(sentence.audio))


def _padded(model: "WhisperModel", sentence: Sentence) -> Iterator[tuple[float, "Encoded"]]:
    for offset, heard in _moments(sentence):
        yield offset, PAD30(model, log_mel(sentence.audio[:heard], model.dims.n_mels))


def _in_blocks(model: "WhisperModel", sentence: Sentence) -> Iterator[tuple[float, "Encoded"]]:
    blocks, encoded, first_round = Blocks(), None, 0
    for offset, heard in _moments(sentence):
        # The first moment is the stream's first round.
        first_round = first_round or heard
        state = encoded.state if encoded is not None else None
        piece = blocks.advance(model, sentence.audio[:heard], 0, state, first_round=first_round, is_last=False)
        encoded = piece or encoded
        if encoded is not None:
            yield offset, encoded


def expected(model: "WhisperModel", encoded: "Encoded", tokens: Sequence[int]) -> tuple[float, float, float]:
    """The probabilities of the last of `tokens`, of the end of the text and of the likeliest other, after the rest."""
    tokenizer = model.tokenizer
    language = "en" if model.dims.is_multilingual else None
    fed = (*tokenizer.sot_sequence(language, "transcribe", timestamps=False), *tokens[:-1])
    request = DecodeRequest(np.array([fed], np.int64), (len(fed) - 1,), need="logits")
    logits = model.decoder(encoded).run(request).logits
    assert logits is not None
    probabilities = np.exp(log_softmax(logits[0, 0]))
    right, end = float(probabilities[tokens[-1]]), float(probabilities[tokenizer.eot])
    probabilities[[tokens[-1], tokenizer.eot]] = 0
    return right, end, float(probabilities.max())
