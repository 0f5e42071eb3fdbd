"""Straight-line steps give what the steps themselves give, to the last bit, and call a user's functions as they are."""

import gc
import linecache
import weakref
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.conftest import open_library
from xpsample import HMC, MALA, SRMC, ULA, Draws, Moments, Record, Statistics, Target, sample
from xpsample.conformance import scenarios
from xpsample.conformance.checks import reference
from xpsample.errors import XpsampleError
from xpsample.kernels import ChainState, Kernel
from xpsample.kernels.kernel import Info
from xpsample.noise import Normal, Portable, Replay
from xpsample.sampling import Program
from xpsample.straight import steps as straight
from xpsample.straight import tape
from xpsample.targets import Capability
from xpsample.targets.logistic import logistic_regression

SCENARIOS = {scenario.name: scenario for scenario in scenarios()}


@pytest.fixture(
    params=[("numpy", "float64"), ("numpy", "float32"), ("torch", "float64"), ("torch", "float32")], ids="-".join
)
def eager(request):
    """The libraries whose steps are written down."""
    return open_library(*request.param)


def logistic(chains, dim=10, rows=100):
    """A posterior whose functions are pure, and start positions."""
    generator = np.random.default_rng(5)
    features = generator.normal(size=(rows, dim))
    target = logistic_regression(features, (generator.random(rows) < 0.5).astype(int))
    return target, 0.1 * generator.normal(size=(chains, dim))


def leaves(trace):
    return {
        path: np.asarray(leaf)
        for path, leaf in tape.tree.items(
            (trace.draws, trace.statistics, trace.recorded, trace.state, vars(trace.tally))
        )
    }


def functions_of(target):
    """The straight-line functions that a target holds; None for steps that could not be written down."""
    return [f for bound in target._bound.values() for f in bound.compiled.values()]


def both_ways(monkeypatch, library, make_target, kernel, start, **settings):
    """The results of a run by straight-line functions and by the steps themselves, and the functions."""
    target = make_target()
    settings = {"seed": Portable(3), "progress": False, **settings}
    with np.errstate(all="ignore"):
        ours = leaves(sample(target, kernel, library.array(start), 40, **settings))
        with monkeypatch.context() as patch:
            patch.setattr(straight, "SHORTEST", 10**9)
            plain = leaves(sample(make_target(), kernel, library.array(start), 40, **settings))
    return ours, plain, functions_of(target)


def assert_same(ours, plain):
    assert ours.keys() == plain.keys()
    for path, array in ours.items():
        np.testing.assert_array_equal(array, plain[path], err_msg=path)


@pytest.mark.filterwarnings("ignore::xpsample.errors.DivergenceWarning")
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_kernel_is_written_down_and_makes_the_same_steps(name, eager, monkeypatch):
    from xpsample.conformance.checks import _setting
    from xpsample.places import Place

    scenario = SCENARIOS[name]
    place = Place(eager.backend, "here", eager.device, eager.dtype)
    target, kernel, x0 = _setting(scenario, place)
    settings = {
        "seed": Portable(3),
        "burn_in": 5,
        "thinning": 3,
        "recorders": (Draws(), Statistics(), Moments()),
        "progress": False,
    }
    made = []
    kept = straight.StraightSteps._straight
    with monkeypatch.context() as patch:
        patch.setattr(straight.StraightSteps, "_straight", lambda *args: made.append(kept(*args)) or made[-1])
        ours = leaves(sample(target, kernel, x0, 20, **settings))
    assert made and None not in made
    with monkeypatch.context() as patch:
        patch.setattr(straight, "SHORTEST", 10**9)
        plain = leaves(sample(target, kernel, x0, 20, **settings))
    assert_same(ours, plain)


LARGE = {
    "mala": lambda: MALA(0.01),
    "hmc": lambda: HMC(0.1, steps=4),
    "ula": lambda: ULA(0.01),
    "sr-mala": lambda: SRMC(MALA(0.01), alpha=0.5),
}


@pytest.mark.parametrize("kernel", LARGE)
def test_large_arrays_are_let_go(kernel, eager, monkeypatch):
    ours, plain, functions = both_ways(
        monkeypatch, eager, lambda: logistic(1000)[0], LARGE[kernel](), logistic(1000)[1], thinning=2, burn_in=3
    )
    assert_same(ours, plain)
    assert functions
    assert all("del " in f.source for f in functions)


def test_positions_that_are_kept_elsewhere_stay_as_they_are(eager):
    seen = []

    def log_density(x):
        seen.append((x, np.array(eager.host(x))))
        return -0.5 * (x * x).sum(-1)

    target = Target(log_density, score=lambda x: -x)
    sample(target, MALA(0.1), eager.array(np.ones((5000, 4))), 40, seed=1, progress=False)
    assert len(seen) >= 40
    assert any(functions_of(target))
    for array, before in seen:
        np.testing.assert_array_equal(eager.host(array), before)


