"""Runs that ask for ``torch.compile``: the same chain, each step compiled once, and an error where that fails."""

import numpy as np
import pytest

import xpsample as xps
from tests.own_tilts import ByIdentity
from xpsample.core import tree
from xpsample.core.errors import BackendError, CapabilityError, CheckpointError
from xpsample.kernels.kernel import ChainState, Info, Kernel, uniform_per_chain
from xpsample.targets import Capability

torch = pytest.importorskip("torch")

from xpsample_torch import compiled  # noqa: E402

pytestmark = [
    pytest.mark.first_tier,
    pytest.mark.filterwarnings("ignore::xpsample.core.errors.RepellenceWarning"),  # runs of 27 draws
]


def gaussian():
    return xps.Target(lambda x: -0.5 * (x * x).sum(-1), lambda x: -x, lambda x, v: -v)


def banana():
    return xps.Target(lambda x: -0.5 * (x[..., 0] ** 2 + (x[..., 1] - x[..., 0] ** 2) ** 2))


def run(target, kernel, compile, draws=27, **settings):
    settings = {"seed": 1, "burn_in": 5, "thinning": 2, "progress": False} | settings
    try:
        return xps.sample(target, kernel, torch.ones((3, 2), dtype=torch.float64), draws, compile=compile, **settings)
    except BackendError as error:
        if compile and "Tensor.requires_grad_" in str(error):  # as in torch 2.6
            pytest.skip("this torch compiles no derivatives by torch.autograd")
        raise


def assert_same(ours, theirs, **tolerance):
    parts = [(t.draws, t.statistics, t.recorded, t.state, vars(t.run_statistics)) for t in (ours, theirs)]
    for (path, a), (_, b) in zip(*map(tree.items, parts), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), err_msg=path, **tolerance)


@pytest.fixture(autouse=True)
def no_step_of_another_test(monkeypatch):
    monkeypatch.setattr(compiled, "_steps", {})


@pytest.fixture
def compilations(monkeypatch):
    """A compiler that changes nothing, and the settings of each call of it."""
    made = []

    def count(f, **settings):
        made.append(settings)
        return f

    monkeypatch.setattr(torch, "compile", count)
    return made


@pytest.fixture
def traced(monkeypatch):
    """torch's own tracing of whole steps, with no code generated, which takes most of a minute: the graphs made."""
    compile_, made = torch.compile, []

    def keep(graph, inputs):
        made.append(graph)
        return graph

    monkeypatch.setattr(torch, "compile", lambda f, **settings: compile_(f, backend=keep, **settings))
    return made


KERNELS = {
    "hmc": lambda: xps.HMC(0.3, 3),
    "sr-mala": lambda: xps.SRMC(xps.MALA(0.3), alpha=0.5, schedule=xps.PowerLaw(0.7), tilt=xps.Exact()),
    "srld": lambda: xps.SRLD(xps.ULA(0.1), 1.0, xps.Rolling(2, 3)),
    "srld-thinned": lambda: xps.SRLD(xps.ULA(0.1), 1.0, xps.Thinned(2, 3)),
    "tempering": lambda: xps.ParallelTempering(xps.MALA(0.3), (1.0, 0.5)),
}


@pytest.mark.sampled(3)
@pytest.mark.first_cases(1)
@pytest.mark.parametrize("target", [gaussian, banana])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_compiled_run_is_the_same_chain(traced, target, kernel):
    """With derivatives by formula and by autograd, and all that is recorded."""
    recorders = (xps.Draws(), xps.Statistics(), xps.Moments(), xps.Record("first", lambda s: {"x": s.point.x[..., 0]}))
    kernel, target = KERNELS[kernel](), target()
    eager = run(target, kernel, False, recorders=recorders)
    assert not traced
    assert_same(run(target, kernel, True, recorders=recorders), eager, rtol=1e-10, atol=1e-10)
    assert len(traced) == 1


def test_what_ran_before_makes_no_difference(traced):
    """A tilt that holds an array of NumPy, as on the page about SRMC, which torch's compiler cannot hash."""
    own, exact = (xps.SRMC(xps.MALA(0.3), alpha=0.5, tilt=tilt) for tilt in (ByIdentity(-np.ones(2)), xps.Exact()))
    xps.sample(gaussian(), own, np.ones((3, 2)), 20, burn_in=0, seed=1, progress=False)
    run(gaussian(), exact, True)
    assert len(traced) == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own
def test_torchs_own_compiler_gives_the_same_chain():
    target, kernel = gaussian(), xps.MALA(0.3)
    assert_same(run(target, kernel, True), run(target, kernel, False), rtol=1e-10, atol=1e-10)


