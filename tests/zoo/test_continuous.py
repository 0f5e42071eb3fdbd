"""One table of targets on the reals: SciPy's densities, differences, every library, exact draws, what is refused."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.zoo.derivatives import EVERYTHING, check_density, check_hvp, check_libraries, check_moments, check_score
from xpsample.core.errors import HyperparameterError
from xpsample.zoo import curved, logistic, time_series
from xpsample.zoo.gaussian import conditioned_covariance, gaussian
from xpsample.zoo.mixture import gaussian_mixture, smoothed_mixture
from xpsample.zoo.moments import long_run_moments, normal_moments

stats = pytest.importorskip("scipy.stats")
RNG = np.random.default_rng(5)
FEATURES, LABELS = RNG.standard_normal((30, 3)), RNG.integers(2, size=30)
STUDENT, QUESTION, CORRECT = np.array([[0, 0, 1, 2, 2, 2, 3], [0, 2, 1, 0, 1, 2, 1], [1, 0, 1, 0, 0, 1, 1]])
OBSERVED = np.array([0.3, np.nan, -0.4, np.nan, 0.1])
RETURNS = np.array([0.3, -1.2, 0.02, 2.0])
WEIGHTS, SDS = np.array([0.5, 0.2, 0.3]), np.array([0.3, 1.0, 0.6])
MEANS = np.array([[-1.0, 0.0], [1.0, 0.5], [0.0, 2.0]])
ROTATED = conditioned_covariance(6, 1e3, rotation_seed=1)


# ---- log densities of one position, by SciPy, with the Jacobians of scales -------------------------------------------


def banana(x, curvature, scale):
    return stats.norm.logpdf(x[0], 0, scale) + stats.norm.logpdf(x[1], curvature * (x[0] ** 2 - scale**2), 1)


def brownian_motion(x, observed=OBSERVED):
    scales, path = np.logaddexp(0.0, x[:2]), x[2:]
    total = np.sum(stats.lognorm.logpdf(scales, s=2.0)) - np.sum(np.logaddexp(0.0, -x[:2]))
    total += np.sum(stats.norm.logpdf(path, np.concatenate([[0.0], path[:-1]]), scales[0]))
    seen = ~np.isnan(observed)
    return total + np.sum(stats.norm.logpdf(observed[seen], path[seen], scales[1]))


def funnel(x):
    return stats.norm.logpdf(x[0], 0, 3) + np.sum(stats.norm.logpdf(x[1:], 0, np.exp(x[0] / 2)))


def german_credit(x, features=FEATURES, labels=LABELS):
    n = features.shape[1]
    scales, w = np.exp(x[: n + 1]), x[n + 1 :]
    total = np.sum(stats.gamma.logpdf(scales, 0.5, scale=2.0)) + np.sum(x[: n + 1]) + np.sum(stats.norm.logpdf(w))
    logits = features @ (w * scales[1:] * scales[0])
    return total + np.sum(stats.logistic.logcdf(np.where(labels == 1, logits, -logits)))


def item_response(x, student=STUDENT, question=QUESTION, correct=CORRECT):
    mean, ability, difficulty = x[0], x[1 : student.max() + 2], x[student.max() + 2 :]
    total = stats.norm.logpdf(mean, 0.75) + np.sum(stats.norm.logpdf(x[1:]))
    logits = mean + ability[student] - difficulty[question]
    return total + np.sum(stats.logistic.logcdf(np.where(correct == 1, logits, -logits)))


def logistic_regression(x):
    logits = FEATURES @ x
    total = np.sum(stats.logistic.logcdf(np.where(LABELS == 1, logits, -logits)))
    return total + np.sum(stats.norm.logpdf(x, 0, 1.7))


def mixture(x):
    parts = [stats.multivariate_normal(m, s**2 * np.eye(2)).pdf(x) for m, s in zip(MEANS, SDS, strict=True)]
    return np.log(WEIGHTS @ parts)


def rosenbrock(x):
    u, v = np.split(x, 2)
    return np.sum(stats.norm.logpdf(u, 1, 1) + stats.norm.logpdf(v, u**2, np.sqrt(0.1)))


def stochastic_volatility(x, returns=RETURNS):
    s, sigma, nu = x[:-2], 0.02 * np.exp(x[-2]), 10 * np.exp(x[-1])
    total = stats.expon.logpdf(sigma, scale=0.02) + stats.expon.logpdf(nu, scale=10) + np.sum(x[-2:])
    total += np.sum(stats.norm.logpdf(s, np.concatenate([[0.0], s[:-1]]), sigma))
    return total + np.sum(stats.t.logpdf(returns, nu, scale=np.exp(s)))


class Case(NamedTuple):
    """A target, its log density by SciPy, and a function of a generator that gives positions."""

    target: Any
    direct: Callable[[np.ndarray], float]
    positions: Callable[[np.random.Generator], np.ndarray]


def normals(dim, scale=1.0):
    return lambda rng: scale * rng.standard_normal((12, dim))


def bananas(curvature, scale):
    target, direct = curved.banana(curvature, scale), partial(banana, curvature=curvature, scale=scale)
    return Case(target, direct, lambda rng: curved.bend(rng.standard_normal((12, 2)), curvature, scale))


CASES = {
    "banana": bananas(0.5, 1.0),
    "wide banana": bananas(0.03, 10.0),
    "straight banana": bananas(0.0, 2.0),
    "brownian motion": Case(time_series.brownian_motion(OBSERVED), brownian_motion, normals(7)),
    "funnel": Case(curved.funnel(), funnel, lambda rng: curved.funnel_draws(12, rng)),
    "german credit": Case(logistic.german_credit(FEATURES, LABELS), german_credit, normals(7)),
    "item response": Case(logistic.item_response(STUDENT, QUESTION, CORRECT), item_response, normals(8)),
    "logistic": Case(logistic.logistic_regression(FEATURES, LABELS, prior_scale=1.7), logistic_regression, normals(3)),
    "mixture": Case(gaussian_mixture(10 * WEIGHTS, MEANS, SDS), mixture, normals(2)),  # weights need not sum to 1
    "rosenbrock": Case(curved.rosenbrock(3), rosenbrock, lambda rng: curved.rosenbrock_draws(12, rng, 3)),
    "rotated gaussian": Case(
        gaussian(ROTATED),
        stats.multivariate_normal(np.zeros(6), ROTATED).logpdf,
        lambda rng: rng.multivariate_normal(np.zeros(6), ROTATED, size=12),
    ),
    "volatility": Case(time_series.stochastic_volatility(RETURNS), stochastic_volatility, normals(6, 0.5)),
}


@pytest.mark.parametrize("name", CASES)
def test_density_is_scipys_and_derivatives_are_its_differences(name):
    case, rng = CASES[name], np.random.default_rng(0)
    x = case.positions(rng)
    check_density(case.target, case.direct, x)
    x = (0.5 if name == "funnel" else 1.0) * x.reshape(4, 3, -1)
    check_score(case.target, x)
    if case.target.hvp is not None:
        check_hvp(case.target, x, rng.standard_normal(x.shape))


@pytest.mark.parametrize("name", ["funnel", "mixture", "rosenbrock"])
def test_density_is_normalised(name):
    case = CASES[name]
    x = case.positions(np.random.default_rng(1))
    found = case.target.prepare(x, EVERYTHING).evaluate(x).log_density
    np.testing.assert_allclose(found, [case.direct(one) for one in x], rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in CASES if " banana" not in name])
def test_every_library(name, typed_library):
    x = CASES[name].positions(np.random.default_rng(2))
    check_libraries(CASES[name].target, (0.5 if name == "funnel" else 1.0) * x.reshape(4, 3, -1), typed_library)


@pytest.mark.parametrize(("curvature", "scale"), [(0.5, 1.0), (0.03, 10.0), (0.0, 2.0)])
def test_moments_of_bananas_are_those_of_exact_draws(curvature, scale):
    z = np.random.default_rng(1).standard_normal((200_000, 2))
    x = curved.bend(z, curvature, scale)
    check_moments(curved.banana_moments(curvature, scale), x)
    np.testing.assert_allclose(curved.unbend(x, curvature, scale), z, atol=1e-12)


def test_moments_of_rosenbrock_are_those_of_exact_draws_and_the_published_ones():
    moments = curved.rosenbrock_moments(2)
    check_moments(moments, curved.rosenbrock_draws(200_000, np.random.default_rng(1), 2))
    np.testing.assert_allclose(moments.square, [2.0, 2.0, 10.10017429, 10.10017429], rtol=1e-4)
    # Those that are published are from draws.
    np.testing.assert_allclose(moments.square_variance[::2], [6.00036273, 668.69693635], rtol=2e-3)


def test_published_moments_of_the_wide_banana():
    """E x2^2 = 19 and the variance of x2^2, 4,600.898 by the benchmark's long run."""
    moments = curved.banana_moments(0.03, 10.0)
    np.testing.assert_allclose(moments.square, [100.0, 19.0])
    np.testing.assert_allclose(moments.square_variance, [20_000.0, 4600.898], rtol=0.003)


