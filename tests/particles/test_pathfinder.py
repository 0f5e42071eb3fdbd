"""Pathfinder and Laplace: closed forms, every library, what is counted, and what is said of bad paths or weights."""

import math
import warnings

import numpy as np
import pytest
from array_api_compat import array_namespace

import xpsample as xps
from xpsample.core.errors import (
    CapabilityError,
    ConvergenceWarning,
    HyperparameterError,
    LogDensityError,
    PositionError,
)
from xpsample.gradients.choices import NativeGradient
from xpsample.particles.errors import LARGEST_INDEX
from xpsample.particles.gaussians import lower_bound
from xpsample.targets.point import Capability

SCALES = np.array([0.1, 1.0, 20.0])
LOG_Z = 1.5 * math.log(2 * math.pi) + np.sum(np.log(SCALES))


def gaussian(scales=SCALES, middle=0.0):
    def log_density(x, s):
        return -0.5 * array_namespace(x).sum(((x - middle) / s) ** 2, axis=-1)

    return xps.Target(log_density, score=lambda x, s: -(x - middle) / s**2, data=scales)


def two_modes(x):
    """Shares 0.3 and 0.7, at 4 and -4 in two coordinates."""
    near = -0.5 * np.sum((x - 4) ** 2, axis=-1) + math.log(0.3)
    return np.logaddexp(near, -0.5 * np.sum((x + 4) ** 2, axis=-1) + math.log(0.7))


def flat():
    return xps.Target(lambda x: 0.0 * x[..., 0], score=lambda x: 0.0 * x)


def endless():
    return xps.Target(
        lambda x: x[..., 0] - 0.5 * x[..., 1] ** 2,
        score=lambda x: np.stack([np.ones_like(x[..., 0]), -x[..., 1]], axis=-1),
    )


def half_line():
    """Gamma(3) in each coordinate, with a hard bound at 0."""

    def log_density(x):
        safe = np.where(x > 0, x, 1.0)
        return np.where(np.all(x > 0, axis=-1), np.sum(2 * np.log(safe) - safe, axis=-1), -np.inf)

    return xps.Target(log_density, score=lambda x: 2 / x - 1, constrained=True)


def fitted(target, x0, method=None):
    return (method or xps.Pathfinder()).fit(target, x0, seed=0)


def test_a_gaussian_is_found():
    """Its paths see all of it; the best ELBO is log Z, and so is the evidence, within four standard errors."""
    found = fitted(gaussian(), xps.start(gaussian(), np.ones(3), 8, seed=0))
    assert found.elbos.max() == pytest.approx(LOG_Z, abs=2e-3)
    np.testing.assert_allclose(found.mean, 0.0, atol=1e-3)
    np.testing.assert_allclose(np.sqrt(found.covariance.diagonal()), SCALES, rtol=0.02)
    np.testing.assert_allclose(found.mass.product(found.covariance.product(np.eye(3))), np.eye(3), atol=1e-8)
    value, error, _ = found.log_normalizer
    assert abs(value - LOG_Z) < 4 * error + 1e-6
    assert found.k_hat < LARGEST_INDEX and found.findings == () and found.left_out == 0
    assert found.evaluations.log_density > len(found.log_weights) == 1000


def test_one_dimension_and_one_path():
    """Of any scale: the curvature is known after one move. Then the weights are alike."""
    for scale in (1e-3, 1e4):
        found = fitted(gaussian(np.array([scale]), 3.0), np.array([[2.0]]))
        assert found.elbos[0] == pytest.approx(0.5 * math.log(2 * math.pi) + math.log(scale), abs=1e-6)
        assert found.k_hat == -math.inf


