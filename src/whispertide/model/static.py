"""A folder of static graphs, opened: its sessions, its element type, and the encoder in it.

Provider and threads are the model's; what the folder holds is `graphs.static_export`'s business.
"""

from pathlib import Path

import numpy as np

from whispertide.errors import GraphError
from whispertide.graphs.chunks import MASKED, UnrolledLayout, encoder_name, frames_of, read_manifest
from whispertide.model.encoder import Encoded, run_encoder
from whispertide.model.qnn import QnnOptions
from whispertide.model.runtime import GraphSession, choose_provider, open_session
from whispertide.model.whisper import WhisperModel
from whispertide.options import EngineOptions
from whispertide.types import FloatArray

# Packing copies a matrix once for every node that uses it, and in an unrolled graph every step uses every matrix.
_UNPACKED = {"session.disable_prepacking": "1"}


class StaticFolder:
    """The graphs of one model in one folder, each opened when it is first used.

    Raises `GraphError` for a folder that is damaged or was made from another checkpoint.
    """

    def __init__(self, folder: Path, model: WhisperModel, qnn: QnnOptions | None = None) -> None:
        self.manifest = read_manifest(folder)
        if self.manifest.content_hash != model.content_hash:
            raise GraphError(
                f"expected static graphs of {model.name} as it is now; {folder} was made from "
                f"{self.manifest.model} with other weights: export the model again"
            )
        self.path = folder
        self.is_half = self.manifest.precision == "fp16"
        self.options = EngineOptions("fp16" if self.is_half else "fp32", model.options.provider, model.options.threads)
        self._qnn = qnn or QnnOptions()
        self._sessions: dict[str, GraphSession] = {}

    @property
    def layout(self) -> UnrolledLayout:
        """Plans and buckets."""
        return self.manifest.layout

    @property
    def dtype(self) -> type[np.float16] | type[np.float32]:
        """Of all floats that go in and out."""
        return np.float16 if self.is_half else np.float32

    def check_bucket(self, frames: int) -> None:
        """Raise `GraphError` unless windows of so many encoder frames are among the buckets."""
        lengths = [frames_of(bucket) for bucket in self.layout.buckets]
        if frames not in lengths:
            raise GraphError(
                f"expected a window of {', '.join(map(str, lengths))} encoder frames with its padding; got {frames}: "
                "pad it to one of the buckets"
            )

    def session(self, name: str) -> GraphSession:
        """A graph by its name; opened once. Raises `GraphError` where it is missing or cannot be loaded."""
        if name not in self._sessions:
            path = self.path / f"{name}.onnx"
            if not path.is_file():
                raise GraphError(
                    f"expected the graph {path.name} in {self.path}; it is missing: export the model again"
                )
            self._sessions[name] = self._open(path)
        return self._sessions[name]

    def _open(self, path: Path) -> GraphSession:
        if choose_provider(self.options.provider) != "qnn":
            return open_session(path, self.options, entries=_UNPACKED)
        provider_options, entries = self._qnn.provider_options(), self._qnn.entries(path)
        if self._qnn.contexts is not None and (compiled := self._qnn.compiled(path)).is_file():
            path = compiled
            entries.pop("ep.context_enable")  # it is compiled already
        return open_session(path, self.options, provider_options=provider_options, entries=entries)


class StaticEncoder:
    """The encoder of a folder: windows padded to one of the buckets, as `Encoder` computes them with a mask."""

    def __init__(self, folder: Path, model: WhisperModel, qnn: QnnOptions | None = None) -> None:
        self.folder = StaticFolder(folder, model, qnn)
        self._dims = model.dims

    def encode(self, mel: FloatArray, *, hidden: bool = False) -> Encoded:
        """Encode log-mel [n_mels, columns] of the audio alone; it is padded with zeros to the shortest bucket.

        Raises `OptionError` for more audio than the longest bucket holds, `GraphError` for another shape.
        """
        dims, folder = self._dims, self.folder
        if mel.ndim != 2 or mel.shape[0] != dims.n_mels or not mel.shape[1]:
            raise GraphError(f"expected log-mel of shape [{dims.n_mels}, 1 or more]; got {mel.shape}")
        valid = -(-mel.shape[1] // 2)
        frames = folder.layout.bucket(valid)
        padded = np.zeros((1, dims.n_mels, 2 * frames), folder.dtype)
        padded[0, :, : mel.shape[1]] = mel
        bias = np.zeros((1, 1, 1, frames), folder.dtype)
        bias[..., valid:] = MASKED
        graph, inputs = folder.session(encoder_name(frames)), {"mel": padded, "attention_bias": bias}
        return run_encoder(graph, inputs, dims, frames=frames, valid_frames=valid, hidden=hidden)