def test_moments_of_the_funnel():
    """Of the log variance by draws; of the others, whose tails are too wide for draws, by those of a log normal."""
    moments, draws = curved.funnel_moments(4), curved.funnel_draws(100_000, np.random.default_rng(1), 4)
    assert np.mean(draws[:, 0]) == pytest.approx(0.0, abs=5 * 3 / 316)
    assert np.mean(draws[:, 0] ** 2) == pytest.approx(moments.square[0], rel=5 * np.sqrt(2) / 316)
    assert moments.square_variance[0] == pytest.approx(2 * 81)
    scale = stats.lognorm(s=3.0)  # exp(x_1): E y^2 = E scale, E y^4 = 3 E scale^2
    np.testing.assert_allclose(moments.square[1:], scale.moment(1))
    np.testing.assert_allclose(moments.square_variance[1:], 3 * scale.moment(2) - scale.moment(1) ** 2)
    np.testing.assert_array_equal(moments.mean, 0.0)


@pytest.mark.parametrize(("name", "dim"), [("brownian-motion", 32), ("german-credit", 51), ("breast-cancer", 31)])
def test_moments_of_normals_and_of_long_runs(name, dim):
    moments = long_run_moments(name)
    assert all(part.shape == (dim,) for part in moments)
    assert np.all(moments.variance > 0) and np.all(moments.square_variance > 0)
    mean, sd = np.array([0.0, 3.0, -1.0]), np.array([1.0, 0.5, 2.0])
    draws = mean + sd * np.random.default_rng(0).standard_normal((200_000, 3))
    check_moments(normal_moments(mean, sd**2), draws)


