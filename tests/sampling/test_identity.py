"""What a checkpoint recognizes its run by: plain values, and the values of the user's functions."""

import json
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

import xpsample as xps
from tests.own_tilts import ByIdentity
from xpsample.core.describe import describe, differences
from xpsample.core.errors import CheckpointError
from xpsample.kernels.kernel import ChainState, Info, Kernel
from xpsample.prox import L1
from xpsample.sampling.identity import environment
from xpsample.srmc.schedules import Schedule
from xpsample.targets import Capability

pytestmark = pytest.mark.filterwarnings("ignore::xpsample.core.errors.RepellenceWarning")


def test_the_environment(library):
    found = environment(library.array(np.zeros((2, 1))))
    assert found[library.backend.name] != "unknown" and len(found["devices"]) == 1
    assert ":" not in found["devices"][0]


def log_density(x):
    return -0.5 * np.sum(x**2, axis=-1)


GAUSSIAN = xps.Target(log_density, score=lambda x: -x, hvp=lambda x, v: -v)
X0 = np.random.default_rng(0).normal(size=(4, 2))
STATES = np.random.default_rng(0).integers(0, 2, size=(4, 3)).astype(float)


def run(path, target=GAUSSIAN, kernel=None, x0=X0, draws=10, recorders=(xps.Draws(),), **settings):
    settings = {"seed": 1, "progress": False, "checkpoint": path} | settings
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        return xps.sample(target, kernel or xps.RWM(0.5), x0, draws, recorders=recorders, **settings)


@dataclass(frozen=True)
class OwnSchedule(Schedule):
    """A schedule of the user's with a function."""

    gamma_of: Any
    hvps = 0

    def init(self, target, x):
        return None

    def gamma(self, target, n, alpha, point, memory):
        return self.gamma_of(n), None


class OwnKernel(Kernel[ChainState, Info]):
    """A kernel of the user's whose code changes."""

    requires = Capability.LOG_DENSITY
    size = 0.5

    def init(self, target, x):
        return ChainState(target.evaluate(x))

    def noise(self, x):
        return xps.RWM(0.5).noise(x)

    def step(self, target, state, noise):
        return xps.RWM(self.size).step(target, state, noise)


class LargerKernel(OwnKernel):
    size = 0.6


LargerKernel.__qualname__ = "OwnKernel"


def srmc(**settings):
    return xps.SRMC(xps.MALA(0.3), alpha=0.5, **settings)


def spins(strength):
    target = xps.Target(lambda x: strength * np.sum(x[..., 1:] * x[..., :-1], axis=-1), space=xps.Binary())
    return {"target": target, "kernel": xps.Gibbs(), "x0": 0 * STATES}


def order(power):
    target = xps.Target(lambda x: -np.sum(np.abs(x - np.arange(3)) ** power, axis=-1), space=xps.Permutations())
    return {"target": target, "kernel": xps.TwoOpt(), "x0": np.tile([0, 1, 2], (4, 1))}


def mixture(gap):
    model = xps.Model(lambda p: -0.5 * (p.m - gap * p.k) ** 2, m=xps.Real(), k=xps.Binary())
    return {"target": model, "kernel": BLOCKS, "x0": 0 * STATES[:, :2]}


BLOCKS = xps.Blocks({"m": xps.RWM(0.5), "k": xps.Gibbs()})


def with_data(sd):
    return xps.Target(lambda x, sd: -0.5 * np.sum((x / sd) ** 2, axis=-1), data=np.asarray(sd))


def by_hvp(factor):
    target = xps.Target(log_density, score=lambda x: -x, hvp=lambda x, v: -factor * v)
    return {"target": target, "kernel": srmc(tilt=xps.Exact())}


def strength(value):
    return {"kernel": xps.MYULA(0.1, L1(), 0.1, strength=lambda data: value)}


def tilted(size):
    return {"kernel": srmc(tilt=ByIdentity(size * np.ones(2)))}


def scheduled(offset):
    return {"kernel": srmc(schedule=OwnSchedule(lambda n: 1 / (n + offset)))}


def recorded(factor):
    return {"recorders": (xps.Record("y", lambda s: factor * s.point.x),)}


