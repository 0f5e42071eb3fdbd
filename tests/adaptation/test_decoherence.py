"""The length over which MCLMC's velocity forgets its direction: by chains of a known correlation, and by runs."""

import math

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

import xpsample as xps
from tests.adaptation.rules_support import gaussian, normals, rotated
from tests.adaptation.test_single_rules import seen
from xpsample.adaptation import DecoherenceLength
from xpsample.kernels import MCLMC
from xpsample.kernels.kernel import Info
from xpsample.targets import Point

STEP_SIZE, RHO = 2.0, 0.95


def of_autoregressions(chains, steps=1000, dim=100, sd=1.0, stuck=0):
    """The length from chains with correlation RHO from step to step, in units in which their sd is given."""
    rng, rule, kernel = np.random.default_rng(3), DecoherenceLength("mass"), MCLMC(STEP_SIZE, 1.0, mass=1 / sd**2)
    x = sd * rng.normal(size=(chains, dim))
    memory = rule.init(numpy_xp, Point(x, None, x), True)
    for n in range(1, steps + 1):
        x = RHO * x + math.sqrt(1 - RHO**2) * sd * rng.normal(size=(chains, dim))
        diverged = np.arange(chains) < stuck
        there = np.where(diverged[:, None], 1e6, x)
        info = Info(np.ones(chains), ~diverged, diverged, None)
        memory, _ = rule.update(memory, seen(n, steps, np.ones(chains), there, info=info, kernel=kernel))
    return float(rule.final(numpy_xp, memory)[0])


def steps_per_draw(batch):
    """``b var(mean of b) / var(x)`` of an autoregression, of every b."""
    lags = np.arange(1, batch)
    return 1 + 2 * np.sum((1 - lags / batch) * RHO**lags)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(("chains", "batch"), [(1, 37), (4, 150), (128, 300)])
@pytest.mark.parametrize("sd", [1.0, 1e-3])
def test_the_way_from_one_independent_draw_to_the_next(chains, batch, sd):
    """8 means and more of 100 coordinates, so that the error is below 6 %, twice as much for one chain whose variance
    is known less well."""
    expected = 0.4 * STEP_SIZE * steps_per_draw(batch)
    assert of_autoregressions(chains, sd=sd) == pytest.approx(expected, rel=0.25 if chains == 1 else 0.15)
    # A twin: means of other batches than the rule's would not be within that.
    assert abs(0.4 * STEP_SIZE * steps_per_draw(batch // 4) / expected - 1) > 0.25 or chains == 128


@pytest.mark.slow
def test_chains_that_diverge_do_not_count():
    assert of_autoregressions(16, stuck=3) == pytest.approx(of_autoregressions(16), rel=0.15)
    assert of_autoregressions(4, stuck=4) == pytest.approx(10.0, rel=1e-3)  # sqrt(dim)
    assert of_autoregressions(8, dim=10_000, steps=100) == pytest.approx(100.0, rel=0.05)  # the radius at least


def length(target, x0, kernel=None, seed=1):
    kernel = MCLMC() if kernel is None else kernel
    return xps.sample(target, kernel, x0, 1, seed=seed, progress=False).kernel.length


@pytest.mark.slow
@pytest.mark.first_cases(1)
@pytest.mark.parametrize("chains", [(), (4,), (128,)], ids=["1", "4", "128"])
def test_on_an_isotropic_gaussian_it_is_the_radius(chains):
    assert length(gaussian(np.eye(50)), normals(*chains, 50)) == pytest.approx(math.sqrt(50), rel=0.15)


@pytest.mark.slow
def test_correlations_that_the_metric_leaves_lengthen_it():
    target, x0 = gaussian(rotated(20, 1000.0)), normals(16, 20)
    assert length(target, x0) > 2 * math.sqrt(20)
    assert length(target, x0, MCLMC(mass=xps.DenseMetric())) < 1.5 * math.sqrt(20)


@pytest.mark.slow
def test_with_a_step_size_it_is_in_the_units_of_that():
    target, x0 = gaussian(1e4 * np.eye(20)), 0.01 * normals(16, 20)
    assert length(target, x0, MCLMC(0.05)) == pytest.approx(0.01 * math.sqrt(20), rel=0.3)
