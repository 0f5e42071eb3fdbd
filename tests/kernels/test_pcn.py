"""Preconditioned Crank-Nicolson."""

import numpy as np

from tests.kernels.support import COVARIANCE, PRECISION, assert_metropolis, density, noise_of, start, walk
from xpsample.kernels import PCN


def test_pcn_by_hand(library):
    x, beta, mean = start(50), 0.4, np.asarray([0.5, 0.0, -0.5])
    kernel = PCN(beta, mean=library.array(mean), covariance=library.array(COVARIANCE))
    noise = noise_of(kernel, x, 1)
    positions, infos, _ = walk(library, kernel, x, noise)
    root = np.linalg.cholesky(COVARIANCE)
    y = mean + np.sqrt(1 - beta**2) * (x - mean) + beta * noise["proposal"][0] @ root.T

    def reference(z):
        return -0.5 * np.sum((z - mean) * np.linalg.solve(COVARIANCE, (z - mean).T).T, axis=-1)

    ratio = density(y) - density(x) + reference(x) - reference(y)
    assert_metropolis(library, infos[0], positions[0], x, y, ratio, noise)


def test_pcn_accepts_everything_where_the_target_is_its_reference(library):
    kernel = PCN(0.7, covariance=library.array(np.linalg.inv(PRECISION)))
    x = start(50)
    _, infos, _ = walk(library, kernel, x, noise_of(kernel, x))
    for info in infos:
        np.testing.assert_allclose(library.host(info.acceptance_probability), 1, rtol=1e-12)
