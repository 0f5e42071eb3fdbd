"""JAX keeps traces, and copies of arrays in them: a run has the numbers of now, or refuses (numpyro#441).

With 64-bit types off, JAX copies a float64 array of NumPy once as long as a trace holds the copy, however it changes.
"""

import contextlib

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import BackendError

jax = pytest.importorskip("jax")

pytestmark = pytest.mark.first_tier

BEFORE, AFTER = 1.0, 5.0


def bowl(x, mode):
    return -2.0 * ((x - mode) ** 2).sum(-1)


def of_one(array):
    return lambda x: bowl(x, array)


def in_a_scan(array):
    def body(carry, _):
        return carry + array, None

    return lambda x: bowl(x, jax.lax.scan(body, jax.numpy.zeros_like(x), None, length=1)[0])


def in_a_cond(array):
    branch = of_one(array)
    return lambda x: jax.lax.cond(x.sum() > -1e9, branch, branch, x)


def in_a_jit(array):
    helper = jax.jit(of_one(array))
    return lambda x: 1.0 * helper(x)


WAYS = {f.__name__: f for f in (of_one, in_a_scan, in_a_cond, in_a_jit)}


def run(density, kernel=None):
    x = np.random.default_rng(3).normal(3.0, 0.3, (4, 2)).astype(np.float32)
    kernel = xps.RWM(0.5) if kernel is None else kernel
    target = xps.Target(density)
    return np.asarray(xps.sample(target, kernel, jax.numpy.asarray(x), 6, seed=1, progress=False).draws)


def expected(kernel=None):
    return run(lambda x: bowl(x, AFTER), kernel)


@pytest.fixture(autouse=True)
def narrow():
    with jax.enable_x64(False):
        yield


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("shape", [(2,), ()])
@pytest.mark.parametrize("way", WAYS)
def test_a_float64_array_changed_in_place(way, shape):
    array = np.full(shape, BEFORE)
    density = WAYS[way](array)
    first = run(density)
    array[...] = AFTER
    np.testing.assert_allclose(run(density), expected(), atol=1e-3)
    assert np.abs(first - expected()).max() > 0.1


@pytest.mark.slow
def test_with_a_gradient():
    array = np.full(2, BEFORE)
    density, kernel = in_a_scan(array), xps.MALA(0.1)
    run(density, kernel)
    array[...] = AFTER
    np.testing.assert_allclose(run(density, kernel), expected(kernel), atol=1e-3)


def test_an_array_whose_function_was_called_before_the_first_run():
    array = np.full(2, BEFORE)
    helper = jax.jit(of_one(array))
    helper(jax.numpy.zeros((4, 2)))
    array[...] = AFTER
    np.testing.assert_allclose(run(lambda x: 1.0 * helper(x)), expected(), atol=1e-3)


def test_a_trace_that_somebody_holds_is_told():
    array = np.full(2, BEFORE)
    held = jax.make_jaxpr(of_one(array))(jax.numpy.zeros((4, 2)))
    run(of_one(array))  # no change, no error
    array[...] = AFTER
    with pytest.raises(BackendError, match=r"changed in place.*read a new array"):
        run(of_one(array))
    del held
    jax.clear_caches()
    np.testing.assert_allclose(run(of_one(array)), expected(), atol=1e-3)


class Lookalike:
    """A setting of the right name that traces are not kept by."""

    def __call__(self, number):
        return contextlib.nullcontext()


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("setting", [None, Lookalike()])
def test_a_jax_without_the_setting_that_keeps_traces_apart(monkeypatch, setting):
    from jax._src import config
    from xpsample_jax import programs

    if setting is None:
        monkeypatch.delattr(config, "pgle_profiling_runs")
    else:
        monkeypatch.setattr(config, "pgle_profiling_runs", setting)
    assert programs._setting() is None
    monkeypatch.setattr(programs, "_known_setting", programs._setting)
    mode = BEFORE

    def body(carry, _):
        return carry + mode, None

    def density(x):
        return bowl(x, jax.lax.scan(body, jax.numpy.zeros_like(x), None, length=1)[0])

    first = run(density)
    mode = AFTER
    np.testing.assert_allclose(run(density), expected(), atol=1e-3)
    assert np.abs(first - expected()).max() > 0.1
