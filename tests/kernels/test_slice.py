"""Slice sampling on ellipses and along random directions, and the shrinkage that both share."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import xpsample as xps
from tests.kernels.support import COVARIANCE, density, noise_of, start, walk
from xpsample.conformance import invariance, reference, scenarios
from xpsample.core.errors import DivergenceWarning
from xpsample.kernels import elliptical, shrinking
from xpsample.kernels import slice as module

SCENARIOS = {scenario.name: scenario for scenario in scenarios()}
BOTH = ["elliptical", "slice"]


def result(name, kernel=None, **settings):
    scenario = SCENARIOS[name]
    return invariance(
        scenario if kernel is None else replace(scenario, kernel=lambda a: kernel), reference(), **settings
    )


def test_elliptical_by_hand(library):
    x, mean = start(30), np.asarray([0.5, 0.0, -0.5])
    kernel = xps.EllipticalSlice(library.array(mean), library.array(COVARIANCE))
    noise = noise_of(kernel, x, 1)
    positions, infos, _ = walk(library, kernel, x, noise)
    root, inverse, u = np.linalg.cholesky(COVARIANCE), np.linalg.inv(COVARIANCE), {k: v[0] for k, v in noise.items()}

    def log_likelihood(z):
        return density(z) + 0.5 * (z - mean) @ inverse @ (z - mean)

    tried = []
    for k in range(30):
        nu = root @ u["ellipse"][k]
        level = log_likelihood(x[k]) + np.log(u["level"][k])
        theta = 2 * np.pi * u["angle"][k]
        low, high = theta - 2 * np.pi, theta
        for n in range(64):
            y = (x[k] - mean) * np.cos(theta) + nu * np.sin(theta) + mean
            if log_likelihood(y) > level:
                break
            low, high = (theta, high) if theta < 0 else (low, theta)
            theta = low + u["shrink"][k, n] * (high - low)
        tried.append(n + 1)
        np.testing.assert_allclose(positions[0, k], y, rtol=1e-7, atol=1e-9)
    assert library.host(infos[0].evaluations.log_density).tolist() == tried
    assert min(tried) == 1 and max(tried) > 3


@pytest.mark.slow
@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("tries", [1, 2, 5])
def test_to_stay_after_so_many_tries_is_exact(monkeypatch, name, tries):
    monkeypatch.setattr(shrinking, "MOST_TRIES", tries)
    assert result(name, chains=50_000).passed


def taking_the_last(target, current, curve, level, bracket, tries):
    """Moves to the second try, whatever it is."""

    def generous(t):
        point, gain = curve(t)
        return point, np.where(t == bracket[0], gain, np.inf)

    return shrinking.shrink(target, current, generous, level, bracket, tries)


def a_level_for_each_try(target, current, curve, level, bracket, tries):
    """Compares each position with a level of its own."""

    def wavering(t):
        point, gain = curve(t)
        return point, gain + 3 * np.sin(1e6 * t)

    return shrinking.shrink(target, current, wavering, level, bracket, tries)


def a_prior_that_counts_twice(target, current, curve, level, bracket, tries):
    def of_posterior(t):
        point, _ = curve(t)
        return point, point.log_density - current.log_density

    return shrinking.shrink(target, current, of_posterior, level, bracket, tries)


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [taking_the_last, a_level_for_each_try, a_prior_that_counts_twice])
def test_a_wrong_shrinkage_is_caught(monkeypatch, wrong):
    monkeypatch.setattr(elliptical, "shrink", wrong)
    assert not result("elliptical", chains=50_000).passed


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [xps.EllipticalSlice(), xps.Slice(1.0)], ids=BOTH)
def test_hard_bounds_and_what_is_no_number(kernel):
    x0 = np.random.default_rng(0).uniform(0.1, 1, (50, 2))
    bounded = xps.Target(lambda x: np.where(np.all(x > 0, axis=-1), -np.sum(x, axis=-1), -np.inf), constrained=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)  # many places are beyond the bound
        trace = xps.sample(bounded, kernel, x0, 500, seed=1)
    assert trace.draws.min() > 0 and abs(trace.draws[50:].mean() - 1) < 0.05
    assert trace.run_statistics.diverged.sum() == 0
    with np.errstate(invalid="ignore"):
        broken = xps.Target(lambda x: np.sum(np.log(x) - x, axis=-1))
        with pytest.warns(DivergenceWarning):
            trace = xps.sample(broken, kernel, x0, 500, seed=1)
    assert (
        trace.draws.min() > 0 and abs(trace.draws[50:].mean() - 2) < 0.1 and trace.run_statistics.diverged.sum() > 100
    )


def test_slice_by_hand(library):
    x = start(30)
    kernel = xps.Slice(0.4, library.array(COVARIANCE))
    noise = noise_of(kernel, x, 1)
    positions, infos, _ = walk(library, kernel, x, noise)
    root, u, spent = np.linalg.cholesky(COVARIANCE), {name: rows[0] for name, rows in noise.items()}, []
    for k in range(30):
        xi = u["direction"][k]
        direction = 0.4 * root @ (xi / np.linalg.norm(xi))
        level = density(x[k]) + np.log(u["level"][k])
        low, calls = -u["place"][k], 0

        def above(t):
            nonlocal calls
            calls += 1
            return density(x[k] + t * direction) > level  # noqa: B023

        high, left = low + 1, int(32 * u["division"][k])
        right = 31 - left
        while left > 0 and above(low):
            low, left = low - 1, left - 1
        while right > 0 and above(high):
            high, right = high + 1, right - 1
        t = low + u["try"][k] * (high - low)
        for n in range(64):
            if above(t):
                break
            low, high = (t, high) if t < 0 else (low, t)
            t = low + u["shrink"][k, n] * (high - low)
        np.testing.assert_allclose(positions[0, k], x[k] + t * direction, rtol=1e-7, atol=1e-9)
        spent.append(calls)
    assert library.host(infos[0].evaluations.log_density).tolist() == spent


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 3])
def test_brackets_that_may_not_step_out_far_are_exact(monkeypatch, most):
    monkeypatch.setattr(module, "MOST_STEPS_OUT", most)
    assert result("slice", xps.Slice(0.5), chains=50_000).passed


class Uphill(xps.Slice):
    """Steps out as long as the density is above that of the chain, whatever the level."""

    def _step_out(self, target, line, level, noise):
        return super()._step_out(target, line, 0 * level, noise)


class ToTheRight(xps.Slice):
    """All steps out are made to the right."""

    def step(self, target, state, noise):
        return super().step(target, state, noise | {"division": 0 * noise["division"]})


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Uphill, ToTheRight])
def test_a_wrong_bracket_is_caught(monkeypatch, kind):
    monkeypatch.setattr(module, "MOST_STEPS_OUT", 3)
    assert not result("slice", kind(0.5)).passed


@pytest.mark.slow
def test_width_and_covariance_are_tuned():
    target = xps.Target(lambda x: -0.5 * np.sum(x**2 / np.arange(1, 6) ** 4, axis=-1))
    trace = xps.sample(target, xps.Slice(), start(4)[:, [0, 1, 2, 0, 1]], 1000, seed=1)
    assert 2 < trace.kernel.width < 12
    assert np.all(np.abs(np.log(trace.kernel.covariance / np.arange(1, 6) ** 4)) < 1.5)
    assert abs(trace.run_statistics.acceptance_probability.mean() - 0.6) < 0.1
    assert trace.run_statistics.evaluations["log_density"] < 6
