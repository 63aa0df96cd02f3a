"""Checkpoint -> a folder of static graphs with a manifest: for an NPU, or for the CPU provider to run the same.

The weights lie in one file per part, which all graphs of that part share. `export_npu` writes everything that a user of
a static-graph NPU needs; `ensure_unrolled` keeps the decoder alone in the cache. Neither runs a graph.
"""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.cache import cache_dir
from whispertide.checkpoint.generation import heads_or_later_half
from whispertide.errors import GraphError, OptionError, OutputError, WhispertideError
from whispertide.graphs.builder import WeightFile
from whispertide.graphs.chunks import (
    BUCKETS,
    DUMMY,
    MASKED,
    PLANS,
    Chunk,
    Manifest,
    Plan,
    UnrolledLayout,
    decoder_name,
    encoder_name,
    frames_of,
)
from whispertide.graphs.portable import PortableBuilder
from whispertide.graphs.static_encoder import StaticEncoderGraph
from whispertide.graphs.unrolled import UnrolledGraph
from whispertide.types import FRAME_SAMPLES

NpuPrecision = Literal["fp32", "fp16"]  # 8 bits need calibration, which is the compiler's business (docs/npu.md)
VERSION = 1  # raise when a graph changes, so that cached folders are built anew
README = "README.md"
TOKENIZER = "tokenizer.json"


def layout_for(
    checkpoint: Checkpoint, *, plans: Sequence[Plan] = PLANS, buckets: Sequence[int] = BUCKETS
) -> UnrolledLayout:
    """The layout of graphs for this checkpoint, whose start sequence is the block that every prompt begins with."""
    return UnrolledLayout(len(start_sequence(checkpoint)), tuple(plans), tuple(buckets))


def start_sequence(checkpoint: Checkpoint, language: str = "en") -> tuple[int, ...]:
    """What every prompt begins with: start, language and task where there are languages, no timestamps."""
    return checkpoint.tokenizer.sot_sequence(language if checkpoint.dims.is_multilingual else None, "transcribe", False)


def export_npu(
    checkpoint: Checkpoint,
    folder: Path,
    *,
    tokens: Mapping[str, Any],
    precision: NpuPrecision = "fp32",
    layout: UnrolledLayout | None = None,
) -> Path:
    """Write encoder and decoder graphs, weights, manifest, tokenizer and README into `folder`; returns it.

    `tokens` is what the manifest says of the rules of decoding (`decoding.unrolled.token_rules`).

    Raises `OutputError` where `folder` is not empty or cannot be written, and `OptionError` for a layout that the
    checkpoint's start sequence does not fit.
    """
    layout = layout or layout_for(checkpoint)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OutputError(f"expected a new or empty folder to write to; {folder} is neither")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        source = checkpoint.folder / TOKENIZER
        if source.is_file():
            shutil.copyfile(source, folder / TOKENIZER)
        text = resources.files("whispertide.graphs").joinpath("npu_readme.md").read_text(encoding="utf-8")
        (folder / README).write_text(text.replace("{model}", checkpoint.name), encoding="utf-8")
        write_folder(checkpoint, layout, precision, folder, tokens)
    except OSError as error:
        if isinstance(error, WhispertideError):
            raise
        raise OutputError(f"{folder} cannot be written: {error}; remove it, and try where there is room") from error
    return folder


def ensure_unrolled(checkpoint: Checkpoint, layout: UnrolledLayout | None = None) -> Path:
    """The cached folder of fp32 decoder graphs in this layout, built now if it is not there yet.

    Raises `GraphError` where the cache folder cannot be written.
    """
    from filelock import FileLock

    layout = layout or layout_for(checkpoint)
    plans = "_".join("-".join(map(str, plan)) for plan in layout.plans)
    buckets = "-".join(map(str, layout.buckets))
    name = f"{checkpoint.content_hash[:20]}-unrolled-{plans}-{buckets}s-v{VERSION}"
    folder = cache_dir() / "graphs" / name
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"):
            if not folder.is_dir():
                unfinished = folder.with_name(f"{name}.unfinished")
                shutil.rmtree(unfinished, ignore_errors=True)  # left by a process that was killed
                unfinished.mkdir()
                write_folder(checkpoint, layout, "fp32", unfinished, {}, encoder=False)
                unfinished.rename(folder)
    except OSError as error:
        raise GraphError(
            f"cannot write the unrolled graphs to {folder.parent} ({error}): make it writable and free some space, or "
            "set WHISPERTIDE_CACHE to another folder"
        ) from error
    return folder


