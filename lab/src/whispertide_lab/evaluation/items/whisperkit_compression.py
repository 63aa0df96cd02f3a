"""WhisperKit's table 2: size and word errors of a model as fp16, plain int8, plain blocks of 4 bits, and palettes with
outliers apart at the size of those blocks and at 0.4 of fp16; each for the encoder as it is and under the mask d750.

Every variant is run by the int8 engine, as users run it; only what is stored is different. The blocks of 4 bits are the
usual ones: 32 weights of a row share a scale in float16. Under the mask it is the weights with the mask's adapter in
them that are stored.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from whispertide.api import Transcriber
from whispertide.audio.file import load_audio
from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.mask import Mask
from whispertide.checkpoint.names import BUNDLED_DIR
from whispertide.checkpoint.palette import Palettised
from whispertide.checkpoint.weights import Change, Weights
from whispertide.errors import CheckpointNotFoundError
from whispertide.graphs.quantize import per_column_int8
from whispertide.graphs.store import GraphFiles
from whispertide.model.onnx_engine import OnnxEngine
from whispertide.model.whisper import WhisperModel, load_model
from whispertide.options import DecodeOptions, EngineOptions
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import parse_overrides
from whispertide.tuning.page import Table
from whispertide_lab.compression.compress import Compression, CompressOptions
from whispertide_lab.compression.folder import half_size
from whispertide_lab.compression.sensitivity import compressible
from whispertide_lab.evaluation import report
from whispertide_lab.evaluation.items import whisperkit_masks as masks
from whispertide_lab.evaluation.paper import Outcome
from whispertide_lab.evaluation.watch import Watch, showing
from whispertide_lab.evaluation.wer import Counts, align
from whispertide_lab.speech.utterance import Utterance

if TYPE_CHECKING:
    from whispertide_lab.evaluation.runner import Runner

BLOCK = 32
SHARE = 0.4
MASK = "d750"
OFFLINE = "offline"
HOW = (masks.SYSTEM, "tide", OFFLINE)
ORIGINAL = "original"
MADE_BY = (__name__, masks.__name__)


@dataclass(frozen=True, slots=True)
class Row:
    """A form in which the model is stored: bytes of its weights, and its errors by recipe, or "offline".

    `kl` is against fp16, nats per token.
    """

    mask: str
    form: str
    nbytes: int
    share: float
    kl: float
    errors: dict[str, Counts]


@dataclass(frozen=True, slots=True)
class Variant:
    """A form before it is measured: its bytes, and the tensors that are others in it."""

    form: str
    nbytes: int
    tensors: Mapping[str, Weights]


def compression_table(model: str, utterances: Sequence[Utterance], watch: Watch, *, threads: int = 0) -> list[Row]:
    """The rows of the table for a model, on these recordings. Raises what loading and running the model raises.

    A model that has no adapter for the mask has no rows under it.
    """
    loaded = load_model(model, EngineOptions(threads=threads), announce=watch.say)
    rows = list(_rows(ORIGINAL, loaded, dict.fromkeys(HOW, ()), utterances, watch))
    with suppress(CheckpointNotFoundError):
        masked = loaded.masked(Mask.parse(MASK))  # its adapter is in its weights: the mask alone is asked for below
        how = {masks.SYSTEM: (*masks.MASKED, f"mask={MASK}", "trained=false")}
        rows += _rows(MASK, masked, how, utterances, watch)
    return rows


def _rows(
    mask: str,
    model: WhisperModel,
    ways: Mapping[str, Sequence[str]],
    utterances: Sequence[Utterance],
    watch: Watch,
) -> Iterator[Row]:
    """Of each form of these weights, heard in these ways with these settings."""
    recording = load_audio(BUNDLED_DIR / "audio" / "demo.flac")
    with Compression(model, [recording], lambda label, done, total: None) as compression:
        half = half_size(model.checkpoint)
        for variant in variants(compression):
            kl = compression.comparison.divergence(variant.tensors).kl if variant.tensors else 0.0
            label = f"{model.name}, {mask}: {variant.form}"
            with (
                _opened(model.checkpoint, variant.tensors, model.options) as transcriber,
                showing(watch, label, len(ways) * sum(said.seconds for said in utterances)),
            ):
                errors = {
                    how: word_errors(transcriber, utterances, how, settings, watch) for how, settings in ways.items()
                }
            yield Row(mask, variant.form, variant.nbytes, variant.nbytes / half, kl, errors)


def compression_item(runner: "Runner") -> Outcome:
    """WhisperKit, table 2: for each model of the run, on the chosen corpus."""
    utterances = list(runner.corpus.utterances())
    threads = runner.setup.engine.threads
    tables = []
    for model in runner.models:
        measure = partial(compression_table, model, utterances, runner.watch, threads=threads)
        rows = runner.kept("compression", list[Row], measure, *MADE_BY, models=(model,))
        tables.append(replace(as_table(rows), title=model))
    note = (
        f"On {runner.corpus.name}. Every form is run by the int8 engine, so what differs is only what was stored. "
        f"Under the mask {MASK} windows are heard by {masks.SYSTEM} alone. The paper has 1.6 GB in fp16 and 0.6 GB "
        "with palettes, at 1.93 and 1.96 % on LibriSpeech test-clean, 11.55 and 12.35 % on Earnings-22, "
        "12.13 and 13.03 % on Common Voice 17; under d750 2.25 and 2.30 %, 12.85 and 12.72 %, 12.87 and 14.21 %."
    )
    return Outcome(tuple(tables), note=note)


def as_table(rows: Sequence[Row]) -> Table:
    """The rows for people."""
    cells = tuple(
        (
            row.mask,
            row.form,
            f"{row.nbytes / 1e6:.2f}",
            f"{row.share:.3f}",
            f"{row.kl:.1e}",
            *(_percent(row.errors.get(how)) for how in HOW),
        )
        for row in rows
    )
    return Table(("mask", "stored as", "MB", "of fp16", "KL", *(f"{how} WER %" for how in HOW)), cells)


def _percent(counts: Counts | None) -> str:
    return report.number(None if counts is None or counts.rate is None else 100 * counts.rate, 2)


def variants(compression: Compression) -> Iterator[Variant]:
    """The forms of the table, from the largest to the smallest, and palettes at 0.4."""
    checkpoint = compression.checkpoint
    half = half_size(checkpoint)
    yield Variant("fp16", half, {})
    yield _plain(checkpoint, "plain int8, a scale per row", eight_bits)
    four = _plain(checkpoint, f"plain 4 bits, blocks of {BLOCK}", four_bits)
    yield four
    measured = compression.sensitivities(CompressOptions())
    for form, size in (
        (f"palettes, {SHARE:g} of fp16", SHARE),
        ("palettes, as small as the blocks", four.nbytes / half),
    ):
        stored = compression.tensors(compression.choose(measured, CompressOptions(size=size)))
        nbytes = sum(tensor.nbytes for tensor in stored.values())
        values = {name: tensor.values() for name, tensor in stored.items() if isinstance(tensor, Palettised)}
        yield Variant(form, nbytes, values)


def eight_bits(weight: Weights) -> tuple[Weights, int]:
    """What 8 bits with a scale per row, float16, leave of a tensor; and their bytes."""
    rows = np.asarray(weight, np.float32).reshape(len(weight), -1)
    data, scales = per_column_int8(rows.T)
    rounded = scales.astype(np.float16)
    return (data * rounded).T.reshape(weight.shape).astype(np.float32), data.nbytes + rounded.nbytes


def four_bits(weight: Weights) -> tuple[Weights, int]:
    """What 4 bits leave, with a scale, float16, for each block of a row: -7 to 7 times it; and their bytes."""
    rows = np.asarray(weight, np.float32).reshape(len(weight), -1)
    padded = np.pad(rows, [(0, 0), (0, -rows.shape[1] % BLOCK)])
    blocks = padded.reshape(len(rows), -1, BLOCK)
    scales = (np.abs(blocks).max(axis=2, keepdims=True) / 7).astype(np.float16).astype(np.float32)
    data = np.clip(np.rint(blocks / np.where(scales > 0, scales, 1.0)), -7, 7)
    values = (data * scales).reshape(padded.shape)[:, : rows.shape[1]]
    return values.reshape(weight.shape).astype(np.float32), data.size // 2 + 2 * scales.size


def word_errors(
    transcriber: Transcriber, utterances: Sequence[Utterance], how: str, settings: Sequence[str], watch: Watch
) -> Counts:
    """Of a recipe with these settings, or "offline"."""
    counts = Counts()
    for utterance in utterances:
        samples, options = utterance.audio(), DecodeOptions(language=utterance.language)
        if how == OFFLINE:
            text = transcriber.transcribe(samples, options=options).text
        else:
            session = transcriber.session(parse_overrides(get_recipe(how), settings), options=options)
            session.push(samples)
            session.finish()
            text = session.transcript.text
        said = [word.text for word in utterance.words]
        counts += align(said, text.split(), utterance.language).words
        watch.advance(utterance.seconds)
    return counts


def _plain(checkpoint: Checkpoint, form: str, store: Callable[[Weights], tuple[Weights, int]]) -> Variant:
    names = compressible(checkpoint)
    found = {name: store(checkpoint.tensors.get(name)) for name in names}
    others = half_size(checkpoint) - sum(2 * values.size for values, _ in found.values())
    tensors = {name: values for name, (values, _) in found.items()}
    return Variant(form, others + sum(nbytes for _, nbytes in found.values()), tensors)


@contextmanager
def _opened(checkpoint: Checkpoint, tensors: Mapping[str, Weights], options: EngineOptions) -> Iterator[Transcriber]:
    """The checkpoint with these tensors; its graphs are removed at the end."""
    changed = replace(checkpoint, tensors=checkpoint.tensors.changed({name: _is(tensors[name]) for name in tensors}))
    with TemporaryDirectory(prefix="whispertide-", ignore_cleanup_errors=True) as folder:
        graphs = GraphFiles(changed, options.precision, Path(folder))
        yield Transcriber(WhisperModel(changed, OnnxEngine(graphs, options)))


def _is(values: Weights) -> Change:
    return lambda _: values
