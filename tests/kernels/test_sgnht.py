"""The stochastic gradient Nosé-Hoover thermostat."""

import math
import warnings

import numpy as np
import pytest

import xpsample as xps
from tests.kernels.support import noise_of, score, start, walk

MEANS = np.random.default_rng(0).normal(2.0, 1.0, size=(1000, 1))
POSTERIOR = xps.posterior(
    lambda x: -0.5 * np.sum(x**2, axis=-1),
    lambda x, rows: -0.5 * np.sum((rows - x[..., None, :]) ** 2, axis=(-2, -1)),
    MEANS,
    prior_score=lambda x: -x,
    likelihood_score=lambda x, rows: np.sum(rows - x[..., None, :], axis=-2),
)
"""A normal distribution with variance 1 / 1001; scores of batches of n rows have the variance 1000^2 var(rows) / n."""


def test_by_hand(library):
    """BADODAB from rest, over three steps, with a step size and a friction for each chain."""
    x, h, a = start(50), np.linspace(0.1, 0.4, 50), np.linspace(0.5, 3.0, 50)
    kernel = xps.SGNHT(library.array(h), library.array(a))
    noise = noise_of(kernel, x, 3)
    positions, _, _ = walk(library, kernel, x, noise)
    for chain in range(50):
        at, p, xi, dt = x[chain], np.zeros(3), a[chain], h[chain]
        for t in range(3):
            p = p + dt / 2 * score(at)
            at = at + dt / 2 * p
            xi = xi + dt / 2 * a[chain] ** 2 * (p @ p / 3 - 1)
            variance = a[chain] / xi * (1 - math.exp(-2 * xi * dt))
            p = math.exp(-xi * dt) * p + math.sqrt(variance) * noise["momentum"][t, chain]
            xi = xi + dt / 2 * a[chain] ** 2 * (p @ p / 3 - 1)
            at = at + dt / 2 * p
            p = p + dt / 2 * score(at)
            np.testing.assert_allclose(positions[t, chain], at, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("xi", [0.0, 4e-4])
def test_with_hardly_any_friction_the_noise_is_that_of_a_free_diffusion(library, xi):
    """At xi = 0 the variance of the Ornstein-Uhlenbeck step is 2 A h; the formula divides 0 by 0 there."""
    target = xps.Target(None, score=lambda x: 0.0 * x).prepare(library.array(np.zeros((1, 1))), xps.SGNHT(1).requires)
    kernel = xps.SGNHT(0.1, friction=0.5)
    state = kernel.init(target, library.array(np.zeros((1, 1))))
    # the momentum 1 leaves xi as it is in the first half step
    state = state._replace(momentum=library.array([[1.0]]), friction=library.array([xi]))
    new, _ = kernel.step(target, state, {"momentum": library.array([[2.0]])})
    variance = 2 * 0.5 * 0.1 * (1 - xi * 0.1)  # to first order
    p = math.exp(-0.1 * xi) + math.sqrt(variance) * 2.0
    np.testing.assert_allclose(library.host(new.momentum), [[p]], rtol=1e-8)
    np.testing.assert_allclose(library.host(new.friction), [xi + 0.05 * 0.25 * (p * p - 1)], rtol=1e-7)


def test_noisy_scores_do_not_change_the_variance():
    """With batches of 20 of 1,000 rows the friction settles at A + h V / 2; false alarms have a probability of 1e-7.

    The wrong twin has a constant friction, and 8 times the variance.
    """
    x0, noise, h = np.full((64, 1), 2.0), 1000**2 * np.var(MEANS) / 20, 0.003

    def scaled_variance(kernel):  # of each chain
        with warnings.catch_warnings(action="ignore"):
            trace = xps.sample(POSTERIOR, xps.Minibatch(kernel, 20), x0, 1000, seed=1, burn_in=1000)
        return trace, np.mean((trace.draws - MEANS.sum() / 1001) ** 2, axis=(0, 2)) * 1001

    trace, found = scaled_variance(xps.SGNHT(h, 10.0))
    error = np.std(found) / 8
    assert error < 0.05 and abs(np.mean(found) - 1) < 5.5 * error
    assert np.mean(trace.state.base.friction) == pytest.approx(10.0 + h * noise / 2, abs=5.5 * 10.0 / 8)
    _, wrong = scaled_variance(xps.UnderdampedLangevin(h, 10.0))
    assert np.mean(wrong) > 4


def test_a_thermostat_that_has_not_settled_is_named():
    """After 20 steps from rest the momenta are still hot."""
    with pytest.warns(xps.DiagnosisWarning, match="times as hot"):
        xps.sample(POSTERIOR, xps.Minibatch(xps.SGNHT(0.003, 10.0), 20), np.full((100, 1), 2.0), 20, seed=1)
