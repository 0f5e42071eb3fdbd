"""Blocks: every parameter moved by its own kernel, given the others, discrete and real mixed."""

import warnings
from math import log, sqrt

import numpy as np
import pytest
from array_api_compat import array_namespace

import xpsample as xps
from xpsample.core.errors import CapabilityError, DivergenceWarning, HyperparameterError
from xpsample.kernels import blocks as module

SHARE, GAP = 0.7, 2.0


def two_normals(p):
    """z is 1 with probability 0.7, and x ~ N(2 z, 1) given z."""
    return p.z * log(SHARE) + (1 - p.z) * log(1 - SHARE) - 0.5 * (p.x - GAP * p.z) ** 2


def mixed(**options):
    """A model of one binary and one real parameter."""
    return xps.Model(two_normals, z=xps.Binary(), x=xps.Real(), gradient=xps.FiniteDifference(), **options)


def z_scores(kernel, chains=5_000, draws=30):
    """How far the means of z, x and z x are from the truth, in standard errors from independent chains."""
    model = mixed()
    rng = np.random.default_rng(0)
    z = (rng.uniform(size=chains) < SHARE).astype(np.float64)  # from the target itself
    x0 = {"z": z, "x": GAP * z + rng.normal(size=chains)}
    trace = xps.sample(model, kernel, x0, draws, seed=1)
    truth = SHARE, GAP * SHARE, GAP * SHARE
    found = trace["z"], trace["x"], trace["z"] * trace["x"]
    means = [values.mean(0) for values in found]
    return [(m.mean() - t) / (m.std() / sqrt(chains)) for m, t in zip(means, truth, strict=True)]


def test_the_joint_distribution():
    kernel = xps.Blocks({"z": xps.Gibbs(), "x": xps.RWM(2.0)})
    assert np.max(np.abs(z_scores(kernel))) < 4.5  # three of them: 2e-5


def test_a_block_that_is_given_the_others_as_they_were_is_caught(monkeypatch):
    """Both moved at once, each given the old value of the other, is another distribution."""
    monkeypatch.setattr(module.InTurn, "step", at_once)
    assert np.max(np.abs(z_scores(xps.Blocks({"z": xps.Gibbs(), "x": xps.RWM(2.0)})))) > 8


def at_once(self, target, state, noise):
    """A wrong sweep: the second kernel starts from where the first one did."""

    def of(whose):
        return {name.removeprefix(whose): a for name, a in noise.items() if name.startswith(whose)}

    old = state.point
    first, one = self.first.step(target, module.with_position(state.first, old), of("first/"))
    rest, _ = self.rest.step(target, module.with_position(state.rest, old), of("rest/"))
    joint = target.space.put(target.xp, first.point.x, {"x": rest.point.x[..., 1:]})
    return module.InTurnState(first, module.with_position(rest, target.evaluate(joint))), one


def test_each_block_is_tuned():
    model = xps.Model(
        lambda p: -0.5 * (p.a / 10) ** 2 - 0.5 * array_namespace(p.b).sum((p.b / 0.1) ** 2, axis=-1),
        a=xps.Real(),
        b=xps.Real(2),
        gradient=xps.FiniteDifference(),
    )
    x0 = model.start(np.zeros(0), chains=20, seed=0)
    trace = xps.sample(model, xps.Blocks({"a": xps.MALA(), "b": xps.MALA()}), x0, 300, seed=1)
    first, second = module.blocks_of(trace.kernel.sweep)
    assert first.base.preconditioner.shape == (1,)
    assert second.base.preconditioner.shape == (2,)
    assert abs(trace["a"].std() / 10 - 1) < 0.15
    assert abs(trace["b"].std() / 0.1 - 1) < 0.1
    assert {"MALA.step_size", "MALA[1].step_size"} <= set(trace.warmup)


@pytest.mark.parametrize("first", ["a", "b"])
def test_divergences_of_every_block_are_counted(first):
    """Only a proposal for `a` leads to where the density is nan; its block may be the first or the last."""
    model = xps.Model(
        lambda p: np.where(p.a > 1.0, np.nan, -0.5 * p.a**2) - 0.5 * p.b**2,
        a=xps.Real(),
        b=xps.Real(),
        gradient=xps.FiniteDifference(),
    )
    last = "b" if first == "a" else "a"
    kernel = xps.Blocks({first: xps.RWM(1.5), last: xps.RWM(1.5)})
    x0 = {"a": np.zeros(20), "b": np.zeros(20)}
    with np.errstate(invalid="ignore"), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        trace = xps.sample(model, kernel, x0, 200, seed=1)
    assert any(issubclass(warning.category, DivergenceWarning) for warning in said)
    share = np.mean(trace.statistics["diverged"])
    assert 0.1 < share < 0.5


@pytest.mark.parametrize(
    ("sweep", "error", "message"),
    [
        ({}, HyperparameterError, "mapping of names"),
        ({"z": xps.Gibbs()}, HyperparameterError, "x is in no block"),
        ({"z": xps.Gibbs(), "x": xps.RWM(1.0), "y": xps.RWM(1.0)}, HyperparameterError, "y is no parameter"),
        ({"z": xps.Gibbs(), ("x", "z"): xps.RWM(1.0)}, HyperparameterError, "z is in two blocks"),
        ({("x", "z"): xps.RWM(1.0)}, CapabilityError, "mixes a discrete parameter with others"),
        ({"z": xps.Gibbs(), "x": xps.Blocks({"x": xps.RWM(1.0)})}, HyperparameterError, "cannot contain Blocks"),
        ({"z": xps.RWM(1.0), "x": xps.RWM(1.0)}, CapabilityError, "RWM moves real numbers, but z is discrete"),
        ({"z": xps.Gibbs(), "x": xps.Gibbs()}, CapabilityError, "Gibbs moves discrete values, but x is real"),
        ({"z": xps.Gibbs(), "x": xps.SRMC(xps.RWM(1.0), 1.0)}, CapabilityError, "Blocks cannot go around SRMC"),
        (xps.RWM(1.0), CapabilityError, "moves real positions"),
        (xps.Gibbs(), CapabilityError, "use Blocks, such as Blocks"),
    ],
)
def test_what_is_refused(sweep, error, message):
    model, x0 = mixed(), mixed().start(np.zeros(0), chains=2, seed=0)
    with pytest.raises(error, match=message):
        xps.sample(model, xps.Blocks(sweep) if isinstance(sweep, dict) else sweep, x0, 3, seed=0)
    with pytest.raises(HyperparameterError, match="parameters of a Model"):
        xps.sample(xps.Target(lambda x: -0.5 * (x**2).sum(-1)), xps.Blocks({"x": xps.RWM(1.0)}), np.zeros(2), 3, seed=0)
