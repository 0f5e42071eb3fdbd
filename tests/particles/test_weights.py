"""Normalised log weights, their effective sample size and the running normaliser, by hand."""

import math

import numpy as np

from xpsample.particles.weights import Weights, effective_sample_size


def test_weights_by_hand(typed_library):
    library, xp = typed_library, typed_library.xp
    start = Weights.equal(xp, library.array(np.zeros((2, 4))))
    np.testing.assert_array_equal(library.host(start.ess), [4.0, 4.0])
    gains = np.log(np.asarray([[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 8.0, 0.0]]), where=[[True] * 4, [0, 0, 1, 0]], out=None)
    gains = np.where([[True] * 4, [False, False, True, False]], gains, -math.inf) + 80.0
    weights = start.times(xp, library.array(gains))
    np.testing.assert_allclose(np.exp(library.host(weights.logs)), [[0.1, 0.2, 0.3, 0.4], [0, 0, 1, 0]], rtol=1e-5)
    np.testing.assert_allclose(library.host(weights.ess), [100 / 30, 1.0], rtol=1e-5)
    np.testing.assert_allclose(library.host(weights.log_normalizer), np.log([2.5, 2.0]) + 80.0, rtol=1e-6)
    again = weights.times(xp, library.array(np.asarray([[math.nan, 0.0, 0.0, 0.0], [5.0, 5.0, 0.0, 5.0]])))
    np.testing.assert_allclose(np.exp(library.host(again.logs)), [[0, 2 / 9, 3 / 9, 4 / 9], [0, 0, 1, 0]], rtol=1e-5)
    reset = again.reset(xp, library.array(np.asarray([True, False])))
    np.testing.assert_allclose(np.exp(library.host(reset.logs)), [[0.25] * 4, [0, 0, 1, 0]], rtol=1e-5)
    np.testing.assert_array_equal(library.host(reset.ess), library.host(again.ess))


def test_the_effective_sample_size_is_at_most_the_number(library32):
    equal = library32.array(np.full((1, 10_000), 123.4))
    assert library32.host(effective_sample_size(library32.xp, equal))[0] == 10_000
