"""A checkpoint -> OpenAI's `.pt`. Runs where torch is installed."""

import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np

from whispertide.checkpoint import load_checkpoint
from whispertide.checkpoint.layout import expected_shapes
from whispertide.lab.evaluation.peers.names import openai_name


def convert(model: str, output: Path) -> None:
    """Write the model into the folder `output`, as model.pt, in float32."""
    import torch

    checkpoint = load_checkpoint(model)
    tensors = checkpoint.tensors
    shapes = expected_shapes(checkpoint.dims, {name: tensors.shape(name) for name in tensors.names()})
    state = {openai_name(name): torch.from_numpy(np.array(tensors.get(name), np.float32)) for name in shapes}
    output.mkdir(parents=True, exist_ok=True)
    torch.save({"dims": asdict(checkpoint.dims), "model_state_dict": state}, output / "model.pt")


if __name__ == "__main__":
    convert(sys.argv[1], Path(sys.argv[2]))
