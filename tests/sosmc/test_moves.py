"""Moves: their incremental weights against Eq. 8 from explicit densities, one step by hand, and wrong ones."""

import math

import numpy as np
import pytest
from array_api_compat import array_namespace
from scipy.stats import norm

from tests.sosmc.sosmc_support import Along, noise_of, nothing, walk
from xpsample import HMC, MALA, RWM
from xpsample.core.errors import HyperparameterError
from xpsample.sosmc import SOSMC, LangevinMove, Reversible, SingleChain, UnderdampedMove, Unweighted
from xpsample.targets import Parametric

PARTICLES, DIM, VELOCITY = 30, 2, 0.3
START = np.asarray(0.4)
X = np.random.default_rng(0).normal(size=(PARTICLES, DIM))


def log_density(x, theta):
    """Neither Gaussian nor normalised."""
    xp = array_namespace(x)
    return -xp.sum(0.25 * x**4 - theta * xp.sin(x), axis=-1)


def score(x, theta):
    return -(x**3) + theta * array_namespace(x).cos(x)


FAMILY = Parametric(log_density, START, score=score)


def drifted(target, point):
    """A drift that is no score of anything."""
    xp = array_namespace(point.x)
    return 0.5 * point.score - xp.flip(point.x, axis=-1)


def one_step(library, move, threshold=0.0):
    kernel = SOSMC(nothing, move, Along(VELOCITY), threshold=threshold)
    noise = noise_of(kernel, X, 1)
    (before, after), _ = walk(library, kernel, FAMILY, X, noise)
    return before, after, {name: rows[0] for name, rows in noise.items()}


