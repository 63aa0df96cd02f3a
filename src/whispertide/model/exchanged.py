"""A decode that changes workers: WhisperFlow's exchange of rounds between its two processors (section 4).

The worker that encoded a round reads the prompt and goes on with the decode for some tokens, a share of those that an
earlier round heard in the same audio; then the other worker takes over the cache and does the rest. It balances workers
of different speed. Knows neither threads nor rounds: `hand_over` is somebody else's, and may wait.
"""

from collections.abc import Callable, Sequence

from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.generation import Head
from whispertide.errors import GraphError
from whispertide.model.decoder import DecoderState
from whispertide.model.engine import DecodeOutput, DecodeRequest, Encoded, Engine
from whispertide.model.onnx_engine import of_onnx_runtime


class ExchangedEngine:
    """The engine `second`, but `first` computes the prompt and the first `tokens` positions after it, in all its
    decodes together; then `hand_over` is called, once. Satisfies `engine.Engine`.

    Raises `ProviderError` unless both are ONNX Runtime's, whose caches they share.
    """

    def __init__(self, first: Engine, second: Engine, tokens: int, hand_over: Callable[[], None]) -> None:
        self.options = second.options
        self.second = of_onnx_runtime(second)
        self._first = of_onnx_runtime(first)
        self.encode = self.second.encode
        self._left = tokens
        self._hand_over: Callable[[], None] | None = hand_over

    def start(self, encoded: Encoded, heads: Sequence[Head] = ()) -> "ExchangedRun":
        """A fresh decoder over `encoded` that also returns the cross-attention of `heads`."""
        return ExchangedRun(self, self._first.start(encoded, heads))

    def hearing(self, checkpoint: Checkpoint) -> Engine:
        """Raises `GraphError`: it lives as long as a round, whose windows have their encoder."""
        raise GraphError(f"expected one encoder in a round that changes workers; got another, of {checkpoint.name}")

    def take(self, tokens: int, *, prompt: bool) -> bool:
        """Whether the first worker is to compute so many more positions; hands over when it is not.

        A prompt is computed in any case, and of its run only what is drafted after it is counted: the budget is of
        what an earlier round heard, and text before the window is as long as that.
        """
        if self._hand_over is None:
            return False
        # A block of drafted tokens is not divided, so the budget may be overdrawn by one.
        if prompt or self._left > 0:
            self._left -= tokens
            return True
        self._hand_over()
        self._hand_over = None
        return False


class ExchangedRun:
    """A decoder over one window that changes workers. Implements `engine.DecoderRun`."""

    def __init__(self, engine: ExchangedEngine, state: DecoderState) -> None:
        self._engine = engine
        self._state = state
        self._started = self._moved = False
        self.rewind = state.rewind
        self.hear = state.hear

    def run(self, request: DecodeRequest) -> DecodeOutput:
        """Feed the tokens of `request` after the cache, on the worker whose turn it is."""
        counted = request.tokens.shape[1] if self._started else request.draft
        first = self._engine.take(counted, prompt=not self._started)
        self._started = True
        if not first and not self._moved:
            self._state.move(self._engine.second.decoder)
            self._moved = True
        return self._state.run(request)
