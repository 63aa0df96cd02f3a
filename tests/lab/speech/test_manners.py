from collections import Counter

import numpy as np
import pytest

from each_row import each_row
from whispertide.errors import OptionError
from whispertide_lab.speech.manners import SHARES, VOICES, choose_voices, draw_manner, is_held_out
from whispertide_lab.speech.voices import HELD_OUT, TRAINED


def test_no_voice_to_train_on_is_held_out() -> None:
    assert not [voice for voice in VOICES if is_held_out(voice)]
    assert {str(voice) for voice in TRAINED} <= set(VOICES)


@each_row(
    "voice",
    [
        *map(str, HELD_OUT),
        "espeak-ng:en+f3",  # its variant is that of en-us+f3
        "espeak-ng:en-us-nyc+m1",
        "espeak-ng:en-us+klatt2",
        "espeak-ng:en-us+f5",  # f2's formants
        "festival:kal_diphone",  # flite's kal
    ],
)
def test_held_out_voices_and_what_is_made_from_them_are_refused(voice: str) -> None:
    assert is_held_out(voice)
    with pytest.raises(OptionError, match="held out"):
        choose_voices([voice])


def test_voices_are_chosen_by_synthesizer_or_one_by_one() -> None:
    assert choose_voices([]) == VOICES
    assert choose_voices(["festival", "flite:slt", "festival:kdl"]) == ("festival:kdl", "festival:slt", "flite:slt")
    with pytest.raises(OptionError, match="got 'pico'"):
        choose_voices(["pico"])


@pytest.mark.slow
def test_manners_follow_the_shares_and_vary() -> None:
    dice = np.random.RandomState(0)
    drawn = [draw_manner(VOICES, dice) for _ in range(3000)]
    kinds = Counter(manner.voice.partition(":")[0] for manner in drawn)
    for kind, share in SHARES.items():
        assert abs(kinds[kind] / 3000 - share) < 0.05
    assert len({manner.voice for manner in drawn}) > 80
    assert all(0.7 < manner.rate < 1.35 and 0.7 < manner.pitch < 1.4 and -1 <= manner.melody <= 1 for manner in drawn)


def test_only_voices_asked_for_speak() -> None:
    dice = np.random.RandomState(0)
    assert {draw_manner(("flite:slt", "flite:rms"), dice).voice for _ in range(50)} == {"flite:slt", "flite:rms"}