def test_users_functions_are_called_at_every_step(eager):
    calls = []

    def score(x):
        assert eager.backend.owns(x)
        calls.append(None)
        return -x * (1.0 + len(calls) % 2)  # of no fixed law: the calls must not be frozen

    target = Target(None, score=score)
    trace = sample(target, ULA(0.1), eager.array(np.ones((3, 2))), 40, seed=1, progress=False)
    assert functions_of(target)[0] is not None
    assert 40 <= len(calls) <= 45
    assert len(np.unique(eager.host(trace.draws))) == 40 * 6


def test_pure_functions_are_not(eager, monkeypatch):
    calls = []

    def make():
        def score(x):
            calls.append(None)
            return -x

        return Target(None, score=score, pure=True)

    ours, plain, functions = both_ways(monkeypatch, eager, make, ULA(0.1), np.ones((3, 2)))
    assert_same(ours, plain)
    assert functions[0] is not None
    assert len(calls) < 40 + 10  # by the steps themselves, and a few to write down


def test_what_pure_functions_share_is_called_once(eager):
    target, start = logistic(3)
    sample(target, SRMC(MALA(0.01), alpha=0.5), eager.array(start), 40, seed=1, progress=False)
    (function,) = functions_of(target)
    # The margins of the current position and of the proposal, the proposal's score, theta's margin, and two products.
    assert function.source.count(" @ ") == 2 + 1 + 1 + 2
    loop = function.source.index("for t")
    assert function.source.count(".T") == 1
    assert function.source.index(".T") < loop


class Carried(NamedTuple):
    """A state with what no step changes, what no step reads, and what a step reads of the step before."""

    point: Any
    scale: Any
    last: Any
    before: Any
    earlier: Any
    gap: Any
    total: Any


@dataclass(frozen=True, eq=False)
class Carrying(Kernel):
    """A random walk of a width that is kept in the state."""

    requires = Capability.NONE

    def init(self, target, x):
        return Carried(target.at(x), target.xp.ones_like(x) / 2, x, x, x, x, x)

    def noise(self, x):
        return {"move": Normal(tuple(x.shape))}

    def step(self, target, state, noise):
        x = state.point.x + state.scale**2 * noise["move"]
        one = target.xp.ones_like(x[..., 0])
        gap, total = x - state.point.x, state.total + x % 3
        new = Carried(target.at(x), state.scale, x / 7, state.point.x, state.before, gap, total)
        return new, Info(one, one > 0, one < 0, target.costs.at)


@pytest.mark.parametrize("settings", [{}, {"thinning": 3, "burn_in": 5}])
def test_what_no_step_changes_or_reads_is_made_once(eager, monkeypatch, settings):
    ours, plain, functions = both_ways(
        monkeypatch, eager, lambda: logistic(3)[0], Carrying(), logistic(3)[1], **settings
    )
    assert_same(ours, plain)
    for function in functions:
        before, after = function.source.split("for t,")
        inside, after = after.split("\n    v", 1)
        assert " ** " in before and " ** " not in inside + after  # the width's square
        assert " / 7" in after and " / 7" not in before + inside  # nobody reads it
        assert " % 3" in inside  # a sum over all steps
        assert function.source.count(" / 7") == function.source.count(" ** ") == 1


def test_what_a_user_wrote_is_called_at_every_step_though_nobody_reads_it(eager, monkeypatch):
    calls = []

    @dataclass(frozen=True, eq=False)
    class Looking(Carrying):
        requires = Capability.SCORE

        def step(self, target, state, noise):
            new, info = super().step(target, state, noise)
            return new._replace(last=target.score(new.point.x) + target.score(state.scale)), info

    def score(x):
        calls.append(None)
        return -x

    ours, plain, functions = both_ways(
        monkeypatch, eager, lambda: Target(None, score=score), Looking(), np.ones((3, 2))
    )
    assert_same(ours, plain)
    assert functions[0] is not None
    assert len(calls) >= 2 * 3 * 40


def test_a_pure_function_that_cannot_be_written_down_is_called(eager, monkeypatch):
    def make():
        def score(x):
            return -x if bool((x == x).all()) else x

        return Target(None, score=score, pure=True)

    ours, plain, functions = both_ways(monkeypatch, eager, make, ULA(0.1), np.ones((3, 2)))
    assert_same(ours, plain)
    assert functions[0] is not None


@dataclass(frozen=True, eq=False)
class Branching(Kernel):
    """Looks at its values, which no compiled library could."""

    requires = Capability.NONE

    def init(self, target, x):
        return ChainState(target.at(x))

    def noise(self, x):
        return {"move": Normal(tuple(x.shape))}

    def step(self, target, state, noise):
        xp, x = target.xp, state.point.x
        x = x + noise["move"] if float(xp.sum(x)) < 0 else x - noise["move"]
        one = xp.ones_like(x[..., 0])
        return ChainState(target.at(x)), Info(one, one > 0, one < 0, target.costs.at)


def test_a_step_that_cannot_be_written_down_runs_as_it_is(eager, monkeypatch):
    ours, plain, _ = both_ways(monkeypatch, eager, lambda: logistic(3)[0], Branching(), logistic(3)[1])
    assert_same(ours, plain)