def test_starts_are_those_of_every_library(typed_library):
    """To rounding, which the path makes a few times larger; in chain axes as asked for."""
    like, method = np.ones(3), xps.Pathfinder(paths=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        expected = xps.start(gaussian(), like, (2, 3), seed=3, method=method)
        x0 = xps.start(gaussian(), typed_library.array(like), (2, 3), seed=3, method=method)
    assert x0.dtype == typed_library.array(like).dtype and tuple(x0.shape) == (2, 3, 3)
    rough = typed_library.dtype == "float32"
    np.testing.assert_allclose(typed_library.host(x0) / SCALES, expected / SCALES, atol=2e-2 if rough else 1e-8)


def test_two_modes_keep_their_shares():
    """However many paths reach each: 2 of 8 are in the smaller one. Of 2,000 starts within 4 standard errors."""
    target = xps.Target(two_modes, gradient=xps.FiniteDifference())
    paths = xps.start(target, np.zeros(2), 8, seed=0, scale=4.0)
    found = fitted(target, paths, xps.Pathfinder(draws=20_000))
    assert 0 < np.sum(found.means[:, 0] > 0) < 8
    assert found.log_normalizer.value == pytest.approx(math.log(2 * math.pi), abs=0.01)
    starts = found.starts(2000, seed=1)
    assert np.mean(starts[:, 0] > 0) == pytest.approx(0.3, abs=4 * math.sqrt(0.21 / 2000))
    assert len(np.unique(starts[:, 0])) == 2000


def test_a_hard_bound():
    """Draws beyond it have weight 0, and no start is there: the evidence is that of Gamma(3), 2 log 2."""
    x0 = xps.start(half_line(), np.ones(2), 8, seed=0)
    found = fitted(half_line(), np.vstack([x0, [[1e-9, 1.0]]]))  # the last one begins at the edge
    value, error, _ = found.log_normalizer
    assert abs(value - 2 * math.log(2)) < 4 * error < 0.3
    assert np.all(found.starts(100, seed=0) > 0)
    assert found.usable < len(found.log_weights)


def test_the_bound_of_a_gaussian_that_is_cut():
    """Cut to half of its draws it is twice as dense there; without any there is no bound."""
    log_p = np.array([[0.5, -np.inf, 0.5, np.nan], [-np.inf] * 4, [0.5] * 4])
    found = lower_bound(np, log_p, np.zeros((3, 4)))[:, 0]
    np.testing.assert_allclose(found, [0.5 - math.log(2), -np.inf, 0.5])


def test_a_density_without_a_mode_is_told_and_random_starts_stay():
    for target in (flat(), endless()):
        plain = xps.start(target, np.ones(2), 3, seed=5)
        with pytest.warns(ConvergenceWarning, match="8 of 8 paths .* the start positions are random ones"):
            x0 = xps.start(target, np.ones(2), 3, seed=5, method=xps.Pathfinder())
        np.testing.assert_array_equal(x0, plain)
        with pytest.raises(LogDensityError, match="2 of 2 paths of a start method led to no Gaussian"):
            fitted(target, np.ones((2, 2)))


def test_weights_that_are_not_to_be_trusted_are_told():
    def banana(x):
        return -0.5 * (x[..., 0] / 10) ** 2 - 0.5 * (x[..., 1] + 0.03 * (x[..., 0] ** 2 - 100)) ** 2

    target = xps.Target(banana, gradient=xps.FiniteDifference())
    with pytest.warns(ConvergenceWarning, match=r"k-hat .* is 0\.\d+, above 0\.7.*warm up .*docs: diagnosis#weights"):
        xps.start(target, np.zeros(2), 4, seed=0, method=xps.Pathfinder())


def test_evaluations_are_counted():
    """Those of one path are the calls of the user's functions, less those of the checks before."""
    calls = {"density": 0, "score": 0}

    def log_density(x):
        calls["density"] += math.prod(x.shape[:-1])
        return -0.5 * np.sum((x / SCALES) ** 2, axis=-1)

    def both(x):
        calls["score"] += math.prod(x.shape[:-1])
        return -0.5 * np.sum((x / SCALES) ** 2, axis=-1), -x / SCALES**2

    target = xps.Target(log_density, log_density_and_score=both)
    x0 = np.ones((1, 3))
    target.prepare(x0[:, None, :], Capability.LOG_DENSITY | Capability.SCORE)
    before = dict(calls)
    found = fitted(target, x0)
    assert found.evaluations.score == calls["score"] - 2 * before["score"] > 5
    densities = calls["density"] - 2 * before["density"]
    assert found.evaluations.log_density == densities + found.evaluations.score > 1000


def test_models_and_arrays():
    """Unconstrained coordinates of a model; the shape of an array."""

    def log_density(p):
        return -0.5 * p.mu**2 - p.tau

    model = xps.Model(log_density, mu=xps.Real(), tau=xps.Positive(), gradient=xps.FiniteDifference())
    x0 = model.start(np.zeros(0), 5, seed=0, method=xps.Pathfinder(paths=4))
    assert x0.shape == (5, 2) and np.all(model.values(x0).tau > 0)
    found = fitted(model, {"mu": np.zeros(3), "tau": np.array([0.5, 1.0, 2.0])})
    assert found.log_normalizer.value == pytest.approx(0.5 * math.log(2 * math.pi), abs=0.2)
    image = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=(-1, -2)), score=lambda x: -x, space=xps.Real(2, 3))
    assert xps.start(image, np.zeros((2, 3)), 4, seed=0, method=xps.Pathfinder(paths=2)).shape == (4, 2, 3)


