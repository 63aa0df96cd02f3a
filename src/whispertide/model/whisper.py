"""One Whisper model, ready to run: checkpoint, tokenizer, graphs and sessions in one place."""

from collections.abc import Callable, Sequence
from functools import cached_property

from whispertide.checkpoint import Checkpoint, GenerationConfig, ModelDims, Tokenizer, load_checkpoint
from whispertide.errors import OptionError, ProviderError
from whispertide.graphs.store import GraphFiles, ensure_graphs
from whispertide.model.backend import BACKENDS, Backend, DecoderStart, EncoderRun, load_backend
from whispertide.model.decoder import Decoder
from whispertide.model.encoder import Encoded, Encoder
from whispertide.model.request import DecoderRun, Head
from whispertide.options import EngineOptions
from whispertide.types import FloatArray


class WhisperModel:
    """A loaded model, made of `checkpoint`.

    Sessions open when they are first used; one object may serve many streams, one run at a time. `files` None: a
    backend computes (`model.backend`), and there are no graphs.
    """

    def __init__(self, checkpoint: Checkpoint, files: GraphFiles | None, options: EngineOptions) -> None:
        self.name = checkpoint.name
        self.options = options
        self.checkpoint = checkpoint
        self._files = files

    def view(self, options: EngineOptions) -> "WhisperModel":
        """The same model in sessions of its own, opened when first used. Raises `OptionError` for another precision of
        the graphs; a backend has none, and may compute in any precision that it knows.
        """
        if options.provider not in BACKENDS and (self._files is None or options.precision != self.options.precision):
            raise OptionError(
                f"expected the provider and precision that the graphs are for ({self.options.provider}, "
                f"{self.options.precision}); got {options.provider}, {options.precision}"
            )
        return WhisperModel(self.checkpoint, None if options.provider in BACKENDS else self._files, options)

    @property
    def dims(self) -> ModelDims:
        """The shape of the network."""
        return self.checkpoint.dims

    @property
    def content_hash(self) -> str:
        """The checkpoint's hash over shape and weights: equal hashes, equal networks."""
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
    def encoder(self) -> EncoderRun:
        """The encoder, open."""
        if self._files is None:
            return self._backend
        return Encoder(self._files, self.dims, self.options)

    @cached_property
    def decoder_graph(self) -> Decoder:
        """The decoder session. Raises `ProviderError` where a backend computes, which has none."""
        if self._files is None:
            raise ProviderError(f"expected a provider of ONNX Runtime for this; got {self.options.provider!r}")
        return Decoder(self._files, self.dims, self.options)

    @cached_property
    def _backend(self) -> Backend:
        return load_backend(self.options.provider)(self.checkpoint, self.options)

    def encode(
        self, mel: FloatArray, *, valid_frames: int | None = None, mask_padding: bool = True, hidden: bool = False
    ) -> Encoded:
        """Encode log-mel [n_mels, 2 * frames]; frames from `valid_frames` on are padding (see `Encoder.encode`)."""
        return self.encoder.encode(mel, valid_frames=valid_frames, mask_padding=mask_padding, hidden=hidden)

    def decoder(self, encoded: Encoded, *, heads: Sequence[Head] = ()) -> DecoderRun:
        """A fresh decoder over `encoded` that also returns the cross-attention of `heads`."""
        starts: DecoderStart = self._backend if self._files is None else self.decoder_graph
        return starts.start(encoded, heads)


class SharedModel(WhisperModel):
    """`model` in the sessions that it has open or will open: a subclass says how they are run differently."""

    def __init__(self, model: WhisperModel) -> None:
        super().__init__(model.checkpoint, model._files, model.options)
        self._model = model

    @cached_property
    def encoder(self) -> EncoderRun:
        """That of the model."""
        return self._model.encoder

    @cached_property
    def decoder_graph(self) -> Decoder:
        """That of the model. Raises `ProviderError` where a backend computes, which has none."""
        return self._model.decoder_graph

    @cached_property
    def _backend(self) -> Backend:
        return self._model._backend


def load_model(
    name: str,
    options: EngineOptions | None = None,
    *,
    revision: str | None = None,
    announce: Callable[[str], None] | None = None,
) -> WhisperModel:
    """Load a model by short name, hub id, folder or `.pt` file, and build its graphs if this is the first time; with
    a backend in place of ONNX Runtime there are none.

    `announce` is told about downloads and builds before they start. Raises `CheckpointError` and its kin for a model
    that cannot be had, `GraphError` for graphs that cannot be built or loaded.
    """
    options = options or EngineOptions()
    checkpoint = load_checkpoint(name, revision=revision, announce=announce)
    backed = options.provider in BACKENDS
    files = None if backed else ensure_graphs(checkpoint, options.precision, announce)
    return WhisperModel(checkpoint, files, options)
