"""Slice sampling along random directions."""

import numpy as np
import pytest

import xpsample as xps
from tests.kernels.support import COVARIANCE, density, noise_of, start, walk
from tests.kernels.test_elliptical import result
from xpsample.kernels import slice as module

NORMAL = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1))


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


@pytest.mark.slow
def test_a_width_that_does_not_fit_costs_and_does_no_harm():
    for width, most in ((0.05, 70), (1e4, 40)):
        trace = xps.sample(NORMAL, xps.Slice(width), start(50), 100, seed=1)
        assert abs(trace.draws[50:].var() - 1) < 0.15 and trace.run_statistics.evaluations["log_density"] < most
        assert np.all(trace.run_statistics.moved == 1)
