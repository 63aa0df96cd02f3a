"""The shapes that a network trained from scratch can have, by name. Knows nothing of weights."""

from whispertide.checkpoint import ModelDims
from whispertide.errors import OptionError
from whispertide_lab.training.widen import TARGETS, Target

# nano.en is ours, the others are OpenAI's (openai/whisper, model-card.md).
SHAPES: dict[str, Target] = {"nano.en": Target(256, 4, 4), "tiny.en": Target(384, 6, 4), **TARGETS}


def shaped(dims: ModelDims, name: str) -> ModelDims:
    """`dims` with width, heads and layers of the shape called `name`. Raises `OptionError` for an unknown one."""
    shape = SHAPES.get(name)
    if shape is None:
        raise OptionError(f"expected one of the shapes {', '.join(SHAPES)}; got {name!r}")
    return shape.applied_to(dims)


def guided_heads(dims: ModelDims) -> tuple[tuple[int, int], ...]:
    """(layer, head) pairs that are told where to look: half of the heads in the later half of the decoder's layers."""
    later_half = range(dims.n_text_layer // 2, dims.n_text_layer)
    return tuple((layer, head) for layer in later_half for head in range(max(1, dims.n_text_head // 2)))
