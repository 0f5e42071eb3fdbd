"""Moreau-Yosida unadjusted Langevin."""

import math
from dataclasses import replace

import numpy as np
import pytest
from array_api_compat import array_namespace

import xpsample as xps
from tests.kernels.support import BOUND, CHAINS, GAUSSIAN, noise_of, score, start, walk
from xpsample.conformance import invariance, reference, scenarios
from xpsample.core.errors import ConvergenceWarning, HyperparameterError
from xpsample.kernels import MYULA
from xpsample.prox import L1, AnisotropicTV, IsotropicTV

GRID = np.linspace(-5.0, 5.0, 801)


def soft(x, scale):
    return np.sign(x) * np.maximum(np.abs(x) - scale, 0.0)


def huber(x, strength, smoothing):
    """The Moreau envelope of strength |x|, in closed form."""
    inside = np.abs(x) <= strength * smoothing
    return np.where(inside, x * x / (2 * smoothing), strength * np.abs(x) - 0.5 * smoothing * strength**2)


def smooth_part(centre):
    """f = (x - centre)^2 / 2 on any library."""
    return xps.Target(lambda x: -0.5 * array_namespace(x).sum((x - centre) ** 2, axis=-1), score=lambda x: centre - x)


def mean_under(log_weights, values):
    weights = np.exp(log_weights - np.max(log_weights))
    return float(np.sum(weights * values) / np.sum(weights))


def test_myula_by_hand(library):
    """Every hyperparameter with a value of its own for each chain."""
    x, generator = start(50), np.random.default_rng(2)
    eta, smoothing, strength = (generator.uniform(0.05, 0.4, size=50) for _ in range(3))
    kernel = MYULA(library.array(eta), L1(), library.array(smoothing), library.array(4 * strength))
    noise = noise_of(kernel, x, 1)
    positions, infos, _ = walk(library, kernel, x, noise)
    eta, smoothing, strength = eta[:, None], smoothing[:, None], 4 * strength[:, None]
    mean = x + eta * score(x) - eta / smoothing * (x - soft(x, smoothing * strength))
    np.testing.assert_allclose(positions[0], mean + np.sqrt(2 * eta) * noise["proposal"][0], rtol=1e-11)
    assert infos[0].evaluations.score == 1 and infos[0].evaluations.log_density == 0


def test_the_drift_is_that_of_the_steps():
    x, kernel = start(7), MYULA(0.1, L1(), 0.3)
    bound = GAUSSIAN.prepare(x, kernel.requires)
    state = kernel.init(bound, x)
    noise = noise_of(kernel, x, 1)["proposal"][0]
    after, _ = kernel.step(bound, state, {"proposal": noise})
    moved = after.point.x - x - 0.1 * kernel.drift(bound, state.point)
    np.testing.assert_allclose(moved, math.sqrt(0.2) * noise, rtol=1e-12)


def test_stationary_law_with_a_laplace_factor():
    """f = (x - 0.5)^2 / 2, g = 2 |x|: the law of the chain itself, as the fixed point of its transition density.

    The density exp(-f - envelope) that the chain discretises, by quadrature of the envelope's closed form, differs
    from it by the step size alone, and exp(-f - 2 |x|) by the smoothing, too.
    """
    eta, smoothing, strength = 0.01, 0.2, 2.0
    mean = GRID + eta * (0.5 - GRID) - eta / smoothing * (GRID - soft(GRID, smoothing * strength))
    transition = np.exp(-((GRID[None, :] - mean[:, None]) ** 2) / (4 * eta))
    transition /= np.sum(transition, axis=1, keepdims=True)
    law = np.full(len(GRID), 1 / len(GRID))
    for _ in range(2000):
        law = law @ transition

    x0 = np.zeros((CHAINS, 1))
    draws = xps.sample(smooth_part(0.5), MYULA(eta, L1(), smoothing, strength), x0, 1, burn_in=450, seed=3).draws[-1]
    for f in (np.abs, np.square, lambda x: x, lambda x: 1.0 * (np.abs(x) < 0.2)):
        expected, square = np.sum(law * f(GRID)), np.sum(law * f(GRID) ** 2)
        assert abs(np.mean(f(draws)) - expected) < BOUND * math.sqrt((square - expected**2) / CHAINS) + 1e-3

    smooth = -0.5 * (GRID - 0.5) ** 2
    target = mean_under(smooth - huber(GRID, strength, smoothing), np.abs(GRID))
    unsmoothed = mean_under(smooth - strength * np.abs(GRID), np.abs(GRID))
    assert abs(np.sum(law * np.abs(GRID)) / target - 1) < 0.02
    assert target / unsmoothed > 1.06  # so that the two bounds above tell the two laws apart


