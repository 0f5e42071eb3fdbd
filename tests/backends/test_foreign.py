"""Kernels of BlackJAX and NumPyro as they are: the checks of the suite, resuming, and what they are refused in."""

import numpy as np
import pytest

import xpsample as xps
from tests.conftest import x64
from xpsample.conformance import cases_of, run_check
from xpsample.core.devices import device_dtypes
from xpsample.core.errors import BackendError, CapabilityError

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from xpsample_jax.foreign import blackjax_kernel, numpyro_kernel  # noqa: E402

CHECKS = ("same chain", "stays home", "driven = eager", "resume exact", "invariant")


def of_blackjax():
    blackjax = pytest.importorskip("blackjax")
    return blackjax_kernel(lambda f: blackjax.hmc(f, 0.4, jnp.ones(2), 5))


def of_numpyro():
    infer = pytest.importorskip("numpyro.infer")
    return numpyro_kernel(lambda f: infer.HMC(potential_fn=f, step_size=0.4, trajectory_length=2.0))


def failed(kernel):
    with x64("jax", "float32"):
        device = device_dtypes(["jax"])[0]
        outcomes = {
            check: run_check(check, case, device, quick=True)
            for case in cases_of("theirs", kernel, ["jax"])[:1]
            for check in CHECKS
        }
    return {check: outcome.detail for check, outcome in outcomes.items() if outcome.passed is False}


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("kernel", [of_blackjax, of_numpyro])
def test_they_pass_the_suite(kernel):
    assert failed(kernel()) == {}


@pytest.mark.slow
def test_a_wrong_one_fails():
    blackjax = pytest.importorskip("blackjax")
    # It samples a density that is 1.3 times as steep.
    wrong = blackjax_kernel(lambda f: blackjax.hmc(lambda x: 1.3 * f(x), 0.4, jnp.ones(2), 5))
    assert set(failed(wrong)) == {"invariant"}


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [of_blackjax, of_numpyro])
def test_chains_and_statistics(kernel):
    target = xps.Target(lambda x: -0.5 * jnp.sum(x**2, axis=-1))
    trace = xps.sample(target, kernel(), jnp.zeros((200, 2)), 20, seed=1, burn_in=20, progress=False)
    # 200 independent chains of two coordinates at least: 5 standard errors.
    assert abs(float(trace.draws.var()) - 1) < 5 * np.sqrt(2 / 400)
    assert 0.5 < float(trace.run_statistics.acceptance_probability.mean()) <= 1
    assert trace.run_statistics.diverged.sum() == 0
    assert xps.sample(target, kernel(), jnp.zeros((4, 2)), 2, seed=1, shards=2).draws.shape == (2, 4, 2)


def test_what_they_are_refused_in():
    kernel, x0 = of_blackjax(), jnp.zeros((4, 2))
    target = xps.Target(lambda x: -0.5 * (x**2).sum(-1))
    with pytest.raises(BackendError, match="JAX arrays"):
        xps.sample(xps.Target(target.log_density, score=lambda x: -x), kernel, np.zeros((4, 2)), 10, seed=1)
    with pytest.raises(CapabilityError, match="SRLD cannot go around"):
        xps.SRLD(kernel, 1.0)
    for around in (xps.SRMC(kernel, 1.0), xps.ParallelTempering(kernel, [1.0, 0.5])):
        with pytest.raises(CapabilityError, match="a target that stays the same"):
            xps.sample(target, around, x0, 10, seed=1)
    with x64("jax", "float64"), pytest.raises(BackendError, match="JAX's own floating dtype"):
        xps.sample(target, kernel, jnp.zeros((4, 2), jnp.float32), 10, seed=1)
