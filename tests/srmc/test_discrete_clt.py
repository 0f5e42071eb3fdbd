"""Prop. 3.6: the central limit theorem on a finite space, by the discrete score, against three bits enumerated."""

from itertools import product

import numpy as np
import pytest

from xpsample import SRMC, Binary, Categorical, Draws, PowerLaw, Ratio, Record, SingleFlip, Target, Untilted, sample
from xpsample.srmc import Estimator, theory

FIELD = np.asarray([0.4, -0.3, 0.2])
STATES = np.asarray(list(product([0.0, 1.0], repeat=3)))
ALPHA = np.asarray([0.0, 0.5, 2.0])


def log_density(x):
    return x @ FIELD + 0.8 * x[..., 0] * x[..., 1]


def function(x):
    """Two that the discrete score does not span, and a product."""
    return np.stack([x[..., 0], x[..., 2], x[..., 0] * x[..., 1]], axis=-1)


LOG = log_density(STATES)
PI = np.exp(LOG) / np.exp(LOG).sum()
FLIPS = np.stack([np.arange(8) ^ bit for bit in (4, 2, 1)], axis=1)
SCORES = PI[FLIPS] / PI[:, None] - 1  # Eq. 17
"""Of every state, with the first bit as the leading one of its number."""


def covariance(values):
    centred = values - PI @ values
    return centred.T @ (PI[:, None] * centred)


def linearization():
    """S, C and the long-run covariance of (s, f) along the base chain, by its fundamental matrix."""
    matrix = np.zeros((8, 8))
    np.put_along_axis(matrix, FLIPS, np.minimum(1, PI[FLIPS] / PI[:, None]) / 3, axis=1)
    matrix += np.diag(1 - matrix.sum(axis=1))
    both = np.concatenate([SCORES, function(STATES)], axis=1)
    centred = both - PI @ both
    fundamental = np.linalg.inv(np.eye(8) - matrix + PI)
    lagged = centred.T @ (PI[:, None] * (fundamental @ centred))
    whole = covariance(both)
    return theory.Linearization(whole[:3, :3], whole[3:, :3], lagged + lagged.T - whole)


def test_the_discrete_score_has_mean_zero():
    np.testing.assert_allclose(PI @ SCORES, 0.0, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("rho", [1.0, 0.7])
def test_predicted_equals_measured_on_three_bits(rho):
    """Covariances of (theta, mu) after 1,500 steps of 1,500 chains of each alpha: 63 entries within 5 standard errors.

    A right run fails with probability below 4e-5. At alpha = 2 the variance of the first bit's mean
    is a third of the base kernel's.
    """
    chains, steps, schedule = 1500, 1500, PowerLaw(rho, offset=10.0)
    start = STATES[np.random.default_rng(1).choice(8, size=(3, chains), p=PI)]
    kernel = SRMC(SingleFlip(), ALPHA[:, None], schedule, tilt=Ratio())
    target = Target(log_density, space=Binary())
    trace = sample(target, kernel, start, steps, seed=2, recorders=(Estimator(function),))
    iterates = np.concatenate([trace.state.theta, trace.recorded["estimate"].weighted], axis=-1)
    gamma = (steps + 10.0) ** -rho
    measured = theory.measured_covariance(iterates, gamma)
    predicted = theory.iterate_covariance(linearization(), ALPHA, schedule, steps)
    i, j = np.triu_indices(6)
    apart = ((measured.covariance - predicted) / measured.error)[:, i, j]
    assert np.abs(apart).max() < 5


def test_a_run_without_repellence_gives_the_linearization():
    """As the page on the theory says: 400 chains of 400 draws."""
    start = STATES[np.random.default_rng(1).choice(8, size=400, p=PI)]
    kernel = SRMC(SingleFlip(), 0.0, tilt=Ratio())
    recorders = (Draws(), Record("scores", lambda state: state.score))
    target = Target(log_density, space=Binary())
    pilot = sample(target, kernel, start, 400, seed=3, recorders=recorders)
    found, exact = theory.estimate(function(pilot.draws), pilot.recorded["scores"]), linearization()
    for one, other, tolerance in zip(found[:3], exact[:3], (0.03, 0.03, 0.35), strict=True):
        np.testing.assert_allclose(one, other, atol=tolerance)


@pytest.mark.slow
def test_another_discrete_score_is_given_as_the_targets_own():
    """Eq. 17 is one option among many. Here three levels go round, s_i = pi(x_i + 1 mod 3) / pi(x) - 1, of mean 0 too.

    1,000 chains of 400 steps from the target: theta and the means of four functions are within 5 standard errors.
    """
    states = np.asarray(list(product([0.0, 1.0, 2.0], repeat=2)))

    def log_density(x):
        return 0.5 * x[..., 0] - 0.3 * x[..., 1] ** 2 + 0.4 * x[..., 0] * x[..., 1]

    def score(x):
        after = [np.stack([(x[..., j] + (i == j)) % 3 for j in range(2)], axis=-1) for i in range(2)]
        return np.stack([np.exp(log_density(y) - log_density(x)) - 1 for y in after], axis=-1)

    pi = np.exp(log_density(states)) / np.exp(log_density(states)).sum()
    np.testing.assert_allclose(pi @ score(states), 0.0, atol=1e-14)
    np.testing.assert_allclose(score(np.asarray([[2.0, 0.0]]))[0, 0], np.exp(-1.0) - 1)
    start = states[np.random.default_rng(1).choice(9, size=1000, p=pi)]
    target = Target(log_density, score=score, space=Categorical((0, 1, 2)))
    kernel = SRMC(SingleFlip(), 0.3, PowerLaw(0.8, offset=10.0), tilt=Untilted())
    trace = sample(target, kernel, start, 400, seed=5)
    moments = np.concatenate([trace.draws, trace.draws**2], axis=-1).mean(axis=0)
    found = np.concatenate([trace.state.theta, moments - pi @ np.concatenate([states, states**2], axis=-1)], axis=-1)
    assert np.all(np.abs(found.mean(axis=0)) < 5 * found.std(axis=0) / np.sqrt(1000))
