"""Whisper checkpoints: finding, checking and reading them."""

from whispertide.checkpoint.dims import ModelDims
from whispertide.checkpoint.generation import GenerationConfig
from whispertide.checkpoint.loader import Checkpoint, load_checkpoint
from whispertide.checkpoint.tokenizer import Tokenizer
from whispertide.checkpoint.weights import TensorStore

__all__ = ["Checkpoint", "GenerationConfig", "ModelDims", "TensorStore", "Tokenizer", "load_checkpoint"]
