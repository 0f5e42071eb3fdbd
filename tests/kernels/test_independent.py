"""The independence sampler."""

import numpy as np

from tests.kernels.support import COVARIANCE, PRECISION, assert_metropolis, density, noise_of, start, walk
from xpsample.kernels import IndependentMH


def test_independent_proposals_by_hand(library):
    x, mean = start(50), np.asarray([0.5, 0.0, -0.5])
    kernel = IndependentMH(library.array(mean), library.array(COVARIANCE))
    noise = noise_of(kernel, x, 1)
    positions, infos, _ = walk(library, kernel, x, noise)
    y = mean + noise["proposal"][0] @ np.linalg.cholesky(COVARIANCE).T

    def proposal(z):
        return -0.5 * np.sum((z - mean) * np.linalg.solve(COVARIANCE, (z - mean).T).T, axis=-1)

    ratio = density(y) - density(x) + proposal(x) - proposal(y)
    assert_metropolis(library, infos[0], positions[0], x, y, ratio, noise)


def test_independent_proposals_from_the_target_are_accepted(library):
    kernel = IndependentMH(covariance=library.array(np.linalg.inv(PRECISION)))
    x = start(50)
    _, infos, _ = walk(library, kernel, x, noise_of(kernel, x))
    for info in infos:
        np.testing.assert_allclose(library.host(info.acceptance_probability), 1, rtol=1e-12)
