"""Arrays that share the memory of another library lie there as that library has them, and JAX compiles for a layout."""

import numpy as np
import pytest

import xpsample as xps

jax = pytest.importorskip("jax")

pytestmark = pytest.mark.first_tier


def transposed(values):
    """The array, with its first axis innermost in memory, at an address that JAX takes without a copy."""
    host = np.asarray(values, dtype=np.float32)
    room = np.zeros(host.size + 32, dtype=np.float32)
    first = -room.ctypes.data % 64 // 4
    found = room[first : first + host.size].reshape(host.T.shape).T
    found[...] = host
    return found


@pytest.fixture
def x0():
    return np.random.default_rng(1).normal(size=(2, 4, 3)).astype(np.float32)


def test_the_arrays_of_these_tests_do(x0):
    assert jax.numpy.from_dlpack(transposed(x0)).format.layout.major_to_minor == (2, 1, 0)


def test_a_program_takes_both(x0):
    compiled = pytest.importorskip("xpsample_jax.programs").Compiled(lambda x: jax.numpy.sum(x, axis=-1))
    lying, standing = jax.numpy.from_dlpack(transposed(x0)), jax.device_put(x0, jax.devices()[0])
    first, second = compiled(lying), compiled(standing)
    np.testing.assert_array_equal(np.asarray(first), np.asarray(second))
    np.testing.assert_array_equal(np.asarray(compiled(lying)), np.asarray(second))


@pytest.mark.slow
def test_chains_and_data_are_the_same(x0):
    def draws(x, data):
        target = xps.Target(lambda x, d: -0.5 * jax.numpy.sum((x - d[:, :1]) ** 2, axis=-1), data=data)
        return np.asarray(xps.sample(target, xps.MALA(0.5), x, 20, seed=1, progress=False).draws)

    lying, standing = jax.numpy.from_dlpack(transposed(x0)), jax.device_put(x0, jax.devices()[0])
    plain = draws(standing, standing)
    np.testing.assert_array_equal(draws(lying, standing), plain)
    np.testing.assert_array_equal(draws(standing, lying), plain)


def test_a_borrowed_gradient_takes_both(x0):
    target = xps.Target(lambda x: -0.5 * (x**2).sum(-1), gradient=xps.Via("jax"))
    bound = target.prepare(x0, xps.targets.Capability.SCORE)
    for x in (transposed(x0), x0, transposed(x0)):
        np.testing.assert_array_equal(bound.evaluate(x).score, -x)
