"""Adaptive alpha, against App. D.1.4 by hand."""

import math

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

from xpsample.srmc import Adaptive, warmup_steps


def drive(strength, tilts):
    """alpha after every step, for given |s . theta|, (steps, chains)."""
    alpha, memory = strength.init(numpy_xp, np.zeros(tilts.shape[1]))
    out = []
    for n, tilt in enumerate(tilts, 1):
        alpha, memory = strength.update(numpy_xp, np.asarray(n), alpha, tilt[:, None], np.ones((len(tilt), 1)), memory)
        out.append(alpha)
    return np.array(out)


def test_alpha_grows_as_in_the_paper_and_is_then_held():
    reference, warmup = np.array([0.0, 0.5, 5.0]), 40
    alphas = drive(Adaptive(reference, warmup), np.zeros((60, 3)))
    k = np.arange(1, 61)
    for i, alpha in enumerate((0.5, 5.0), 1):
        c = warmup / (0.8 * alpha) - warmup / alpha  # alpha at the end is 0.8 of the reference
        grown = k / (c + k / alpha)
        np.testing.assert_allclose(alphas[:40, i], grown[:40], rtol=1e-12)
        np.testing.assert_allclose(alphas[39:, i], 0.8 * alpha, rtol=1e-12)
    assert np.all(alphas[:, 0] == 0)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("warmup", [60, 400])
def test_the_guardrail_freezes_at_the_last_safe_value(warmup):
    strength = Adaptive(4.0, warmup)
    w = strength.window
    assert w == max(10, warmup // 20)
    tilts = np.random.default_rng(0).exponential(0.08, (warmup + 20, 200)) * np.linspace(0.2, 6, 200)
    alphas = drive(strength, tilts)
    grown = drive(Adaptive(4.0, warmup, threshold=math.inf), tilts)
    early = 0
    for chain in range(200):
        scale = grown[:warmup, chain] * tilts[:warmup, chain]
        quantiles = {k: np.quantile(scale[k - w : k], 0.95, method="inverted_cdf") for k in range(w, warmup + 1)}
        stops = [k for k in range(w + 1, warmup + 1) if quantiles[k] > 1 and quantiles[k - 1] > 1]
        stop = stops[0] if stops else None
        expected = grown[:, chain].copy()
        if stop is not None:
            expected[stop - 1 :] = grown[stop - 3, chain]
            early += 1
        np.testing.assert_allclose(alphas[:, chain], expected, rtol=1e-12)
    assert 20 < early < 195  # both cases are seen


def test_alpha_starts_at_0_and_may_grow_in_one_step():
    strength = Adaptive(2.0, 1)
    alpha, memory = strength.init(numpy_xp, np.zeros(3))
    assert np.all(alpha == 0) and not np.any(memory.frozen)
    np.testing.assert_allclose(drive(strength, np.zeros((3, 2))), 1.6, rtol=1e-12)


@pytest.mark.parametrize(("above", "stops"), [(1, False), (2, True)])
def test_five_percent_of_the_window_may_be_above_the_threshold(above, stops):
    """Of a window of 20: one value may be; with two, alpha stops at once."""
    tilts = np.zeros((60, 1))
    tilts[30 : 30 + above] = 1e6
    alphas = drive(Adaptive(1.0, 400), tilts)[:, 0]
    assert (alphas[-1] == alphas[-2]) == stops


def test_nan_counts_as_too_strong():
    alphas = drive(Adaptive(1.0, 50), np.full((50, 1), np.nan))
    assert alphas[-1] == alphas[8]  # the last before a full window


def test_the_papers_warm_up():
    assert warmup_steps(10_000) == 1000
    assert warmup_steps(100_000) == 3000
    assert warmup_steps(100_000, leapfrog_steps=10) == 300
    assert warmup_steps(50, leapfrog_steps=10) == 1
    steps = warmup_steps(1999, leapfrog_steps=10)
    assert steps == 19 and isinstance(steps, int)
    assert warmup_steps(1009) == 100
