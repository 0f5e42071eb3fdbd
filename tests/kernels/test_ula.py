"""Unadjusted Langevin."""

import numpy as np

import xpsample as xps
from tests.kernels.support import CHAINS, NARROW, assert_variance, noise_of, score, start, walk
from xpsample.kernels import ULA


def test_ula_by_hand(library):
    x = start(50)
    noise = noise_of(ULA(0.1), x, 1)
    positions, _, _ = walk(library, ULA(0.1), x, noise)
    y = x + 0.1 * score(x) + np.sqrt(0.2) * noise["proposal"][0]
    np.testing.assert_allclose(positions[0], y, rtol=1e-12)


def test_the_bias_of_ula_is_as_documented():
    """v / (1 - eta / (2 v)) on N(0, v)."""
    x0 = np.zeros((CHAINS, 1))
    draws = xps.sample(NARROW, ULA(0.3), x0, 1, burn_in=30, seed=5).draws
    assert_variance(draws[-1], 0.5 / (1 - 0.3 / (2 * 0.5)))
