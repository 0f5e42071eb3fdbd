"""What is compiled on JAX, and how often; the cache of programs: bounded in bytes, safe under threads."""

import itertools
import threading
from functools import cached_property

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.registry import whole
from xpsample.sampling.noise import Native
from xpsample.targets import Capability

pytestmark = pytest.mark.first_tier

jax = pytest.importorskip("jax")

from xpsample_jax import programs  # noqa: E402
from xpsample_jax.programs import Compiled, Executables  # noqa: E402

LONG = 3000
"""Steps that are driven in several blocks."""


def positions(committed):
    x = jax.numpy.ones((4, 3), dtype=np.float32)
    return jax.device_put(x, jax.devices()[0]) if committed else x


@pytest.fixture
def blocks(monkeypatch):
    """The blocks of steps that are compiled in a test."""
    monkeypatch.setattr(programs, "EXECUTABLES", programs.Executables(programs.MOST))
    made, compile_ = [], programs._compile

    def compiled(lowered, *options):
        if "@jit_block" in lowered.as_text()[:200]:
            made.append(lowered)
        return compile_(lowered, *options)

    monkeypatch.setattr(programs, "_compile", compiled)
    return made


@pytest.mark.sampled(4)
@pytest.mark.slow
@pytest.mark.first_cases(2)
@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("data", ["none", "numpy", "jax"])
@pytest.mark.parametrize("source", [Native(1), xps.Portable(1)], ids=["native", "portable"])
def test_all_blocks_of_a_run_are_one_program(blocks, committed, data, source):
    """Whether or not the user placed the positions on a device: what a block returns is placed."""
    values = {"none": None, "numpy": np.ones(3), "jax": jax.numpy.ones(3, dtype=np.float32)}[data]
    kernel = xps.SRMC(xps.MALA(0.1), alpha=0.5, tilt=xps.Exact())
    x = positions(committed)
    for _ in range(2):
        target = xps.Target(lambda x, *scale: -0.5 * (x * x * (scale[0] if scale else 1.0)).sum(-1), data=values)
        xps.sample(target, kernel, x, LONG, seed=source, progress=False)
    assert len(blocks) == 1


KERNELS_OF_A_NUMBER = {
    "MALA": lambda v: xps.MALA(v),
    "HMC": lambda v: xps.HMC(v, 3),
    "SRMC": lambda v: xps.SRMC(xps.MALA(0.1), v, tilt=xps.Exact()),
    "SRLD": lambda v: xps.SRLD(xps.ULA(0.1), v, xps.Rolling(3, 1), xps.RBF(1.0)),
    "tempering": lambda v: xps.ParallelTempering(xps.RWM(v), (1.0, 0.5)),
    "a ladder": lambda v: xps.ParallelTempering(xps.RWM(0.5), (1.0, v)),
    "a decay": lambda v: xps.ULA(xps.PolynomialDecay(v)),
    "an array": lambda v: xps.MALA(0.1, preconditioner=jax.numpy.asarray([1.0, 2.0, v], dtype=np.float32)),
    "an array per chain": lambda v: xps.RWM(jax.numpy.asarray([0.1, 0.2, 0.3, v], dtype=np.float32)),
}


@pytest.mark.sampled(3)
@pytest.mark.first_cases(2)
@pytest.mark.parametrize("name", KERNELS_OF_A_NUMBER)
def test_values_of_hyper_parameters_share_a_program(blocks, name):
    """Each value gives the chain that it gives alone; only the first is compiled."""
    x, make = positions(False), KERNELS_OF_A_NUMBER[name]

    def run(target, value):
        return np.asarray(xps.sample(target, make(value), x, 20, seed=1, progress=False).draws)

    def new():
        return xps.Target(lambda x: -0.5 * (x * x).sum(-1), score=lambda x: -x)

    shared = new()
    chains = [run(shared, value) for value in (0.2, 0.05)]
    assert len(blocks) == 1
    programs.EXECUTABLES.clear()
    np.testing.assert_array_equal(chains[1], run(new(), 0.05))
    assert not np.array_equal(*chains)


