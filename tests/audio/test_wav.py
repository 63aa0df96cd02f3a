"""WAV files that grow: readable while they do, whatever the portions."""

import wave
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from whispertide.audio.pcm import to_int16
from whispertide.audio.wav import wav_writer, write_samples


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(portions=st.lists(st.integers(1, 500), max_size=6), seed=st.integers(0, 99))
def test_the_file_is_whole_after_every_portion(tmp_path: Path, portions: list[int], seed: int) -> None:
    path, samples = tmp_path / "audio.wav", np.random.default_rng(seed).uniform(-1.5, 1.5, 3000).astype(np.float32)
    done = 0
    with wav_writer(str(path)) as writer:
        for count in portions:
            write_samples(writer, samples[done : done + count])
            done += count
            with wave.open(str(path)) as reader:
                assert (reader.getnchannels(), reader.getsampwidth(), reader.getframerate()) == (1, 2, 16_000)
                read = np.frombuffer(reader.readframes(3000), "<i2")
            np.testing.assert_array_equal(read, to_int16(samples[:done]))
