"""An estimate of log Z with an error that does not hold: few weights, or few families, stand for all particles.

Errors are stated where they hold, infinite where they do not; and a run says which. Seeds are fixed.
"""

import math
import warnings

import numpy as np
import pytest

import xpsample as xps
from tests.field.support import gaussian, kinds
from xpsample.core.errors import ConvergenceWarning, TraceError
from xpsample.particles.errors import LARGEST_INDEX, tail_index

DIM = 10
WIDE, NARROW = gaussian(3.0), gaussian(1.0)
EXACT = -DIM * math.log(3)


def anneal(temperatures, chains=500, seed=1):
    x0 = 3 * np.random.default_rng(seed).normal(size=(chains, DIM))
    kernel = xps.AIS(xps.MALA(0.3), np.linspace(0, 1, temperatures) ** 2)
    settings = {"seed": seed, "burn_in": max(0, temperatures - 2), "progress": False}
    return xps.sample(xps.Bridge(WIDE, NARROW), kernel, x0, 1, **settings)


def test_one_weight_that_stands_for_all_states_no_error():
    with pytest.warns(ConvergenceWarning, match=r"a few particles dominate: weights have an ESS of .* of 500, so"):
        trace = anneal(2)
    found = xps.log_normalizer(trace.state.log_weight)
    assert found.weight_ess < 30 and found.standard_error == math.inf
    assert "weights" in kinds(trace)


def test_weights_that_are_even_state_an_error_that_holds():
    trace = anneal(400)
    found = xps.log_normalizer(trace.state.log_weight)
    assert found.standard_error < 0.15 and abs(found.value - EXACT) < 4.5 * found.standard_error
    assert "weights" not in kinds(trace)


@pytest.mark.parametrize(("sd", "stated", "covers"), [(1.0, 0.98, 0.92), (1.5, 0.85, 0.84), (3.0, 0.0, 0.0)])
def test_a_stated_error_is_rarely_wrong(sd, stated, covers):
    """500 weights with normal logarithms, 400 times: how often an error is stated, and covers with two errors.

    Whatever the spread, a statement that is off by more than four errors comes in at most 1 of 100 runs.
    """
    logs = sd * np.random.default_rng(0).normal(size=(400, 500))
    found = [xps.log_normalizer(row) for row in logs]
    off = np.asarray([(one.value - 0.5 * sd**2) / one.standard_error for one in found])
    said = np.asarray([math.isfinite(one.standard_error) for one in found])
    assert np.mean(said) >= stated
    assert not said.any() or np.mean(np.abs(off[said]) < 2) >= covers
    assert np.mean(np.abs(off) > 4) < 0.01


def test_the_tail_index_is_that_of_a_pareto_distribution():
    """1 / shape, of 20,000 draws; the tail of 424 has it within about 0.08."""
    for k in (0.2, 0.5, 0.9):
        weights = 1 + np.random.default_rng(3).pareto(1 / k, size=20_000)
        assert abs(tail_index(np.log(weights)) - k) < 0.2
    assert tail_index(np.zeros(100)) == -math.inf


@pytest.mark.parametrize("n", [40, 100, 1000])
def test_weights_of_a_few_values_have_a_light_tail(n):
    """As those of a discrete target, many of which are alike: to excesses of 0 an index of 40 to 280 was fitted."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        index = tail_index(np.log(rng.choice([0.01, 0.1, 0.4, 1.0], n, p=[0.6, 0.3, 0.08, 0.02])))
        assert index <= LARGEST_INDEX
    lost = np.full(n, -np.inf)
    lost[:12] = np.log(rng.random(12))
    assert tail_index(lost) < LARGEST_INDEX
    lost[4:] = -np.inf
    assert tail_index(lost) == LARGEST_INDEX


def test_particles_of_one_family_state_no_error():
    """Resampled at every one of 24 steps, 50 particles descend from two: the stated errors went down to 0."""
    x0 = 3 * np.random.default_rng(1).normal(size=(200, 50, DIM))
    kernel = xps.TemperedSMC(xps.MALA(0.3), np.linspace(0, 1, 25), threshold=1.0, moves=1)
    trace = xps.sample(xps.Bridge(WIDE, NARROW), kernel, x0, 1, burn_in=23, seed=1, recorders=(), progress=False)
    found = xps.particle_log_normalizer(trace.state)
    assert np.mean(np.isinf(found.standard_error)) > 0.9
    assert np.mean(np.abs(found.value - EXACT) > 4 * found.standard_error) < 0.02
    whole = xps.log_normalizer(found.value)
    assert abs(whole.value - EXACT) < 4.5 * whole.standard_error


LADDER = (0.0, 0.5, 1.0)


@pytest.mark.parametrize(
    ("kernel", "estimate", "message"),
    [
        (
            xps.TemperedSMC(xps.RWM(0.5), LADDER, moves=1),
            xps.particle_log_normalizer,
            "none of 100 particles has a pos",
        ),
        (
            xps.TemperedSMC(xps.RWM(0.5), ess=0.8, moves=1),
            xps.particle_log_normalizer,
            "none of 100 particles has a po",
        ),
        (xps.AIS(xps.RWM(0.5), LADDER), lambda s: xps.log_normalizer(s.log_weight), "If all are -inf, use an initial"),
    ],
    ids=["ladder", "ess", "AIS"],
)
def test_no_particle_in_the_support_asks_for_no_more_steps(kernel, estimate, message):
    far = xps.Target(lambda x: np.where(x[..., 0] > 50, -x[..., 0], -np.inf), constrained=True)
    x0 = np.random.default_rng(1).normal(size=(100, 1))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        trace = xps.sample(xps.Bridge(NARROW, far), kernel, x0, 4, seed=1, progress=False)
    assert any("none of 100 particles has a positive density under the target" in str(w.message) for w in said)
    assert not any("more steps; increase" in str(w.message) for w in said)
    with pytest.raises(TraceError, match=message):
        estimate(trace.state)


def test_a_run_without_a_particle_in_the_support_counts_as_zero():
    """Half the support, in two of three runs: log Z is that of their mean, with a weight of 0 for the third."""
    half = xps.Target(lambda x: np.where(x[..., 0] > 0, -0.5 * x[..., 0] ** 2, -np.inf), constrained=True)
    x0 = np.random.default_rng(1).normal(size=(3, 200, 1))
    x0[2] = -np.abs(x0[2])
    kernel = xps.TemperedSMC(xps.RWM(0.5), (0.0, 0.5, 1.0), moves=1)
    with pytest.warns(ConvergenceWarning, match="in 1 of 3 runs"):
        trace = xps.sample(xps.Bridge(NARROW, half), kernel, x0, 4, seed=1, progress=False)
    found = xps.particle_log_normalizer(trace.state)
    assert found.value[2] == -math.inf and found.standard_error[2] == math.inf and found.weight_ess[2] == 0
    assert np.all(np.abs(found.value[:2] - math.log(0.5)) < 0.4)
