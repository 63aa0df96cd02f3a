"""One Whisper model, ready to run: checkpoint, tokenizer, graphs and sessions in one place."""

from collections.abc import Callable, Sequence
from functools import cached_property

from whispertide.checkpoint import Checkpoint, GenerationConfig, ModelDims, Tokenizer, load_checkpoint
from whispertide.errors import OptionError
from whispertide.graphs.store import GraphFiles, ensure_graphs
from whispertide.model.decoder import Decoder, DecoderState, Head
from whispertide.model.encoder import Encoded, Encoder
from whispertide.options import EngineOptions
from whispertide.types import FloatArray


class WhisperModel:
    """A loaded model, made of `checkpoint`.

    Sessions open when they are first used; one object may serve many streams, one run at a time.
    """

    def __init__(self, checkpoint: Checkpoint, files: GraphFiles, options: EngineOptions) -> None:
        self.name = checkpoint.name
        self.options = options
        self.checkpoint = checkpoint
        self._files = files

    def view(self, options: EngineOptions) -> "WhisperModel":
        """The same graphs in sessions of their own, opened when first used. Raises `OptionError` for another precision,
        whose graphs are others.
        """
        if options.precision != self.options.precision:
            raise OptionError(f"expected the precision {self.options.precision} again; got {options.precision}")
        return WhisperModel(self.checkpoint, self._files, options)

    @property
    def dims(self) -> ModelDims:
        """The shape of the network."""
        return self.checkpoint.dims

    @property
    def content_hash(self) -> str:
        """The checkpoint's hash over weights and settings: equal hashes, equal models."""
        return self.checkpoint.content_hash

    @property
    def tokenizer(self) -> Tokenizer:
        """The checkpoint's own vocabulary."""
        return self.checkpoint.tokenizer

    @property
    def generation(self) -> GenerationConfig:
        """The checkpoint's alignment heads and suppression lists."""
        return self.checkpoint.generation

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder session."""
        return Encoder(self._files, self.dims, self.options)

    @cached_property
    def decoder_graph(self) -> Decoder:
        """The decoder session."""
        return Decoder(self._files, self.dims, self.options)

    def encode(
        self, mel: FloatArray, *, valid_frames: int | None = None, mask_padding: bool = True, hidden: bool = False
    ) -> Encoded:
        """Encode log-mel [n_mels, 2 * frames]; frames from `valid_frames` on are padding (see `Encoder.encode`)."""
        return self.encoder.encode(mel, valid_frames=valid_frames, mask_padding=mask_padding, hidden=hidden)

    def decoder(self, encoded: Encoded, *, heads: Sequence[Head] = ()) -> DecoderState:
        """A fresh decoder over `encoded` that also returns the cross-attention of `heads`."""
        return self.decoder_graph.start(encoded, heads)


def load_model(
    name: str,
    options: EngineOptions | None = None,
    *,
    revision: str | None = None,
    announce: Callable[[str], None] | None = None,
) -> WhisperModel:
    """Load a model by short name, hub id, folder or `.pt` file, and build its graphs if this is the first time.

    `announce` is told about downloads and builds before they start. Raises `CheckpointError` and its kin for a model
    that cannot be had, `GraphError` for graphs that cannot be built or loaded.
    """
    options = options or EngineOptions()
    checkpoint = load_checkpoint(name, revision=revision, announce=announce)
    return WhisperModel(checkpoint, ensure_graphs(checkpoint, options.precision, announce), options)
