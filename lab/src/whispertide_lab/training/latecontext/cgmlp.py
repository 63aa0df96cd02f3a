"""Gated convolution (cgMLP): what mixes neighbouring frames without attention (Branchformer, Peng et al. 2022, 3.2)."""

from torch import Tensor, nn
from torch.nn import functional


class GatedConvolution(nn.Module):  # type: ignore[misc]
    """LN, linear, GELU, two halves; one, normed and convolved, is the gate of the other; linear. With its residual.

    The convolution looks back only, so a frame depends on the `kernel - 1` frames before it and none after it.
    """

    def __init__(self, width: int, inner: int, kernel: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, inner)
        self.gate_norm = nn.LayerNorm(inner // 2)
        self.gate = nn.Conv1d(inner // 2, inner // 2, kernel, groups=inner // 2)
        self.down = nn.Linear(inner // 2, width)
        self.dropout = nn.Dropout(dropout)
        nn.init.normal_(self.gate.weight, std=1e-3)  # a gate that is open at first
        nn.init.ones_(self.gate.bias)

    def forward(self, frames: Tensor) -> Tensor:
        """[b, t, width] -> the same shape."""
        content, gate = functional.gelu(self.up(self.norm(frames))).chunk(2, dim=-1)
        gate = functional.pad(self.gate_norm(gate).transpose(1, 2), (self.gate.kernel_size[0] - 1, 0))
        added: Tensor = self.dropout(self.down(content * self.gate(gate).transpose(1, 2)))
        return frames + added
