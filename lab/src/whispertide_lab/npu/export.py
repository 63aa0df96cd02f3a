"""Checkpoint -> a folder of static graphs with a manifest: for an NPU, or for the CPU provider to run the same.

The weights lie in one file per part, which all graphs of that part share. `export_npu` writes everything that a user of
a static-graph NPU needs; `build` can make the decoder alone, for the cache. Neither runs a graph.
"""

import shutil
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from whispertide.atomic import writing
from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.generation import heads_or_later_half
from whispertide.decoding.rules import suppressed_tokens
from whispertide.errors import OptionError, OutputError
from whispertide.graphs.builder import WeightFile
from whispertide.types import FRAME_SAMPLES
from whispertide_lab.npu.chunks import (
    DUMMY,
    MASKED,
    Chunk,
    Manifest,
    UnrolledLayout,
    decoder_name,
    encoder_name,
    frames_of,
    layout_for,
    start_sequence,
)
from whispertide_lab.npu.decoder import UnrolledGraph
from whispertide_lab.npu.encoder import StaticEncoderGraph
from whispertide_lab.npu.portable import PortableBuilder

NpuPrecision = Literal["fp32", "fp16"]  # 8 bits need calibration, which is the compiler's business (lab/docs/npu.md)
README = "README.md"
TOKENIZER = "tokenizer.json"


def export_npu(
    checkpoint: Checkpoint,
    folder: Path,
    *,
    precision: NpuPrecision = "fp32",
    layout: UnrolledLayout | None = None,
) -> Path:
    """Write encoder and decoder graphs, weights, manifest, tokenizer and README into `folder`; returns it.

    Raises `OutputError` where `folder` is not empty or cannot be written, and `OptionError` for a layout that the
    checkpoint's start sequence does not fit.
    """
    layout = layout or layout_for(checkpoint)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OutputError(f"expected a new or empty folder to write to; {folder} is neither")
    with writing(folder, "remove it, and try where there is room"):
        folder.mkdir(parents=True, exist_ok=True)
        source = checkpoint.tokenizer.folder / TOKENIZER  # an OpenAI `.pt` has none of its own
        if source.is_file():
            shutil.copyfile(source, folder / TOKENIZER)
        text = resources.files("whispertide_lab.npu").joinpath("npu_readme.md").read_text(encoding="utf-8")
        (folder / README).write_text(text.replace("{model}", checkpoint.name), encoding="utf-8")
        build(checkpoint, precision, folder, layout, encoder=True)
    return folder


def build(
    checkpoint: Checkpoint,
    precision: NpuPrecision,
    folder: Path,
    layout: UnrolledLayout,
    *,
    encoder: bool = False,
) -> None:
    """Write the decoder's graphs, with `encoder` the encoder's too, their weights and the manifest, the manifest last.

    Raises `OSError`, and `OptionError` when the text context of the checkpoint is shorter than a plan.
    """
    longest = max(chunk.end for chunk in layout.chunks)
    if longest > checkpoint.dims.n_text_ctx:
        raise OptionError(
            f"expected plans within the text context of {checkpoint.dims.n_text_ctx} tokens; got {longest}"
        )
    if encoder:
        _write_encoders(checkpoint, layout, precision, folder)
    _write_decoders(checkpoint, layout, precision, folder)
    # Last: a folder that has a manifest has all of its graphs.
    _manifest(checkpoint, layout, precision, folder).write(folder)


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


def _manifest(checkpoint: Checkpoint, layout: UnrolledLayout, precision: NpuPrecision, folder: Path) -> Manifest:
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
        "tokens": {"start": list(start_sequence(checkpoint)), **token_rules(checkpoint)},
        "graphs": {name: {**about, **_edges(folder / f"{name}.onnx")} for name, about in sorted(graphs.items())},
    }
    shape = {name: getattr(dims, name) for name in ("n_mels", "n_vocab", "n_text_layer", "n_text_head", "n_text_state")}
    return Manifest(checkpoint.name, checkpoint.content_hash, precision, layout, shape, details)


def token_rules(checkpoint: Checkpoint) -> dict[str, Any]:
    """The ids that a user of exported graphs needs: what ends the text, and what may not be sampled."""
    tokenizer, generation = checkpoint.tokenizer, checkpoint.generation
    return {
        "end": tokenizer.eot,
        "no_speech": tokenizer.no_speech,
        "languages": tokenizer.language_tokens if tokenizer.is_multilingual else {},
        "never": list(suppressed_tokens(tokenizer, None, generation.suppress_tokens)),
        "not_first": list(tokenizer.blank_tokens),
    }


def _edges(path: Path) -> dict[str, Any]:
    """Name -> [type, shape] of a graph file's inputs and outputs."""
    import onnx

    # The weights would be read once for every graph, and only its edges are wanted.
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
