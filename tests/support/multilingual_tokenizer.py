"""The tokenizer of OpenAI's multilingual models, from what openai-whisper packages.

To find the merges takes longer than any test, so they are kept next to the compiled files until this file changes.
"""

import base64
import itertools
import json
import sys
from contextlib import suppress
from functools import cache
from importlib.util import cache_from_source, find_spec
from pathlib import Path

import pytest

from whispertide.atomic import replacing
from whispertide.checkpoint.languages import LANGUAGES
from whispertide.checkpoint.vocabulary import _byte_characters


@cache
def multilingual_tokenizer(languages: int = 99) -> str:
    """A `tokenizer.json`."""
    vocabulary, merges = _vocabulary()
    specials = [
        "<|endoftext|>",
        "<|startoftranscript|>",
        *(f"<|{code}|>" for code in list(LANGUAGES)[:languages]),
        *("<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>"),
        "<|nospeech|>" if languages == 100 else "<|nocaptions|>",
        "<|notimestamps|>",
        *(f"<|{i * 0.02:.2f}|>" for i in range(1501)),
    ]
    ids = enumerate(specials, len(vocabulary))
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": [{"id": id_, "content": text, "special": True} for id_, text in ids],
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            "post_processor": None,
            "model": {"type": "BPE", "vocab": vocabulary, "merges": merges},
        }
    )


@cache
def _vocabulary() -> tuple[dict[str, int], list[list[str]]]:
    """Tokens with their ids, and the merges that make them."""
    whisper = find_spec("whisper")
    if whisper is None or whisper.origin is None:
        pytest.skip("expected openai-whisper; it is not installed")
    asset = Path(whisper.origin).parent / "assets" / "multilingual.tiktoken"
    kept = Path(cache_from_source(__file__)).with_name("multilingual_merges.json")
    if not kept.exists() or kept.stat().st_mtime < max(asset.stat().st_mtime, Path(__file__).stat().st_mtime):
        found = _worked_out(asset)
        if not sys.dont_write_bytecode:
            with suppress(OSError), replacing(kept) as new:
                new.write_text(json.dumps(found))
        return found
    vocabulary, merges = json.loads(kept.read_text())
    return vocabulary, merges


def _worked_out(asset: Path) -> tuple[dict[str, int], list[list[str]]]:
    lines = (line.split() for line in asset.read_text().splitlines() if line)
    ranks = {base64.b64decode(text): int(rank) for text, rank in lines}
    chars = _byte_characters()

    def spell(token: bytes) -> str:
        return "".join(chars[byte] for byte in token)

    merges = [
        [spell(part) for part in _last_merge(token, rank, ranks)]
        for token, rank in sorted(ranks.items(), key=lambda item: item[1])
        if len(token) > 1
    ]
    return {spell(token): rank for token, rank in ranks.items()}, merges


def _last_merge(token: bytes, rank: int, ranks: dict[bytes, int]) -> list[bytes]:
    """The two tokens that were merged to this one: what byte-pair encoding leaves when it may not use the token."""
    parts = [bytes([byte]) for byte in token]
    while len(parts) > 2:
        pairs = [ranks.get(left + right, rank) for left, right in itertools.pairwise(parts)]
        best = min(pairs)
        assert best < rank
        at = pairs.index(best)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts
