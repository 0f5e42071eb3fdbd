"""Prop. 2 of Score-MH: how far the loss of N pairs is from its expectation, over a class of acceptances.

The class has six functions, log a = log sigmoid(log r) + sin(w x'_1) for the w below. What the sine adds to the
residual is known, and so is the expected loss, in closed form.
"""

import math

import numpy as np
from array_api_compat import array_namespace

from tests.score_mh.gaussians import GAUSSIAN, MEAN, PRECISION, barker, score
from xpsample.score_mh import RandomWalk, balance_residual, log_sigmoid

WAVES = np.array([0.5, 0.8, 1.2, 1.7, 2.3, 3.0])
SIGMA = 0.8
RUNS, SIZES = 200, (50, 200, 800)
MOST = 2.0 * WAVES.max() ** 2
"""The largest loss of a pair."""


def losses(x_new, x, wave):
    """The loss of each pair, by the library."""

    def log_acceptance(x_new, x, p):
        xp = array_namespace(x)
        return log_sigmoid(barker(RandomWalk(SIGMA))(x_new, x, p)) + xp.sin(wave * x_new[..., 0])

    residual = balance_residual(log_acceptance, x_new, x, (GAUSSIAN,), score, (GAUSSIAN,), RandomWalk(SIGMA))
    return np.sum(residual**2, axis=-1)


def pairs(rng, *shape):
    x = MEAN + rng.standard_normal((*shape, 2)) @ np.linalg.cholesky(np.linalg.inv(PRECISION)).T
    return x + SIGMA * rng.standard_normal(x.shape), x


def expected_losses():
    """w^2 E [cos^2(w x'_1) + cos^2(w x_1)] for each w, with both normal around the mean."""
    variance = np.linalg.inv(PRECISION)[0, 0]
    cosines = [np.cos(2 * WAVES * MEAN[0]) * np.exp(-2 * WAVES**2 * v) for v in (variance, variance + SIGMA**2)]
    return WAVES**2 * (1 + 0.5 * sum(cosines))


def wave_losses(x_new, x):
    """What `losses` is, written out: (functions, ...)."""
    w = WAVES.reshape(-1, *(1,) * (x.ndim - 1))
    return w**2 * (np.cos(w * x_new[..., 0]) ** 2 + np.cos(w * x[..., 0]) ** 2)


def test_the_loss_of_the_library_is_the_one_written_out():
    x_new, x = pairs(np.random.default_rng(0), 100)
    found = [losses(x_new, x, float(wave)) for wave in WAVES]
    np.testing.assert_allclose(found, wave_losses(x_new, x), atol=1e-6)


def test_the_gap_of_the_empirical_loss_falls_as_one_over_the_root():
    """Its largest value over the class: the rate, and a bound for six functions that fails with probability 1e-3."""
    rng, gaps = np.random.default_rng(1), []
    for size in SIZES:
        empirical = np.mean(wave_losses(*pairs(rng, RUNS, size)), axis=-1)
        gap = np.max(np.abs(empirical - expected_losses()[:, None]), axis=0)
        # Hoeffding for each function, over all runs and sizes together.
        allowed = MOST * math.sqrt(math.log(2 * len(WAVES) * RUNS * len(SIZES) / 1e-3) / (2 * size))
        assert np.all(gap < allowed)
        gaps.append(np.mean(gap))
    slope = np.polyfit(np.log(SIZES), np.log(gaps), 1)[0]
    assert abs(slope + 0.5) < 0.06
