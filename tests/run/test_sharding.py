"""JAX arrays sharded over a mesh stay sharded, and give what unsharded ones give. On four make-believe CPU devices."""

import os
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("jax")

SCRIPT = """
    import numpy as np
    import jax, jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec as P
    from xpsample import HMC, MALA, SRMC, Moments, Portable, Draws, Statistics, sample
    from xpsample.zoo.gaussian import gaussian

    assert len(jax.devices()) == 4
    mesh = jax.make_mesh((4,), ("chains",))
    sharding = NamedSharding(mesh, P("chains"))
    x0 = jnp.asarray(np.random.default_rng(0).standard_normal((16, 3)))
    target = gaussian(np.array([[1.0, 0.5, 0.2], [0.5, 1.2, -0.3], [0.2, -0.3, 0.8]]))
    recorders = (Draws(), Statistics(), Moments())
    for kernel in (SRMC(MALA(0.3), 0.5), HMC(0.3, 5)):
        for seed in (4, Portable(4)):
            settings = dict(seed=seed, burn_in=5, thinning=2, recorders=recorders, progress=False)
            plain = sample(target, kernel, x0, 100, **settings)
            spread = sample(target, kernel, jax.device_put(x0, sharding), 100, **settings)
            assert spread.state.point.x.sharding.is_equivalent_to(sharding, 2), spread.state.point.x.sharding
            rows = NamedSharding(mesh, P(None, "chains"))
            assert spread.draws.sharding.is_equivalent_to(rows, 3), spread.draws.sharding
            assert spread.statistics["moved"].sharding.is_equivalent_to(rows, 2)
            assert spread.recorded["moments"].mean.sharding.is_equivalent_to(sharding, 2)
            np.testing.assert_allclose(np.asarray(spread.draws), np.asarray(plain.draws), atol=1e-12)
    print("sharded")
"""


def test_sharded_positions_stay_sharded():
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
