"""What the SRMC experiments share: targets, and errors of means with their intervals."""

from argparse import Namespace

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.devices import device_dtypes
from xpsample.experiments.runner import Run, widest
from xpsample.experiments.srmc import problems as problems


@pytest.fixture
def run(tmp_path):
    """A run with seed 4, on NumPy."""
    return Run(None, Namespace(seed=4, out=tmp_path), widest(device_dtypes(["numpy"])))


def test_gaussians_are_those_stated():
    text = problems.decaying_gaussian(4000, 0)
    assert text.trace == pytest.approx(10) and text.start.shape == (4000, 10)
    assert np.linalg.cond(problems.decaying(0.9)) == pytest.approx(135.5, abs=0.05)
    code = problems.equicorrelated_gaussian(4000, 0)
    correlation = np.corrcoef(code.start.T)
    assert code.trace == pytest.approx(20) and correlation.shape == (20, 20)
    # Standard error of a correlation is (1 - 0.9^2) / sqrt(4000) = 0.003; six of them, 190 correlations: 4e-7.
    assert np.max(np.abs(correlation - 0.9 - 0.1 * np.eye(20))) < 0.018
    for problem in (text, code):  # the target is the one that the starts are drawn from
        spectrum = np.linalg.eigvalsh(np.linalg.inv(np.cov(problem.start.T)))
        np.testing.assert_allclose(xps.srmc.spectrum(problem.target, problem.start[:1]), spectrum, rtol=0.25)


def test_logistic_mean_is_that_of_importance_sampling(run):
    problem = problems.logistic(run, 20, 500)
    # Student proposals around the draws' mean: independent of the chain that made the reference.
    rng, nu, n = np.random.default_rng(1), 5, 200_000
    covariance = np.cov(problem.start.T) + 0.05 * np.eye(10)
    root = 1.2 * np.linalg.cholesky(covariance)
    t = rng.standard_normal((n, 10)) / np.sqrt(rng.chisquare(nu, n) / nu)[:, None]
    x = problem.mean + t @ root.T
    bound = problem.target.prepare(x, xps.targets.target.Capability.LOG_DENSITY)
    log_weight = bound.evaluate(x).log_density + 0.5 * (nu + 10) * np.log1p(np.sum(t**2, axis=-1) / nu)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    assert 1 / np.sum(weight**2) > 2000  # effective draws
    mean = weight @ x
    error = np.sqrt(weight**2 @ (x - mean) ** 2)
    # Ten comparisons at five standard errors (those of the reference are smaller by far): 6e-6.
    assert np.all(np.abs(mean - problem.mean) < 5 * error + 0.005)


@pytest.mark.filterwarnings("ignore::xpsample.core.errors.RepellenceWarning")
def test_errors_are_those_of_the_draws(run):
    problem = problems.decaying_gaussian(3, 0)
    kernel = xps.SRMC(xps.MALA(0.05), np.array([[0.0], [1.0]]), tilt=xps.Exact())
    found = problems.errors(run, problem, kernel, run.devices[0], (2,), 50)
    x0 = np.broadcast_to(problem.start, (2, 3, 10)).copy()
    draws = xps.sample(problem.target, kernel, x0, 50, seed=4, progress=False).draws[15:]
    np.testing.assert_allclose(found.squared, np.sum(draws.mean(axis=0) ** 2, axis=-1), rtol=1e-12)
    assert found.cost == 3


def test_intervals_cover_as_often_as_they_say():
    rng = np.random.default_rng(2)
    inside = 0
    for _ in range(300):
        base, ours = rng.chisquare(10, 100), 0.5 * rng.chisquare(10, 100)
        made = problems.compared(ours, base, resamples=500)
        inside += made["low"] <= 0.5 <= made["high"]
    assert 270 <= inside <= 297  # 285 expected of 0.95; both ends are beyond three standard deviations
    same = problems.compared(base, base)
    assert same["ratio"] == same["ratio_median"] == 1.0


def test_broken_chains_are_counted():
    squared = np.array([[0.1, 30.0, problems.HUGE, 0.1]])
    found = problems.Errors(squared, np.array([[0.9, 0.9, 0.0, 0.001]]), squared > 1e9, 1.0, 3.0, None)
    counts = problems.counted(found, (0,), 10.0)
    assert [counts[key] for key in ("far", "stuck", "broken", "diverged")] == [2, 2, 3, 1]
