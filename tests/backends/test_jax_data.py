"""Data of a target are arguments of compiled programs, and chunks of noise are never those of another run."""

from collections import namedtuple

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.backend import Schedule, StopFlag
from xpsample.sampling.noise import Native
from xpsample.sampling.program import Program
from xpsample.targets.acceptance import LineIntegral
from xpsample.trace.recorders import Recorder

jax = pytest.importorskip("jax")

from xpsample_jax import programs  # noqa: E402

pytestmark = pytest.mark.first_tier

ROWS = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
KERNEL = xps.MALA(0.1)

Of = namedtuple("Of", "scale")


def log_density(x, rows):
    return -0.5 * ((x @ rows.T) ** 2).sum(-1)


def score(x, rows):
    return -(x @ rows.T) @ rows


def nested(x, data):
    return log_density(x, data["rows"][0]) * data["of"].scale + (0.0 if data["none"] is None else 1.0)


class Evaluated(Recorder):
    """The target's own values, evaluated once more."""

    name: str = "evaluated"

    def init(self, target, state):
        return None

    def update(self, target, carry, state, info):
        point = target.evaluate(state.point.x)
        return None, point.log_density if point.score is None else point.score

    def result(self, target, carry, rows):
        return rows


def model(rows):
    return xps.Model(lambda p, rows: log_density(p.a, rows), a=xps.Real(3), data=rows)


def in_containers(rows):
    return xps.Target(nested, data={"rows": [rows], "of": Of(np.float32(rows[0, 0] ** 2)), "none": None})


def family(rows):
    return xps.Parametric(lambda x, p: -0.5 * ((x - p) ** 2).sum(-1), np.mean(rows, axis=0))


def bridge(rows):
    initial = xps.Target(lambda x, m: -0.5 * ((x - m) ** 2).sum(-1), data=rows[0])
    return xps.Bridge(initial, xps.Target(log_density, data=rows))


def scores(rows):
    return xps.Target(None, score=score, data=rows, acceptance=LineIntegral(2))


CASES = {
    "score": (lambda rows: xps.Target(log_density, score=score, data=rows), lambda: xps.MALA(0.1)),
    "autodiff": (lambda rows: xps.Target(log_density, data=rows), lambda: xps.HMC(0.1, 3)),
    "warm-up": (lambda rows: xps.Target(log_density, data=rows), lambda: xps.MALA()),
    "hvp": (lambda rows: xps.Target(log_density, data=rows), lambda: xps.SRMC(xps.MALA(0.1), 0.3)),
    "model": (model, lambda: xps.HMC(0.1, 3)),
    "containers": (in_containers, lambda: xps.MALA(0.1)),
    "family": (family, lambda: xps.RWM(0.1)),
    "tempered": (lambda rows: xps.Tempered(xps.Target(log_density, data=rows), 0.5), lambda: xps.RWM(0.1)),
    "ends of a bridge": (bridge, lambda: xps.ParallelTempering(xps.RWM(0.1), (1.0, 0.5))),
    "score alone": (scores, lambda: xps.MALA(0.1)),
}


@pytest.fixture
def executables(monkeypatch):
    found = programs.Executables(programs.MOST)
    monkeypatch.setattr(programs, "EXECUTABLES", found)
    return found


@pytest.mark.filterwarnings("ignore::xpsample.core.errors.RepellenceWarning")
@pytest.mark.first_cases(3)
@pytest.mark.parametrize("name", CASES)
def test_a_second_data_set_of_the_same_shapes_compiles_nothing(executables, name):
    make, kernel = CASES[name]
    x = jax.numpy.asarray(np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32))

    def run(rows):
        recorders = (xps.Draws(), Evaluated())
        settings = {"warmup": 30} if name == "warm-up" else {}
        return xps.sample(make(rows), kernel(), x, 20, seed=1, recorders=recorders, progress=False, **settings)

    first = run(ROWS)
    compiled = len(executables)
    second = run(3 * ROWS)
    assert compiled > 0 and len(executables) == compiled
    executables.clear()
    alone = run(3 * ROWS)
    for values in (lambda trace: trace.draws, lambda trace: trace.recorded["evaluated"]):
        ours, theirs, before = (np.asarray(values(trace)) for trace in (second, alone, first))
        np.testing.assert_array_equal(ours, theirs)
        assert not np.array_equal(ours, before)


