"""Ladders tuned in a warm-up: by theory where rungs are drawn exactly, and on modes that only tempering connects."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from array_api_compat import array_namespace
from array_api_compat import numpy as numpy_xp

import xpsample as xps
from tests.adaptation.test_single_rules import seen
from tests.kernels.test_tempering import exact_draws
from xpsample.adaptation import Ladder, StepSize
from xpsample.adaptation.ladder import FROZEN, STARTING_SHARE, equal_parts
from xpsample.core.errors import ConvergenceWarning, HyperparameterError
from xpsample.kernels import tempering
from xpsample.targets import Point
from xpsample.zoo.mixture import gaussian_mixture

NORMAL = xps.Target(lambda x: -0.5 * array_namespace(x).sum(x * x, axis=-1), score=lambda x: -x, hvp=lambda x, v: -v)

WEIGHTS, DIM = np.asarray([0.5, 0.3, 0.2]), 20
MEANS = np.zeros((3, DIM))
MEANS[0, 0], MEANS[1, 0], MEANS[2, 1] = -8.0, 8.0, 10.0
MODES = gaussian_mixture(WEIGHTS, MEANS, 1.0)


def test_equal_parts_of_a_barrier():
    betas = np.asarray([1.0, 0.5, 0.1])
    np.testing.assert_allclose(equal_parts(numpy_xp, betas, np.asarray([0.3, 0.3])), [0.5])  # equal: as it was
    np.testing.assert_allclose(equal_parts(numpy_xp, betas, np.asarray([0.6, 0.2])), [1 - 0.5 * 2 / 3])
    np.testing.assert_allclose(equal_parts(numpy_xp, betas, np.asarray([0.2, 0.6])), [0.5 - 0.4 / 3])
    np.testing.assert_allclose(equal_parts(numpy_xp, np.asarray([1.0, 0.0]), np.asarray([0.5])), [])


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("hottest", [0.01, 0.2])
def test_the_ladder_of_a_normal_target_is_geometric(hottest):
    """Swaps of N(0, I / beta) are rejected alike where betas have equal ratios; from any other ladder, too."""
    dim, steps = 4, 400
    rule = Ladder(6, hottest)

    class Begun(Ladder):  # from a ladder that is linear
        def init(self, xp, point, pooled):
            memory = super().init(xp, point, pooled)
            return memory._replace(betas=np.linspace(1.0, hottest, 6))

    for start in (rule, Begun(6, hottest)):
        kernel = xps.ParallelTempering(exact_draws(), start)
        trace = xps.sample(NORMAL, kernel, np.zeros((50, dim)), 100, seed=1, warmup=steps, progress=False)
        ratios = np.diff(np.log(trace.kernel.betas))
        # The last round has 140 steps of 50 chains: a mean of 7,000 probabilities has an error of 0.005.
        np.testing.assert_allclose(ratios, math.log(hottest) / 5, rtol=0.1)
        rejected = 1 - trace.state.swap_rates.mean(axis=1)
        np.testing.assert_allclose(rejected, rejected.mean(), atol=0.04)


@pytest.mark.slow
def test_the_barrier_is_that_of_theory():
    """sqrt(dim / (2 pi)) log(1 / hottest) between normals of many rungs, in high dimension; and so many rungs."""
    dim, hottest = 50, 0.3
    expected = math.sqrt(dim / (2 * math.pi)) * math.log(1 / hottest)
    kernel = xps.ParallelTempering(exact_draws(), Ladder(hottest=hottest))
    trace = xps.sample(NORMAL, kernel, np.zeros((50, dim)), 300, seed=2, progress=False)
    barrier = trace.state.barrier
    assert len(trace.kernel.betas) == 1 + math.ceil(2 * expected) == 8
    assert barrier.shape == (8,) and barrier[0] == 0
    np.testing.assert_allclose(barrier[-1], expected, rtol=0.1)


def run_on_modes(kernel, target=MODES, chains=32, draws=1000):
    """All chains begin in the first mode. The share of draws in each mode, and its standard error over the chains."""
    x0 = np.zeros((chains, DIM)) + MEANS[0]
    trace = xps.sample(target, kernel, x0, draws, seed=1, burn_in=200, progress=False)
    nearest = np.argmin(np.sum((trace.draws[..., None, :] - MEANS) ** 2, axis=-1), axis=-1)
    shares = np.stack([np.mean(nearest == k, axis=0) for k in range(3)])
    return trace, shares.mean(axis=1), shares.std(axis=1, ddof=1) / math.sqrt(chains)


def on_a_bridge():
    """The modes, begun from N(0, 12^2 I), which covers them."""
    initial = xps.Target(lambda x: -0.5 * np.sum(x * x, axis=-1) / 144, score=lambda x: -x / 144)
    return xps.Bridge(initial, MODES)


@pytest.mark.slow
@pytest.mark.parametrize(("target", "ladder"), [(MODES, None), (on_a_bridge(), Ladder(hottest=0))], ids=["powers", "0"])
def test_three_distant_modes_in_twenty_dimensions(target, ladder):
    """Modes 13 to 16 standard deviations apart: their weights come out, and the ladder swaps alike everywhere.

    Chains are independent, so their shares of draws give a standard error; with 32 of them a right run is 4.5 of these
    away once in 3,000 times for each mode.
    """
    trace, shares, errors = run_on_modes(xps.ParallelTempering(xps.MALA(), ladder), target)
    assert np.all(errors < 0.04) and np.all(np.abs(shares - WEIGHTS) < 4.5 * errors)
    assert np.mean(trace.state.round_trips) > 5
    rejected = 1 - trace.state.swap_rates.mean(axis=1)
    assert len(trace.kernel.betas) == 18 and np.all(np.abs(rejected - rejected.mean()) < 0.1)
    start = np.asarray(trace.warmup["ParallelTempering.betas"][0])
    np.testing.assert_allclose(start, xps.geometric_ladder(18, 0.01) if ladder is None else bridge_start())
    if ladder is not None:
        assert trace.kernel.betas[-2] < 0.5 * start[-2]  # where half of the swaps and more were rejected
    assert not {"ladder", "round_trips"} & {finding.kind for finding in trace.diagnose()}


def bridge_start():
    return (*xps.geometric_ladder(17, 0.01), 0.0)


@pytest.mark.slow
def test_a_geometric_ladder_swaps_less_evenly_on_the_bridge():
    """The twin of the test above: the ladder that the warm-up starts from, kept."""
    trace, _, _ = run_on_modes(xps.ParallelTempering(xps.MALA(), bridge_start()), on_a_bridge(), draws=400)
    rejected = 1 - trace.state.swap_rates.mean(axis=1)
    assert rejected[-1] - rejected.mean() > 0.15


@pytest.mark.slow
def test_without_swaps_the_modes_are_missed(monkeypatch):
    monkeypatch.setattr(tempering, "swap_log_ratio", lambda betas, density: density[1:] * 0.0 - np.inf)
    with pytest.warns(ConvergenceWarning, match="neighbors on the ladder of 18 temperatures reject 100%"):
        trace, shares, errors = run_on_modes(xps.ParallelTempering(xps.MALA()), draws=400)
    assert np.any(np.abs(shares - WEIGHTS) > 4.5 * errors)
    assert np.all(trace.state.round_trips == 0)
    assert {"ladder", "round_trips"} <= {finding.kind for finding in trace.diagnose()}


@pytest.mark.slow
def test_a_tuned_ladder_is_a_value_that_is_run_again():
    x0 = np.zeros((6, 3))
    first = xps.sample(NORMAL, xps.ParallelTempering(xps.RWM(), Ladder(4)), x0, 20, seed=1, progress=False)
    again = xps.sample(NORMAL, first.kernel, first.state.point.x, 20, seed=1, warmup=0, progress=False)
    assert again.kernel is first.kernel and again.warmup is None
    assert all(type(beta) is float for beta in first.kernel.betas) and first.kernel.betas[0] == 1.0
    given = xps.ParallelTempering(xps.RWM(), (1.0, 0.4))
    assert xps.sample(NORMAL, given, x0, 20, seed=1, progress=False).kernel.betas == (1.0, 0.4)


def test_what_is_counted_begins_again_with_the_last_ladder():
    x0 = np.zeros((6, 3))
    kernel = xps.ParallelTempering(exact_draws(), Ladder(4))
    trace = xps.sample(NORMAL, kernel, x0, 50, seed=1, warmup=100, progress=False)
    betas = trace.warmup["ParallelTempering.betas"]
    last = int(np.flatnonzero(np.any(betas[1:] != betas[:-1], axis=1))[-1]) + 2  # the step that changed it, from 1
    assert last == 70 and int(trace.state.n) == 100 - last + 50


@pytest.mark.slow
def test_annealing_takes_the_ladder_of_a_bridge():
    """From N(0, 9) to N(0, 0.09): the barrier of such normals is that of their log precisions."""

    def normal(sd):
        return xps.Target(lambda x: -0.5 * np.sum(x * x, axis=-1) / sd**2, score=lambda x: -x / sd**2)

    pilot, x0 = xps.ParallelTempering(xps.MALA(), Ladder(10, 0)), 3.0 * np.random.default_rng(5).normal(size=(16, 2))
    trace = xps.sample(xps.Bridge(normal(3.0), normal(0.3)), pilot, x0, 300, seed=1, warmup=300, progress=False)
    betas = xps.annealing_ladder(trace.state, 61)
    assert len(betas) == 61 and betas[0] == 0 and betas[-1] == 1 and all(np.diff(betas) > 0)
    # 16 chains of 400 steps measure each gap to 5 %.
    betas = np.asarray(xps.annealing_ladder(trace.state, 10))
    gaps = np.diff(np.log((1 - betas) / 3.0**2 + betas / 0.3**2))
    np.testing.assert_allclose(gaps, gaps.mean(), rtol=0.25)


def test_annealing_begins_with_0():
    kernel = xps.ParallelTempering(exact_draws(), Ladder(4, 0.1))
    trace = xps.sample(NORMAL, kernel, np.zeros((4, 2)), 20, seed=1, warmup=50, progress=False)
    with pytest.raises(HyperparameterError, match=r"ends in 0\.1, and annealing begins with 0"):
        xps.annealing_ladder(trace.state, 5)


def test_too_few_rungs_are_said_and_twice_as_many_advised():
    kernel = xps.ParallelTempering(exact_draws(), xps.geometric_ladder(4, 0.01))
    trace = xps.sample(NORMAL, kernel, np.zeros((20, DIM)), 200, seed=1, progress=False)
    (found,) = [finding for finding in trace.diagnose() if finding.kind == "ladder"]
    assert found.value > 0.8 and "Ladder(rungs=8)" in found.advice


def test_groups_share_the_ladder_and_repellence_goes_around_it():
    """Groups have step sizes of their own."""
    settings = {"seed": 1, "warmup": 100, "progress": False}
    trace = xps.sample(NORMAL, xps.ParallelTempering(xps.RWM(), Ladder(3)), np.zeros((2, 4, 3)), 5, **settings)
    assert len(trace.kernel.betas) == 3 and trace.kernel.base.step_size.shape == (3, 2, 1)
    kernel = xps.SRMC(xps.ParallelTempering(xps.MALA(), Ladder(4)), 0.3)
    trace = xps.sample(NORMAL, kernel, np.zeros((4, 3)), 20, **settings)
    assert len(trace.kernel.base.betas) == 4
    assert np.all(np.isfinite(trace.draws)) and np.all(trace.state.base.swap_rates > 0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ladder(1), "rungs must be"),
        (lambda: Ladder(2.5), "rungs must be"),
        (lambda: Ladder(4, 1.0), "hottest must be"),
        (lambda: Ladder(4, -0.1), "hottest must be"),
        (lambda: xps.ParallelTempering(xps.RWM(), StepSize(0.3)), "betas must be a sequence of numbers"),
    ],
)
def test_bad_ladders_are_refused(make, message):
    with pytest.raises(HyperparameterError, match=message):
        make()


def test_a_single_chain_needs_an_axis_to_be_tuned_on_each_rung():
    kernel = xps.ParallelTempering(xps.MALA(), Ladder(3))
    with pytest.raises(HyperparameterError, match=r"MALA is tuned on each rung.*pass x0\[None, :\]"):
        xps.sample(NORMAL, kernel, np.zeros(3), 5, seed=1, progress=False)
    one = xps.ParallelTempering(xps.RWM(1.0), Ladder(3))
    assert len(xps.sample(NORMAL, one, np.zeros(3), 5, seed=1, warmup=50, progress=False).kernel.betas) == 3


def test_a_ladder_ends_its_round_at_equal_parts_and_a_little_of_the_start():
    rule, x, steps = Ladder(4, 0.1), np.zeros((4, 2)), 100
    memory = rule.init(numpy_xp, Point(x, None, None), True)
    info = SimpleNamespace(swap_probability=np.asarray([0.9, 0.5, 0.2]))
    new, _ = rule.update(memory, seen(np.floor(FROZEN * steps), steps, np.ones(4), x, info=info))
    inner = equal_parts(numpy_xp, memory.betas, 1.0 - info.swap_probability)
    expected = (1 - STARTING_SHARE) * inner + STARTING_SHARE * memory.start[1:-1]
    np.testing.assert_allclose(new.betas[1:-1], expected, rtol=1e-3)
    assert new.seen == 0
    same, _ = rule.update(memory, seen(5, steps, np.ones(4), x, info=info))
    np.testing.assert_array_equal(same.betas, memory.betas)
