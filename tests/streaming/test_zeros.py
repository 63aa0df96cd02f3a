"""A second of silence after the audio, and windows of some length at least."""

import numpy as np

from each_row import each_row
from scripted_model import ScriptedModel
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import parse_overrides
from whispertide.streaming.framing import BARE, PAD30, Buckets, Framing, Zeros


@each_row(
    ("framing", "mel_frames", "frames"),
    [
        (Zeros(), 200, 150),
        (Zeros(), 201, 151),
        (Zeros(zeros_s=0.0), 200, 100),
        (Zeros(whole_s=10.0), 200, 500),
        (Zeros(whole_s=10.0), 1000, 550),
        (Zeros(), 2950, 1500),
        (Zeros(), 3000, 1500),
    ],
)
def test_silence_follows_the_audio_up_to_thirty_seconds(framing: Zeros, mel_frames: int, frames: int) -> None:
    model = ScriptedModel(lambda encoded: [])
    encoded = framing(model, np.ones((80, mel_frames), np.float32))  # type: ignore[arg-type]
    assert (encoded.frames, encoded.valid_frames) == (frames, frames)  # they are attended to, as in training
    assert (model.mels[0][:, :mel_frames] == 1).all()
    assert (model.mels[0][:, mel_frames:] == -1).all()  # 80 dB below, as zeros after the audio would be


@each_row(
    ("framing", "seconds"), [(BARE, 2.0), (PAD30, 30.0), (Buckets(), 3.0), (Zeros(), 3.0), (Zeros(whole_s=8), 8.0)]
)
def test_how_long_a_window_of_two_seconds_is(framing: Framing, seconds: float) -> None:
    assert framing.length_s(2.0) == seconds


def test_it_can_be_asked_for() -> None:
    assert parse_overrides(get_recipe("tide"), ["framing=zeros", "whole_s=10"]).framing == Zeros(whole_s=10.0)