@pytest.mark.parametrize(
    ("sigma", "drift"), [(1.0, None), (0.6, None), (0.6, drifted)], ids=["langevin", "scaled", "drifted"]
)
def test_langevin_weights_are_the_ratio_of_eq_8(library, sigma, drift):
    gamma, theta = 0.05, (0.4, 0.4 + VELOCITY)
    _, after, noise = one_step(library, LangevinMove(gamma, sigma, drift))

    def drift_at(x, t):
        s = score(x, t)
        return s if drift is None else 0.5 * s - x[:, ::-1]

    def log_kernel(x, y, t):
        return np.sum(norm.logpdf(y, x + gamma * drift_at(x, t), math.sqrt(2 * gamma) * sigma), axis=-1)

    new = X + gamma * drift_at(X, theta[0]) + math.sqrt(2 * gamma) * sigma * noise["proposal"]
    np.testing.assert_allclose(library.host(after.point.x), new, rtol=1e-12)
    log_g = log_density(new, theta[1]) + log_kernel(new, X, theta[1])
    log_g -= log_density(X, theta[0]) + log_kernel(X, new, theta[0])
    found = library.host(after.weights.logs) + library.host(after.weights.log_normalizer)
    np.testing.assert_allclose(found, log_g - math.log(PARTICLES), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(library.host(after.point.log_density), log_density(new, theta[1]), rtol=1e-12)
    # The compact form of Algorithm 2, for the score as drift.
    if drift is None:

        def alpha(x, y, t):
            gradient = -score(x, t)
            along = np.sum((y - x) * gradient, axis=-1) / (2 * sigma**2)
            return -log_density(x, t) + along + gamma / (4 * sigma**2) * np.sum(gradient**2, axis=-1)

        np.testing.assert_allclose(log_g, alpha(X, new, theta[0]) - alpha(new, X, theta[1]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kernel", [RWM(0.4), MALA(0.1), HMC(0.2, 2)], ids=["RWM", "MALA", "HMC"])
def test_reversible_weights_are_taken_before_the_move(library, kernel):
    _, after, noise = one_step(library, kernel)
    log_g = log_density(X, 0.4 + VELOCITY) - log_density(X, 0.4)
    found = library.host(after.weights.logs) + library.host(after.weights.log_normalizer)
    np.testing.assert_allclose(found, log_g - math.log(PARTICLES), rtol=1e-9, atol=1e-9)
    # The move is the kernel's own on the member at the new parameter.
    member = Parametric(log_density, np.asarray(0.4 + VELOCITY), score=score)
    bound = member.prepare(library.array(X), kernel.requires)
    own = {name: library.array(rows) for name, rows in noise.items()}
    moved, info = kernel.step(bound, kernel.init(bound, library.array(X)), own)
    np.testing.assert_allclose(library.host(after.point.x), library.host(moved.point.x), rtol=1e-12)
    assert 0 < np.sum(library.host(info.moved)) < PARTICLES


def test_without_weights_only_the_weights_differ(library):
    weighted, plain = (one_step(library, m)[1] for m in (LangevinMove(0.05), Unweighted(LangevinMove(0.05))))
    np.testing.assert_array_equal(library.host(plain.point.x), library.host(weighted.point.x))
    assert np.ptp(library.host(plain.weights.logs)) == 0 < np.ptp(library.host(weighted.weights.logs))
    reversible = one_step(library, Unweighted(Reversible(RWM(0.4))))[1]
    assert np.ptp(library.host(reversible.weights.logs)) == 0


@pytest.mark.parametrize("move", [LangevinMove(0.05), UnderdampedMove(0.3)], ids=["langevin", "underdamped"])
def test_a_particle_that_leaves_the_finite_numbers_stays_with_weight_0(library, move):
    x = np.concatenate([X, [[1e70, 0.0]]])
    kernel = SOSMC(nothing, move, Along(VELOCITY), threshold=0.0)
    bound = FAMILY.prepare(library.array(x), kernel.requires)
    noise = {name: library.array(rows[0]) for name, rows in noise_of(kernel, x, 1).items()}
    state = kernel.init(bound, library.array(x))
    with np.errstate(all="ignore"):
        for _ in range(2):
            state, info = kernel.step(bound, state, noise)
    weights = np.exp(library.host(state.weights.logs))
    assert weights[-1] == 0 and np.all(weights[:-1] > 0) and np.sum(weights) == pytest.approx(1.0)
    assert library.host(state.point.x)[-1, 0] == 1e70
    np.testing.assert_array_equal(library.host(info.diverged), np.arange(len(x)) == PARTICLES)


def test_a_drift_is_evaluated_once_a_step_and_one_that_is_no_number_stops_the_particle():
    calls = []

    def drift(target, point):
        calls.append(point.x)
        return np.where(np.abs(point.x) > 2.0, np.nan, point.score)

    x = X[np.all(np.abs(X) < 1.5, axis=-1)]
    kernel = SOSMC(nothing, LangevinMove(0.1, drift=drift), Along(VELOCITY), threshold=0.0)
    bound = FAMILY.prepare(x, kernel.requires)
    state, stopped = kernel.init(bound, x), 0
    noise = noise_of(kernel, x, 20)
    for k in range(20):
        before = state
        state, info = kernel.step(bound, state, {name: rows[k] for name, rows in noise.items()})
        assert np.all(np.abs(state.point.x) <= 2.0) and not np.any(np.isnan(state.weights.logs))
        assert np.all(state.point.x[info.diverged] == before.point.x[info.diverged])
        stopped += np.sum(info.diverged)
    assert len(calls) == 21 and stopped > 0


def test_underdamped_weights_are_those_of_the_reversed_dynamics(library):
    """From the end the way back, with the momentum turned round, leads to where it began, and keeps volumes."""
    h, friction, thetas = 0.3, 0.8, (0.4, 0.4 + VELOCITY, 0.4 + 2 * VELOCITY)
    kernel = SOSMC(nothing, UnderdampedMove(h, friction), Along(VELOCITY), threshold=0.0)
    noise = noise_of(kernel, X, 2)
    states, _ = walk(library, kernel, FAMILY, X, noise)
    decay, x, p, log_g = 0.0, X, 0 * X, 0.0  # all of the first momentum is drawn
    for k in range(2):
        p = decay * p + math.sqrt(1 - decay**2) * noise["momentum"][k]
        half = p + h / 2 * score(x, thetas[k])
        new = x + h * half
        end = half + h / 2 * score(new, thetas[k + 1])
        back = -end + h / 2 * score(new, thetas[k + 1])
        np.testing.assert_allclose(new + h * back, x, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(back + h / 2 * score(x, thetas[k]), -p, rtol=1e-12, atol=1e-12)
        log_g += log_density(new, thetas[k + 1]) + np.sum(norm.logpdf(end), axis=-1)
        log_g -= log_density(x, thetas[k]) + np.sum(norm.logpdf(p), axis=-1)
        decay, x, p = math.exp(-h * friction), new, end
    np.testing.assert_allclose(library.host(states[-1].point.x), x, rtol=1e-12)
    np.testing.assert_allclose(library.host(states[-1].base.momentum), p, rtol=1e-12)
    found = library.host(states[-1].weights.logs) + library.host(states[-1].weights.log_normalizer)
    np.testing.assert_allclose(found, log_g - math.log(PARTICLES), rtol=1e-9, atol=1e-9)


def test_soul_is_one_chain_whose_later_part_counts(library):
    gamma, burn_in = 0.05, 12
    kernel = SOSMC(nothing, SingleChain(gamma, burn_in), Along(VELOCITY), threshold=0.0)
    noise = noise_of(kernel, X, 2)
    (_, *states), _ = walk(library, kernel, FAMILY, X, noise)
    x = X[-1]
    for k, state in enumerate(states):
        path = []
        for xi in noise["proposal"][k]:
            x = x + gamma * score(x, 0.4 + (k + 1) * VELOCITY) + math.sqrt(2 * gamma) * xi
            path.append(x)
        np.testing.assert_allclose(library.host(state.point.x), path, rtol=1e-9)
        weights = np.exp(library.host(state.weights.logs))
        np.testing.assert_allclose(weights, (np.arange(PARTICLES) >= burn_in) / (PARTICLES - burn_in), rtol=1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LangevinMove(0.0), "step_size must be greater than 0"),
        (lambda: LangevinMove(0.1, 0.0), "noise_scale must be greater than 0"),
        (lambda: UnderdampedMove(0.1, -1.0), "friction must be at least 0"),
        (lambda: SOSMC(nothing, SingleChain(0.1, 3), Along(0.1), threshold=0.5), "threshold=0"),
        (
            lambda: SingleChain(0.1, PARTICLES).init(FAMILY.prepare(X, LangevinMove(0.1).requires), X),
            "burn_in must be an integer of at least 0 and at most 29",
        ),
    ],
)
def test_moves_that_do_not_fit_are_refused(make, message):
    with pytest.raises(HyperparameterError, match=message):
        make()
