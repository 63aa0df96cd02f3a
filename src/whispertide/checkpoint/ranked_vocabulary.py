"""A vocabulary known only by the texts of its tokens, in the order of their ids.

Files of whisper.cpp and CTranslate2 leave out which pairs of tokens were merged, and in what order. Both follow from
the texts: a token's id is its rank, and of all pairs of neighbours the one whose text has the lowest rank is merged
first, as tiktoken does (openai/tiktoken, `_byte_pair_merge`).
"""

from collections.abc import Mapping, Sequence

from whispertide.checkpoint.dims import MULTILINGUAL_VOCAB
from whispertide.checkpoint.languages import LANGUAGES
from whispertide.errors import CheckpointError

_AFTER_LANGUAGES = ("translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps")
_TIMESTAMPS = 1_501  # 0.00 to 30.00 s


def merges_of(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Derive every pair of tokens that together spell a token, in the order in which they are merged."""
    known = frozenset(texts)
    return [
        (left, right)
        for text in texts
        for at in range(1, len(text))
        if (left := text[:at]) in known and (right := text[at:]) in known
    ]


def with_lost_merges(ids: Mapping[str, int], merges: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the merges or, if they cannot make some token, those that follow from the texts.

    OpenAI's multilingual tokenizers on the Hugging Face hub lost the first of the merges with which the models were
    trained, "Ġ t": without it " the" is two tokens.
    """
    made = {left + right for left, right in merges}
    if all(len(text) < 2 or text in made for text in ids):
        return merges
    return merges_of(sorted(ids, key=ids.__getitem__))


def special_tokens(vocab_size: int) -> dict[str, int]:
    """Map the texts of the special tokens, except timestamps, to ids, as OpenAI's models number them (its
    tokenizer.py).

    Raises `CheckpointError` for a size that none of them has.
    """
    first = 50_257 if vocab_size >= MULTILINGUAL_VOCAB else 50_256
    count = vocab_size - first - 2 - len(_AFTER_LANGUAGES) - _TIMESTAMPS
    if not 99 <= count <= len(LANGUAGES):
        raise CheckpointError(f"expected 51864, 51865 or 51866 tokens, as OpenAI's models have; got {vocab_size}")
    names = ("endoftext", "startoftranscript", *list(LANGUAGES)[:count], *_AFTER_LANGUAGES)
    return {f"<|{name}|>": first + index for index, name in enumerate(names)}


def split_special(texts: Sequence[str]) -> tuple[dict[str, int], tuple[str, ...]]:
    """Split a list of all tokens into the special ones, by id, and the ordinary ones before them."""
    special = {text: token for token, text in enumerate(texts) if text.startswith("<|") and text.endswith("|>")}
    return special, tuple(texts[: min(special.values(), default=len(texts))])