def test_what_is_refused():
    target = gaussian()
    with pytest.raises(LogDensityError, match="not finite at the start positions"):
        fitted(half_line(), np.array([[-1.0, 1.0], [1.0, 1.0]]))
    with pytest.raises(CapabilityError, match="needs a log density and the target has only a score"):
        fitted(xps.Target(None, score=lambda x: -x), np.ones((2, 3)))
    with pytest.raises(PositionError, match=r"x0 has shape \(paths, dim\)"):
        fitted(target, np.ones(3))
    with pytest.raises(HyperparameterError, match="method must be a StartMethod, such as Pathfinder"):
        xps.start(target, np.ones(3), seed=0, method="pathfinder")
    with pytest.raises(PositionError, match="1001 chains need as many draws of positive density, and 1000 of 1000"):
        fitted(target, np.ones((1, 3))).starts(1001, seed=0)
    assert xps.start(target, np.ones(3), 300, seed=0, method=xps.Pathfinder(draws=10)).shape == (300, 3)


@pytest.mark.slow  # the message names the libraries that lend a derivative, which takes their import
def test_no_score():
    target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), gradient=NativeGradient())
    with pytest.raises(CapabilityError, match=r"or use gradient=FiniteDifference\(\); a Target also accepts score="):
        fitted(target, np.ones((2, 3)))


PRECISION = np.array([[4.0, 1.5, 0.0], [1.5, 1.0, 0.2], [0.0, 0.2, 25.0]])
MIDDLE = np.array([1.0, -2.0, 3.0])


def correlated():
    def score(x, data):
        return -(x - data[0]) @ data[1]

    def log_density(x, data):
        return 0.5 * array_namespace(x).sum((x - data[0]) * score(x, data), axis=-1)

    return xps.Target(log_density, score=score, hvp=lambda x, v, data: -v @ data[1], data=(MIDDLE, PRECISION))


def test_a_gaussian_is_exact(typed_library):
    """Mean, covariance and evidence, on every library: the weights are alike."""
    rough = typed_library.dtype == "float32"
    x0 = typed_library.array(np.zeros((2, 3)))
    found = xps.Laplace().fit(correlated(), x0, seed=0)
    np.testing.assert_allclose(typed_library.host(found.mean), MIDDLE, rtol=1e-5 if rough else 1e-10)
    covariance = typed_library.host(found.covariance)
    np.testing.assert_allclose(covariance, np.linalg.inv(PRECISION), rtol=1e-4 if rough else 1e-10, atol=1e-6)
    np.testing.assert_allclose(typed_library.host(found.mass), PRECISION, rtol=1e-3 if rough else 1e-8, atol=1e-4)
    exact = 1.5 * math.log(2 * math.pi) - 0.5 * np.linalg.slogdet(PRECISION)[1]
    assert found.log_normalizer.value == pytest.approx(exact, abs=1e-4 if rough else 1e-10)
    assert found.evaluations.hvp == 6 and found.left_out == 0


