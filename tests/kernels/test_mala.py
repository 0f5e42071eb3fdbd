"""MALA."""

import numpy as np

from tests.kernels.support import assert_metropolis, density, log_normal, noise_of, score, start, walk
from xpsample.kernels import MALA


def test_mala_by_hand(library):
    """With the Gaussian proposal densities written out."""
    x, eta = start(50), 0.3
    noise = noise_of(MALA(eta), x, 1)
    positions, infos, _ = walk(library, MALA(eta), x, noise)
    y = x + eta * score(x) + np.sqrt(2 * eta) * noise["proposal"][0]
    there, back = log_normal(y, x + eta * score(x), 2 * eta), log_normal(x, y + eta * score(y), 2 * eta)
    assert_metropolis(library, infos[0], positions[0], x, y, density(y) - density(x) + back - there, noise)