@pytest.mark.slow
@pytest.mark.parametrize("g", [IsotropicTV((1, 2), 12), AnisotropicTV((1, 2), 12)], ids=["isotropic", "anisotropic"])
@pytest.mark.first_cases(1)
def test_total_variation_of_two_pixels(g):
    """|x2 - x1| under its envelope: a Huber function of the difference of half the curvature. Quadrature over that."""
    eta, smoothing, strength = 0.02, 0.3, 1.5
    x0 = np.zeros((CHAINS, 2))
    kernel = MYULA(eta, g, smoothing, strength)
    draws = xps.sample(smooth_part(0.0), kernel, x0, 1, burn_in=150, seed=4).draws[-1]
    # In rotated coordinates the difference is sqrt(2) v with v ~ exp(-v^2 / 2 - huber(v; sqrt(2) strength)).
    log_density = -0.5 * GRID**2 - huber(GRID, math.sqrt(2) * strength, smoothing)
    v = (draws[:, 1] - draws[:, 0]) / math.sqrt(2)
    expected = mean_under(log_density, GRID**2)
    assert abs(np.mean(v * v) / expected - 1) < 0.05 + BOUND * math.sqrt(3 / CHAINS)  # 0.05 covers the step size
    assert abs(np.mean(np.sum(draws, axis=1) ** 2 / 2) - 1) < 0.02 + BOUND * math.sqrt(2 / CHAINS)
    assert mean_under(-0.5 * GRID**2, GRID**2) > 2 * expected


def test_chains_that_have_not_mixed_say_so():
    target = xps.Target(None, score=lambda x: 2.0 - x)
    kernel = MYULA(1e-4, regularizer=L1(), smoothing=0.05)
    with pytest.warns(ConvergenceWarning, match="R-hat is"):
        xps.sample(target, kernel, np.array([[-50.0], [50.0]]), 500, seed=1)


def test_the_strength_may_come_from_the_parameters(library):
    """Of a parametric target, whose parameters change under the chain."""
    target = xps.Parametric(
        lambda x, p: -0.5 * array_namespace(x).sum(x * x, axis=-1),
        {"log_strength": np.asarray(0.3)},
        score=lambda x, p: -x,
    )
    x = start(6)
    kernel = MYULA(0.1, L1(), 0.5, lambda p: array_namespace(p["log_strength"]).exp(p["log_strength"]))
    bound = target.prepare(library.array(x), kernel.requires)
    for log_strength in (0.3, -0.7):
        moved = bound.with_data({"log_strength": library.array(np.asarray(log_strength))})
        drift = library.host(kernel.drift(moved, moved.evaluate(library.array(x))))
        want = -x - 2.0 * (x - soft(x, 0.5 * math.exp(log_strength)))
        np.testing.assert_allclose(drift, want, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda kernel: replace(kernel, strength=1.5),  # half of it
        lambda kernel: replace(kernel, smoothing=0.8),
        lambda kernel: replace(kernel, step_size=0.1),
    ],
)
def test_other_hyperparameters_than_the_laws_are_caught(spoil):
    scenario = next(s for s in scenarios() if s.name == "myula")
    assert invariance(scenario, reference()).passed
    result = invariance(replace(scenario, kernel=lambda a: spoil(scenario.kernel(a))), reference())
    assert result.z > 2 * result.limit


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MYULA(0.0, L1(), 0.1), r"step_size must be greater than 0; got 0\.0"),
        (lambda: MYULA(0.1, L1(), -1.0), "smoothing must be greater than 0; got -1"),
        (lambda: MYULA(0.1, L1(), 0.1, -1.0), "strength must be at least 0; got -1"),
    ],
)
def test_bad_hyperparameters(make, message):
    with pytest.raises(HyperparameterError, match=message):
        make()