def test_a_logistic_regression_is_that_of_newtons_method():
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(60, 4)) * np.where(generator.random((60, 1)) < 0.5, -1.0, 1.0)
    target = xps.Target(
        lambda x: -np.sum(np.logaddexp(0.0, -x @ rows.T), axis=-1) - 0.5 * np.sum(x**2, axis=-1),
        gradient=xps.FiniteDifference(),
    )
    mode = np.zeros(4)
    for _ in range(30):
        p = 1 / (1 + np.exp(rows @ mode))
        precision = (rows.T * (p * (1 - p))) @ rows + np.eye(4)
        mode = mode + np.linalg.solve(precision, rows.T @ p - mode)
    found = xps.Laplace().fit(target, xps.start(target, np.zeros(4), 3, seed=0), seed=0)
    np.testing.assert_allclose(found.mean, mode, atol=1e-4)
    np.testing.assert_allclose(found.covariance, np.linalg.inv(precision), rtol=0.01, atol=1e-3)
    assert found.k_hat < 0.7


def test_what_its_gaussian_serves_as():
    """As an independence proposal it accepts all of a Gaussian; as a mass and a covariance kernels take it."""
    target = correlated()
    found = xps.Laplace(paths=2).fit(target, np.zeros((2, 3)), seed=0)
    x0 = found.starts(4, seed=1)
    trace = xps.sample(target, xps.IndependentMH(found.mean, found.covariance), x0, 500, seed=1)
    np.testing.assert_allclose(trace.run_statistics.acceptance_probability, 1.0, atol=1e-8)
    for kernel in (xps.HMC(0.3, 5, mass=found.mass), xps.MALA(0.3, preconditioner=found.covariance)):
        assert np.mean(xps.sample(target, kernel, x0, 50, seed=1).run_statistics.acceptance_probability) > 0.8


def test_paths_that_end_at_no_mode_are_left_out():
    """Of a saddle with one mode beside it: the paths that went up without end are left out, and the run says so."""

    def log_density(x):  # a mode at 0 for |x| < 1, and then up for ever
        return np.where(np.abs(x[..., 0]) < 1, -(x[..., 0] ** 2) / 2 + x[..., 0] ** 4 / 4, x[..., 0] ** 2 - 1.25)

    target = xps.Target(
        log_density,
        score=lambda x: np.where(np.abs(x) < 1, -x + x**3, 2 * x),
        hvp=lambda x, v: np.where(np.abs(x) < 1, 3 * x**2 - 1, 2.0) * v,
    )
    found = xps.Laplace().fit(target, np.array([[0.5], [-0.3], [2.0]]), seed=0)
    assert found.left_out == 1 and found.findings[0].kind == "paths"
    np.testing.assert_allclose(found.means, 0.0, atol=1e-4)
    flat = xps.Target(lambda x: 0.0 * x[..., 0], score=lambda x: 0.0 * x, hvp=lambda x, v: 0.0 * v)
    with pytest.warns(ConvergenceWarning, match="8 of 8 paths"):
        x0 = xps.start(flat, np.zeros(2), 3, seed=1, method=xps.Laplace())
    np.testing.assert_array_equal(x0, xps.start(flat, np.zeros(2), 3, seed=1))


def test_a_path_that_is_cut_short_or_at_a_saddle_is_left_out():
    """One step does not reach the mode of a Gaussian, and a saddle's curvatures are not all positive."""
    with pytest.raises(LogDensityError, match="1 of 1 paths"):
        xps.Laplace(steps=1).fit(correlated(), np.full((1, 3), 50.0), seed=0)
    hessian = np.array([[-1.0, -2.0], [-2.0, -1.0]])  # a ridge along (1, -1), which a path along (1, 1) does not see
    saddle = xps.Target(
        lambda x: 0.5 * np.sum((x @ hessian) * x, axis=-1), score=lambda x: x @ hessian, hvp=lambda x, v: v @ hessian
    )
    with pytest.raises(LogDensityError, match="1 of 1 paths"):
        xps.Laplace().fit(saddle, np.ones((1, 2)), seed=0)


def test_no_hessian(no_lender):
    target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    with pytest.raises(CapabilityError, match="or pass hvp="):
        xps.Laplace().fit(target, np.zeros((2, 3)), seed=0)
