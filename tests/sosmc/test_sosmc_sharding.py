"""Particles sharded over a mesh of four make-believe CPU devices give what unsharded ones give."""

import os
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("jax")

SCRIPT = """
    import numpy as np
    import jax, jax.numpy as jnp
    from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
    from xpsample import MALA, SOSMC, Bridge, Portable, TemperedSMC, sample
    from xpsample.optimize.optimizers import Adam
    from xpsample.sosmc import SOSMCHistory, LangevinMove, RewardForwardKL
    from xpsample.targets import Parametric
    from xpsample.zoo.gaussian import gaussian

    assert len(jax.devices()) == 4
    mesh = jax.make_mesh((4,), ("particles",), axis_types=(AxisType.Auto,))
    sharding = NamedSharding(mesh, P(None, "particles"))
    x0 = jnp.asarray(np.random.default_rng(0).standard_normal((2, 64, 3)))
    family = Parametric(lambda x, t: -0.5 * jnp.sum((x - t) ** 2, axis=-1), np.zeros((2, 1, 3)))
    loss = RewardForwardKL(lambda x: -((x - 2.0) ** 2).sum(-1))
    for move in (LangevinMove(0.1), MALA(0.1)):
        kernel = SOSMC(loss, move, Adam(0.1), 0.9)
        settings = dict(seed=Portable(4), recorders=(SOSMCHistory(),))
        plain = sample(family, kernel, x0, 25, **settings)
        spread = sample(family, kernel, jax.device_put(x0, sharding), 25, **settings)
        assert spread.state.point.x.sharding.is_equivalent_to(sharding, 3), spread.state.point.x.sharding
        a, b = plain.recorded["history"], spread.recorded["history"]
        assert 0 < np.sum(a["resampled"]) < a["resampled"].size
        for name in a:
            np.testing.assert_allclose(np.asarray(b[name]), np.asarray(a[name]), rtol=1e-9, atol=1e-9)
    kernel = TemperedSMC(MALA(0.3), ess=0.8, moves=1)
    bridge = Bridge(gaussian(4.0 * np.eye(3)), gaussian(np.eye(3)))
    ends = [sample(bridge, kernel, x, 8, seed=Portable(4)).state
            for x in (2.0 * x0, jax.device_put(2.0 * x0, sharding))]
    for a, b in zip(jax.tree.leaves(ends[0]), jax.tree.leaves(ends[1]), strict=True):
        np.testing.assert_allclose(np.asarray(b), np.asarray(a), rtol=1e-9, atol=1e-9)
    print("sharded")
"""


@pytest.mark.release
def test_sharded_particles():
    environment = {
        **os.environ,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "JAX_ENABLE_X64": "1",
        "JAX_PLATFORMS": "cpu",
        "JAX_ENABLE_COMPILATION_CACHE": "0",  # its warnings would be errors here
    }
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(SCRIPT)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "sharded"
