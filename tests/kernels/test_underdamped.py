"""Underdamped Langevin."""

import math

import numpy as np

import xpsample as xps
from tests.kernels.support import CHAINS, COVARIANCE, NARROW, assert_variance, noise_of, score, start, walk
from xpsample.kernels import UnderdampedLangevin


def test_underdamped_langevin_by_hand(library):
    """BAOAB with the mass written out, over three steps from rest."""
    x, h, friction, mass = start(50), 0.2, 1.5, COVARIANCE
    kernel = UnderdampedLangevin(h, friction, library.array(mass))
    noise = noise_of(kernel, x, 3)
    positions, _, _ = walk(library, kernel, x, noise)
    p, root, decay = np.zeros_like(x), np.linalg.cholesky(mass), math.exp(-h * friction)
    for t in range(3):
        p = p + h / 2 * score(x)
        x = x + h / 2 * np.linalg.solve(mass, p.T).T
        p = decay * p + math.sqrt(1 - decay**2) * noise["momentum"][t] @ root.T
        x = x + h / 2 * np.linalg.solve(mass, p.T).T
        p = p + h / 2 * score(x)
        np.testing.assert_allclose(positions[t], x, rtol=1e-10, atol=1e-12)


def test_baoab_is_unbiased_on_gaussians():
    x0 = np.zeros((CHAINS, 1))
    draws = xps.sample(NARROW, UnderdampedLangevin(0.8, friction=2.0), x0, 1, burn_in=60, seed=5).draws
    assert_variance(draws[-1], 0.5)
