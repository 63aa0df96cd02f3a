"""A checkpoint -> OpenAI's `.pt`. Runs where torch is installed."""

import sys
from dataclasses import asdict
from pathlib import Path

from whispertide.checkpoint import load_checkpoint
from whispertide_lab.evaluation.peers.names import openai_tensors


def convert(model: str, output: Path) -> None:
    """Write the model into the folder `output`, as model.pt, in float32."""
    import torch

    checkpoint = load_checkpoint(model)
    state = {name: torch.from_numpy(values) for name, values in openai_tensors(checkpoint)}
    output.mkdir(parents=True, exist_ok=True)
    torch.save({"dims": asdict(checkpoint.dims), "model_state_dict": state}, output / "model.pt")


if __name__ == "__main__":
    convert(sys.argv[1], Path(sys.argv[2]))