def write_folder(
    checkpoint: Checkpoint,
    layout: UnrolledLayout,
    precision: NpuPrecision,
    folder: Path,
    tokens: Mapping[str, Any],
    *,
    encoder: bool = True,
) -> None:
    """Write the graphs, their weights and the manifest into `folder`, the manifest last. Raises OSError.

    Raises `OptionError` when the text context of the checkpoint is shorter than a plan.
    """
    longest = max(chunk.end for chunk in layout.chunks)
    if longest > checkpoint.dims.n_text_ctx:
        raise OptionError(
            f"expected plans within the text context of {checkpoint.dims.n_text_ctx} tokens; got {longest}"
        )
    if encoder:
        _write_encoders(checkpoint, layout, precision, folder)
    _write_decoders(checkpoint, layout, precision, folder)
    _manifest(checkpoint, layout, precision, folder, tokens).write(folder)


def _write_decoders(checkpoint: Checkpoint, layout: UnrolledLayout, precision: NpuPrecision, folder: Path) -> None:
    with (folder / "decoder.bin").open("wb") as file:
        weights = WeightFile("decoder.bin", file)
        for frames, chunk in _decoders(layout):
            builder = PortableBuilder(decoder_name(frames, chunk), weights, half=precision == "fp16")
            UnrolledGraph(checkpoint, builder, chunk, frames).build().save(folder)


def _write_encoders(checkpoint: Checkpoint, layout: UnrolledLayout, precision: NpuPrecision, folder: Path) -> None:
    with (folder / "encoder.bin").open("wb") as file:
        weights = WeightFile("encoder.bin", file)
        for frames in map(frames_of, layout.buckets):
            builder = PortableBuilder(encoder_name(frames), weights, half=precision == "fp16")
            StaticEncoderGraph(checkpoint, builder, frames).build().save(folder)


def _decoders(layout: UnrolledLayout) -> Iterable[tuple[int, Chunk]]:
    return ((frames_of(bucket), chunk) for bucket in layout.buckets for chunk in layout.chunks)


def _manifest(
    checkpoint: Checkpoint, layout: UnrolledLayout, precision: NpuPrecision, folder: Path, tokens: Mapping[str, Any]
) -> Manifest:
    dims = checkpoint.dims
    graphs = {
        decoder_name(frames, chunk): {"frames": frames, "start": chunk.start, "length": chunk.length}
        | {"block": chunk.block, "steps": chunk.steps}
        for frames, chunk in _decoders(layout)
    }
    names = {encoder_name(frames_of(bucket)): {"frames": frames_of(bucket)} for bucket in layout.buckets}
    graphs |= {name: about for name, about in names.items() if (folder / f"{name}.onnx").is_file()}
    details = {
        "frame_samples": FRAME_SAMPLES,
        "dummy_positions": DUMMY,
        "masked": MASKED,
        "alignment_heads": [list(head) for head in heads_or_later_half(checkpoint.generation.alignment_heads, dims)],
        "tokens": {"start": list(start_sequence(checkpoint)), **tokens},
        "graphs": {name: {**about, **_edges(folder / f"{name}.onnx")} for name, about in sorted(graphs.items())},
    }
    shape = {name: getattr(dims, name) for name in ("n_mels", "n_vocab", "n_text_layer", "n_text_head", "n_text_state")}
    return Manifest(checkpoint.name, checkpoint.content_hash, precision, layout, shape, details)


def _edges(path: Path) -> dict[str, Any]:
    """Name -> [type, shape] of a graph file's inputs and outputs."""
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    return {
        kind: {
            value.name: [
                onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type).lower(),
                [size.dim_value for size in value.type.tensor_type.shape.dim],
            ]
            for value in values
        }
        for kind, values in (("inputs", graph.input), ("outputs", graph.output))
    }
