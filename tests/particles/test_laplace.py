"""Laplace's method: closed forms, Newton's method by hand, and what its Gaussian serves as."""

import math

import numpy as np
import pytest
from array_api_compat import array_namespace

import xpsample as xps
from xpsample.core.errors import CapabilityError, ConvergenceWarning, LogDensityError

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
