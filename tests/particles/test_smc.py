"""Tempered SMC: known normalisers within the stated errors, its relation to AIS, and its temperatures."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from tests.enumerated import quadratic
from tests.kernels.support import COVARIANCE
from xpsample import AIS, GWG, HMC, MALA, RWM, Bridge, HiSS, Portable, Record, TemperedSMC, log_normalizer, sample
from xpsample.core.errors import HyperparameterError
from xpsample.particles.smc import particle_log_normalizer
from xpsample.zoo.gaussian import gaussian

BETAS = np.linspace(0.0, 1.0, 9)
WIDE, NARROW = gaussian(4.0 * np.eye(3)), gaussian(COVARIANCE, np.asarray([0.5, -1.0, 0.3]))
INITIAL = 1.5 * math.log(8 * math.pi)
EXACT = 0.5 * np.linalg.slogdet(2 * math.pi * COVARIANCE)[1]


def start(*chains, dim=3, sd=2.0, seed=2):
    return sd * np.random.default_rng(seed).standard_normal((*chains, dim))


def smc(kernel, x0, bridge, steps):
    return sample(bridge, kernel, x0, 1, seed=1, burn_in=steps - 1, recorders=()).state


def covered(result, exact):
    """How many runs have the exact value within 1.96 of their stated errors."""
    return int(np.sum(np.abs(result.value - exact) < 1.96 * result.standard_error))


def assert_exact(result, exact, least, most):
    """Coverage between two probabilities, error probability 1e-6 each; and of all runs together within 5 errors."""
    runs = len(result.value)
    assert binom.ppf(1e-6, runs, least) < covered(result, exact) < binom.isf(1e-6, runs, most)
    whole = log_normalizer(result.value)
    assert abs(whole.value - exact) < 5 * whole.standard_error


def ratio_of_errors(result):
    """Root mean square of the stated errors over the scatter of the values."""
    return math.sqrt(np.mean(result.standard_error**2)) / np.std(result.value, ddof=1)


@pytest.mark.parametrize("base", [RWM(0.8), MALA(0.3), HMC(0.4, 2)], ids=["RWM", "MALA", "HMC"])
def test_the_normaliser_of_a_gaussian(base):
    state = smc(TemperedSMC(base, BETAS, threshold=0.5, moves=1), start(200, 200), Bridge(WIDE, NARROW), 8)
    assert_exact(particle_log_normalizer(state, INITIAL), EXACT, 0.92, 0.98)
    assert np.all(state.resamplings > 0)


@pytest.mark.parametrize("base", [RWM(0.4), RWM()], ids=["given", "tuned"])
def test_several_moves_at_each_temperature(base):
    """As exact as one is, and they carry small steps further, so that the estimate varies less."""
    once, often = (
        particle_log_normalizer(
            smc(TemperedSMC(base, BETAS, threshold=1.0, moves=moves), start(200, 100), Bridge(WIDE, NARROW), 8), INITIAL
        )
        for moves in (1, 8)
    )
    whole = log_normalizer(often.value)
    assert abs(whole.value - EXACT) < 5 * whole.standard_error
    assert np.std(often.value) < 0.8 * np.std(once.value)


def test_a_kernel_with_noise_of_an_inner_one_keeps_its_own_at_each_move():
    """HiSS and its inner kernel both have numbers called ``accept``: each move's are those of one step, unchanged."""
    base, x = HiSS(GWG(), 1.0, 2, 3), np.zeros((2, 5, 4))
    kernel = TemperedSMC(base, (0.0, 0.5, 1.0), threshold=0.0, moves=3)
    inner = {name.removeprefix("base/"): spec for name, spec in kernel.noise(x).items()}
    assert inner == {name: spec._replace(shape=(3, *spec.shape)) for name, spec in base.noise(x).items()}
    assert len(inner) == len(kernel.noise(x))


def always():
    """MALA, resampled at every step: a single run's stated error is noisy then, so all of them are taken together."""
    state = smc(TemperedSMC(MALA(0.3), BETAS, threshold=1.0, moves=1), start(200, 200), Bridge(WIDE, NARROW), 8)
    return particle_log_normalizer(state, INITIAL)


def test_the_stated_error_with_resampling_at_every_step():
    result = always()
    whole = log_normalizer(result.value)
    assert abs(whole.value - EXACT) < 5 * whole.standard_error
    assert 0.8 < ratio_of_errors(result) < 1.3  # 200 values scatter by 5 %


