"""Stochastic volatility: SciPy's prior and Student's t, derivatives, the published data and moments."""

import numpy as np
import pytest

from tests.zoo.derivatives import check_density, check_libraries, check_score
from xpsample.core.errors import HyperparameterError
from xpsample.zoo.data import load_dataset
from xpsample.zoo.time_series import stochastic_volatility, volatility_moments, volatility_parameters

stats = pytest.importorskip("scipy.stats")
RETURNS = np.array([0.3, -1.2, 0.02, 2.0])


def reference(x, returns=RETURNS):
    """The joint density in sigma and nu, and the Jacobian of the exponentials."""
    s, sigma, nu = x[:-2], 0.02 * np.exp(x[-2]), 10 * np.exp(x[-1])
    total = stats.expon.logpdf(sigma, scale=0.02) + stats.expon.logpdf(nu, scale=10) + np.sum(x[-2:])
    total += np.sum(stats.norm.logpdf(s, np.concatenate([[0.0], s[:-1]]), sigma))
    return total + np.sum(stats.t.logpdf(returns, nu, scale=np.exp(s)))


def test_density_and_score():
    x = 0.5 * np.random.default_rng(0).standard_normal((4, 3, 6))
    target = stochastic_volatility(RETURNS)
    check_density(target, reference, x.reshape(-1, 6))
    check_score(target, x)


def test_parameters():
    x = np.array([[0.3, -0.2, 0.0, 1.0]])
    np.testing.assert_allclose(volatility_parameters(x), [[0.3, -0.2, 0.02, 10 * np.e]])


def test_the_published_data_and_moments(data_folder):
    moments, x = volatility_moments(), 0.1 * np.random.default_rng(1).standard_normal((2, 2429))
    returns = np.asarray(load_dataset("targets/stochastic_volatility")["returns"], dtype=np.float64)
    check_density(stochastic_volatility(), lambda one: reference(one, returns), x)
    check_score(stochastic_volatility(), x, [0, 1, 1000, 2426, 2427, 2428], rtol=1e-5)
    assert all(part.shape == (2429,) for part in moments) and np.all(np.isnan(moments.mean))
    assert 0.02**2 / 10 < moments.square[-2] < 0.1**2 and 4 < moments.square[-1] < 40**2


def test_libraries(typed_library):
    x = 0.5 * np.random.default_rng(2).standard_normal((2, 3, 6))
    check_libraries(stochastic_volatility(RETURNS), x, typed_library)


def test_what_is_refused():
    with pytest.raises(HyperparameterError, match=r"returns have shape \(steps,\)"):
        stochastic_volatility(np.zeros((2, 2)))
