"""Hamiltonian Monte Carlo."""

import numpy as np

from tests.kernels.support import COVARIANCE, assert_metropolis, density, kinetic, leapfrog, noise_of, start, walk
from xpsample.kernels import HMC


def test_hmc_by_hand(library):
    """With a dense mass: momentum p = M^{1/2} u, velocity M^{-1} p."""
    x, mass = start(50), COVARIANCE
    kernel = HMC(0.6, 5, mass=library.array(mass))
    noise = noise_of(kernel, x, 1)
    positions, infos, _ = walk(library, kernel, x, noise)
    p = noise["momentum"][0] @ np.linalg.cholesky(mass).T
    y, q = leapfrog(x, p, 0.6, 5, mass)
    ratio = density(y) - density(x) + kinetic(p, mass) - kinetic(q, mass)
    assert_metropolis(library, infos[0], positions[0], x, y, ratio, noise)
    assert np.allclose(library.host(infos[0].energy), kinetic(p, mass) - density(x), atol=1e-5)
