"""Steps in pieces of the chains: they give what whole steps give, and only where no call mixes chains."""

import importlib
import tracemalloc
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import xpsample.noise
from tests.conftest import open_library
from tests.test_straight import SCENARIOS, assert_same, leaves, logistic
from xpsample import MALA, ULA, Draws, Moments, Record, Statistics, Target, sample
from xpsample.conformance.checks import _setting, reference
from xpsample.kernels import Kernel
from xpsample.kernels.kernel import Info
from xpsample.noise import Normal, Portable
from xpsample.places import Place
from xpsample.straight import steps as straight
from xpsample.straight import tape
from xpsample.straight.chains import Apart
from xpsample.straight.pieces import Own
from xpsample.targets import Capability, Point

APART = {
    "hmc", "hmc-dense-mass", "hmc-diagonal-mass", "independent", "mala", "mala-preconditioned", "mala-tempered",
    "myula", "pcn", "rwm", "sr-hmc", "sr-hmc-shift", "sr-hmc-stable", "sr-independent", "sr-mala", "sr-mala-difference",
    "sr-pcn", "sr-rwm", "sr-ula", "sr-ula-stable", "sr-underdamped", "srld", "srld-mala", "srld-thinned",
    "srld-underdamped", "ula", "underdamped",
}  # fmt: skip
"""Kernels that run in pieces. Others mix chains, index them, or are on discrete spaces."""


@pytest.fixture(params=[("numpy", "float64"), ("torch", "float32")], ids="-".join)
def eager(request):
    """The libraries whose steps can be cut."""
    return open_library(*request.param)


def steps_of(backend):
    return importlib.import_module(f"xpsample_{backend.name}.backend").STEPS