class Twice(xps.RWM):
    """Moves by twice its step size, once computed, beside its fields."""

    @cached_property
    def twice(self):
        return 2 * self.step_size

    def init(self, target, x):
        assert self.twice > 0
        return super().init(target, x)

    def step(self, target, state, noise):
        return super().step(target, state, {**noise, "proposal": self.twice / self.step_size * noise["proposal"]})


@pytest.mark.slow
def test_what_a_kernel_caches_is_not_shared():
    """A program of a step size of 0.1 took what the kernel had computed of it for every other step size."""
    x, target = positions(False), xps.Target(lambda x: -0.5 * (x * x).sum(-1))
    for step_size in (0.1, 0.5):
        ours = xps.sample(target, Twice(step_size), x, 20, seed=1, progress=False).draws
        theirs = xps.sample(target, xps.RWM(2 * step_size), x, 20, seed=1, progress=False).draws
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.slow
def test_numbers_that_are_no_arguments_make_programs_of_their_own(blocks):
    x, target = positions(False), xps.Target(lambda x: -0.5 * (x * x).sum(-1), score=lambda x: -x)
    for kernel in (xps.HMC(0.1, 2), xps.HMC(0.1, 3), xps.HMC(jax.numpy.float32(0.1), 3), xps.HMC(0.2, 3)):
        xps.sample(target, kernel, x, 5, seed=1, progress=False)
    assert len(blocks) == 3


@pytest.mark.slow
def test_rows_of_a_batch_are_an_argument(blocks):
    def rows(seed):
        return jax.numpy.asarray(np.random.default_rng(seed).normal(size=(50, 2)), dtype=np.float32)

    family = xps.Parametric(lambda x, p: -0.5 * ((x - p) ** 2).sum(-1), np.zeros((1, 2), dtype=np.float32))
    x = jax.numpy.zeros((8, 2), dtype=np.float32)
    for seed in (0, 1):
        loss = xps.sosmc.EnergyModel(xps.particles.batches.RowBatches(rows(seed)))
        kernel = xps.SOSMC(loss, xps.sosmc.LangevinMove(0.1), xps.optimize.SGD(0.1))
        xps.sample(family, kernel, x, 5, seed=1, progress=False)
    assert len(blocks) == 1


def test_the_users_functions_are_compiled_for_eager_calls_too():
    """Also within a trace, and with data that hold Python values: a shape, say, cannot be an argument."""
    calls, data = [], {"weights": np.arange(6.0), "columns": 3, "name": "linear"}

    def log_density(x):
        calls.append(type(x))
        return -0.5 * (x * x).sum(-1)

    def linear(x, data):
        assert data["name"] == "linear"
        return (x @ data["weights"].reshape((-1, data["columns"])).T).sum(-1)

    x = positions(False)
    bound = xps.Target(log_density).prepare(x, Capability.LOG_DENSITY)
    for k in range(3):
        np.testing.assert_allclose(bound.evaluate(k * x).log_density, np.full(4, -1.5 * k**2))
    assert len(calls) == 1 and issubclass(calls[0], jax.core.Tracer)
    np.testing.assert_array_equal(jax.jit(lambda more: bound.evaluate(x).log_density + more)(1.0), np.full(4, -0.5))
    bound = xps.Target(linear, data=data).prepare(x, Capability.LOG_DENSITY)
    np.testing.assert_array_equal(bound.evaluate(x).log_density, np.full(4, 15.0))


