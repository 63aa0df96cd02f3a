from pathlib import Path

import pytest

from whispertide.errors import CorpusError
from whispertide_lab.speech.text import is_test_sentence
from whispertide_lab.speech.wordnet import has_wordnet, wordnet_sentences

WORDS = (
    "horse",
    "river",
    "table",
    "house",
    "field",
    "garden",
    "road",
    "bridge",
    "winter",
    "summer",
    "sailor",
    "doctor",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """144 definitions with an example each, of which one in ten is reserved, and lines that nobody can read aloud."""
    lines = [
        f'0000 03 n 01 x 0 000 | a large {one} near the {two}; "he saw the {one} and the {two} again"'
        for one in WORDS
        for two in WORDS
    ]
    lines += [f"0000 03 n 01 x 0 000 | (chemistry) the {word} of 1,234 things/items" for word in WORDS]
    for name in ("data.noun", "data.verb", "data.adj", "data.adv"):
        (tmp_path / name).write_text("  1 This is the licence\n" + "\n".join(lines) + "\n")
    return tmp_path


def test_reserved_sentences_each_once(folder: Path) -> None:
    found = list(wordnet_sentences(0, 0, folder))
    assert 10 < len(found) < 60
    assert len(set(found)) == len(found)
    assert all(map(is_test_sentence, found))
    assert all(sentence[0].isupper() and sentence.endswith(".") for sentence in found)
    assert any(sentence.startswith("He saw") for sentence in found)
    assert any(sentence.startswith("A large") for sentence in found)
    assert not any("1,234" in sentence or "licence" in sentence for sentence in found)


def test_seed_and_stream_decide_the_order_alone(folder: Path) -> None:
    orders = [list(wordnet_sentences(seed, stream, folder)) for seed, stream in ((0, 0), (0, 0), (1, 0), (0, 1))]
    assert orders[0] == orders[1]
    assert orders[0] not in (orders[2], orders[3])
    assert set(orders[0]) == set(orders[2]) == set(orders[3])


def test_without_wordnet(tmp_path: Path, folder: Path) -> None:
    assert has_wordnet(folder)
    missing = tmp_path / "missing"
    assert not has_wordnet(missing)
    with pytest.raises(CorpusError, match="wordnet-base"):
        next(wordnet_sentences(0, 0, missing))
