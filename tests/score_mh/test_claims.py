"""Claims of Score-MH: the gap of the loss of N pairs (Prop. 2), and what a larger lambda does (Eq. 10)."""

import math

import numpy as np
import pytest
from array_api_compat import array_namespace
from scipy.optimize import minimize

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


HEAVY, CELLS = 0.7, 17
GRID = np.linspace(-4, 4, CELLS)
STEP = GRID[1] - GRID[0]
LIGHT_MODE, HEAVY_MODE = (np.exp(-0.5 * ((GRID - mean) / 0.7) ** 2) for mean in (-2, 2))
P = (1 - HEAVY) * LIGHT_MODE + HEAVY * HEAVY_MODE
P /= P.sum()
Q = np.exp(-0.5 * ((GRID[:, None] - GRID) / 3) ** 2)
Q /= Q.sum(axis=0)  # Q[i, j] proposes cell i from cell j
LOG_RATIO = np.log(P[:, None] * Q.T) - np.log(P * Q)
WEIGHTS = Q * P
BETWEEN = (WEIGHTS[1:] + WEIGHTS[:-1]) / 2, (WEIGHTS[:, 1:] + WEIGHTS[:, :-1]) / 2


def loss(logits, strength):
    """Eq. 10 with differences of cells for gradients, and its gradient in the logits of a(x', x)."""
    logits = logits.reshape(CELLS, CELLS)
    log_a, log_rest = -np.logaddexp(0, -logits), -np.logaddexp(0, logits)
    a = np.exp(log_a)
    residual = log_a - log_a.T - LOG_RATIO
    slopes = np.diff(residual, axis=0) / STEP, np.diff(residual, axis=1) / STEP
    value = sum(np.sum(w * slope**2) for w, slope in zip(BETWEEN, slopes, strict=True))
    value += strength * np.sum(WEIGHTS * (a * log_a + (1 - a) * log_rest))
    back = np.zeros_like(logits)
    down, right = (2 * w * slope / STEP for w, slope in zip(BETWEEN, slopes, strict=True))
    back[1:] += down
    back[:-1] -= down
    back[:, 1:] += right
    back[:, :-1] -= right
    return value, ((back - back.T) * (1 - a) + strength * WEIGHTS * logits * a * (1 - a)).ravel()


def mass_of_the_heavy_mode(strength):
    """In the stationary distribution of Metropolis-Hastings with the ratio a(x', x) / a(x, x') that is learned."""
    options = {"maxiter": 1500, "maxfun": 4000, "ftol": 1e-14, "gtol": 1e-9, "maxcor": 50}
    found = minimize(loss, np.zeros(CELLS**2), (strength,), "L-BFGS-B", jac=True, options=options)
    log_a = -np.logaddexp(0, -found.x.reshape(CELLS, CELLS))
    moves = Q * np.exp(np.minimum(0, log_a - log_a.T))
    np.fill_diagonal(moves, 0)
    moves += np.diag(1 - moves.sum(axis=0))
    stationary = np.linalg.matrix_power(moves, 2**20) @ P
    return stationary[GRID > 0].sum() + 0.5 * stationary[GRID == 0].sum()


@pytest.mark.parametrize(("strength", "mass"), [(0.0, 0.699), (1.0, 0.653), (4.0, 0.566), (30.0, 0.489)])
def test_a_larger_lambda_pulls_the_weights_of_two_modes_to_one_half(strength, mass):
    """The table of the page; the right weights are 0.3 and 0.7."""
    assert mass_of_the_heavy_mode(strength) == pytest.approx(mass, abs=0.002)


def test_the_gradient_of_the_loss_is_its_difference():
    rng = np.random.default_rng(0)
    at, along = rng.normal(size=(2, CELLS**2))
    difference = (loss(at + 1e-5 * along, 3.0)[0] - loss(at - 1e-5 * along, 3.0)[0]) / 2e-5
    assert loss(at, 3.0)[1] @ along == pytest.approx(difference, rel=1e-6)
