"""One Whisper model, ready to run: a checkpoint, and the engine that computes it."""

from functools import cached_property

from whispertide.checkpoint import Checkpoint, load_checkpoint
from whispertide.checkpoint.causal import CausalAdapter
from whispertide.checkpoint.generation import Heads, heads_or_later_half
from whispertide.checkpoint.low_rank import merge_adapter
from whispertide.checkpoint.mask import Mask
from whispertide.checkpoint.masked import MaskedAdapter
from whispertide.checkpoint.short import ShortAdapter, adapted_hash, short_adapter
from whispertide.graphs.contract import DECODER, ENCODER
from whispertide.graphs.store import GraphFiles
from whispertide.model.engine import Engine
from whispertide.model.installed import OTHER_ENGINES, load_engine
from whispertide.model.onnx_engine import OnnxEngine
from whispertide.model.providers import check_provider
from whispertide.options import EngineOptions
from whispertide.types import Announce


class WhisperModel:
    """A loaded model: what `checkpoint` says, computed by `engine`."""

    def __init__(self, checkpoint: Checkpoint, engine: Engine) -> None:
        self.checkpoint = checkpoint
        self.name, self.dims = checkpoint.name, checkpoint.dims
        self.tokenizer, self.generation = checkpoint.tokenizer, checkpoint.generation
        self.engine = engine
        self.options = engine.options
        self.encode = engine.encode
        self.decoder = engine.start
        self._masked: dict[Mask, WhisperModel] = {}

    @classmethod
    def of(cls, checkpoint: Checkpoint, options: EngineOptions, announce: Announce | None = None) -> "WhisperModel":
        """The model in an engine of its own. Raises what `open_engine` raises."""
        return cls(checkpoint, open_engine(checkpoint, options, announce))

    @cached_property
    def alignment_heads(self) -> Heads:
        """The (layer, head) pairs that follow the audio: those that the checkpoint names, or else those of the rule."""
        return heads_or_later_half(self.generation.alignment_heads, self.dims)

    def view(self, options: EngineOptions) -> "WhisperModel":
        """The same model in an engine of its own. Raises what `open_engine` raises."""
        return WhisperModel.of(self.checkpoint, options)

    @cached_property
    def causal(self) -> "WhisperModel":
        """The same model with its causal adapter, in an engine of its own, for streams (`incremental`).

        Raises `CheckpointNotFoundError` where there is none, `CheckpointError` where it is damaged or another model's,
        and what `open_engine` raises.
        """
        checkpoint = merge_adapter(self.checkpoint, CausalAdapter.of_checkpoint(self.checkpoint))
        return WhisperModel.of(checkpoint, self.options)

    def masked(self, mask: Mask) -> "WhisperModel":
        """The same model with its adapter for blocks under that mask, in an engine of its own. Raises as `causal`."""
        if mask not in self._masked:
            checkpoint = merge_adapter(self.checkpoint, MaskedAdapter.of_checkpoint(self.checkpoint, mask))
            self._masked[mask] = WhisperModel.of(checkpoint, self.options)
        return self._masked[mask]

    @cached_property
    def short(self) -> "WhisperModel":
        """The same model with its adapter for short windows, which changes the encoder alone: the decoder is this
        model's. Itself where there is none.

        Raises `CheckpointError` for an adapter that is damaged or another model's, `GraphError` for an encoder that
        cannot be built.
        """
        if self._short_adapter is None:
            return self
        checkpoint = merge_adapter(self.checkpoint, self._short_adapter)
        return WhisperModel(checkpoint, self.engine.hearing(checkpoint))

    @cached_property
    def is_adapted(self) -> bool:
        """True if there is an adapter for short windows."""
        return short_adapter(self.checkpoint) is not None

    @property
    def short_merged(self) -> int:
        """The frames of merged padding that its adapter for short windows knows; 0: none. Raises as `short`."""
        return 0 if self._short_adapter is None else self._short_adapter.merged

    @cached_property
    def _short_adapter(self) -> ShortAdapter | None:
        return ShortAdapter.of_checkpoint(self.checkpoint) if self.is_adapted else None

    @property
    def knows_short(self) -> bool:
        """True if it was trained on windows shorter than 30 s: by its maker, or by an adapter that is there."""
        return self.generation.short_windows or self.is_adapted

    @cached_property
    def adapted_hash(self) -> str:
        """Of the checkpoint with what it learned about short windows: what is found out about it holds for that."""
        return adapted_hash(self.checkpoint)

    @property
    def content_hash(self) -> str:
        """The checkpoint's hash over shape and weights: equal hashes, equal networks."""
        return self.checkpoint.content_hash


def open_engine(checkpoint: Checkpoint, options: EngineOptions, announce: Announce | None = None) -> Engine:
    """The engine that `options` name; for ONNX Runtime its graphs are built if this is the first time.

    Raises `GraphError` for graphs that cannot be built and `ProviderError` for an engine, or a provider, that is not
    there or cannot compute that precision.
    """
    if options.provider in OTHER_ENGINES:
        return load_engine(options.provider)(checkpoint, options)
    check_provider(options)  # before minutes of building
    graphs = GraphFiles(checkpoint, options.precision)
    graphs.build(ENCODER, DECODER, announce=announce)
    return OnnxEngine(graphs, options)


def load_model(
    name: str, options: EngineOptions | None = None, *, revision: str | None = None, announce: Announce | None = None
) -> WhisperModel:
    """Load a model by short name, hub id, folder or `.pt` file, in the engine that `options` name.

    `announce` is told about downloads and builds before they start. Raises `CheckpointError` and its kin for a model
    that cannot be had, and what `open_engine` raises.
    """
    checkpoint = load_checkpoint(name, revision=revision, announce=announce)
    return WhisperModel.of(checkpoint, options or EngineOptions(), announce)
