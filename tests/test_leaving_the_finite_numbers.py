"""What a chain gets that leaves the finite numbers during a run."""

import warnings

import numpy as np
import pytest

import xpsample as xps
from tests.bad_input_support import gaussian, log_density, run
from xpsample.core.errors import DivergenceWarning
from xpsample.kernels import HMC, MALA, MAMS, PCN, RWM, SGNHT, ULA, IndependentMH, UnderdampedLangevin, metropolis

# The cause, told before the divergences that the tests are about.
pytestmark = pytest.mark.filterwarnings("ignore:the log density is:xpsample.core.errors.DivergenceWarning")


def walled(library):
    """A Gaussian with no density, and a log density of nan, right of 1."""
    xp = library.xp
    return gaussian(log_density=lambda x: xp.where(x[..., 0] > 1.0, float("nan"), log_density(x)))


@pytest.mark.parametrize("kernel", [RWM(1.0), MALA(0.5), HMC(0.5, 3), MAMS(0.5, 2.0), PCN(0.5), IndependentMH(0.0)])
def test_a_proposal_without_a_finite_density_is_rejected_and_counted(library, kernel):
    x0 = library.array(np.zeros((20, 2)))
    with pytest.warns(DivergenceWarning, match=r"\d+ of 1000 steps diverged, in \d+ of 20 chains"):
        trace = run(walled(library), kernel, x0, draws=50)
    draws, diverged = library.host(trace.draws), library.host(trace.statistics["diverged"])
    moved = library.host(trace.statistics["moved"])
    assert np.all(draws[..., 0] <= 1.0)
    assert np.all(np.isfinite(library.host(trace.statistics["log_density"])))
    np.testing.assert_array_equal(trace.run_statistics.diverged, diverged.sum(axis=0))
    assert diverged.sum() > 10
    assert not np.any(moved & diverged)
    before = np.concatenate([np.zeros((1, 20, 2)), draws[:-1]])
    np.testing.assert_array_equal(draws[diverged], before[diverged])
    assert np.all(library.host(trace.statistics["acceptance_probability"])[diverged] == 0)


def quartic(library):
    """log density -x^4 / 4: ULA from far away overshoots, further every time."""
    return xps.Target(lambda x: -0.25 * library.xp.sum(x**4, axis=-1), score=lambda x: -(x**3))


@pytest.mark.parametrize("kernel", [ULA(0.05), UnderdampedLangevin(0.3), SGNHT(0.3)])
def test_an_unadjusted_chain_that_explodes_is_frozen_and_the_others_go_on(library, kernel):
    start = np.full((4, 2), 0.5)
    start[2] = 50.0
    calm = np.full((4, 2), 0.5)
    settings = {"draws": 60, "seed": xps.Portable(3)}
    with pytest.warns(DivergenceWarning, match="in 1 of 4 chains"):
        trace = run(quartic(library), kernel, library.array(start), **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DivergenceWarning)
        reference = run(quartic(library), kernel, library.array(calm), **settings)
    draws, diverged = library.host(trace.draws), library.host(trace.statistics["diverged"])
    others = [0, 1, 3]
    np.testing.assert_array_equal(draws[:, others], library.host(reference.draws)[:, others])
    # Frozen at the last finite position from the first step that left, and counted at every step from then on.
    assert np.all(np.isfinite(draws))
    first = int(np.argmax(diverged[:, 2]))
    assert 0 < first < 20
    assert np.all(diverged[first:, 2]) and not np.any(diverged[:first, 2]) and not np.any(diverged[:, others])
    np.testing.assert_array_equal(draws[first:, 2], np.broadcast_to(draws[first - 1, 2], draws[first:, 2].shape))
    assert not np.array_equal(draws[first - 1, 2], draws[first - 2, 2] if first > 1 else start[2])
    np.testing.assert_array_equal(trace.run_statistics.diverged, diverged.sum(axis=0))


def test_an_energy_error_without_bound_is_a_divergence(library):
    with pytest.warns(DivergenceWarning, match="energy errors"):
        trace = run(gaussian(), HMC(3.0, 20), library.array(np.full((4, 2), 1.0)), draws=5)
    assert np.all(trace.run_statistics.diverged == 5) and np.all(library.host(trace.draws) == 1.0)


class OneWay(RWM):
    """A walk in the left half of the plane: no move leads back from the right half."""

    def step(self, target, state, noise):
        xp, x = target.xp, state.point
        y = target.evaluate(x.x + noise["proposal"])
        possible = y.x[..., 0] <= 0
        log_ratio = xp.where(possible, target.log_ratio(y, x), -float("inf"))
        point, info = metropolis(target, log_ratio, noise["accept"], y, x, possible=possible)
        return state._replace(point=point), info


def test_a_proposal_without_a_way_back_is_rejected_and_is_no_divergence(library):
    for target in (gaussian(), walled(library)):
        trace = run(target, OneWay(1.0), library.array(np.zeros((20, 2))), draws=50)
        draws, rejected = library.host(trace.draws), ~library.host(trace.statistics["moved"])
        assert np.all(draws[..., 0] <= 0) and 200 < rejected.sum() < 800
        assert np.all(trace.run_statistics.diverged == 0)


def test_a_run_without_divergence_is_silent(library):
    with warnings.catch_warnings():
        warnings.simplefilter("error", DivergenceWarning)
        trace = run(gaussian(), MALA(0.3), library.array(np.zeros((4, 2))), draws=20)
    assert np.all(trace.run_statistics.diverged == 0)
