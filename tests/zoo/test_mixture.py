"""Gaussian mixtures: one component, smoothing, far tails; what all targets share is in `test_continuous.py`."""

import numpy as np
import pytest

from tests.zoo.derivatives import EVERYTHING
from tests.zoo.test_continuous import MEANS, SDS, WEIGHTS
from xpsample.core.errors import HyperparameterError
from xpsample.zoo.gaussian import gaussian
from xpsample.zoo.mixture import gaussian_mixture, smoothed_mixture

X = np.random.default_rng(0).standard_normal((2, 4, 2))


def test_one_component_is_a_normal():
    mixture = gaussian_mixture([1.0], MEANS[:1], 0.3).prepare(X, EVERYTHING)
    normal = gaussian(0.09 * np.eye(2), MEANS[0]).prepare(X, EVERYTHING)
    constant = np.log(2 * np.pi * 0.09)
    np.testing.assert_allclose(mixture.evaluate(X).log_density, normal.evaluate(X).log_density - constant, rtol=1e-12)
    np.testing.assert_allclose(mixture.evaluate(X).score, normal.evaluate(X).score, rtol=1e-12)
    np.testing.assert_allclose(mixture.hvp(X, X), normal.hvp(X, X), rtol=1e-12)


def test_smoothed_by_noise_the_variances_grow(library):
    """Weights, density and derivatives are those of the mixture with sds sqrt(sds^2 + sigma^2)."""
    x, v = library.array(X), library.array(X[::-1] + 0.3)
    for sigma in (0.0, 0.8):
        smooth = smoothed_mixture(5 * WEIGHTS, MEANS, SDS, sigma).prepare(x, EVERYTHING)
        plain = gaussian_mixture(WEIGHTS, MEANS, np.hypot(SDS, sigma)).prepare(x, EVERYTHING)
        for a, b in zip(smooth.evaluate(x)[1:3], plain.evaluate(x)[1:3], strict=True):
            np.testing.assert_allclose(library.host(a), library.host(b), rtol=1e-11)
        np.testing.assert_allclose(library.host(smooth.hvp(x, v)), library.host(plain.hvp(x, v)), rtol=1e-10)
    with pytest.raises(HyperparameterError, match="sigma must be at least 0"):
        smoothed_mixture(WEIGHTS, MEANS, SDS, -1.0)


def test_far_away_only_the_widest_counts():
    """Where every component's density underflows, the widest one's normal remains."""
    x = 1e4 * np.array([[1.0, 1.0], [-1.0, 0.5]])
    bound = gaussian_mixture(WEIGHTS, MEANS, SDS).prepare(x, EVERYTHING)
    np.testing.assert_allclose(bound.evaluate(x).score, MEANS[1] - x, rtol=1e-12)
    np.testing.assert_allclose(bound.hvp(x, np.ones_like(x)), -np.ones_like(x), rtol=1e-6)
    assert np.all(np.isfinite(bound.evaluate(x).log_density))
