"""Metrics: what is left of a Gaussian's condition, by the diagonal and by the whole matrix."""

import numpy as np
import pytest

import xpsample as xps
from tests.adaptation.rules_support import gaussian, normals, rotated
from xpsample.adaptation.metric import DrawMoments, geometric_mean
from xpsample.core.covariance import as_covariance
from xpsample.core.errors import HyperparameterError
from xpsample.kernels import HMC, MALA, NUTS, RWM

PRECISION = rotated(10, 1000.0)


def left(matrix, precision, inverse=False):
    """The condition of a precision in units of a covariance, or of a mass."""
    matrix = np.diag(matrix) if np.ndim(matrix) == 1 else matrix
    values = np.linalg.eigvals(np.linalg.solve(matrix, precision) if inverse else matrix @ precision).real
    return np.max(values) / np.min(values)


def tuned(kernel, chains=32, warmup=None, precision=PRECISION):
    x0 = normals(chains, len(precision))
    return xps.sample(gaussian(precision), kernel, x0, 1, warmup=warmup, seed=xps.Portable(1), progress=False).kernel


FOUR = rotated(4, 100.0)
DENSE = {  # kernel, its metric, the precision, the condition that the whole matrix and the diagonal leave
    "HMC": (HMC, "mass", PRECISION, 3, 300),
    "NUTS": (NUTS, "mass", PRECISION, 3, 300),
    "MALA": (MALA, "preconditioner", PRECISION, 3, 300),
    "RWM, without scores": (RWM, "covariance", FOUR, 5, 20),
}


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(("kernel", "name", "precision", "whole", "diagonal"), DENSE.values(), ids=DENSE)
def test_what_is_left_of_the_condition(kernel, name, precision, whole, diagonal):
    def condition(rule):
        found = tuned(kernel(**rule), warmup=120 if name == "mass" else None, precision=precision)
        return left(getattr(found, name), precision, inverse=name == "mass")

    assert condition({name: xps.DenseMetric()}) < whole
    assert condition({}) > diagonal
    if kernel is MALA:  # a twin: the inverse of what it should be
        assert condition({name: xps.DenseMetric(inverse=True)}) > diagonal


def test_a_run_that_is_dense_has_the_moments():
    trace = xps.sample(gaussian(PRECISION), HMC(mass=xps.DenseMetric()), normals(64, 10), 200, seed=1, progress=False)
    # 64 chains of 200 draws, and half of them at least count: variances are known to 2 %.
    found = np.mean(trace.draws**2, axis=(0, 1))
    np.testing.assert_allclose(found, np.diag(np.linalg.inv(PRECISION)), rtol=0.1)
    assert trace.run_statistics.evaluations["score"] < 5


@pytest.mark.parametrize("mass", [xps.DiagonalMetric(), xps.DenseMetric()], ids=repr)
def test_the_last_three_tenths_of_a_warm_up_leave_the_metric_as_it_is(mass):
    """The step size is tuned for the metric of the run."""
    warm_up, x0 = 200, normals(8, 10)
    trace = xps.sample(gaussian(PRECISION), HMC(steps=3, mass=mass), x0, 1, warmup=warm_up, seed=1, progress=False)
    course = trace.warmup["HMC.mass"].reshape(warm_up, -1)
    moves = np.flatnonzero(np.any(np.diff(course, axis=0) != 0, axis=1)) + 2  # number of the step, from 1
    assert len(moves) > 10 and moves[-1] <= 0.7 * warm_up


@pytest.mark.slow
def test_scales_without_scores_are_found_from_a_bad_start():
    variance = np.geomspace(1e-4, 1e4, 5)
    kernel = tuned(RWM(), chains=4, precision=np.diag(1 / variance))
    assert left(kernel.covariance, np.diag(1 / variance)) < 10
    one = xps.DiagonalMetric(scores=False).patience, xps.DiagonalMetric().patience
    assert one == (4.0, 1.0)


def test_a_matrix_for_each_group_is_checked():
    stack = np.stack([np.eye(2), 2 * np.eye(2)])
    covariance = as_covariance("mass", stack)
    v = normals(2, 5, 2)
    np.testing.assert_allclose(covariance.product(v), v * np.asarray([1.0, 2.0])[:, None, None])
    np.testing.assert_allclose(covariance.whiten(covariance.root(v)), v)
    with pytest.raises(HyperparameterError, match="mass must be positive definite"):
        as_covariance("mass", -stack)
    with pytest.raises(HyperparameterError, match="does not fit the positions"):
        xps.sample(gaussian(np.eye(2)), HMC(0.1, 2, mass=stack), np.zeros((3, 5, 2)), 1, seed=1)


def test_the_geometric_mean_of_two_matrices():
    """S b S = a, for matrices whose factors do not commute."""
    a, b = (np.stack([rotated(4, 50.0, seed) for seed in seeds]) for seeds in ((1, 2), (3, 4)))
    mean = geometric_mean(np, a, b)
    np.testing.assert_allclose(mean @ b @ mean, a, atol=1e-9)


def test_what_the_identity_counts_for_without_scores():
    """Correlations of n draws have the weight n / (n + 5 + dim)."""
    draws = normals(20, 4) @ np.linalg.cholesky(rotated(4, 100.0))
    centered = draws - draws.mean(axis=0)
    moments = DrawMoments(np.asarray(20.0), draws.mean(axis=0)[None], centered.T @ centered, None, None)
    root = xps.DenseMetric(scores=False)._root(np, moments)
    found = root @ root.T / np.sqrt(np.diag(root @ root.T)[:, None] * np.diag(root @ root.T))
    expected = np.eye(4) + (np.ones((4, 4)) - np.eye(4)) * 20 / (20 + 5 + 4) * np.corrcoef(draws.T)
    np.testing.assert_allclose(found, expected, atol=0.02)
