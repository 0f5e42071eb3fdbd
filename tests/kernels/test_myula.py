"""Moreau-Yosida unadjusted Langevin."""

import math
from dataclasses import replace

import numpy as np
import pytest
from array_api_compat import array_namespace

import xpsample as xps
from tests.kernels.support import GAUSSIAN, noise_of, score, start, walk
from xpsample.conformance import invariance, reference, scenarios
from xpsample.core.errors import ConvergenceWarning, HyperparameterError
from xpsample.kernels import MYULA
from xpsample.prox import L1


def soft(x, scale):
    return np.sign(x) * np.maximum(np.abs(x) - scale, 0.0)


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
