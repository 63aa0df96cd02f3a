"""The features of a stream as a causal encoder gets them: by hand, and whatever pieces it arrives in."""

from importlib.resources import as_file, files

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from whispertide.audio.file import load_audio
from whispertide.features import RAW_SILENCE, normalise, raw_log_mel
from whispertide.methods.causal.blocks import block_ends, causal_block
from whispertide_lab.training.causal_features import causal_log_mel


def test_causal_features_by_hand() -> None:
    """One mel, blocks that end at frames 1, 3 and 4: mel frames 0 to 2, then 3 to 6, louder, then two, softer."""
    raw = np.array([[-9.0, 0.0, -5.0, 2.0, -9.0, -9.0, 1.0, -9.0, 0.0, 5.0]], np.float32)
    expected = (np.array([[-8.0, 0.0, -5.0, 2.0, -6.0, -6.0, 1.0, -6.0, 0.0]]) + 4) / 4
    np.testing.assert_allclose(causal_log_mel(raw, (1, 3, 4)), expected)
    assert causal_log_mel(raw, ()).shape == (1, 0)
    assert causal_log_mel(raw[:, :5], (1, 3)).shape == (1, 5), "a last block may be cut off"


@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 2**31), st.lists(st.integers(0, 90), max_size=6))
def test_causal_features_of_a_stream_are_those_of_the_whole(first: int, block: int, seed: int, cuts: list[int]) -> None:
    """Whatever pieces the raw frames arrive in, a block is normalised when its last one is there, and never again."""
    raw = np.random.default_rng(seed).uniform(-10, 3, (4, 90)).astype(np.float32)
    ends = block_ends(44, block, max(first, block))
    parts, done, peak = [raw[:, :0]], 0, RAW_SILENCE
    for arrived in sorted({*cuts, 90}):
        for end in ends:
            if done < 2 * end + 1 <= arrived:
                part, peak = causal_block(raw[:, done : 2 * end + 1], peak)
                parts.append(part)
                done = 2 * end + 1
    pieces = np.concatenate(parts, axis=1)
    np.testing.assert_array_equal(pieces, causal_log_mel(raw, ends)[:, :done])
    assert causal_log_mel(raw, ends).shape[1] == min(90, 2 * ends[-1] + 1)


def test_causal_features_of_sound_as_loud_throughout_are_whispers() -> None:
    """Once the loudest cell was there, the features are the usual ones."""
    with as_file(files("whispertide") / "bundled" / "audio" / "demo.flac") as path:
        speech = load_audio(path)
    raw = raw_log_mel(speech, 80)
    loudest = int(raw.max(axis=0).argmax())
    whole, causal = normalise(raw), causal_log_mel(raw, block_ends(raw.shape[1] // 2 + 1, 5, 30))
    block = 2 * (30 + 5 * max(0, -(-(loudest // 2 - 30) // 5))) + 1
    np.testing.assert_array_equal(causal[:, block:], whole[:, block:])