@pytest.mark.slow
@pytest.mark.parametrize("method", [xps.Laplace(), xps.Pathfinder()], ids=["Laplace", "Pathfinder"])
def test_approximations_of_a_second_data_set_compile_nothing(executables, method):
    x = jax.numpy.asarray(np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32))
    method.fit(xps.Target(log_density, data=ROWS), x, seed=0)
    compiled = len(executables)
    found = method.fit(xps.Target(log_density, data=3 * ROWS), x, seed=0)
    assert compiled > 0 and len(executables) == compiled
    np.testing.assert_allclose(np.asarray(found.mean), 0.0, atol=1e-2)


@pytest.mark.slow
def test_python_values_among_the_data_are_constants():
    """A shape, a name or a flag works whatever the number of chains, and with autodiff; each has its own program."""

    def density(x, data):
        assert data["name"] == "linear"
        rows = data["rows"].reshape((-1, data["columns"]))
        return data["sign"] * 0.5 * ((x @ rows.T) ** 2).sum(-1)

    def draws(target, chains):
        x = jax.numpy.ones((chains, 3), dtype=np.float32)
        return np.asarray(xps.sample(target, KERNEL, x, 5, seed=1, progress=False).draws)

    data = {"rows": ROWS.ravel(), "columns": 3, "name": "linear"}
    full, half = (xps.Target(density, data=data | {"sign": sign}) for sign in (-1.0, -0.5))
    for chains in (2, 40):
        found = draws(full, chains)
        np.testing.assert_allclose(found, draws(xps.Target(log_density, data=ROWS), chains), rtol=1e-5)
        assert not np.array_equal(draws(half, chains), found)


def bind(rows, chains=1):
    x = jax.numpy.ones((chains, 3), dtype=np.float32)
    return xps.Target(log_density, score=score, data=rows).prepare(x, KERNEL.requires), x


def walk(bound, x, steps=20):
    program = Program(KERNEL, bound, (xps.Draws(),), Schedule(steps))
    carry = program.init(x)
    _, rows, *_ = bound.backend.drive(program, carry, None, Native(5), 0, steps, StopFlag())
    return np.asarray(rows[0])


@pytest.mark.slow
def test_a_target_with_other_data_is_not_mixed_up_with_the_first():
    bound, x = bind(ROWS)
    first = walk(bound, x)
    for factor in (3.0, 0.5):
        other = walk(bound.with_data(bound.data * np.float32(factor)), x)
        np.testing.assert_array_equal(other, walk(*bind(ROWS * np.float32(factor))))
        assert np.abs(other - first).max() > 0.1
    assert np.array_equal(walk(bound, x), first)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("source", [Native(5), xps.Portable(5)], ids=["native", "portable"])
def test_a_block_that_reaches_into_a_second_chunk_of_noise_has_that_chunk_too(source):
    # 100,000 chains: a chunk is one step. Where its numbers were used again the chains of these blocks would differ.
    chains, steps = 100_000, 3
    bound, x = bind(ROWS, chains)
    program = Program(KERNEL, bound, (), Schedule(steps))
    at_once, one_by_one = program.init(x), program.init(x)
    at_once, *_ = bound.backend.drive(program, at_once, None, source, 0, steps, StopFlag())
    for t in range(steps):
        one_by_one, *_ = bound.backend.drive(program, one_by_one, None, source, t, t + 1, StopFlag())
    np.testing.assert_allclose(at_once.state.point.x, one_by_one.state.point.x, rtol=0, atol=1e-4)