def test_errors_of_a_users_function_come_out(eager):
    calls = []

    def score(x):
        calls.append(None)
        if len(calls) == 20:
            raise ValueError("no score here")
        return -x

    with pytest.raises(ValueError, match="no score here"):
        sample(Target(None, score=score), ULA(0.1), eager.array(np.ones((3, 2))), 40, seed=1, progress=False)


def test_recorded_functions_are_called_at_kept_steps(eager):
    seen = []

    def first(state):
        seen.append(eager.host(state.point.x)[0, 0].item())
        return state.point.x[..., 0]

    target = Target(None, score=lambda x: -x)
    trace = sample(
        target,
        ULA(0.1),
        eager.array(np.ones((3, 2))),
        20,
        thinning=2,
        seed=1,
        recorders=(Draws(), Record("first", first)),
        progress=False,
    )
    assert functions_of(target)[0] is not None
    np.testing.assert_array_equal(eager.host(trace.recorded["first"]), eager.host(trace.draws)[..., 0])
    assert seen[-20:] == eager.host(trace.draws)[:, 0, 0].tolist()


def test_functions_are_kept_for_every_form_and_the_oldest_goes(eager):
    target, start = logistic(40)
    kernel = ULA(0.01)
    for chains in range(1, straight.KEPT + 4):
        for _ in range(2):
            sample(target, kernel, eager.array(start[:chains]), 32, seed=1, progress=False)
    assert len(functions_of(target)) == straight.KEPT
    assert None not in functions_of(target)


def test_numbers_among_the_data_are_not_those_of_another_run():
    target, x = Target(None, score=lambda x, data: -data["rate"] * x, data={"rate": 1.0}, pure=True), np.ones((3, 2))
    kernel, backend = ULA(0.1), reference().backend
    bound = target.prepare(x, kernel.requires)
    noise = {"proposal": np.zeros((40, 3, 2))}
    ends = []
    for rate in (1.0, 2.0):
        program = Program(kernel, bound.with_data({"rate": rate}), (), 0, 1, 40)
        carry, _, _ = backend.drive(program, program.init(x), None, Replay(noise), 0, 40)
        ends.append(carry.state.point.x[0, 0])
    np.testing.assert_allclose(ends, [0.9**40, 0.8**40], rtol=1e-12)


@dataclass(frozen=True, eq=False)
class Asking(Kernel):
    """Asks three times for the same score."""

    requires = Capability.SCORE

    def init(self, target, x):
        return ChainState(target.at(x))

    def noise(self, x):
        return {"move": Normal(tuple(x.shape))}

    def step(self, target, state, noise):
        x = state.point.x
        total = target.backend.repeat(3, lambda i, total: total + target.score(x), 0 * x)
        one = target.xp.ones_like(x[..., 0])
        return ChainState(target.at(x + 0.1 * total + noise["move"])), Info(one, one > 0, one < 0, target.costs.at)


def test_users_functions_are_called_as_often_in_a_repeated_part(eager):
    calls = []

    def score(x):
        calls.append(None)
        return -x

    target, x = Target(None, score=score), eager.array(np.ones((3, 2)))
    sample(target, Asking(), x, 32, seed=1, progress=False)
    few = len(calls)
    sample(target, Asking(), x, 52, seed=1, progress=False)
    assert functions_of(target)[0] is not None
    assert (len(calls) - few) - few == 20 * 4


def test_what_is_recorded_now_and_then_is_made_then():
    target, start = logistic(3)
    sample(target, ULA(0.01), start, 32, thinning=4, recorders=(Moments(),), seed=1, progress=False)
    (function,) = functions_of(target)
    always, due = function.source.split("if not (t + 1) % 4:")
    assert " / " in due  # the running mean
    assert " / " not in always


def test_numbers_that_are_equal_are_not_the_same():
    with tape.Tape(reference().backend) as written:
        x = written.symbol(np.asarray([1, 2]))
        assert (x * 1).dtype != (x * 1.0).dtype
        y = written.symbol(np.asarray([1.0, 2.0]))
        assert np.signbit((y * -0.0).value[0])
        assert not np.signbit((y * 0.0).value[0])


def test_a_function_goes_with_its_target():
    target, start = logistic(3)
    sample(target, ULA(0.01), start, 40, seed=1, progress=False)
    (function,) = (weakref.ref(f) for f in functions_of(target))
    files = [
        file
        for file in linecache.cache
        if file.startswith("<straight-line") and function().source in "".join(linecache.cache[file][2])
    ]
    assert files
    del target
    gc.collect()
    assert function() is None
    assert not set(files) & set(linecache.cache)


def test_values_of_a_symbol_are_refused():
    symbol = tape.Tape(reference().backend).symbol(np.ones(3))
    for ask in (bool, float, int, iter, len, np.asarray, lambda s: 1.0 in s):
        with pytest.raises(tape.CannotTrace):
            ask(symbol)
    with pytest.raises(tape.CannotTrace):
        symbol[0] = 1.0
    assert not issubclass(tape.CannotTrace, XpsampleError)  # never a user's to see
