"""Whisper's log-mel spectrogram in torch, so that a gradient reaches the samples. `features` is what it must equal.

Needs torch. Knows nothing of networks.
"""

import torch
from torch import Tensor
from torch.nn import functional

from whispertide.features import FLOOR_DEPTH, mel_filters
from whispertide.types import HOP_LENGTH, N_FFT


def raw_log_mel(samples: Tensor, n_mels: int) -> Tensor:
    """Raw frames [..., n_mels, frames] of every full 400-sample stretch of `samples` [..., n] at hop 160.

    In double precision, as `features` has it: a quiet cell next to a loud one is what single precision leaves of it.
    """
    window = torch.hann_window(N_FFT, dtype=torch.float64, device=samples.device)
    stretches = samples.double().unfold(-1, N_FFT, HOP_LENGTH) * window
    spectrum = torch.fft.rfft(stretches)
    power = spectrum.real.square() + spectrum.imag.square()
    filters = torch.from_numpy(mel_filters(n_mels)).to(power)
    raw: Tensor = (power @ filters.T).clamp(min=1e-10).log10()
    return raw.transpose(-1, -2)


def normalise(raw: Tensor, peak: Tensor) -> Tensor:
    """Whisper's floor, measured from `peak` (broadcast to `raw`), and its scale."""
    return (torch.maximum(raw, peak - FLOOR_DEPTH) + 4.0) / 4.0


def followed(before: Tensor, tail: Tensor, suffix: Tensor, peak: Tensor) -> Tensor:
    """Normalised log-mel [batch, n_mels, frames] of windows with the samples `suffix` [n], then silence, after them.

    before  [batch, n_mels, c] raw frames that do not see beyond the window
    tail    [batch, t] the window's samples from 200 before the centre of frame c on
    peak    [batch] the loudest cell of each window alone: the suffix does not raise the floor

    In double precision. An odd last frame gets one of zeros, as in the framing `bare`. (`Features.followed` is the same
    in numpy.)
    """
    batch, n_mels, first = before.shape
    silence = torch.zeros(batch, N_FFT // 2 + HOP_LENGTH, dtype=suffix.dtype, device=suffix.device)
    samples = torch.cat([tail.to(suffix), suffix.expand(batch, -1), silence], dim=1)
    count = (tail.shape[1] - N_FFT // 2 + len(suffix)) // HOP_LENGTH
    after = raw_log_mel(samples, n_mels)[..., :count]
    mel = normalise(torch.cat([before.to(after), after], dim=2), peak.to(after)[:, None, None])
    return functional.pad(mel, (0, (first + count) % 2))
