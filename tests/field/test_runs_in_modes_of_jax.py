"""A run within a mode of JAX that refuses something fails, and the user's own function is blamed."""

import numpy as np
import pytest

import xpsample as xps

jax = pytest.importorskip("jax")

pytestmark = pytest.mark.first_tier

MODES = {
    "disable_jit": lambda: jax.disable_jit(),
    "rank promotion": lambda: jax.numpy_rank_promotion("raise"),
    "transfer guard": lambda: jax.transfer_guard("disallow"),
    "nans": lambda: jax.debug_nans(True),
    "leaks": lambda: jax.checking_leaks(),
}

KERNELS = {"RWM": lambda: xps.RWM(0.5), "HMC": lambda: xps.HMC()}


@pytest.mark.sampled(2)
@pytest.mark.first_cases(1)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kernel", ["RWM", pytest.param("HMC", marks=pytest.mark.slow)])
def test_a_run_is_the_same_within_a_mode(mode, kernel):
    target = xps.Target(lambda x: -0.5 * jax.numpy.sum(x**2, axis=-1))
    x0 = jax.numpy.asarray(np.random.default_rng(1).normal(size=(4, 2)).astype(np.float32))

    def draws():
        settings = {"warmup": 20} if kernel == "HMC" else {}
        trace = xps.sample(target, KERNELS[kernel](), x0, 10, seed=1, progress=False, **settings)
        return np.asarray(trace.draws)

    plain = draws()
    with MODES[mode]():
        np.testing.assert_allclose(draws(), plain, rtol=1e-4, atol=1e-4)  # float32, ten steps


def test_a_density_sees_values_where_the_compiler_is_off():
    """What `disable_jit` is for: to print, and to stop in a debugger."""
    seen = []

    def log_density(x):
        if not isinstance(x, jax.core.Tracer):  # as it is once, for the shapes
            seen.append(np.asarray(x))
        return -0.5 * jax.numpy.sum(x**2, axis=-1)

    with jax.disable_jit():
        xps.sample(xps.Target(log_density), xps.RWM(0.5), jax.numpy.zeros((4, 2)), 3, seed=1, progress=False)
    assert len(seen) >= 3