def by_partial(factor):
    return {"recorders": (xps.Record("y", partial(lambda a, s: a * s.point.x, factor)),)}


def replayed(seed):
    rng = np.random.default_rng(seed)
    return xps.Replay({"proposal": rng.standard_normal((50, 4, 2)), "accept": rng.uniform(size=(50, 4))})


def of(name):
    return lambda value: {name: value}


def by_differences(eps):
    return {"target": xps.Target(log_density, gradient=xps.FiniteDifference(eps)), "kernel": xps.MALA(0.1)}


def bump(height):
    return {"target": xps.Target(lambda x: -np.sum(x**2 + height * (x > 90), axis=-1))}


def fails(far_out):
    return {"target": xps.Target(lambda x: 1 / 0 if far_out and np.any(x >= 50) else log_density(x))}


STEP, PROBES = "after one step from x was", "log density at other positions"

CHANGES = {
    "seed": (of("seed"), 1, 2, r"\(noise seed: 1 there, 2 here"),
    "source of noise": (of("seed"), 1, xps.Portable(1), r"\(noise"),
    "numbers to replay": (of("seed"), replayed(1), replayed(2), r"\(noise arrays"),
    "thinning": (of("thinning"), 1, 2, r"\(thinning"),
    "burn-in": (of("burn_in"), 0, 1, r"\(burn_in"),
    "recorders": (of("recorders"), (xps.Draws(),), (xps.Moments(),), r"\(recorders"),
    "hyperparameter": (of("kernel"), xps.RWM(0.5), xps.RWM(0.6), r"\(kernel step_size: 0.5 there, 0.6 here"),
    "kernel": (of("kernel"), xps.RWM(0.5), xps.MALA(0.5), r"\(kernel: RWM there, MALA here"),
    "data": (of("target"), with_data(1.0), with_data(1 + 1e-12), r"\(target data value: 1.0 there"),
    "positions": (of("x0"), X0, np.nextafter(X0, 9), r"\(positions array"),
    "gradient": (by_differences, 1e-4, 1e-5, r"\(target gradient eps: 0.0001 there, 1e-05 here"),
    "a tilt with other numbers": (tilted, 1, 2, r"\(kernel tilt diagonal array"),
    "a function of a schedule": (scheduled, 1, 2, "state/.* after one step from x was .*, now"),
    "a function of a kernel": (strength, 1.0, 2.0, STEP),
    "the code of a kernel": (of("kernel"), OwnKernel(), LargerKernel(), STEP),
    "a recorder's function": (recorded, 1, 2, f"row of y {STEP} .*, now"),
    "a partial": (by_partial, 1, 2, f"row of y {STEP} .*, now"),
    "a product with the Hessian": (by_hvp, 1.0, 1.1, r"hvp at x was -1.0, now -1.1 \(x are the initial positions"),
    "a discrete density": (spins, 1.0, 1.1, rf"{PROBES} \(1 of 4\) was 2.0, now 2.2"),
    "a density of permutations": (order, 1, 2, PROBES),
    "a density of both kinds": (mixture, 1.0, 2.0, PROBES),
    "far from the start": (bump, 1.0, 2.0, r"log density at 100 x \+ 100 was"),
    "where it raises": (fails, False, True, r"the target at 100 x \+ 100 gave log density -.*, now an error"),
}


@pytest.mark.parametrize(("settings", "one", "other", "message"), CHANGES.values(), ids=CHANGES)
def test_a_changed_run_is_refused(settings, one, other, message, tmp_path):
    """And the same one goes on."""
    run(tmp_path, **settings(one))
    assert run(tmp_path, draws=15, **settings(one)).run_statistics.steps == 15
    with pytest.raises(CheckpointError, match=f"another run:? .*{message}"):
        run(tmp_path, draws=20, **settings(other))


class Density:
    def __call__(self, x):
        return log_density(x)


def renamed(y):
    total = y[..., 0] ** 2
    for i in range(1, y.shape[-1]):
        total = total + y[..., i] ** 2
    return -total / 3 * 1.5  # rounds otherwise


def only_inside(x):
    warnings.warn("far out", RuntimeWarning, stacklevel=2) if np.any(np.abs(x) > 50) else None
    if np.any(np.abs(x) > 20):
        raise ValueError("outside")
    return log_density(x)


