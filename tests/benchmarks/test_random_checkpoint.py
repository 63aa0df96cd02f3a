"""What benchmarks of speed feed a model."""

import numpy as np

from benchmark_scripts import benchmark


def test_random_features_are_those_of_their_seed() -> None:
    with benchmark("random_checkpoint") as script:
        features = script.random_features(80, 500)
        assert (features.shape, features.dtype) == ((80, 500), np.float32)
        assert np.abs(features).max() <= 1
        np.testing.assert_array_equal(script.random_features(80, 500, 0), features)
        drawn = np.random.default_rng(0)
        np.testing.assert_array_equal(script.random_features(80, 500, drawn), features)
        assert not np.array_equal(script.random_features(80, 500, drawn), features), "it goes on drawing"
