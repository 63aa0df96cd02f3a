"""The torch engine: a model computed by the network that training uses, on a GPU where there is one.

Found by the entry point `torch` of the group `whispertide.engines` (`model.installed`), as `--provider torch`. It
speaks the language of the graphs (`graphs.encoder`, `graphs.decoder`): the same windows, requests and outputs, so that
one stage may compute here and the other in ONNX Runtime. fp32 anywhere, fp16 on a GPU.

Knows nothing of searches, rounds or recipes.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.generation import Head
from whispertide.errors import ProviderError
from whispertide.graphs.contract import MASKED, TOP
from whispertide.model.engine import (
    LAST_LAYER,
    DecodeOutput,
    DecodeRequest,
    Encoded,
    EncoderState,
    check_context,
    check_heads,
    check_mel,
    check_stateless,
    check_taps,
)
from whispertide.model.onnx_engine import suppressed_rows
from whispertide.model.providers import thread_count
from whispertide.model.runtime import padding_bias
from whispertide.options import EngineOptions
from whispertide.types import FloatArray, IntArray
from whispertide_lab.training.network import Attention, Whisper, load_network

_DTYPES = {"fp32": torch.float32, "fp16": torch.float16}


class Resident:
    """A tensor that stays on its device; numpy reads it as float32."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """A copy on the host."""
        return np.asarray(self.tensor.float().cpu().numpy(), dtype or np.float32)


class TorchEngine:
    """One model on one device. Satisfies `model.engine.Engine`.

    On a processor torch has one number of threads for everything in the process; it is set to that of `options`. A
    `network` that is there already is taken as it is, where it is and with its threads.
    """

    def __init__(self, checkpoint: Checkpoint, options: EngineOptions, network: Whisper | None = None) -> None:
        self.device = "cuda" if self.accelerated() else "cpu"
        if network is not None:
            self.device = network.encoder.conv1.weight.device.type
        known = ("fp32", "fp16") if self.accelerated() else ("fp32",)
        if options.precision not in known:
            raise ProviderError(
                f"expected a precision that torch computes in on this machine's {self.device} ({', '.join(known)}); "
                f"got {options.precision}: use --precision {known[0]}"
            )
        if self.device == "cpu" and network is None:
            torch.set_num_threads(thread_count(options))
        self.options = options
        self.dims = checkpoint.dims
        self.dtype = _DTYPES[options.precision]
        self.timestamp_begin = checkpoint.tokenizer.timestamp_begin
        if network is None:
            network = load_network(checkpoint).eval().requires_grad_(False).to(self.device, self.dtype)
        self.network: Whisper = network

    @staticmethod
    def accelerated() -> bool:
        """Whether torch finds a GPU of CUDA."""
        return bool(torch.cuda.is_available())

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def encode(
        self,
        mel: FloatArray,
        *,
        state: EncoderState | None = None,
        taps: Sequence[int] = (),
        valid_frames: int | None = None,
        mask_padding: bool = True,
        attention: FloatArray | None = None,
        positions: IntArray | None = None,
    ) -> Encoded:
        """Encode one window; any layer can be tapped, and no state is known yet."""
        check_stateless(state)
        check_taps(taps, range(self.dims.n_audio_layer))
        frames, valid = check_mel(mel, self.dims, valid_frames)
        if attention is None and mask_padding:
            attention = padding_bias(frames, valid, self.options.precision)
        bias = None if attention is None else self.tensor(attention)
        at = None if positions is None else torch.from_numpy(positions).to(self.device)
        tapped = {}
        for number, heard in enumerate(self.network.encoder.layer_outputs(self.tensor(mel)[None], bias, at)):
            if number in taps:
                tapped[number] = heard
        heard = tapped[LAST_LAYER] = self.network.encoder.layer_norm(heard)
        keys, values = [], []
        for layer in self.network.decoder.layers:
            cross = layer.encoder_attn
            # In mixed precision products are of fewer digits; the decoder computes in those of the weights.
            heard_key, heard_value = (part(heard).to(heard.dtype) for part in (cross.k_proj, cross.v_proj))
            key = split(cross, heard_key) * (self.dims.n_text_state // self.dims.n_text_head) ** -0.5
            keys.append(Resident(key.transpose(-1, -2)))
            values.append(Resident(split(cross, heard_value)))
        outputs = {tap: tapped[tap][0].float().cpu().numpy() for tap in taps}
        return Encoded(tuple(keys), tuple(values), frames, valid, outputs)

    def start(self, encoded: Encoded, heads: Sequence[Head] = ()) -> "TorchRun":
        """A fresh decoder over `encoded`, whichever engine made it. Raises `GraphError` for unknown heads."""
        check_heads(heads, self.dims)
        return TorchRun(self, encoded, tuple(heads))

    def hearing(self, checkpoint: Checkpoint) -> "TorchEngine":
        """All of `checkpoint`: networks are trained whole here."""
        return TorchEngine(checkpoint, self.options)

    def tensor(self, values: Any) -> Tensor:
        """`values` (an array, a runtime tensor, another engine's) as floats on this device."""
        if isinstance(values, Resident):
            return values.tensor.to(self.device, self.dtype)
        array = values.numpy() if hasattr(values, "numpy") else np.asarray(values)
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device, self.dtype)


