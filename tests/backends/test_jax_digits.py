"""Products of matrices keep the digits of their dtype on devices where JAX would round their factors by default."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from xpsample_jax import programs  # noqa: E402
from xpsample_jax.programs import Compiled  # noqa: E402

import xpsample as xps  # noqa: E402
from xpsample.metrics import median_bandwidth, squared_ksd, squared_mmd  # noqa: E402
from xpsample.metrics.stein import RBF  # noqa: E402
from xpsample.targets import check_gradient  # noqa: E402

pytestmark = pytest.mark.first_tier

jnp = jax.numpy


def precision():
    return jax.config.jax_default_matmul_precision


@pytest.fixture
def seen():
    return set()


@pytest.mark.slow
def test_a_run_asks_for_all_digits_unless_the_user_did_otherwise(seen):
    def log_density(x):
        seen.add(precision())
        return -0.5 * jnp.sum((x @ jnp.eye(2, dtype=x.dtype)) ** 2, axis=-1)

    target = xps.Target(log_density)
    xps.sample(target, xps.HMC(), jnp.zeros((2, 2)), 5, seed=1, warmup=5, progress=False)
    check_gradient(target, jnp.zeros((2, 2)))
    assert seen == {"highest"} and precision() is None
    seen.clear()
    with jax.default_matmul_precision("tensorfloat32"):
        xps.sample(target, xps.MALA(0.1), jnp.zeros((2, 2)), 5, seed=1, progress=False)
    assert seen == {"tensorfloat32"}


def test_a_function_is_traced_for_each_setting(seen):
    compiled = Compiled(lambda x: seen.add(precision()) or x @ x)
    compiled(jnp.eye(2))
    with jax.default_matmul_precision("highest"):
        compiled(jnp.eye(2))
    assert seen == {None, "highest"}


@pytest.mark.slow
def test_metrics_ask_for_all_digits(seen, monkeypatch):
    profile, reshape = RBF.profile, jnp.reshape
    monkeypatch.setattr(RBF, "profile", lambda *args: seen.add(precision()) or profile(*args))
    x = jnp.asarray(np.random.default_rng(0).normal(size=(5, 2)))
    for metric, name in ((squared_mmd, "y"), (squared_ksd, "score")):
        metric(x, x + 1.0)
        metric(**{name: x + 1.0, "x": x})
    assert seen == {"highest"}
    seen.clear()
    monkeypatch.setattr(jnp, "reshape", lambda *args, **options: seen.add(precision()) or reshape(*args, **options))
    median_bandwidth(x)
    assert seen == {"highest"}
    jax.jit(median_bandwidth)(x)  # a part of a user's program, whose setting holds
    assert seen == {"highest", None}


def test_the_compiler_knows_the_option_that_keeps_roundings():
    Compiled(lambda x: x + 1.0)(jnp.ones(3))
    assert "xla_allow_excess_precision" not in programs._refused
    for platform in ("cpu", "cuda"):
        assert programs.compiler_options(None, platform)["xla_allow_excess_precision"] is False
