"""SRMC broken on purpose: each fault must be caught by the check of the tilted step, for every base kernel."""

from dataclasses import replace

import numpy as np
import pytest

from tests.compositions.around import Around
from tests.conformance.broken_tilts import WrongDrift
from xpsample.conformance import reference, run_check, scenarios
from xpsample.srmc import SRMC
from xpsample.targets import Capability

REPELLENT = {
    scenario.name: scenario
    for scenario in scenarios()
    if scenario.base is not None and isinstance(scenario.kernel(np.asarray), SRMC)
}


class Spoilt(Around):
    """An SRMC kernel, whose state or result is tampered with."""

    @property
    def requires(self):
        return self.kernel.requires | Capability.HVP  # which one of the faults takes


class HistoryFirst(Spoilt):
    """Updates theta with the score before the transition, and moves under the new theta."""

    def step(self, target, state, noise):
        xp, n = target.xp, state.n + 1
        time = xp.astype(n, state.theta.dtype)
        gamma, schedule = self.kernel.schedule.gamma(target, time, state.alpha, state.point, state.schedule)
        gamma = xp.zeros_like(state.gamma) + gamma
        theta = state.theta + gamma[..., None] * (state.score - state.theta)
        new, info = self.kernel.step(target, state._replace(theta=theta), noise)
        return new._replace(theta=theta, gamma=gamma, schedule=schedule), info


class WrongSign(Spoilt):
    """Attracts: moves on log pi + alpha theta . s, score and density alike."""

    def step(self, target, state, noise):
        new, info = self.kernel.step(target, state._replace(theta=-state.theta), noise)
        theta = state.theta + new.gamma[..., None] * (new.score - state.theta)
        return new._replace(theta=theta), info


class TiltedHistory(Spoilt):
    """Feeds the history with the score under the tilt."""

    def step(self, target, state, noise):
        new, info = self.kernel.step(target, state, noise)
        tilted = new.score - state.alpha[..., None] * target.hvp(new.point.x, state.theta)
        return new._replace(theta=state.theta + new.gamma[..., None] * (tilted - state.theta)), info


class MovingHistory(Spoilt):
    """Doubles gamma without saying so."""

    def step(self, target, state, noise):
        new, info = self.kernel.step(target, state, noise)
        return new._replace(theta=new.theta + new.gamma[..., None] * (new.score - state.theta)), info


@pytest.mark.parametrize("name", REPELLENT)
def test_the_unspoilt_wrapper_passes(name):
    scenario = REPELLENT[name]
    whole = replace(scenario, kernel=lambda asarray: Spoilt(scenario.kernel(asarray)))
    assert run_check("tilted step", whole, reference()).passed is True


@pytest.mark.parametrize("kind", [HistoryFirst, WrongSign, TiltedHistory, MovingHistory])
@pytest.mark.parametrize("name", REPELLENT)
def test_a_fault_is_caught_for_every_base(name, kind):
    scenario = REPELLENT[name]
    spoilt = replace(scenario, kernel=lambda asarray: kind(scenario.kernel(asarray)))
    outcome = run_check("tilted step", spoilt, reference())
    assert outcome.passed is False
    assert float(outcome.detail) > 1e-3  # and not by a hair


@pytest.mark.parametrize("name", ["sr-ula", "sr-mala", "sr-hmc", "sr-underdamped"])
def test_a_drift_of_the_wrong_sign_is_caught_where_metropolis_hides_it_too(name):
    # The invariance check cannot see this one for MALA and HMC: they stay exact under any drift.
    scenario = REPELLENT[name]
    spoilt = replace(scenario, kernel=lambda asarray: replace(scenario.kernel(asarray), tilt=WrongDrift()))
    outcome = run_check("tilted step", spoilt, reference())
    assert outcome.passed is False
    assert float(outcome.detail) > 1e-3  # a deviation, not an error
