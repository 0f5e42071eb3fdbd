"""Steps of torch on a device that is not the CPU: nothing mixes devices, and no step waits but those in a table.

No GPU is needed: the device is a look-alike (`tests/torch_elsewhere.py`).
"""

from dataclasses import replace

import numpy as np
import pytest

import xpsample as xps
from xpsample.conformance import scenarios
from xpsample.core.errors import BackendError, FunctionError, LogDensityError
from xpsample.core.tree import items

torch = pytest.importorskip("torch")
lookalike = pytest.importorskip("tests.torch_elsewhere")
backend = pytest.importorskip("xpsample_torch.backend")

SCENARIOS = {scenario.name: scenario for scenario in scenarios()}
SCENARIOS["hmc-by-length"] = replace(SCENARIOS["hmc"], kernel=lambda asarray: xps.HMC(0.4, length=2.0))

OF_LOOPS, OF_FACTORS = "eager_repeat", "step"
"""The functions that wait: for how often a loop goes round; for whether a matrix has a Cholesky factor."""

SEARCHING = ("nuts", "nuts-dense-mass", "sr-nuts", "slice", "elliptical", "swendsen-wang", "swendsen-wang-potts")
MAMS = ("mams", "mams-dense-mass", "sr-mams")
THINNED = ("srld-thinned", "srld-shared")
WAITING = dict.fromkeys((*SEARCHING, *MAMS, "hmc-by-length", *THINNED), OF_LOOPS) | {"svgd-stochastic": OF_FACTORS}
"""Scenarios whose steps wait for the device; docs/developer/without-a-gpu.md says so of their kernels."""

FIRST_TIER = ("sr-mala", "srld", "svgd-stochastic", "gwg", "hmc-by-length")

WARM_UPS = {
    "rwm": (xps.RWM(), {OF_LOOPS}),
    "hmc": (xps.HMC(), {OF_LOOPS}),
    "hmc-dense": (xps.HMC(steps=2, mass=xps.DenseMetric()), {OF_LOOPS, "dense_covariance", "geometric_mean", "_root"}),
    "hmc-low-rank": (xps.HMC(steps=2, mass=xps.LowRankMetric()), {OF_LOOPS, "geometric_mean", "_orthonormal"}),
    "mams": (xps.MAMS(), {OF_LOOPS}),
    "mclmc": (xps.MCLMC(), {OF_LOOPS}),
}
"""Kernels that tune what they leave out, and the functions that wait in their warm-up and in the run after it.

A metric waits twice a step, for whether it adapts and whether a window ends: it computes no moments in the last 30 %.
"""


@pytest.fixture
def in_loops(monkeypatch):
    """The functions that waited for the device within blocks of steps."""
    waited, drive = set(), backend.eager_drive

    def driven(*args, **options):
        before = len(lookalike.waits)
        result = drive(*args, **options)
        waited.update(lookalike.waits[before:])
        return result

    monkeypatch.setattr(backend, "eager_drive", driven)
    return waited


def run(put, target, kernel, x0, draws=2, **settings):
    return xps.sample(target, kernel, put(x0), draws, **{"seed": xps.Portable(1), "progress": False} | settings)


def of_scenario(put, name, **settings):
    scenario = SCENARIOS[name]
    x0 = scenario.stationary.draw(np.random.default_rng(3), 6)
    return run(put, scenario.target(put), scenario.kernel(put), x0, burn_in=1, thinning=2, **settings)


def on_host(host):
    return torch.tensor(np.asarray(host))


def results(trace):
    return dict(items((trace.draws, trace.statistics, trace.state, trace.warmup or {})))


def assert_same(there, here):
    there, here = results(there), results(here)
    assert list(there) == list(here)
    for path, leaf in there.items():
        assert isinstance(leaf, lookalike.Elsewhere), path
        assert torch.equal(torch.nan_to_num(leaf.held), torch.nan_to_num(here[path])), path


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", [n if n in FIRST_TIER else pytest.param(n, marks=pytest.mark.slow) for n in SCENARIOS])
def test_steps_stay_on_the_device_and_wait_where_the_table_says(in_loops, name):
    with lookalike.elsewhere() as put:
        there = of_scenario(put, name)
        of_scenario(put, name, seed=1)  # noise that is drawn on the device
    assert in_loops == ({WAITING[name]} if name in WAITING else set())
    assert_same(there, of_scenario(on_host, name))