def in_pieces(monkeypatch, library, run, size=64):
    """What a run gives in pieces of `size` bytes and as a whole, and for each block whether it was in pieces."""
    were, some = [], straight.StraightSteps._in_pieces
    results = []
    for piece in (size, 10**12):
        with monkeypatch.context() as patch, np.errstate(all="ignore"):
            patch.setattr(xpsample.noise, "CHUNK_STEPS", 16)  # many blocks, so that memory is used again
            patch.setattr(steps_of(library.backend), "piece", lambda x, piece=piece: piece)
            patch.setattr(
                straight.StraightSteps,
                "_in_pieces",
                lambda *args: (were.append((done := some(*args)) is not None), done)[1],
            )
            results.append(leaves(run()))
    return *results, were[: len(were) // 2]


def assert_close(ours, plain, dtype):
    """To rounding, in the dtype of the run: a product of matrices may round otherwise for fewer rows."""
    assert ours.keys() == plain.keys()
    tolerance = {"float32": 1e-4, "float64": 1e-12}[dtype]
    for path, array in ours.items():
        np.testing.assert_allclose(array, plain[path], rtol=tolerance, atol=tolerance, err_msg=path)


@pytest.mark.filterwarnings("ignore::xpsample.errors.DivergenceWarning")
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_kernel_makes_the_same_steps_in_pieces_or_runs_as_a_whole(name, eager, monkeypatch):
    target, kernel, x0 = _setting(SCENARIOS[name], Place(eager.backend, "here", eager.device, eager.dtype))
    x0 = eager.backend.xp.concat([x0] * 3)[:17, ...]

    def run():
        recorders = (Draws(), Statistics(), Moments())
        return sample(
            target, kernel, x0, 20, seed=Portable(3), burn_in=5, thinning=3, recorders=recorders, progress=False
        )

    ours, plain, blocks = in_pieces(monkeypatch, eager, run)
    assert_close(ours, plain, eager.dtype)
    assert len(blocks) > 4
    assert set(blocks) == {name in APART}


class Lagged(NamedTuple):
    point: Point
    before: Any


@dataclass(frozen=True, eq=False)
class Lagging(Kernel):
    """Keeps the position before: a view of the memory that the next one goes to."""

    requires = Capability.SCORE

    def init(self, target, x):
        return Lagged(target.at(x), 0 * x)

    def noise(self, x):
        return {"move": Normal(tuple(x.shape))}

    def step(self, target, state, noise):
        x = state.point.x
        one = target.xp.ones_like(x[..., 0])
        new = Lagged(target.at(0.5 * x + noise["move"]), x)
        return new, Info(one, one > 0, one < 0, target.costs.at)


def test_views_of_what_is_carried_are_not_overwritten(eager, monkeypatch):
    target = Target(None, score=lambda x: -x, pure=True)
    monkeypatch.setattr(xpsample.noise, "CHUNK_ELEMENTS", 1)  # a step to a block: the state before is a view
    ours, plain, blocks = in_pieces(
        monkeypatch,
        eager,
        lambda: sample(target, Lagging(), eager.array(np.ones((9, 3))), 40, seed=Portable(1), progress=False),
    )
    assert_same(ours, plain)
    assert all(blocks)


@dataclass(frozen=True, eq=False)
class Numbering(Kernel):
    """Gives each chain its number, of which a piece of the chains knows nothing."""

    requires = Capability.SCORE

    def init(self, target, x):
        return Lagged(target.at(x), target.real(0 * x[..., 0]))

    def noise(self, x):
        return {"move": Normal(tuple(x.shape))}

    def step(self, target, state, noise):
        xp, x = target.xp, state.point.x
        one = xp.ones_like(x[..., 0])
        numbers = xp.astype(xp.arange(x.shape[0]), x.dtype)
        return Lagged(target.at(0.5 * x + noise["move"]), numbers), Info(one, one > 0, one < 0, target.costs.at)


def test_what_is_made_of_the_number_of_chains_is_not_made_in_pieces(eager, monkeypatch):
    target = Target(None, score=lambda x: -x, pure=True)

    def run():
        return sample(target, Numbering(), eager.array(np.ones((9, 3))), 40, seed=Portable(1), progress=False)

    ours, plain, _ = in_pieces(monkeypatch, eager, run)
    assert_same(ours, plain)
    np.testing.assert_array_equal(ours["3/before"], np.arange(9))


@pytest.mark.parametrize("kernel", ["hmc", "mala", "rwm", "sr-mala", "ula", "underdamped"])
def test_what_a_run_carries_is_written_to_again(kernel, eager, monkeypatch):
    """Every leaf of the state, so that large states are not allocated anew in every block."""
    target, kernel, x0 = _setting(SCENARIOS[kernel], Place(eager.backend, "here", eager.device, eager.dtype))
    monkeypatch.setattr(steps_of(eager.backend), "piece", lambda x: 64)
    sample(target, kernel, x0, 40, seed=Portable(3), recorders=(Moments(),), progress=False)
    functions = [f for bound in target._bound.values() for f in bound.compiled.values()]
    assert functions and all(f.fresh for f in functions)


def test_runs_do_not_share_memory(eager, monkeypatch):
    target, x0 = Target(None, score=lambda x: -x, pure=True), eager.array(np.ones((9, 3)))
    kernel = ULA(0.1)
    monkeypatch.setattr(steps_of(eager.backend), "piece", lambda x: 64)
    monkeypatch.setattr(xpsample.noise, "CHUNK_STEPS", 16)
    first = sample(target, kernel, x0, 40, seed=1, progress=False)
    before = leaves(first)
    before = {path: array.copy() for path, array in before.items()}
    second = sample(target, kernel, first.state.point.x, 40, seed=2, progress=False)
    assert_same(leaves(first), before)
    assert not np.array_equal(eager.host(second.state.point.x), eager.host(first.state.point.x))
    np.testing.assert_array_equal(eager.host(x0), 1.0)


def test_users_functions_see_all_chains(eager, monkeypatch):
    shapes = set()

    def score(x):
        shapes.add(tuple(x.shape))
        return -x

    monkeypatch.setattr(steps_of(eager.backend), "piece", lambda x: 64)
    x0 = eager.array(np.ones((9, 3)))
    sample(Target(None, score=score), ULA(0.1), x0, 40, seed=1, progress=False)
    recorders = (Record("all", lambda state: shapes.add(tuple(state.point.x.shape)) or state.point.x),)
    pure = Target(None, score=lambda x: -x, pure=True)
    sample(pure, ULA(0.1), x0, 40, seed=1, recorders=recorders, progress=False)
    assert shapes == {(9, 3)}


def test_step_sizes_of_their_own_for_chains(eager, monkeypatch):
    target, start = logistic(9)
    kernel = MALA(eager.array(np.linspace(0.01, 0.02, 9)))
    ours, plain, blocks = in_pieces(
        monkeypatch, eager, lambda: sample(target, kernel, eager.array(start), 40, seed=Portable(1), progress=False)
    )
    assert_same(ours, plain)
    assert not any(blocks)  # an array of the kernel's own is not cut


def test_memory_is_that_of_pieces(monkeypatch):
    target, start = logistic(20_000, rows=20)
    peaks = []
    for piece in (2**18, 10**12):
        monkeypatch.setattr(steps_of(reference().backend), "piece", lambda x, piece=piece: piece)
        tracemalloc.start()
        began = tracemalloc.get_traced_memory()[0]
        sample(target, MALA(0.01), start, 3, seed=1, recorders=(), progress=False)
        peaks.append(tracemalloc.get_traced_memory()[1] - began)
        tracemalloc.stop()
    assert peaks[0] < peaks[1]


MATRIX, ROW = np.arange(9.0).reshape(3, 3), np.arange(3.0)

KEEPING = {
    "elements": lambda xp, x, c: xp.exp(x) * 2 - ROW,
    "a column": lambda xp, x, c: x * c[..., None],
    "one row for all": lambda xp, x, c: xp.where(x > 0, x, MATRIX[:1]),
    "a matrix": lambda xp, x, c: x @ MATRIX,
    "a vector": lambda xp, x, c: x @ ROW,
    "a sum": lambda xp, x, c: xp.sum(x, axis=-1),
    "a sum, kept": lambda xp, x, c: x - xp.sum(x, axis=1, keepdims=True),
    "items": lambda xp, x, c: x[..., :2],
    "stacked": lambda xp, x, c: xp.stack([c, c], axis=-1),
    "concatenated": lambda xp, x, c: xp.concat([x, x[..., :1]], axis=1),
    "an index of its own": lambda xp, x, c: xp.take_along_axis(x, xp.astype(x[..., :1] > 0, xp.int64), axis=-1),
    "reshaped": lambda xp, x, c: xp.reshape(x, (x.shape[0], 3, 1)),
}
MIXING = {
    "a sum": lambda xp, x, c: x - xp.sum(x, axis=0),
    "a sum from behind": lambda xp, x, c: x - xp.sum(x, axis=-2),
    "a sum of all": lambda xp, x, c: x - xp.sum(x),
    "a sum of two axes": lambda xp, x, c: c + xp.sum(x, axis=(0, 1)),
    "a sum of a column": lambda xp, x, c: c - xp.sum(c, axis=-1),
    "along another axis": lambda xp, x, c: x[:3, :] * xp.sum(x, axis=-1)[:3],
    "pairs": lambda xp, x, c: xp.sum(c[..., None] - c, axis=-1),
    "its transpose": lambda xp, x, c: x @ x.T,
    "from the left": lambda xp, x, c: np.ones((len(XS), len(XS))) @ x,
    "rows": lambda xp, x, c: x - x[0, ...],
    "rows from behind": lambda xp, x, c: x - x[..., ::-1, :],
    "the other way": lambda xp, x, c: x[::-1, ...],
    "a new first axis": lambda xp, x, c: xp.sum(x[None, ...] - x[:, None, :], axis=1),
    "stacked": lambda xp, x, c: xp.stack([x, x], axis=0),
    "concatenated": lambda xp, x, c: xp.concat([x[..., :1], x[..., 1:2]], axis=0),
    "another's index": lambda xp, x, c: xp.take_along_axis(x, xp.argsort(x, axis=0), axis=0),
    "reshaped": lambda xp, x, c: xp.reshape(x, (3, -1)),
    "sorted": lambda xp, x, c: xp.sort(x, axis=0),
    "a mask": lambda xp, x, c: x[c > 0],
    "an array of all chains": lambda xp, x, c: x * np.arange(float(len(XS)))[:, None],
}
XS = np.random.default_rng(0).normal(size=(7, 3))


def follow(function):
    """Raise CannotTrace unless a function of positions and of one number for each chain keeps chains apart."""
    with tape.Tape(reference().backend) as written:
        x, c = written.symbol(XS), written.symbol(XS[:, 0])
        function(written.xp, x, c)
        chains = Apart([x, c])
        chains.follow(written.open[0].nodes)
    return chains


@pytest.mark.parametrize("name", KEEPING)
def test_what_keeps_chains_apart(name):
    function, xp = KEEPING[name], reference().backend.xp
    follow(function)
    whole = function(xp, XS, XS[:, 0])
    np.testing.assert_allclose(np.concatenate([function(xp, XS[k : k + 1], XS[k : k + 1, 0]) for k in range(7)]), whole)


@pytest.mark.parametrize("name", MIXING)
def test_what_mixes_chains_is_seen(name):
    with pytest.raises(tape.CannotTrace):
        follow(MIXING[name])


def test_a_repeated_part_keeps_chains_apart_or_not():
    def loop(body):
        with tape.Tape(reference().backend) as written:
            x = written.symbol(XS)
            end = written.repeat(3, body(written.xp), (x, written.lifted(0.0)))
            chains = Apart([x])
            chains.follow(written.open[0].nodes)
            return end[0] in chains, end[1] in chains

    assert loop(lambda xp: lambda i, carry: (2 * carry[0], carry[1] + 1.0)) == (True, False)
    with pytest.raises(tape.CannotTrace):
        loop(lambda xp: lambda i, carry: (carry[0] - xp.mean(carry[0], axis=0), carry[1]))
    with pytest.raises(tape.CannotTrace):
        loop(lambda xp: lambda i, carry: (XS, carry[1]))


def test_arrays_are_ones_own_as_long_as_they_live():
    own = Own()
    array = np.ones(3)
    own.add(array)
    assert array in own
    assert np.ones(3) not in own
    del array
    assert not own._arrays
