"""Learns which intent a text has, from texts alone (`understand.intent_words`): seconds, and no sound.

Some words are left out each time, because the network mishears some.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from whispertide.understand.intent_words import IntentWords, hashed, weight_of

ROWS = 1 << 13  # of features
_EPOCHS, _BATCH, _RATE = 8, 128, 0.02
_UPDATES = 100  # at least: of a small corpus 8 epochs are few
_LEFT_OUT, _SMOOTHING = 0.15, 0.05


def learn_intents(texts: Sequence[str], intents: Sequence[int], count: int, seed: int = 0) -> IntentWords:
    """From texts and the numbers of their intents, of which there are `count`. What occurs twice counts once."""
    known = sorted(set(zip(texts, intents, strict=True)))
    dice = np.random.default_rng(seed)
    table = nn.EmbeddingBag(ROWS, count, mode="sum")
    nn.init.zeros_(table.weight)
    optimiser = torch.optim.Adam(table.parameters(), lr=_RATE)
    batches = -(-len(known) // _BATCH)
    for _ in range(max(_EPOCHS, -(-_UPDATES // batches))):
        order = dice.permutation(len(known))
        for chosen in np.split(order, range(_BATCH, len(order), _BATCH)):
            said = _scores(table, [_shorter(known[at][0], dice) for at in chosen])
            wanted = torch.tensor([known[at][1] for at in chosen])
            loss = functional.cross_entropy(said, wanted, label_smoothing=_SMOOTHING)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    # As they are kept, so that a network says the same before and after it was saved.
    return IntentWords(table.weight.detach().numpy().astype(np.float16).astype(np.float32))


def _scores(table: nn.EmbeddingBag, texts: Sequence[str]) -> Tensor:
    """Logits [texts, intents]."""
    rows = [hashed(text, ROWS) for text in texts]
    begins = np.cumsum([0, *(len(each) for each in rows[:-1])])
    shares = np.concatenate([np.full(len(each), weight_of(each), np.float32) for each in rows])
    said: Tensor = table(
        torch.from_numpy(np.concatenate(rows)), torch.from_numpy(begins), per_sample_weights=torch.from_numpy(shares)
    )
    return said


def _shorter(text: str, dice: np.random.Generator) -> str:
    """Without some of its words; all of it where none would be left."""
    words = text.split()
    return " ".join(word for word in words if dice.random() >= _LEFT_OUT) or text