@pytest.mark.parametrize(
    ("parameters", "x", "expected"),
    [
        (time_series.brownian_parameters, [0.0, -3.0, 1.0, 2.0], [np.log(2.0), np.log1p(np.exp(-3.0)), 1.0, 2.0]),
        (logistic.german_credit_parameters, [0.0, 1.0, -1.0, 3.0, 4.0], [1.0, np.e, 1 / np.e, 3.0, 4.0]),
        (time_series.volatility_parameters, [0.3, -0.2, 0.0, 1.0], [0.3, -0.2, 0.02, 10 * np.e]),
    ],
)
def test_parameters(parameters, x, expected):
    np.testing.assert_allclose(parameters(np.array([x])), [expected])


# ---- mixtures --------------------------------------------------------------------------------------------------------


def test_one_component_is_a_normal():
    x = np.random.default_rng(0).standard_normal((2, 4, 2))
    mixture = gaussian_mixture([1.0], MEANS[:1], 0.3).prepare(x, EVERYTHING)
    normal = gaussian(0.09 * np.eye(2), MEANS[0]).prepare(x, EVERYTHING)
    constant = np.log(2 * np.pi * 0.09)
    np.testing.assert_allclose(mixture.evaluate(x).log_density, normal.evaluate(x).log_density - constant, rtol=1e-12)
    np.testing.assert_allclose(mixture.evaluate(x).score, normal.evaluate(x).score, rtol=1e-12)
    np.testing.assert_allclose(mixture.hvp(x, x), normal.hvp(x, x), rtol=1e-12)