@pytest.mark.slow
@pytest.mark.parametrize("name", WARM_UPS)
def test_warm_ups_wait_where_the_table_says(in_loops, name):
    kernel, waiting = WARM_UPS[name]
    x0 = np.random.default_rng(0).normal(size=(4, 3))
    with lookalike.elsewhere() as put:
        there = run(put, gaussian(put), kernel, x0, warmup=20)
    assert in_loops == waiting
    assert_same(there, run(on_host, gaussian(on_host), kernel, x0, warmup=20))


def gaussian(put):
    precision = put(np.asarray([1.0, 4.0, 0.5]))
    return xps.Target(lambda x: -0.5 * torch.sum(x**2 * precision, dim=-1))


# ---- what the look-alike finds ---------------------------------------------------------------------------------------

READS = {
    "float": lambda x: float(x[0, 0]),
    "bool": lambda x: bool((x > 1e9).any()),
    "item": lambda x: x.sum().item(),
    "numpy": lambda x: x.cpu().numpy(),
    "mask": lambda x: x[x > 0],
    "written by a mask": lambda x: torch.where(x > 0, x, 1.0).index_put_((x >= 0,), x[x >= 0] + 1),
    "nonzero": lambda x: torch.nonzero(x),
    "unique": lambda x: torch.unique(x),
    "equal": lambda x: torch.equal(x, x + 1),
    "index": lambda x: x[torch.argmax(x[:, 0])],
    "solve": lambda x: torch.linalg.solve(x.T @ x, x.T),
}

KEPT = {
    "arithmetic": lambda x: (x + 1.0) * torch.sum(x, dim=-1, keepdim=True),
    "a number of the host": lambda x: x * torch.tensor(2.0, dtype=x.dtype),
    "made like it": lambda x: torch.arange(2, device=x.device) + torch.zeros_like(x),
    "made on it": lambda x: x * torch.tensor([1.0, 2.0], device=x.device, dtype=x.dtype),
    "where": lambda x: torch.where(x > 0, x, torch.zeros((), dtype=x.dtype, device=x.device)),
    "filled by a mask": lambda x: x.clone().__setitem__(x > 0, 0.0),
    "gather": lambda x: torch.take_along_dim(x, torch.argsort(x, dim=-1), dim=-1),
}

MIXED = {
    "operands": lambda x: x + torch.ones(2),
    "indices": lambda x: torch.take_along_dim(x, torch.zeros(4, 1, dtype=torch.int64), dim=1),
    "product": lambda x: x @ torch.ones(2, 2, dtype=x.dtype),
    "stack": lambda x: torch.stack([x, torch.zeros(4, 2, dtype=x.dtype)]),
}


def with_a_step_that_first(f):
    """A kernel whose step does something else first, and uses nothing of it."""

    class Spoilt(xps.RWM):
        def step(self, target, state, noise):
            f(state.point.x)
            return super().step(target, state, noise)

    return Spoilt(1.0)


def spoilt(f):
    with lookalike.elsewhere() as put:
        target = xps.Target(lambda x: -0.5 * torch.sum(x**2, dim=-1))
        return run(put, target, with_a_step_that_first(f), np.arange(8.0).reshape(4, 2))


@pytest.mark.parametrize("what", [*READS, *KEPT])
def test_a_step_that_reads_a_value_is_found_and_no_other(in_loops, what):
    spoilt((READS | KEPT)[what])
    assert bool(in_loops) == (what in READS)


@pytest.mark.parametrize("what", MIXED)
def test_mixed_devices_are_refused(what):
    with pytest.raises(FunctionError, match=r"Expected (all tensors to be on the same|tensor to have meta) [dD]evice"):
        spoilt(MIXED[what])


def test_what_is_held_on_the_host_is_refused():
    x0, host = np.ones((4, 2)), torch.ones(2, dtype=torch.float64)
    by_data = xps.Target(lambda x, a: -torch.sum(x**2 * a, dim=-1), data=host)
    plain = xps.Target(lambda x: -0.5 * torch.sum(x**2, dim=-1))
    with lookalike.elsewhere() as put:
        with pytest.raises(LogDensityError, match="Expected all tensors to be on the same device"):
            run(put, xps.Target(lambda x: -torch.sum(x**2 * host, dim=-1)), xps.RWM(1.0), x0)
        for target, kernel in ((plain, xps.RWM(1.0, host)), (by_data, xps.RWM(1.0))):
            with pytest.raises(BackendError, match="on cpu and the positions are on meta"):
                run(put, target, kernel, x0)
