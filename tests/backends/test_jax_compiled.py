"""What is compiled on JAX, and how often."""

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.registry import whole
from xpsample.run.noise import Native
from xpsample.targets import Capability

pytestmark = pytest.mark.first_tier

jax = pytest.importorskip("jax")

LONG = 3000
"""Steps that are driven in several blocks."""


def positions(committed):
    x = jax.numpy.ones((4, 3), dtype=np.float32)
    return jax.device_put(x, jax.devices()[0]) if committed else x


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("data", ["none", "numpy", "jax"])
@pytest.mark.parametrize("source", [Native(1), xps.Portable(1)], ids=["native", "portable"])
def test_all_blocks_of_a_run_are_one_program(committed, data, source):
    """Whether or not the user placed the positions on a device: what a block returns is placed."""
    values = {"none": None, "numpy": np.ones(3), "jax": jax.numpy.ones(3, dtype=np.float32)}[data]
    kernel = xps.SRMC(xps.MALA(0.1), alpha=0.5)
    target = xps.Target(lambda x, *scale: -0.5 * (x * x * (scale[0] if scale else 1.0)).sum(-1), data=values)
    x = positions(committed)
    blocks = []
    for _ in range(2):
        xps.sample(target, kernel, x, LONG, seed=source, progress=False)
        (runner,) = target.prepare(x, kernel.requires).compiled.values()
        blocks.append(runner.block._cache_size())
    assert blocks == [1, 1]


def test_the_users_functions_are_compiled_for_eager_calls_too():
    calls = []

    def log_density(x):
        calls.append(type(x))
        return -0.5 * (x * x).sum(-1)

    x = positions(False)
    bound = xps.Target(log_density).prepare(x, Capability.LOG_DENSITY)
    for k in range(3):
        np.testing.assert_allclose(bound.evaluate(k * x).log_density, np.full(4, -1.5 * k**2))
    assert len(calls) == 1 and issubclass(calls[0], jax.core.Tracer)


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


def test_they_are_called_within_a_trace_of_which_the_positions_are_no_part():
    x = positions(False)
    bound = xps.Target(lambda x: -0.5 * (x * x).sum(-1)).prepare(x, Capability.LOG_DENSITY)
    np.testing.assert_array_equal(jax.jit(lambda more: bound.evaluate(x).log_density + more)(1.0), np.full(4, -0.5))


def test_functions_of_data_that_hold_python_values_are_called_as_they_are():
    """A shape, say, cannot be the argument of a compiled function."""
    data = {"weights": np.arange(6.0), "columns": 3, "name": "linear"}

    def log_density(x, data):
        assert data["name"] == "linear"
        return (x @ data["weights"].reshape((-1, data["columns"])).T).sum(-1)

    x = positions(False)
    bound = xps.Target(log_density, data=data).prepare(x, Capability.LOG_DENSITY)
    np.testing.assert_array_equal(bound.evaluate(x).log_density, np.full(4, 15.0))