@pytest.mark.parametrize("library", [np, jax.numpy])
def test_a_function_of_arrays_is_compiled_whole_where_its_operations_would_be(library):
    calls = []

    @whole
    def total(x, y):
        calls.append(type(x))
        return (x - y).sum()

    for _ in range(3):
        assert total(library.ones(3), y=library.zeros(3)) == total(y=library.zeros(3), x=library.ones(3)) == 3
    assert len(calls) == (6 if library is np else 1)
    assert issubclass(calls[0], np.ndarray if library is np else jax.core.Tracer)
    assert jax.jit(lambda x: total(x, 1 * x))(jax.numpy.ones(3)) == 0  # within a trace, too
    with pytest.raises(TypeError, match="missing a required argument: 'y'"):
        total(library.ones(3))
    with pytest.raises(TypeError, match="unsupported operand"):  # its own error
        total("three", "four")


@pytest.mark.parametrize("n", [0, 1, 4, 7])
def test_a_loop_whose_count_and_condition_are_traced(n):
    """One program for all counts, which gives what the plain loop gives."""
    backend, x = xps.backend_of(jax.numpy.ones(2)), jax.numpy.ones(2)

    def loop(n, bound, x, conditional):
        until = (lambda carry: carry[1][0] > bound) if conditional else None
        return backend.repeat(n, lambda i, carry: (carry[0] + i, carry[1] * 2), (jax.numpy.asarray(0), x), until)

    compiled = jax.jit(loop, static_argnums=3)
    for conditional, bound in itertools.product((False, True), (0.5, 9.0, 1e9)):
        ours, plain = compiled(n, bound, x, conditional), loop(n, bound, x, conditional)
        for one, other in zip(ours, plain, strict=True):
            np.testing.assert_array_equal(one, other)
    assert compiled._cache_size() == 2


@pytest.mark.slow
def test_other_tuned_values_and_another_warm_up_length_compile_nothing(blocks):
    target = xps.Target(lambda x, scale: -0.5 * (x * x * scale).sum(-1), data=jax.numpy.ones(3, dtype=np.float32))
    x = positions(committed=True)
    for seed, warmup in ((1, 60), (2, 60), (3, 90)):
        xps.sample(target, xps.HMC(), (1.0 + seed) * x, 40, seed=seed, warmup=warmup)
    assert len(blocks) == 2  # the warm-up's program and the run's


# ---- the cache -------------------------------------------------------------------------------------------------------


def test_the_least_used_go_first_and_the_bytes_are_bounded():
    kept = Executables(100)
    for key in "abc":
        kept.get(key, 40, lambda key=key: key * 2)
        assert kept.get("a", 40, lambda: "made anew") == "aa"
        assert kept.bytes <= 100
    assert kept.get("b", 40, lambda: "made anew") == "made anew"
    assert kept.get("large", 101, lambda: "one") == "one" and kept.bytes <= 100


def test_threads_get_the_program_of_their_key():
    kept, wrong = Executables(20 * 7), []

    def ask(seed):
        for key in np.random.default_rng(seed).integers(0, 20, 2000):
            if kept.get(int(key), 7 if key % 2 else 20, lambda key=key: int(key)) != key:
                wrong.append(key)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and kept.bytes == sum(size for _, size in kept._kept.values()) <= kept.most


def test_which_argument_is_used_and_in_which_order_results_come_are_of_a_program(monkeypatch):
    monkeypatch.setattr(programs, "EXECUTABLES", Executables(programs.MOST))
    a, b = jax.numpy.ones(3), 2 * jax.numpy.ones(3)
    functions = [lambda a, b: a * 2, lambda a, b: b * 2, lambda a, b: (a, b), lambda a, b: (b, a), lambda a, b: [a, b]]
    for f in functions:
        found, expected = Compiled(f)(a, b), f(a, b)
        assert type(found) is type(expected) or isinstance(found, jax.Array)
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))
    assert len(programs.EXECUTABLES) == len(functions)
    np.testing.assert_array_equal(Compiled(lambda a, b: a * 2)(b, a), b * 2)
    assert len(programs.EXECUTABLES) == len(functions)  # an equal function takes the first one's program