def test_smoothed_by_noise_the_variances_grow(library):
    """Weights, density and derivatives are those of the mixture with sds sqrt(sds^2 + sigma^2)."""
    x, v = (library.array(a) for a in np.random.default_rng(0).standard_normal((2, 2, 4, 2)))
    for sigma in (0.0, 0.8):
        smooth = smoothed_mixture(5 * WEIGHTS, MEANS, SDS, sigma).prepare(x, EVERYTHING)
        plain = gaussian_mixture(WEIGHTS, MEANS, np.hypot(SDS, sigma)).prepare(x, EVERYTHING)
        for a, b in zip(smooth.evaluate(x)[1:3], plain.evaluate(x)[1:3], strict=True):
            np.testing.assert_allclose(library.host(a), library.host(b), rtol=1e-11)
        np.testing.assert_allclose(library.host(smooth.hvp(x, v)), library.host(plain.hvp(x, v)), rtol=1e-10)


def test_far_away_only_the_widest_component_counts():
    """Where every component's density underflows, the widest one's normal remains."""
    x = 1e4 * np.array([[1.0, 1.0], [-1.0, 0.5]])
    bound = gaussian_mixture(WEIGHTS, MEANS, SDS).prepare(x, EVERYTHING)
    np.testing.assert_allclose(bound.evaluate(x).score, MEANS[1] - x, rtol=1e-12)
    np.testing.assert_allclose(bound.hvp(x, np.ones_like(x)), -np.ones_like(x), rtol=1e-6)
    assert np.all(np.isfinite(bound.evaluate(x).log_density))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: time_series.brownian_motion(np.zeros((2, 2))), r"observed has shape \(steps,\)"),
        (lambda: time_series.stochastic_volatility(np.zeros((2, 2))), r"returns have shape \(steps,\)"),
        (lambda: curved.funnel(1), "dim must be an integer of at least 2"),
        (lambda: conditioned_covariance(3, 0.5), "condition"),
        (lambda: logistic.german_credit(FEATURES), "labels"),
        (lambda: logistic.german_credit(None, LABELS), "labels"),
        (lambda: logistic.german_credit(FEATURES, LABELS[:-1]), "labels"),
        (lambda: logistic.german_credit(FEATURES[0], LABELS), "labels"),
        (lambda: logistic.logistic_regression(np.ones((3, 2)), np.ones(4)), r"\(3, 2\) and \(4,\)"),
        (lambda: logistic.logistic_regression(np.ones(3), np.ones(3)), "rows, dim"),
        (lambda: logistic.logistic_regression(np.ones((3, 2)), np.asarray([0, 1, 2])), "0 or 1"),
        (lambda: logistic.logistic_regression(np.ones((3, 2)), np.ones(3), 0.0), "prior_scale"),
        (lambda: gaussian_mixture([1.0], MEANS, SDS), "shape"),
        (lambda: gaussian_mixture(WEIGHTS, MEANS[0], SDS), "shape"),
        (lambda: gaussian_mixture(WEIGHTS, MEANS, SDS[:2]), "sds must be a number or have shape"),
        (lambda: gaussian_mixture(WEIGHTS - 0.2, MEANS, SDS), "weights must be positive"),
        (lambda: gaussian_mixture(WEIGHTS, MEANS, 0.0), "sds must be positive"),
        (lambda: gaussian_mixture(WEIGHTS, MEANS + np.inf, SDS), "means"),
        (lambda: smoothed_mixture(WEIGHTS, MEANS, SDS, -1.0), "sigma must be at least 0"),
        (lambda: logistic.item_response(STUDENT), "or none of them"),
        (lambda: logistic.item_response(STUDENT, QUESTION, CORRECT[:-1]), "or none of them"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(HyperparameterError, match=message):
        make()
