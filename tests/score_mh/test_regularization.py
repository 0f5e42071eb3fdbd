"""A larger lambda pulls the weights of two modes towards one half: Eq. 10 with a as a table, without any network."""

import numpy as np
import pytest
from scipy.optimize import minimize

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