class TorchRun:
    """A decoder over one window with its cache. Implements `model.engine.DecoderRun`."""

    def __init__(self, engine: TorchEngine, encoded: Encoded, heads: tuple[Head, ...]) -> None:
        self._engine = engine
        self._heads = heads
        self._past: list[tuple[Tensor, Tensor]] = []
        self._length = 0
        frames, tensor = encoded.valid_frames, engine.tensor  # no decoder may attend to what is after them
        self._cross = [
            (tensor(key)[..., :frames], tensor(value)[:, :, :frames])
            for key, value in zip(encoded.cross_k, encoded.cross_v, strict=True)
        ]

    def rewind(self, drop: int) -> None:
        """Forget the newest `drop` positions of every row."""
        if not 0 <= drop <= self._length:
            raise ValueError(f"expected to drop 0 to {self._length} cached positions; got {drop}")
        self._length -= drop
        self._past = [(key[:, :, : self._length], value[:, :, : self._length]) for key, value in self._past]

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def run(self, request: DecodeRequest) -> DecodeOutput:
        """Feed the tokens of `request` after the cache; as `model.onnx_engine.DecoderState.run` does."""
        network, past = self._engine.network.decoder, self._length
        length = request.tokens.shape[1]
        check_context(past, length, self._engine.dims)
        tokens = torch.from_numpy(np.ascontiguousarray(request.tokens, np.int64)).to(self._engine.device)
        x = network.embed_tokens(tokens) + network.embed_positions.weight[past : past + length]
        sees = torch.ones((length, length), dtype=torch.bool, device=self._engine.device).tril()
        grown, seen = [], {}
        for number, layer in enumerate(network.layers):
            normed = layer.self_attn_layer_norm(x)
            heard, cached = self._attend_past(layer.self_attn, normed, number, request.parents, sees)
            grown.append(cached)
            x = x + heard
            heard, seen[number] = self._attend_audio(layer.encoder_attn, layer.encoder_attn_layer_norm(x), number)
            x = layer.feed_forward(x + heard)
        self._past, self._length = grown, past + length
        hidden = network.layer_norm(x)
        states = hidden[:, list(request.logits_at)]
        logits = functional.linear(states, network.embed_tokens.weight).float()
        attention = torch.stack([seen[layer][:, head] for layer, head in self._heads]) if self._heads else None
        output = self._output(request, logits, attention)
        return replace(output, hidden=hidden.float().cpu().numpy()) if request.hidden else output

    def _attend_past(
        self, attention: Attention, normed: Tensor, number: int, parents: Sequence[int] | None, sees: Tensor
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """What the tokens hear of those before them, and the cache with them in it; `sees` [length, length] says which
        of each other they may hear.
        """
        query = split(attention, attention.q_proj(normed))
        key, value = split(attention, attention.k_proj(normed)), split(attention, attention.v_proj(normed))
        if self._past:
            before = self._past[number]
            if parents is not None:
                before = tuple(cached[list(parents)] for cached in before)
            key, value = torch.cat([before[0], key], 2), torch.cat([before[1], value], 2)
        mask = functional.pad(sees, (key.shape[2] - len(sees), 0), value=True)
        heard = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return attention.out_proj(heard.transpose(1, 2).flatten(2)), (key, value)

    def _attend_audio(self, attention: Attention, normed: Tensor, number: int) -> tuple[Tensor, Tensor]:
        """What the tokens hear of the window, and the weights [rows, heads, length, frames]."""
        key, value = self._cross[number]
        weights = (split(attention, attention.q_proj(normed)) @ key).softmax(-1)
        return attention.out_proj((weights @ value).transpose(1, 2).flatten(2)), weights

    def _output(self, request: DecodeRequest, logits: Tensor, attention: Tensor | None) -> DecodeOutput:
        if request.suppress is not None:
            logits = logits + torch.from_numpy(suppressed_rows(request.suppress)).to(logits.device)
        seen = None if attention is None else attention.float().cpu().numpy()
        if request.need == "logits":
            return DecodeOutput(logits=logits.cpu().numpy(), attention=seen)
        total = mass_of(logits)
        best, ids = logits.topk(TOP)
        output: dict[str, Tensor] = {"top_ids": ids, "top_logprobs": best - total}
        if request.need == "times":
            begin = self._engine.timestamp_begin
            times = logits[..., begin:]
            best, ids = times.topk(TOP)
            output |= {
                "time_ids": ids + begin,
                "time_logprobs": best - total,
                "time_mass": (mass_of(times) - total)[..., 0],
            }
        return DecodeOutput(**{name: values.cpu().numpy() for name, values in output.items()}, attention=seen)


def split(attention: Attention, values: Tensor) -> Tensor:
    """[batch, n, width] -> [batch, heads, n, size]."""
    return values.unflatten(-1, (attention.heads, -1)).transpose(1, 2)


def mass_of(logits: Tensor) -> Tensor:
    """Log of the sum of exponentials along the last axis [.., 1]; a large negative number where all is suppressed."""
    peak = logits.amax(-1, keepdim=True).clamp_min(MASKED)
    return (logits - peak).exp().sum(-1, keepdim=True).log() + peak
