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


RIGHT = {
    "nuts": lambda module: module.NUTS(0.6, max_depth=4),
    "mams": lambda module: module.MAMS(1.0, 3.3),
    "mclmc": lambda module: module.MCLMC(0.3, 1.5),
}
MODULES = {"nuts": nuts, "mams": mams, "mclmc": mclmc}


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_the_unbroken_ones_pass(name):
    assert outcome(name, RIGHT[name](MODULES[name])).passed


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


@pytest.mark.sampled(4)
@pytest.mark.slow
@pytest.mark.parametrize(("right", "wrong"), NUTS_TWINS.values(), ids=NUTS_TWINS)
def test_a_broken_nuts_is_caught(right, wrong):
    result = outcome("nuts", RIGHT["nuts"](broken(nuts, right, wrong)))
    assert result.z > 1.5 * result.limit


ENERGY, LAST = "-(energy + gained)", "whiten(proposal.score), 0.5 * eps)"
TWINS = {
    "the Jacobian forgotten": ("mams", ENERGY, "0.0 * energy"),
    "half of the Jacobian": ("mams", ENERGY, "-0.5 * (energy + gained)"),
    "the last kick's Jacobian forgotten": ("mams", ENERGY, "-energy"),
    "a last kick that is a whole one": ("mams", LAST, LAST.replace("0.5 * ", "")),
    "velocities that lean to one side": ("mams", 'unit(xp, noise["velocity"])', 'unit(xp, noise["velocity"] + 1.0)'),
    "a middle kick that is too long": ("mclmc", "(1 - 2 * MINIMAL_NORM)", "(1 - MINIMAL_NORM)"),
    "a refreshment that leans to one side": ("mclmc", '* noise["velocity"]', '* (noise["velocity"] + 1.0)'),
    "one move in place of two": ("mclmc", "x = x + 0.5 * eps * along", "x = x + 0.0 * eps * along"),
}


@pytest.mark.parametrize(("name", "right", "wrong"), TWINS.values(), ids=TWINS)
def test_a_broken_trajectory_is_caught(name, right, wrong):
    result = outcome(name, RIGHT[name](broken(MODULES[name], right, wrong)))
    assert result.z > 2 * result.limit


KICK_TWINS = {
    "mams: d in place of d - 1": ("mams", "u.shape[-1] - 1", "u.shape[-1]"),
    "mams: a Jacobian of the other sign": ("mams", "most * (delta + growth)", "-most * (delta + growth)"),
    "mclmc: d in place of d - 1": ("mclmc", "u.shape[-1] - 1", "u.shape[-1]"),
    "mclmc: away from the score": ("mclmc", "e, delta = score / length", "e, delta = -score / length"),
}


@pytest.mark.parametrize(("name", "right", "wrong"), KICK_TWINS.values(), ids=KICK_TWINS)
def test_a_broken_kick_is_caught(name, right, wrong, monkeypatch):
    monkeypatch.setattr(MODULES[name], "kick", broken(microcanonical, right, wrong).kick)
    result = outcome(name, RIGHT[name](MODULES[name]))
    assert result.z > 2 * result.limit
