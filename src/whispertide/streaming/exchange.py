"""A decode that changes workers: WhisperFlow's exchange of rounds between its two processors (section 4).

The worker that encoded a round reads the prompt and goes on with the decode for some tokens, a share of those that an
earlier round heard in the same audio; then the other worker takes over the cache and does the rest. It balances workers
of different speed. Knows neither threads nor rounds: `hand_over` is somebody else's, and may wait.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from whispertide.model.decoder import DecoderState
from whispertide.model.request import DecodeOutput, DecodeRequest, Head
from whispertide.model.whisper import SharedModel, WhisperModel

if TYPE_CHECKING:
    from whispertide.decoding.reference import Reference
    from whispertide.model.encoder import Encoded


class ExchangedModel(SharedModel):
    """The model `second`, but `first` computes the prompt and the first `tokens` positions behind it, in all its
    decodes together; then `hand_over` is called, once. Both must run in ONNX Runtime, whose caches they share.
    """

    def __init__(self, first: WhisperModel, second: WhisperModel, tokens: int, hand_over: Callable[[], None]) -> None:
        super().__init__(second)
        self.first = first
        self._left = tokens
        self._hand_over: Callable[[], None] | None = hand_over

    def decoder(self, encoded: "Encoded", *, heads: Sequence[Head] = ()) -> "ExchangedState":
        """A fresh decoder over `encoded` that also returns the cross-attention of `heads`."""
        return ExchangedState(self, self.first.decoder_graph.start(encoded, heads))

    def take(self, tokens: int, *, prompt: bool) -> bool:
        """Whether the first worker is to compute so many more positions; hands over when it is not.

        A prompt is computed in any case, and of its run only what is drafted behind it is counted: the budget is of
        what an earlier round heard, and text before the window is as long as that.
        """
        if self._hand_over is None:
            return False
        if prompt or self._left > 0:
            self._left -= tokens
            return True
        self._hand_over()
        self._hand_over = None
        return False


class ExchangedState:
    """A decoder over one window of an `ExchangedModel`. Implements `model.request.DecoderRun`."""

    def __init__(self, model: ExchangedModel, state: DecoderState) -> None:
        self._model = model
        self._state = state
        self._started = self._moved = False

    def run(self, request: DecodeRequest) -> DecodeOutput:
        """Feed the tokens of `request` behind the cache, on the worker whose turn it is."""
        counted = request.tokens.shape[1] if self._started else request.draft
        first = self._model.take(counted, prompt=not self._started)
        self._started = True
        if not first and not self._moved:
            self._state = self._state.moved(self._model.decoder_graph)
            self._moved = True
        return self._state.run(request)

    def rewind(self, drop: int) -> None:
        """Forget the newest `drop` positions of every row."""
        self._state.rewind(drop)


def expected_tokens(model: WhisperModel, reference: "Reference | None") -> int:
    """How many tokens an earlier round heard in a round's audio; 0 where there was none."""
    if reference is None:
        return 0
    if reference.words:
        return len(model.tokenizer.encode("".join(word.text for word in reference.words)))
    return len(reference.tokens)
