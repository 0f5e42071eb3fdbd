"""JAX arrays sharded over a mesh stay sharded, and give what unsharded ones give, also from a checkpoint.

On four make-believe CPU devices.
"""

import os
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("jax")

SCRIPT = """
    import warnings
    import numpy as np
    import jax, jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec as P
    from xpsample.core.errors import ConvergenceWarning
    from xpsample import HMC, MALA, NUTS, SRMC, Exact, Moments, Portable, Draws, Statistics, sample
    from xpsample.zoo.gaussian import gaussian

    warnings.simplefilter("ignore", ConvergenceWarning)
    assert len(jax.devices()) == 4
    mesh = jax.make_mesh((4,), ("chains",))
    sharding = NamedSharding(mesh, P("chains"))
    x0 = jnp.asarray(np.random.default_rng(0).standard_normal((16, 3)))
    target = gaussian(np.array([[1.0, 0.5, 0.2], [0.5, 1.2, -0.3], [0.2, -0.3, 0.8]]))
    recorders = (Draws(), Statistics(), Moments())
    for kernel in (SRMC(MALA(0.3), 0.5, tilt=Exact()), HMC(0.3, 5)):
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
    for kernel in (NUTS(0.4), HMC()):  # a loop with a condition, and a warm-up
        plain = sample(target, kernel, x0, 20, seed=Portable(4), progress=False)
        spread = sample(target, kernel, jax.device_put(x0, sharding), 20, seed=Portable(4), progress=False)
        assert spread.draws.sharding.is_equivalent_to(rows, 3), spread.draws.sharding
        assert spread.kernel.step_size == plain.kernel.step_size
        np.testing.assert_allclose(np.asarray(spread.draws), np.asarray(plain.draws), atol=1e-9)
    print("sharded")
"""

RESUMED = """
    import sys
    import warnings
    import numpy as np
    import jax, jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec as P
    from xpsample import MALA, sample
    from xpsample.core.errors import CheckpointError, ConvergenceWarning
    from xpsample.zoo.gaussian import gaussian

    warnings.simplefilter("ignore", ConvergenceWarning)

    def run(devices, draws):
        mesh = jax.make_mesh((devices,), ("chains",), devices=jax.devices()[:devices])
        x0 = jax.device_put(jnp.ones((16, 3)), NamedSharding(mesh, P("chains")))
        trace = sample(target, MALA(0.3), x0, draws, seed=4, checkpoint=sys.argv[1], progress=False)
        assert trace.state.point.x.sharding.is_equivalent_to(x0.sharding, 2)
        return trace.draws

    target = gaussian(np.eye(3))
    short, longer = run(4, 50), run(4, 60)
    np.testing.assert_array_equal(longer[:50], short)
    assert longer.sharding.is_equivalent_to(short.sharding, 3)
    try:
        run(2, 70)
    except CheckpointError as error:
        assert "devices: ['cpu', 'cpu', 'cpu', 'cpu'] there, ['cpu', 'cpu'] here" in str(error), error
        print("sharded")
"""


TRAINED = """
    import sys
    import numpy as np
    import jax, jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    from xpsample import Portable
    from xpsample.score_mh import Denoising, fit, init_score_network

    rows = jnp.asarray(np.random.default_rng(0).standard_normal((64, 2)))
    spread = jax.device_put(rows, NamedSharding(Mesh(np.asarray(jax.devices()), ("rows",)), P("rows")))
    start = init_score_network(2, 4, seed=1)
    for seed in (1, Portable(1)):
        settings = dict(epochs=12, batch_size=16, seed=seed, progress=False)
        plain = fit(Denoising(0.5), start, rows, validation=rows[:32], **settings)
        for _ in range(2):  # and once more, from its checkpoint
            path = f"{sys.argv[1]}/{seed}"
            found = fit(Denoising(0.5), start, spread, validation=spread[:32], checkpoint=path, **settings)
            np.testing.assert_allclose(found.losses, plain.losses, rtol=1e-9)
            np.testing.assert_allclose(found.validation_losses, plain.validation_losses, rtol=1e-9)
    print("sharded")
"""


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.parametrize("script", [SCRIPT, RESUMED, TRAINED], ids=["whole", "resumed", "trained"])
def test_sharded_positions_stay_sharded(tmp_path, script):
    environment = {
        **os.environ,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "JAX_ENABLE_X64": "1",
        "JAX_PLATFORMS": "cpu",
        "JAX_ENABLE_COMPILATION_CACHE": "0",  # its warnings would be errors here
    }
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(script), str(tmp_path / "run")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "sharded"
