"""How a window of a recording reaches the encoder, and how the loop over windows goes on."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from whispertide.checkpoint.generation import GenerationConfig
from whispertide.decoding.longform import pad_or_trim
from whispertide.features import padded
from whispertide.types import N_FRAMES


@pytest.mark.parametrize("silent", [False, True])
def test_a_window_is_padded_with_what_the_checkpoint_was_used_to(silent: bool) -> None:
    given: list[Any] = []
    model: Any = SimpleNamespace(
        generation=GenerationConfig(silent_padding=silent), encode=lambda mel, taps: given.append(mel)
    )
    mel = np.full((80, 7), 0.5, np.float32)
    pad_or_trim(model, mel)
    after = padded(mel, N_FRAMES)[:, 7:] if silent else np.zeros((80, N_FRAMES - 7), np.float32)
    np.testing.assert_array_equal(given[0], np.concatenate([mel, after], axis=1))
