"""A target, a kernel or a trace that was pickled or copied, before or after a run, is what it was."""

import copy
import json
import pickle

import numpy as np
import pytest

import xpsample as xps
from tests.conftest import open_library
from xpsample.conformance import scenarios
from xpsample.trace import kernels

WAYS = {"pickle": lambda value: pickle.loads(pickle.dumps(value)), "copy": copy.copy, "deepcopy": copy.deepcopy}


def density(x):
    return -0.5 * (x**2).sum(-1)


def named(p):
    return -0.5 * (p.mu - 1.0) ** 2 - p.s


class Shifted:
    """A model as a class: what it knows is in attributes, and the density a method, or the object itself."""

    def __init__(self, shift):
        self.shift = shift

    def log_density(self, p):
        return -0.5 * (p.mu - self.shift) ** 2 - p.s

    __call__ = log_density


def model(f):
    return xps.Model(f, mu=xps.Real(), s=xps.Positive())


TARGETS = {
    "target": xps.Target(density),
    "model": model(named),
    "method": model(Shifted(2.0).log_density),
    "object": model(Shifted(3.0)),
}
KERNELS = {"RWM": xps.RWM(0.5), "SRMC": xps.SRMC(xps.RWM(0.5), 0.1)}


@pytest.mark.sampled(4)
@pytest.mark.first_cases(16)
@pytest.mark.first_tier
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("of", TARGETS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_copy_runs_as_the_value_does(differentiating, way, of, kernel):
    target, kernel, x0 = TARGETS[of], KERNELS[kernel], differentiating.array(np.full((4, 2), 0.5))

    def draws(target, kernel):
        return xps.sample(target, kernel, x0, 8, seed=1, progress=False)

    before = WAYS[way](target), WAYS[way](kernel)
    trace = draws(target, kernel)
    after = WAYS[way](target), WAYS[way](kernel)
    for one in (before, after):
        np.testing.assert_array_equal(differentiating.host(draws(*one).draws), differentiating.host(trace.draws))
    again = WAYS[way](trace)
    assert differentiating.backend.owns(again.draws)
    np.testing.assert_array_equal(differentiating.host(again.draws), differentiating.host(trace.draws))
    assert str(again.summary()) == str(trace.summary())


@pytest.mark.first_cases(1)
@pytest.mark.first_tier
@pytest.mark.parametrize("way", WAYS)
def test_a_copy_of_a_trace_reads_the_same_store(differentiating, way, tmp_path):
    pytest.importorskip("zarr")
    recorders = (xps.Draws(store=tmp_path / "run.zarr"), xps.Statistics())
    x0 = differentiating.array(np.full((4, 2), 0.5))
    trace = xps.sample(TARGETS["object"], xps.RWM(0.5), x0, 20, seed=1, recorders=recorders, progress=False)
    for whole in (trace, xps.load(tmp_path / "run.zarr", like=x0)):
        again = WAYS[way](whole)
        assert differentiating.backend.owns(again.draws[-1])
        for mine, theirs in ((again.draws, whole.draws), (again["s"], whole["s"])):
            np.testing.assert_array_equal(np.asarray(mine), np.asarray(theirs))
        assert sorted(again.statistics) == sorted(whole.statistics)
        assert str(again.summary()) == str(whole.summary()) and again.diagnose() == whole.diagnose()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", ["pickle", "deepcopy"])
def test_every_kernel_and_what_its_run_gives(way):
    for scenario in scenarios():
        target, kernel = scenario.target(np.asarray), scenario.kernel(np.asarray)
        x0 = scenario.stationary.draw(np.random.default_rng(3), 6)
        settings = {"seed": 1, "progress": False, "burn_in": 2}
        trace = xps.sample(target, kernel, x0, 10, **settings)
        again = xps.sample(target, WAYS[way](kernel), x0, 10, **settings)
        np.testing.assert_array_equal(again.draws, trace.draws, err_msg=scenario.name)
        copied = WAYS[way](trace)
        np.testing.assert_array_equal(copied.draws, trace.draws, err_msg=scenario.name)
        assert copied.diagnose() == trace.diagnose() and type(copied.kernel) is type(trace.kernel), scenario.name


TUNED = {
    "HMC": xps.HMC(),
    "NUTS, dense": xps.NUTS(mass=xps.DenseMetric()),
    "HMC, low rank": xps.HMC(mass=xps.LowRankMetric()),
    "SRMC": xps.SRMC(xps.MALA()),
    "SRLD": xps.SRLD(xps.ULA(0.1), 3.0),
    "tempering": xps.ParallelTempering(xps.RWM()),
    "AIS": xps.AIS(xps.RWM(), (0.0, 0.5, 1.0)),
    "blocks": xps.Blocks({"mu": xps.RWM(), "s": xps.Slice()}),
}


@pytest.mark.sampled(4)
@pytest.mark.filterwarnings("ignore::xpsample.core.errors.DiagnosisWarning")
@pytest.mark.first_tier
@pytest.mark.first_cases(1)
@pytest.mark.parametrize("name", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("kernel", TUNED.values(), ids=TUNED)
def test_the_kernel_of_a_file_is_the_tuned_one(tmp_path, kernel, name):
    library = open_library(name, "float64")
    target = model(lambda p: -0.5 * (p.mu - 1.0) ** 2 - p.s)
    x0 = library.array(np.random.default_rng(0).normal(size=(6, 2)))
    settings = {"warmup": None if isinstance(kernel, xps.SRLD) else 60, "progress": False}
    trace = xps.sample(target, kernel, x0, 5, seed=1, checkpoint=tmp_path / "run", **settings)
    trace.save(tmp_path / "run.npz")
    again = xps.sample(target, trace.kernel, x0, 5, seed=2, progress=False).draws
    for file in ("run", "run.npz"):
        found = xps.load(tmp_path / file, like=x0).kernel
        assert type(found) is type(kernel) and repr(found) == repr(trace.kernel)
        draws = xps.sample(target, found, x0, 5, seed=2, progress=False).draws
        np.testing.assert_array_equal(library.host(draws), library.host(again))


OTHERS = ["xpsample.__main__:main", "xpsample.experiments.runner:x", "os:system", "xpsample.core.backend:os.system"]


@pytest.mark.parametrize("name", OTHERS)
def test_a_file_names_no_code_but_that_of_kernels(name):
    """A module that runs when it is imported, a function that is no class of values, and a class elsewhere."""
    described = json.dumps({"class": name, "fields": {}}).encode()
    assert kernels.unpacked({"json": np.frombuffer(described, np.uint8)}) is None