def test_weights_that_are_not_reset_are_caught(monkeypatch):
    monkeypatch.setattr("xpsample.particles.weights.Weights.reset", lambda self, xp, where: self)
    assert ratio_of_errors(always()) > 1.5


def test_without_resampling_it_is_ais(library):
    x0 = library.array(start(2, 30))
    options = {"seed": Portable(1), "burn_in": 7, "recorders": ()}
    ours = sample(Bridge(WIDE, NARROW), TemperedSMC(MALA(0.3), BETAS, threshold=0.0, moves=1), x0, 1, **options).state
    theirs = sample(Bridge(WIDE, NARROW), AIS(MALA(0.3), BETAS), x0, 1, **options).state
    np.testing.assert_allclose(library.host(ours.point.x), library.host(theirs.point.x), rtol=1e-12)
    logs = library.host(ours.weights.logs) + library.host(ours.weights.log_normalizer)[:, None] + math.log(30)
    np.testing.assert_allclose(logs, library.host(theirs.log_weight), rtol=1e-9, atol=1e-9)
    result = particle_log_normalizer(ours, 3.0)
    for run in range(2):
        expected = log_normalizer(theirs.log_weight[run, :], 3.0)
        found = [result.value[run], result.standard_error[run], result.weight_ess[run]]
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_single_run_on_a_discrete_space(library):
    target, dim = quadratic("bits", 2.0)
    states = target.space.states(dim)
    x0 = states[np.random.default_rng(1).integers(0, len(states), 500)]
    kernel = TemperedSMC(GWG(), BETAS, threshold=0.8, moves=1)
    state = sample(target, kernel, library.array(x0), 8, seed=Portable(1), recorders=()).state
    result = particle_log_normalizer(state, math.log(len(states)))
    exact = math.log(np.sum(np.exp(target.log_density(states, target.data))))
    assert result.value.shape == () and abs(result.value - exact) < 5 * result.standard_error


class TestAdaptiveTemperatures:
    """Chosen so that the conditional effective sample size falls to a share of the particles."""

    RECORDERS = (
        Record("beta", lambda state: state.beta),
        Record("x", lambda state: state.point.x),
        Record("logs", lambda state: state.weights.logs),
    )

    def test_each_step_costs_what_was_asked_for(self):
        bridge, share = Bridge(WIDE, NARROW), 0.8
        kernel = TemperedSMC(RWM(0.5), ess=share, threshold=0.6, moves=1)
        run = sample(bridge, kernel, start(3, 200), 30, seed=1, recorders=self.RECORDERS).recorded
        betas, x, logs = run["beta"][..., 0], run["x"], run["logs"]
        assert np.all(betas[-1] == 1.0) and np.all(np.diff(betas, axis=0) >= 0) and len({*map(tuple, betas.T)}) == 3
        bound = bridge.prepare(x[0], RWM(0.5).requires)
        for t in range(1, 30):
            point = bound.evaluate(x[t - 1])
            gain = np.exp((betas[t] - betas[t - 1])[:, None] * (point.log_density - point.base.initial.log_density))
            w = np.exp(logs[t - 1])
            found = np.sum(w * gain, axis=-1) ** 2 / np.sum(w * gain**2, axis=-1)
            inside = betas[t] < 1
            np.testing.assert_allclose(found[inside], share, rtol=1e-6)
            assert np.all(found[~inside] > share * (1 - 1e-6))

    def test_the_normaliser(self):
        """Adaptation biases the estimate by O(1 / particles), less than its error here."""
        kernel = TemperedSMC(MALA(0.3), ess=0.8, threshold=0.5, moves=1)
        state = smc(kernel, start(100, 400), Bridge(WIDE, NARROW), 12)
        assert np.all(state.beta == 1.0)
        assert_exact(particle_log_normalizer(state, INITIAL), EXACT, 0.90, 0.99)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "neither is set. With ess=0.8"),
        ({"betas": BETAS, "ess": 0.5}, "needs betas or ess, and both are set"),
        ({"ess": 1.0}, "ess must be greater than 0 and below 1"),
        ({"betas": (0.0, 0.5)}, "from 0 to 1"),
        ({"ess": 0.5, "threshold": 2.0}, "threshold must be at least 0 and at most 1"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(HyperparameterError, match=message):
        TemperedSMC(RWM(0.5), **settings)
    with pytest.raises(HyperparameterError, match="moves particles"):
        sample(Bridge(WIDE, NARROW), TemperedSMC(RWM(0.5), BETAS), np.zeros(3), 1, seed=1)
