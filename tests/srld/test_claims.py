"""Bounds of the SRLD paper's Appendix E that do not hold as printed, on normal targets."""

import numpy as np
import pytest

from xpsample import RBF, ULA, sample
from xpsample.srld import SRLD, Thinned
from xpsample.zoo.gaussian import gaussian


def test_the_bound_of_the_moments_lacks_the_dimension():
    """Theorem E.2 on N(0, I), where a_1 = b_1 = 1 and K is at most 1.

    The noise adds 2 d to the derivative of the second moment (Ito). With d beside b_1 + 1 the bound holds.
    """
    dim, chains, eta, alpha, sigma = 20, 200, 0.05, 1e-3, 1.0
    x0 = 0.1 * np.random.default_rng(1).standard_normal((chains, dim))
    kernel = SRLD(ULA(eta), alpha, Thinned(2, 5), RBF(sigma))
    draws = sample(gaussian(np.eye(dim)), kernel, x0, 120, seed=2).draws
    moments = np.mean(np.sum(draws**2, axis=-1), axis=-1)
    rate = 1 - alpha * (2 + 4 / sigma)
    assert rate > 0  # the condition of the theorem
    start = np.mean(np.sum(x0**2, axis=-1))
    assert moments.max() > 5 * (start + (2 + eta) / rate)
    assert moments.max() < start + (2 + dim + eta) / rate


@pytest.mark.parametrize("size", [10.0, 100.0])
def test_a_step_of_langevin_dynamics_is_not_bounded_as_printed(size):
    """Lemma E.1 on V = 3 x^2 / 2, where a_1 = b_1 = 3: b_1 stands where its square belongs."""
    a, b, eta = 3.0, 3.0, 0.1
    after = (size - eta * b * size) ** 2
    assert after > (1 - 2 * eta * a + eta**2 * b) * size**2 + eta**2 * b + 2 * eta * b
    assert after <= (1 - 2 * eta * a + eta**2 * b**2) * size**2 + eta**2 * b**2 + 2 * eta * b
