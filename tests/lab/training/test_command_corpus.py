"""Spoken commands as a corpus: words with their times, intents, voices as groups, and parts of it."""

from pathlib import Path

import numpy as np
import pytest

from whispertide_lab.evaluation.corpora import open_corpus
from whispertide_lab.evaluation.corpora.parts import Excerpt
from whispertide_lab.evaluation.items.commands import sentences
from whispertide_lab.training.shards import Utterance, write_shard

SECOND = 16_000


def spoken(text: str, voice: str, seconds: int, **about: object) -> Utterance:
    words = text.split()
    spans = tuple((n * 4000, n * 4000 + 3000) for n in range(len(words)))
    samples = np.full(seconds * SECOND, 16_384, np.int16)
    return Utterance(samples, text, voice, spans, **{"intent": "play_music", **about})  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_shard(tmp_path, 0, [spoken("play it", "anna", 2), spoken("stop it now", "anna", 3, exact=False)])
    write_shard(tmp_path, 1, [spoken("louder", "bert", 1, intent="volume_up")])
    return tmp_path


def test_commands_are_utterances_with_intents(folder: Path) -> None:
    corpus = open_corpus(f"commands:{folder}")
    first, second, third = corpus.utterances()
    assert corpus.name == f"commands-{folder.name}"
    assert [(word.text, word.start, word.end) for word in first.words] == [("play", 0, 3000), ("it", 4000, 7000)]
    assert [one.exact_times for one in (first, second, third)] == [True, False, True]
    assert [(one.group, one.intent) for one in (first, third)] == [("anna", "play_music"), ("bert", "volume_up")]
    assert len({first.id, second.id, third.id}) == 3
    np.testing.assert_array_equal(first.audio(), np.full(2 * SECOND, 0.5, np.float32))


def test_a_command_is_a_sentence_of_any_length(folder: Path) -> None:
    said = list(sentences(open_corpus(f"commands:{folder}").utterances()))
    assert [(" ".join(one.words), one.intent) for one in said][1:] == [
        ("stop it now", "play_music"),
        ("louder", "volume_up"),
    ]


def test_an_excerpt_has_whole_commands_of_every_voice(folder: Path) -> None:
    part = Excerpt(open_corpus(f"commands:{folder}"), 3.5)
    assert [(one.group, one.seconds) for one in part.utterances()] == [("anna", 2.0), ("bert", 1.0)]


def test_the_hash_is_of_words_and_sound(folder: Path) -> None:
    before = open_corpus(f"commands:{folder}").hash
    assert open_corpus(f"commands:{folder}").hash == before
    write_shard(folder, 1, [spoken("louder", "bert", 2)])
    assert open_corpus(f"commands:{folder}").hash != before