def test_a_step_is_compiled_once_for_a_target(compilations):
    target, kernel = gaussian(), xps.MALA(0.3)
    run(target, kernel, True)
    assert compilations == [{"fullgraph": True, "dynamic": False}]
    run(target, kernel, True, draws=40)
    run(target, xps.MALA(0.3), True)
    assert len(compilations) == 1
    run(target, xps.MALA(0.2), True)
    assert len(compilations) == 2


def test_the_oldest_of_many_compiled_steps_is_dropped(compilations, monkeypatch):
    monkeypatch.setattr(compiled, "KEPT", 2)
    target = gaussian()
    for step_size in (0.1, 0.2, 0.3, 0.3, 0.2, 0.1):
        run(target, xps.ULA(step_size), True, draws=1)
    assert len(compilations) == 4


def test_more_steps_than_torch_compiles_of_one_function(traced):
    target = gaussian()
    with torch._dynamo.config.patch(recompile_limit=2):
        for step_size in (0.1, 0.2, 0.3, 0.4):
            run(target, xps.ULA(step_size), True, draws=3)
    assert len(traced) == 4


@pytest.mark.parametrize("library", ["numpy", "array_api_strict"])
def test_where_nothing_compiles_the_message_names_jax(library):
    xp = pytest.importorskip(library)
    target = xps.Target(lambda x: -0.5 * xp.sum(x * x, axis=-1))
    with pytest.raises(CapabilityError, match=f"{library} arrays cannot run compiled; JAX arrays always do"):
        xps.sample(target, xps.RWM(0.5), xp.zeros((3, 2)), 5, seed=1, compile=True)


def test_a_step_that_cannot_be_compiled_raises(traced):
    def log_density(x):
        return -0.5 * (x * x).sum(-1) if float(x[0, 0]) < 1e6 else x[..., 0]  # a branch on a value

    target = xps.Target(log_density)
    with pytest.raises(BackendError, match=r"torch\.compile failed .*: leave compile=True out"):
        run(target, xps.RWM(0.3), True)
    assert run(target, xps.RWM(0.3), False).draws.shape == (27, 3, 2)


def test_what_the_compiler_says_is_in_the_message(monkeypatch):
    def refuse(graph, inputs):
        raise RuntimeError("no working C++ compiler\nand a long trace")

    compile_ = torch.compile
    monkeypatch.setattr(torch, "compile", lambda f, **settings: compile_(f, backend=refuse, **settings))
    with pytest.raises(BackendError, match=r"\(RuntimeError: no working C\+\+ compiler\): leave compile=True out"):
        run(gaussian(), xps.MALA(0.3), True)


def test_an_error_of_the_step_itself_is_the_users(compilations):
    calls = []

    def log_density(x):
        calls.append(1)
        if len(calls) > 40:
            raise ValueError("from the density")
        return -0.5 * (x * x).sum(-1)

    with pytest.raises(ValueError, match="from the density"):
        run(xps.Target(log_density), xps.RWM(0.3), True)


def test_a_checkpoint_is_of_a_compiled_run_or_of_one_that_is_not(compilations, tmp_path):
    target, kernel = gaussian(), xps.MALA(0.3)
    first = run(target, kernel, True, checkpoint=tmp_path)
    assert first.metadata["compiled"] is True
    with pytest.raises(CheckpointError, match="compiled"):
        run(target, kernel, False, draws=40, checkpoint=tmp_path)
    resumed = run(target, kernel, True, draws=40, checkpoint=tmp_path)
    assert_same(resumed, run(target, kernel, True, draws=40), rtol=1e-12)


class Doubling(Kernel[ChainState, Info]):
    """Twice x, until it is above a bound: whether to go on is a value, which torch's tracing has not."""

    requires = Capability.NONE

    def init(self, target, x):
        return ChainState(target.evaluate(x))

    def noise(self, x):
        return {"u": uniform_per_chain(x)}

    def step(self, target, state, noise):
        double, above = (lambda i, x: 2 * x), (lambda x: target.xp.all(x > 5.0))
        point = target.evaluate(target.backend.repeat(9, double, state.point.x, above))
        moved = noise["u"] < 1
        return ChainState(point), Info(target.xp.astype(moved, point.x.dtype), moved, ~moved, target.costs.evaluate)


def test_a_step_with_a_loop_that_ends_early_is_not_compiled(traced):
    assert torch.all(run(gaussian(), Doubling(), False).draws == 8)
    with pytest.raises(BackendError, match=r"torch.compile failed \(.*leave compile=True out"):
        run(gaussian(), Doubling(), True)
