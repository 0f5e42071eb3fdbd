"""Hamiltonian Monte Carlo."""

import numpy as np
import pytest

from tests.kernels.support import (
    COVARIANCE,
    NumPy,
    assert_metropolis,
    density,
    kinetic,
    leapfrog,
    noise_of,
    start,
    walk,
)
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


def test_the_leapfrog_is_reversible(library):
    """From the end with the momentum turned round, HMC comes back to where it was."""
    x, mass = start(50), COVARIANCE
    root = np.linalg.cholesky(mass)
    kernel = HMC(0.3, 7, mass=library.array(mass))
    u = noise_of(kernel, x, 1)["momentum"]
    always = np.full((1, 50), 1e-300)
    there, _, _ = walk(library, kernel, x, {"momentum": u, "accept": always})
    _, q = leapfrog(x, u[0] @ root.T, 0.3, 7, mass)
    turned = np.linalg.solve(root, -q.T).T
    back, _, _ = walk(library, kernel, there[0], {"momentum": turned[None], "accept": always})
    assert np.min(np.max(np.abs(there[0] - x), axis=-1)) > 0.1
    np.testing.assert_allclose(back[0], x, rtol=1e-10, atol=1e-12)


def test_the_energy_error_of_hmc_falls_with_the_cube_of_one_step():
    """1 - acceptance, on average over the sign of the error, goes with the local error of one leapfrog step."""
    x = start(2000)

    def error(step_size):
        kernel = HMC(step_size, 1)
        _, infos, _ = walk(NumPy, kernel, x, noise_of(kernel, x, 1))
        return np.mean(1 - infos[0].acceptance_probability)

    assert error(0.02) / error(0.01) == pytest.approx(8, rel=0.1)
