"""Steps as graphs: the chain of the steps as they are, to the last bit, and arrays that nobody writes to again.

No graph of a device is here: one stands in for it that makes the calls again, on the arrays that it was made with, and
spoils all of its arrays after every use.
"""

import gc
import threading
import time
import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pytest

import xpsample.noise
from tests.conftest import open_library
from tests.test_pieces import steps_of
from tests.test_straight import SCENARIOS, assert_same, functions_of, leaves, logistic
from xpsample import HMC, MALA, SRMC, ULA, Draws, Moments, Record, Statistics, Target, sample, tree
from xpsample.backend import namespace
from xpsample.conformance.checks import _setting
from xpsample.kernels import Kernel
from xpsample.kernels.kernel import Info
from xpsample.noise import Normal, Portable, Replay
from xpsample.places import Place
from xpsample.sampling import Program
from xpsample.straight import captured
from xpsample.straight.captured import Captured, Graph, steps_of_graph
from xpsample.targets import Capability, Point, Tempered


@pytest.fixture(params=[("numpy", "float64"), ("torch", "float32")], ids="-".join)
def eager(request):
    """The libraries whose steps are written down."""
    return open_library(*request.param)


def spoil(array):
    """Put into an array what no step makes."""
    array[...] = ~array if "bool" in str(array.dtype) else 99 if "int" in str(array.dtype) else float("nan")


def stand_in(function):
    """Makes the calls again, and puts what they give into arrays that stay."""
    outputs = [namespace(array).asarray(array, copy=True) for array in function()]

    def replay():
        for array, again in zip(outputs, function(), strict=True):
            array[...] = again

    return replay, outputs


@pytest.fixture
def capturing(eager, monkeypatch):
    """Switches graphs on, or off with None: the graphs made, each with how often it was used."""
    used, call = {}, Graph.__call__

    def spoiling(graph, *given):
        results = call(graph, *given)
        used[graph] = used.get(graph, 0) + 1
        for array in (*graph._outputs, *graph._leaves, *graph._rows, *(() if graph._constant else graph._data)):
            spoil(array)
        return results

    def switch(capture=stand_in):
        monkeypatch.setattr(steps_of(eager.backend), "capture", lambda x: capture)
        return used

    monkeypatch.setattr(Graph, "__call__", spoiling)
    return switch


def both(capturing, run):
    """Results of a run with graphs and without, and the graphs."""
    with np.errstate(all="ignore"):
        used = capturing()
        ours = leaves(run())
        capturing(None)
        return ours, leaves(run()), used


def pure(target):
    """The same target, said to be pure: those of the conformance suite are."""
    if isinstance(target, Tempered):
        return replace(target, target=pure(target.target), _bound={})
    return replace(target, pure=True, _bound={})


@pytest.mark.filterwarnings("ignore::xpsample.errors.DivergenceWarning")
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_kernel_makes_the_same_steps_by_graphs(name, eager, capturing):
    target, kernel, x0 = _setting(SCENARIOS[name], Place(eager.backend, "here", eager.device, eager.dtype))
    target, recorders = pure(target), (Draws(), Statistics(), Moments())

    def run():
        return sample(
            target, kernel, x0, 34, seed=Portable(3), burn_in=35, thinning=2, recorders=recorders, progress=False
        )

    ours, plain, used = both(capturing, run)
    assert_same(ours, plain)
    assert sorted(used.values()) == [1, 2]  # of the burn-in, and of the rest


@pytest.mark.parametrize("thinning", [1, 3, 4, 17, 32, 33, 64, 100])
def test_rows_are_recorded_where_they_are_due(thinning, eager, capturing):
    target, start = logistic(3)
    x0, kernel = eager.array(start), SRMC(MALA(0.01), alpha=0.5)
    recorders = (Draws(), Statistics(), Moments())

    def run():
        return sample(target, kernel, x0, 7, seed=1, burn_in=45, thinning=thinning, recorders=recorders, progress=False)

    ours, plain, used = both(capturing, run)
    assert_same(ours, plain)
    whole = 7 * thinning // steps_of_graph(thinning, 32) if thinning <= 32 else 7 * -(-thinning // 32)
    assert sum(used.values()) == 1 + whole
    assert len(used) == {True: 1, False: 0}[whole > 0] + 1 + (thinning in (64, 100))