REFACTORED = {
    "a def": (lambda x: log_density(x), log_density),
    "an object": (log_density, Density()),
    "a partial": (log_density, partial(lambda scale, x: scale * log_density(x), 1.0)),
    "rounding": (log_density, renamed),
    "errors and warnings of the probes": (only_inside, lambda x: only_inside(x)),
}


@pytest.mark.parametrize("name", REFACTORED)
@pytest.mark.parametrize("kernel", [xps.RWM(0.5), xps.HMC(0.3, 20), OwnKernel()], ids=["RWM", "HMC", "own"])
def test_a_refactored_density_goes_on(name, kernel, tmp_path):
    one, other = (xps.Target(f, score=lambda x: -x) for f in REFACTORED[name])
    recorders = (xps.Draws(), xps.Record("y", lambda s: s.point.x[..., 0]))
    run(tmp_path, one, kernel, recorders=recorders)
    assert run(tmp_path, other, kernel, draws=15, recorders=recorders).run_statistics.steps == 15


@pytest.mark.parametrize("kernel", [xps.MALA(), xps.NUTS(), srmc()], ids=["MALA", "NUTS", "SRMC"])
def test_in_float32_and_after_a_warm_up(kernel, library, tmp_path):
    xp = library.xp
    x0 = xp.astype(library.array(X0), xp.float32)
    one, same, other = (
        xps.Target(f, score=lambda x, a=a: -a * x, hvp=lambda x, v: -v)
        for f, a in (
            (lambda x: -0.5 * xp.sum(x * x, axis=-1), 1.0),
            (lambda x: -xp.sum(x * x / 3, axis=-1) * 1.5, 1.0),  # rounds otherwise
            (lambda x: -0.501 * xp.sum(x * x, axis=-1), 1.002),
        )
    )
    settings = {"kernel": kernel, "x0": x0, "warmup": None if isinstance(kernel, xps.SRMC) else 20}
    run(tmp_path, one, **settings)
    assert run(tmp_path, same, draws=15, **settings).run_statistics.steps == 15
    with pytest.raises(CheckpointError, match="another run: log density at x was"):
        run(tmp_path, other, draws=20, **settings)


def test_the_calls_that_a_checkpoint_costs(tmp_path):
    """Five at the start, one where it is saved, and a row; none of them is counted."""
    calls = []

    def counted(x):
        calls.append(len(x))
        return log_density(x)

    alone = run(None, xps.Target(counted))
    without = len(calls)
    calls.clear()
    saved = run(tmp_path, xps.Target(counted))
    assert len(calls) - without <= 7
    assert saved.run_statistics.evaluations == alone.run_statistics.evaluations


def test_descriptions():
    """Equal for equal values and in JSON, different for others."""
    values = [1, 1.0, "1", None, True, np.ones(2), np.ones(2, dtype=np.float32), np.zeros(2), np.float32(1), 1j]
    values += [[1, 2], {"a": 1}, {"a": 2}, {1, 3}, Capability.SCORE, xps.RWM(0.5), xps.RWM(0.6), describe, differences]
    values += [np.asarray(["a", None], dtype=object), range(3), xps.Real(2), np.asarray([np.nan]), b"a"]
    found = [json.dumps(describe(value), sort_keys=True) for value in values]
    assert len(set(found)) == len(values)
    assert describe(np.ones((2, 2)).T) == describe(np.ones((2, 2)))
    assert describe(lambda x: x) == describe(log_density) == describe(Density()) == {"type": "function"}


def test_differences_name_the_place():
    one = {"type": "A", "x": {"type": "B", "y": 1}, "z": float("nan"), "w": [{"v": 1}, {"v": 2}]}
    assert differences(one, json.loads(json.dumps(one))) == []
    assert differences(one, {**one, "x": {"type": "B", "y": 2}}) == ["x y: 1 there, 2 here"]
    assert differences(one, {**one, "x": {"type": "C", "y": 1}}) == ["x: B there, C here"]
    assert differences(one, {**one, "w": [{"v": 1}, {"v": 3}]}) == ["w 1 v: 2 there, 3 here"]
    assert len(differences({"x": "a" * 1000}, {"x": 1})[0]) < 100
