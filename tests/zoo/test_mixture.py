"""Gaussian mixtures: closed forms, differences, far tails, every library, bad input."""

import numpy as np
import pytest

from xpsample import MALA, SRMC, Exact
from xpsample.core.errors import HyperparameterError
from xpsample.zoo.gaussian import gaussian
from xpsample.zoo.mixture import gaussian_mixture, smoothed_mixture

EVERYTHING = SRMC(MALA(0.1), alpha=1.0, tilt=Exact()).requires
WEIGHTS, MEANS, SDS = (
    np.array([0.5, 0.2, 0.3]),
    np.array([[-1.0, 0.0], [1.0, 0.5], [0.0, 2.0]]),
    np.array([0.3, 1.0, 0.6]),
)
X = np.random.default_rng(0).standard_normal((2, 4, 2))


def direct(x):
    """From the definition, one component at a time."""
    return np.log(
        sum(
            w * np.exp(-0.5 * np.sum((x - m) ** 2, axis=-1) / s**2) / (2 * np.pi * s**2)
            for w, m, s in zip(WEIGHTS, MEANS, SDS, strict=True)
        )
    )


def slope(function, x, v, h=1e-5):
    return (function(x + h * v) - function(x - h * v)) / (2 * h)


def test_density_is_the_definition_and_derivatives_are_its_differences():
    bound = gaussian_mixture(10 * WEIGHTS, MEANS, SDS).prepare(X, EVERYTHING)  # weights need not sum to 1
    point = bound.evaluate(X)
    np.testing.assert_allclose(point.log_density, direct(X), rtol=1e-12)
    for i in range(2):
        np.testing.assert_allclose(point.score[..., i], slope(direct, X, np.eye(2)[i]), rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(bound.score(X), point.score)
    v = np.random.default_rng(1).standard_normal(X.shape)
    np.testing.assert_allclose(bound.hvp(X, v), slope(bound.score, X, v), rtol=1e-6, atol=1e-6)


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


def test_every_library_gives_the_same_in_its_dtype(typed_library):
    target = gaussian_mixture(WEIGHTS, MEANS, SDS)
    here, x = target.prepare(X, EVERYTHING), typed_library.array(X)
    there, rtol = target.prepare(x, EVERYTHING), 1e-4 if typed_library.dtype == "float32" else 1e-12
    for mine, expected in (
        (there.evaluate(x).log_density, here.evaluate(X).log_density),
        (there.evaluate(x).score, here.evaluate(X).score),
        (there.hvp(x, x), here.hvp(X, X)),
    ):
        assert mine.dtype == x.dtype
        np.testing.assert_allclose(typed_library.host(mine), expected, rtol=rtol, atol=10 * rtol)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (([1.0], MEANS, SDS), "shape"),
        ((WEIGHTS, MEANS[0], SDS), "shape"),
        ((WEIGHTS, MEANS, SDS[:2]), "sds must be a number or have shape"),
        ((WEIGHTS - 0.2, MEANS, SDS), "weights must be positive"),
        ((WEIGHTS, MEANS, 0.0), "sds must be positive"),
        ((WEIGHTS, MEANS + np.inf, SDS), "means"),
    ],
)
def test_bad_input(arguments, match):
    with pytest.raises(HyperparameterError, match=match):
        gaussian_mixture(*arguments)