@pytest.mark.parametrize("most", [1, 2, 16, 32])
@pytest.mark.parametrize("period", [1, 2, 3, 16, 31, 32, 33, 50, 64, 1000])
def test_graphs_of_one_kind_record_at_the_same_places(period, most):
    length = steps_of_graph(period, most)
    assert 1 <= length <= most
    graphs = Captured.__new__(Captured)
    graphs.period, graphs.steps = period, length
    for phase in (0, 1, 5, period - 1, 7 * period - 3):
        end, seen, others = 0, {}, 0
        for lo, hi, recording in graphs._parts(phase, 301):
            assert lo == end < hi
            end = hi
            if recording is None:
                others += hi - lo
            else:
                assert hi - lo == length
                places = tuple(t - lo for t in range(lo, hi) if (phase + t + 1) % period == 0)
                assert seen.setdefault(recording, places) == places
                assert bool(places) == recording
        assert end == 301
        left_over = period % length if period > most else 0
        assert length == 1 or others <= (301 // period + 2) * left_over + 2 * (length - 1)


def test_runs_do_not_share_memory(eager, capturing):
    target, start = logistic(3)
    used, kernel, x0 = capturing(), MALA(0.01), eager.array(start)
    settings = {"recorders": (Draws(), Statistics(), Moments()), "progress": False}
    first = sample(target, kernel, x0, 100, seed=1, **settings)
    kept = {path: array.copy() for path, array in leaves(first).items()}
    second = sample(target, kernel, first.state.point.x, 100, seed=2, **settings)
    assert list(used.values()) == [6]  # one graph, in turn
    assert_same(leaves(first), kept)
    capturing(None)
    assert_same(leaves(sample(target, kernel, x0, 100, seed=1, **settings)), kept)
    assert_same(leaves(sample(target, kernel, first.state.point.x, 100, seed=2, **settings)), leaves(second))
    np.testing.assert_array_equal(eager.host(x0), x0 if eager.name == "numpy" else x0.numpy())


def test_data_that_change_between_runs_are_read_anew(eager, capturing):
    target = Target(None, score=lambda x, data: -data["rate"] * x, data={"rate": np.ones(2)}, pure=True)
    kernel, backend, x = ULA(0.1), eager.backend, eager.array(np.ones((3, 2)))
    bound = target.prepare(x, kernel.requires)
    noise = Replay({"proposal": eager.array(np.zeros((64, 3, 2)))})
    used, ends = capturing(), []
    for rate in (None, 2.0, 3.0, None):
        at = bound if rate is None else bound.with_data({"rate": eager.array(np.full(2, rate))})
        program = Program(kernel, at, (), 0, 1, 64)
        carry, _, _ = backend.drive(program, program.init(x), None, noise, 0, 64)
        ends.append(eager.host(carry.state.point.x)[0, 0])
    np.testing.assert_allclose(ends, [0.9**64, 0.8**64, 0.7**64, 0.9**64], rtol=1e-4)
    assert list(used.values()) == [4, 4]  # one for its own data, where they are, and one for any other


@pytest.mark.parametrize("draws", [(30, 90), (50, 140)])
def test_a_run_is_resumed_and_extended(draws, eager, capturing, tmp_path, monkeypatch):
    monkeypatch.setattr(xpsample.noise, "CHUNK_STEPS", 64)  # which ends between two rows
    target, start = logistic(3)
    kernel, x0 = HMC(0.1, steps=3), eager.array(start)
    settings = {"seed": Portable(2), "burn_in": 5, "thinning": 3, "progress": False}
    used = capturing()
    for n in draws:
        ours = sample(target, kernel, x0, n, checkpoint=tmp_path, **settings)
    assert sum(used.values()) > draws[-1] // 24
    capturing(None)
    whole = sample(target, kernel, x0, draws[-1], **settings)
    # But for the tally, whose sums a pause cuts.
    same = ({path: a for path, a in leaves(trace).items() if path[0] != "4"} for trace in (ours, whole))
    assert_same(*same)


@pytest.mark.parametrize("chunk", [8, 16])
def test_graphs_are_no_longer_than_a_chunk_of_noise(chunk, eager, capturing, monkeypatch):
    monkeypatch.setattr(xpsample.noise, "CHUNK_STEPS", chunk)
    target, start = logistic(3)
    kernel, x0 = MALA(0.01), eager.array(start)
    ours, plain, used = both(
        capturing, lambda: sample(target, kernel, x0, 25, thinning=2, seed=1, recorders=(Moments(),), progress=False)
    )
    assert_same(ours, plain)
    assert list(used.values()) == [50 // chunk]


def test_steps_with_a_chunk_of_noise_each_are_not_captured(eager, capturing, monkeypatch):
    monkeypatch.setattr(xpsample.noise, "CHUNK_STEPS", 1)
    target, start = logistic(3)
    used = capturing()
    sample(target, MALA(0.01), eager.array(start), 40, seed=1, progress=False)
    assert not used


class Odd(NamedTuple):
    point: Point
    before: Any
    again: Any
    always: Any
    scale: Any


@dataclass(frozen=True, eq=False)
class Oddly(Kernel):
    """Takes no noise; leaves of its state change places, are there twice, stay as they are or have no axes."""

    requires = Capability.SCORE

    def init(self, target, x):
        return Odd(target.at(x), 0 * x, 0 * x, 1 * x, target.xp.sum(0 * x) + 1.0)

    def noise(self, x):
        return {}

    def step(self, target, state, noise):
        xp, x = target.xp, state.point.x
        one = xp.ones_like(x[..., 0])
        new = 0.9 * state.before + 0.1 * state.scale * state.always + 0.3 * x
        info = Info(one, one > 0, one < 0, target.costs.at)
        return Odd(target.at(new), x, x, state.always, 0.99 * state.scale), info


def test_leaves_that_are_others_or_stay(eager, capturing):
    target = Target(None, score=lambda x: -x, pure=True)
    kernel, x0 = Oddly(), eager.array(np.arange(6.0).reshape(3, 2))
    ours, plain, used = both(
        capturing,
        lambda: sample(target, kernel, x0, 50, thinning=2, seed=1, progress=False),
    )
    assert_same(ours, plain)
    assert list(used.values()) == [3]


class Rated(NamedTuple):
    point: Point
    rate: float


@dataclass(frozen=True, eq=False)
class WithNumber(Kernel):
    """Has a number in its state."""

    requires = Capability.SCORE

    def init(self, target, x):
        return Rated(target.at(x), 0.5)

    def noise(self, x):
        return {"move": Normal(tuple(x.shape))}

    def step(self, target, state, noise):
        one = target.xp.ones_like(state.point.x[..., 0])
        new = target.at(state.rate * state.point.x + noise["move"])
        return Rated(new, state.rate), Info(one, one > 0, one < 0, target.costs.at)


@pytest.mark.parametrize("eager", [("numpy", "float64")], indirect=True)  # torch takes no such state at all
def test_steps_with_a_number_in_their_state_are_not_captured(eager, capturing):
    target = Target(None, score=lambda x: -x, pure=True)
    kernel, x0, used = WithNumber(), eager.array(np.ones((3, 2))), capturing()
    with pytest.warns(RuntimeWarning, match="a number in it"):
        ours = leaves(sample(target, kernel, x0, 40, seed=1, progress=False))
    assert not used
    capturing(None)
    assert_same(ours, leaves(sample(target, kernel, x0, 40, seed=1, progress=False)))


def test_functions_that_are_not_said_to_be_pure_are_called_at_every_step(eager, capturing):
    used, calls, kernel, x0 = capturing(), [], ULA(0.1), eager.array(np.ones((3, 2)))

    def score(x):
        calls.append(None)
        return -x

    sample(Target(None, score=score), kernel, x0, 100, seed=1, progress=False)
    assert not used and len(calls) >= 100
    calls.clear()
    recorder = Record("first", lambda state: calls.append(None) or state.point.x)
    pure = Target(None, score=lambda x: -x, pure=True)
    sample(pure, kernel, x0, 100, seed=1, recorders=(recorder,), progress=False)
    assert not used and len(calls) >= 100


def test_what_cannot_be_captured_runs_as_it_is_after_one_warning(eager, capturing):
    tried = []

    def refuse(function):
        tried.append(function())
        try:
            raise RuntimeError("operation not permitted when stream is capturing\nand a long trace")
        finally:
            raise ValueError("the capture was invalid")

    target, start = logistic(3)
    kernel, x0 = MALA(0.01), eager.array(start)

    def run():
        return leaves(sample(target, kernel, x0, 100, seed=1, burn_in=3, progress=False))

    capturing(refuse)
    with pytest.warns(RuntimeWarning, match=r"XPSAMPLE_CUDA_GRAPHS=0.*RuntimeError: .* is capturing$") as caught:
        ours = run()
    assert len(caught) == len(tried) == 1
    run()
    assert len(tried) == 1
    capturing(None)
    assert_same(ours, run())


def test_an_error_of_the_step_itself_is_the_users(eager, capturing):
    calls = []

    def score(x):
        calls.append(None)
        if len(calls) > 20:
            raise ValueError("no score here")
        return -x if bool((x == x).all()) else x  # not to be written down, so that it is called

    capturing()
    x0 = eager.array(np.ones((3, 2)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        with pytest.raises(ValueError, match="no score here"):
            sample(Target(None, score=score, pure=True), ULA(0.1), x0, 100, seed=1, progress=False)
    assert len(calls) == 22  # once while captured, and then as it is


def test_runs_in_threads_do_not_mix(eager, capturing, monkeypatch):
    def slow(function):
        replay, outputs = stand_in(function)
        return lambda: (time.sleep(0.002), replay(), time.sleep(0.002)), outputs

    target, start = logistic(3)
    kernel, x0, found = MALA(0.01), eager.array(start), {}

    def run(seed):
        found[seed] = leaves(sample(target, kernel, x0, 320, seed=seed, progress=False))

    used = capturing(slow)
    run(0)
    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(used.values()) == [40]
    ours = dict(found)
    capturing(None)
    for seed in range(3):
        run(seed)
        assert_same(ours[seed], found[seed])


def test_graphs_go_with_their_function(eager, capturing):
    used, (target, start) = capturing(), logistic(3)
    sample(target, MALA(0.01), eager.array(start), 40, seed=1, progress=False)
    (function,) = functions_of(target)
    assert [*function._captured._graphs.values()] == [*used]
    gc.collect()


# ---- on devices ------------------------------------------------------------------------------------------------------


def product(x):
    """The log density of a product of one-dimensional ones: no product of matrices, which CuPy does not capture."""
    xp = namespace(x)
    return -xp.sum(0.25 * x**4 - 0.5 * x * x, axis=-1)


TARGETS = {
    "product": lambda: Target(product, score=lambda x: x - x**3, pure=True),
    "logistic": lambda: logistic(1)[0],
    "autodiff": lambda: Target(product, pure=True),
}


@pytest.mark.parametrize("kernel", [MALA(0.1), HMC(0.1, 5), SRMC(MALA(0.1), alpha=0.5)], ids=["mala", "hmc", "sr-mala"])
@pytest.mark.parametrize(
    ("place", "target"),
    [("torch-cuda", "product"), ("torch-cuda", "logistic"), ("torch-cuda", "autodiff"), ("cupy", "product")],
)
def test_the_same_steps_on_a_gpu(place, target, kernel, monkeypatch):
    library, target = open_library(place, "float32"), TARGETS[target]()
    x0, found = library.array(logistic(5)[1]), {}
    for setting in ("1", "0", "1"):  # and the graphs of the first run again in the last
        monkeypatch.setenv(captured.SETTING, setting)
        found[setting] = sample(target, kernel, x0, 100, seed=3, burn_in=40, thinning=3, progress=False)
    assert all(f._captured._graphs for f in functions_of(target))
    trees = [tree.leaves((t.draws, t.statistics, t.state)) for t in found.values()]
    for one, other in zip(*trees, strict=True):
        np.testing.assert_array_equal(library.host(one), library.host(other))
