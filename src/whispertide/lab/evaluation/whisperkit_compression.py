"""WhisperKit's table 2: size and word errors of a model as fp16, plain int8, plain blocks of 4 bits, and palettes with
outliers apart at the size of those blocks and at 0.4 of fp16.

Every variant is run by the int8 engine, as users run it; only what is stored is different. The blocks of 4 bits are the
usual ones: 32 weights of a row share a scale in float16.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from whispertide.api import Transcriber
from whispertide.audio.file import load_audio
from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.names import BUNDLED_DIR
from whispertide.checkpoint.palette import Palettised
from whispertide.checkpoint.weights import Change, Weights
from whispertide.graphs.quantize import per_column_int8
from whispertide.graphs.store import GraphFiles
from whispertide.lab.compression.compress import Compression, CompressOptions
from whispertide.lab.compression.folder import half_size
from whispertide.lab.compression.sensitivity import compressible
from whispertide.lab.evaluation.page import Table
from whispertide.lab.evaluation.paper import Outcome
from whispertide.lab.evaluation.watch import Watch, showing
from whispertide.lab.evaluation.wer import Counts, align
from whispertide.lab.speech.utterance import Utterance
from whispertide.model.onnx_engine import OnnxEngine
from whispertide.model.whisper import WhisperModel, load_model
from whispertide.options import EngineOptions

if TYPE_CHECKING:
    from whispertide.lab.evaluation.runner import Runner

BLOCK = 32
SHARE = 0.4
HOW = ("tide", "offline")


@dataclass(frozen=True, slots=True)
class Row:
    """A form in which the model is stored: bytes of its weights, and its errors. `kl` against fp16, nats per token."""

    form: str
    nbytes: int
    share: float
    kl: float
    tide: Counts
    offline: Counts


@dataclass(frozen=True, slots=True)
class Variant:
    """A form before it is measured: its bytes, and the tensors that are others in it."""

    form: str
    nbytes: int
    tensors: Mapping[str, Weights]


def compression_table(model: str, utterances: Sequence[Utterance], watch: Watch, *, threads: int = 0) -> list[Row]:
    """The rows of the table for a model, on these recordings. Raises what loading and running the model raises."""
    loaded = load_model(model, EngineOptions(threads=threads), announce=watch.say)
    recording = load_audio(BUNDLED_DIR / "audio" / "demo.flac")
    rows = []
    with Compression(loaded, [recording], lambda label, done, total: None) as compression:
        half = half_size(loaded.checkpoint)
        for variant in variants(compression):
            kl = compression.comparison.divergence(variant.tensors).kl if variant.tensors else 0.0
            with (
                _opened(loaded.checkpoint, variant.tensors, loaded.options) as transcriber,
                showing(watch, f"{model}: {variant.form}", len(HOW) * sum(said.seconds for said in utterances)),
            ):
                tide, offline = (word_errors(transcriber, utterances, how, watch) for how in HOW)
            rows.append(Row(variant.form, variant.nbytes, variant.nbytes / half, kl, tide, offline))
    return rows


def compression_item(runner: "Runner") -> Outcome:
    """WhisperKit, table 2: for each model of the run, on the chosen corpus."""
    utterances = list(runner.corpus.utterances())
    threads = runner.setup.engine.threads
    tables = []
    for model in runner.models:
        measure = partial(compression_table, model, utterances, runner.watch, threads=threads)
        rows = runner.kept("compression", list[Row], measure, models=(model,))
        tables.append(replace(as_table(rows), title=model))
    note = (
        f"On {runner.corpus.name}. Every form is run by the int8 engine, so what differs is only what was stored. The "
        "paper has 1.6 GB in fp16 and 0.6 GB with palettes, at 1.93 and 1.96 % on LibriSpeech test-clean, 11.55 and "
        "12.35 % on Earnings-22, 12.13 and 13.03 % on Common Voice 17."
    )
    return Outcome(tuple(tables), note=note)


def as_table(rows: Sequence[Row]) -> Table:
    """The rows for people."""
    cells = tuple(
        (
            row.form,
            f"{row.nbytes / 1e6:.2f}",
            f"{row.share:.3f}",
            f"{row.kl:.1e}",
            *(f"{100 * (counts.rate or 0.0):.2f}" for counts in (row.tide, row.offline)),
        )
        for row in rows
    )
    return Table(("stored as", "MB", "of fp16", "KL", "tide WER %", "offline WER %"), cells)


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


def four_bits(weight: Weights, block: int = BLOCK) -> tuple[Weights, int]:
    """What 4 bits leave, with a scale, float16, for each block of a row: -7 to 7 times it; and their bytes."""
    rows = np.asarray(weight, np.float32).reshape(len(weight), -1)
    padded = np.pad(rows, [(0, 0), (0, -rows.shape[1] % block)])
    blocks = padded.reshape(len(rows), -1, block)
    scales = (np.abs(blocks).max(axis=2, keepdims=True) / 7).astype(np.float16).astype(np.float32)
    data = np.clip(np.rint(blocks / np.where(scales > 0, scales, 1.0)), -7, 7)
    values = (data * scales).reshape(padded.shape)[:, : rows.shape[1]]
    return values.reshape(weight.shape).astype(np.float32), data.size // 2 + 2 * scales.size


def word_errors(transcriber: Transcriber, utterances: Sequence[Utterance], how: str, watch: Watch) -> Counts:
    """Of a recipe, or "offline"."""
    counts = Counts()
    for utterance in utterances:
        samples = utterance.audio()
        if how == "offline":
            text = transcriber.transcribe(samples).text
        else:
            session = transcriber.session(how)
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
