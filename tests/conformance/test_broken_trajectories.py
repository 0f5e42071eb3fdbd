"""Kernels of trajectories, each broken in one line of its source: the check of the distribution must catch it."""

import inspect
import types
from dataclasses import replace

import pytest

from xpsample.conformance import invariance, reference, scenarios
from xpsample.kernels import mams, mclmc, microcanonical, nuts

SCENARIOS = {scenario.name: scenario for scenario in scenarios()}


def broken(module, right, wrong):
    """A module with one piece of its source replaced."""
    source = inspect.getsource(module)
    assert source.count(right) == 1
    twin = types.ModuleType(module.__name__)
    exec(compile(source.replace(right, wrong), module.__file__, "exec"), twin.__dict__)
    return twin


def outcome(name, kernel):
    return invariance(replace(SCENARIOS[name], kernel=lambda asarray: kernel), reference())


NUTS_TWINS = {
    "a new leaf against the leaf before it": ("_turned(xp, left, end.p,", "_turned(xp, half.end.p, end.p,"),
    "an end against itself": ("_turned(xp, tree.left.p, tree.right.p,", "_turned(xp, tree.left.p, tree.left.p,"),
    "halves that may turn": ("target.backend.repeat(trailing, check, ~here)", "~here"),
    "the weight of the old half forgotten": ("half.log_weight - tree.log_weight", "half.log_weight"),
    "the weight of the new half forgotten": ("half.log_weight - tree.log_weight", "zeros"),
    "the weights of leaves forgotten": ("xp.exp(gain - log_weight)", "0.5"),
    "a uniform that is used twice": ("xp.where(rest < below_one, rest, below_one)", "uniform"),
    "always forwards": ("zeros + 0.5", "zeros + 1.0"),
}


@pytest.mark.slow
def test_nuts_passes():
    assert outcome("nuts", nuts.NUTS(0.6, max_depth=4)).passed


@pytest.mark.sampled(4)
@pytest.mark.slow
@pytest.mark.first_cases(2)
@pytest.mark.parametrize("fault", NUTS_TWINS)
def test_a_broken_nuts_is_caught(fault):
    twin = broken(nuts, *NUTS_TWINS[fault])
    result = outcome("nuts", twin.NUTS(0.6, max_depth=4))
    assert result.z > 1.5 * result.limit


MAMS_TWINS = {
    "the Jacobian forgotten": ("-(energy + gained)", "0.0 * energy"),
    "half of the Jacobian": ("-(energy + gained)", "-0.5 * (energy + gained)"),
    "the last kick's Jacobian forgotten": ("-(energy + gained)", "-energy"),
    "a last kick that is a whole one": (
        "whiten(proposal.score), 0.5 * eps)",
        "whiten(proposal.score), eps)",
    ),
    "velocities that lean to one side": ('unit(xp, noise["velocity"])', 'unit(xp, noise["velocity"] + 1.0)'),
}
KICK_TWINS = {
    "d in place of d - 1": ("u.shape[-1] - 1", "u.shape[-1]"),
    "away from the score": ("e, delta = score / length", "e, delta = -score / length"),
    "a Jacobian of the other sign": ("most * (delta + growth)", "-most * (delta + growth)"),
}
MCLMC_TWINS = {
    "a middle kick that is too long": ("(1 - 2 * MINIMAL_NORM)", "(1 - MINIMAL_NORM)"),
    "a refreshment that leans to one side": ('* noise["velocity"]', '* (noise["velocity"] + 1.0)'),
    "one move in place of two": ("x = x + 0.5 * eps * along", "x = x + 0.0 * eps * along"),
}


@pytest.mark.slow
def test_mams_and_mclmc_pass():
    assert outcome("mams", mams.MAMS(1.0, 3.3)).passed
    assert outcome("mclmc", mclmc.MCLMC(0.3, 1.5)).passed


@pytest.mark.parametrize("fault", MAMS_TWINS)
def test_a_broken_mams_is_caught(fault):
    result = outcome("mams", broken(mams, *MAMS_TWINS[fault]).MAMS(1.0, 3.3))
    assert result.z > 2 * result.limit


@pytest.mark.parametrize("fault", ["d in place of d - 1", "a Jacobian of the other sign"])
def test_a_broken_kick_is_caught(fault, monkeypatch):
    monkeypatch.setattr(mams, "kick", broken(microcanonical, *KICK_TWINS[fault]).kick)
    result = outcome("mams", mams.MAMS(1.0, 3.3))
    assert result.z > 2 * result.limit


@pytest.mark.parametrize("fault", MCLMC_TWINS)
def test_a_broken_mclmc_is_caught(fault):
    result = outcome("mclmc", broken(mclmc, *MCLMC_TWINS[fault]).MCLMC(0.3, 1.5))
    assert result.z > 2 * result.limit


@pytest.mark.parametrize("fault", ["d in place of d - 1", "away from the score"])
def test_a_broken_kick_of_mclmc_is_caught(fault, monkeypatch):
    monkeypatch.setattr(mclmc, "kick", broken(microcanonical, *KICK_TWINS[fault]).kick)
    result = outcome("mclmc", mclmc.MCLMC(0.3, 1.5))
    assert result.z > 2 * result.limit
