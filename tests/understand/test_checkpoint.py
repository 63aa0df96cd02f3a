"""What a network for commands is told apart by."""

from dataclasses import replace

import numpy as np

from whispertide.understand.checkpoint import LateCheckpoint, LateDims
from whispertide.understand.intent_words import IntentWords
from whispertide_lab.training.latecontext.folder import learn_vocabulary

TENSORS = {"one": np.ones(3, np.float32), "two": np.zeros(2, np.float32)}


def test_the_content_hash_is_of_the_words_too() -> None:
    vocabulary = learn_vocabulary(["play some music", "set an alarm"], ["play_music", "alarm_set"], 40)
    network = LateCheckpoint(LateDims(n_vocab=vocabulary.size), TENSORS, vocabulary)
    words = np.zeros((4, 2), np.float32)
    others = [replace(network, intent_words=IntentWords(weights)) for weights in (words, words + 1)]
    turned = replace(others[0], tensors=dict(reversed(TENSORS.items())))
    assert len({each.content_hash for each in (network, *others)}) == 3
    assert turned.content_hash == others[0].content_hash
