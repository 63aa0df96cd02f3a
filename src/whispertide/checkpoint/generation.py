"""A checkpoint's settings for decoding: suppressed tokens, alignment heads, first timestamp, language ids.

Hugging Face checkpoints carry this in `generation_config.json`, old ones in `config.json`, OpenAI `.pt` files nowhere.
This module parses, and chooses alignment heads where none are named; it does not know how the values are used.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from whispertide.checkpoint.dims import MULTILINGUAL_VOCAB, ModelDims
from whispertide.checkpoint.untrusted import quote
from whispertide.errors import CheckpointError

Head = tuple[int, int]  # (decoder layer, attention head)
Heads = tuple[Head, ...]

# (layers, heads, width) -> the heads OpenAI found to follow the audio, for its multilingual models of these shapes.
_KNOWN_HEADS: dict[tuple[int, int, int], Heads] = {
    (4, 6, 384): ((2, 2), (3, 0), (3, 2), (3, 3), (3, 4), (3, 5)),
    (6, 8, 512): ((3, 1), (4, 2), (4, 3), (4, 7), (5, 1), (5, 2), (5, 4), (5, 6)),
    (12, 12, 768): ((5, 3), (5, 9), (8, 0), (8, 4), (8, 7), (8, 8), (9, 0), (9, 7), (9, 9), (10, 5)),
    (24, 16, 1024): ((13, 15), (15, 4), (15, 15), (16, 1), (20, 0), (23, 4)),
}


@dataclass(frozen=True, slots=True)
class GenerationConfig:
    """The decoding settings that belong to the weights.

    `alignment_heads` are (layer, head) pairs, empty if the checkpoint names none. The token lists are None where the
    checkpoint is silent (then Whisper's own defaults apply), and empty where it says that nothing is suppressed.
    `max_initial_timestamp_index` counts steps of 20 ms. `condition_on_prev_tokens` says whether windows of a long
    recording should be shown the text before them (`transformers` knows it by that name), None where it is silent.
    `short_windows` says whether the checkpoint was trained on windows shorter than 30 s, too; OpenAI's were not, and
    whoever is silent counts as they do (the key is ours, `training.run` writes it).
    `silent_padding` says whether it knows nothing after a recording but silence; others are offline padded by zeros in
    the log-mel (ours, too).
    """

    alignment_heads: Heads = ()
    suppress_tokens: tuple[int, ...] | None = None
    begin_suppress_tokens: tuple[int, ...] | None = None
    max_initial_timestamp_index: int | None = None
    condition_on_prev_tokens: bool | None = None
    short_windows: bool = False
    silent_padding: bool = False

    @classmethod
    def from_hf(
        cls, generation: Mapping[str, Any] | None, config: Mapping[str, Any], dims: ModelDims
    ) -> "GenerationConfig":
        """Read `generation_config.json` (None if there is none), else `config.json`.

        Raises `CheckpointError` when a value has the wrong type. Heads outside the model are no error: distilled
        checkpoints are known to keep the list of their teacher, which has more layers; such a list is ignored.
        """
        # A null says nothing, so what `config.json` says still counts then.
        given = {name: value for name, value in (generation or {}).items() if value is not None}
        source = {**config, **given}
        heads = _check_value(source, "alignment_heads", "a list of [layer, head] pairs", _are_pairs)
        found = _known_alignment_heads(dims) if heads is None else tuple((layer, head) for layer, head in heads)
        if any(layer >= dims.n_text_layer or head >= dims.n_text_head for layer, head in found):
            found = ()
        return cls(
            alignment_heads=found,
            suppress_tokens=_ids("suppress_tokens", source),
            begin_suppress_tokens=_ids("begin_suppress_tokens", source),
            max_initial_timestamp_index=_check_value(source, "max_initial_timestamp_index", "a number", _is_id),
            condition_on_prev_tokens=_check_value(source, "condition_on_prev_tokens", "true or false", _is_switch),
            short_windows=_check_value(source, "short_windows", "true or false", _is_switch) or False,
            silent_padding=_check_value(source, "silent_padding", "true or false", _is_switch) or False,
        )

    @classmethod
    def for_openai(cls, dims: ModelDims) -> "GenerationConfig":
        """The settings of an OpenAI `.pt`, which has none: only the alignment heads of known shapes."""
        return cls(alignment_heads=_known_alignment_heads(dims))


def heads_or_later_half(heads: Heads, dims: ModelDims) -> Heads:
    """The alignment heads that a checkpoint names; if it names none, all heads of the later half of the decoder layers.

    The rule of openai/whisper (model.py): early layers look at the text, late ones at the sound.
    """
    later = range(dims.n_text_layer // 2, dims.n_text_layer)
    return heads or tuple((layer, head) for layer in later for head in range(dims.n_text_head))


def _known_alignment_heads(dims: ModelDims) -> Heads:
    """The published alignment heads of OpenAI's multilingual tiny, base, small and medium; else an empty tuple."""
    if dims.n_vocab != MULTILINGUAL_VOCAB:
        return ()
    return _KNOWN_HEADS.get((dims.n_text_layer, dims.n_text_head, dims.n_text_state), ())


def _check_value(source: Mapping[str, Any], name: str, expected: str, is_good: Callable[[Any], bool]) -> Any:
    """Return a value by its name; None if there is none. Raises `CheckpointError` for one of the wrong type."""
    value = source.get(name)
    if value is not None and not is_good(value):
        raise CheckpointError(f"expected {name} in the generation configuration to be {expected}; got {quote(value)}")
    return value


def _ids(name: str, source: Mapping[str, Any]) -> tuple[int, ...] | None:
    value = _check_value(source, name, "a list of token ids", _are_ids)
    return None if value is None else tuple(value)


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_switch(value: object) -> bool:
    return isinstance(value, bool)


def _are_ids(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_id, value))


def _are_pairs(value: object) -> bool:
    return isinstance(value, list) and all(_are_ids(pair) and len(pair) == 2 for pair in value)
