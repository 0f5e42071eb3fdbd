"""JAX arrays sharded over four make-believe devices: a run keeps them so, and gives what unsharded ones give.

Also from a checkpoint, and in two processes, of which each has a part of the chains, and neither waits in vain.
"""

import os
import socket
import subprocess
import sys
import textwrap

import numpy as np
import pytest

pytest.importorskip("jax")

LIMIT = 300
"""Seconds after which processes that wait for each other are stopped."""

START = """
    import os
    import sys
    import warnings
    import numpy as np
    import jax
    from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

    count, number, port, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    if count > 1:
        jax.distributed.initialize(f"localhost:{port}", count, number, initialization_timeout=60)

    from xpsample import HMC, MALA, NUTS, SRMC, Draws, Exact, Moments, Portable, Statistics, Target, Until, sample
    from xpsample.core import tree
    from xpsample.core.errors import CapabilityError, CheckpointError, ConvergenceWarning, Interrupted
    from xpsample.core.registry import to_host
    from xpsample.zoo.gaussian import gaussian

    warnings.simplefilter("ignore", ConvergenceWarning)
    assert len(jax.devices()) == 4
    mesh = jax.make_mesh((4,), ("chains",), axis_types=(AxisType.Auto,))
    wide = jax.config.jax_enable_x64
    host = np.random.default_rng(0).standard_normal((16, 3)).astype(np.float64 if wide else np.float32)
    x0 = jax.make_array_from_callback(host.shape, NamedSharding(mesh, P("chains")), lambda part: host[part])
    target = gaussian(np.array([[1.0, 0.5, 0.2], [0.5, 1.2, -0.3], [0.2, -0.3, 0.8]]))
"""

SHARDED = """
    rows = NamedSharding(mesh, P(None, "chains"))
    plain = jax.numpy.asarray(host)

    def both(kernel, draws, **settings):
        one, other = (sample(target, kernel, x, draws, progress=False, **settings) for x in (plain, x0))
        assert other.draws.sharding.is_equivalent_to(rows, 3), other.draws.sharding
        return one, other

    settings = dict(burn_in=5, thinning=2, recorders=(Draws(), Statistics(), Moments()))
    for kernel in (SRMC(MALA(0.3), 0.5, tilt=Exact()), HMC(0.3, 5)):
        for seed in (4, Portable(4)):
            one, other = both(kernel, 100, seed=seed, **settings)
            assert other.state.point.x.sharding.is_equivalent_to(x0.sharding, 2), other.state.point.x.sharding
            assert other.statistics["moved"].sharding.is_equivalent_to(rows, 2)
            assert other.recorded["moments"].mean.sharding.is_equivalent_to(x0.sharding, 2)
            np.testing.assert_allclose(np.asarray(other.draws), np.asarray(one.draws), atol=1e-12)
    for kernel in (NUTS(0.4), HMC()):  # a loop with a condition, and a warm-up
        one, other = both(kernel, 20, seed=Portable(4))
        assert other.kernel.step_size == one.kernel.step_size
        np.testing.assert_allclose(np.asarray(other.draws), np.asarray(one.draws), atol=1e-9)
"""

RESUMED = """
    def run(devices, draws):
        mesh = jax.make_mesh((devices,), ("chains",), devices=jax.devices()[:devices])
        x0 = jax.device_put(jax.numpy.ones((16, 3)), NamedSharding(mesh, P("chains")))
        trace = sample(target, MALA(0.3), x0, draws, seed=4, checkpoint=f"{folder}/run", progress=False)
        assert trace.state.point.x.sharding.is_equivalent_to(x0.sharding, 2)
        return trace.draws

    short, longer = run(4, 50), run(4, 60)
    np.testing.assert_array_equal(longer[:50], short)
    assert longer.sharding.is_equivalent_to(short.sharding, 3)
    try:
        run(2, 70)
        raise AssertionError("it went on")
    except CheckpointError as error:
        assert "devices: ['cpu', 'cpu', 'cpu', 'cpu'] there, ['cpu', 'cpu'] here" in str(error), error
"""

TRAINED = """
    from xpsample.score_mh import Denoising, fit, init_score_network

    plain = jax.numpy.asarray(np.random.default_rng(0).standard_normal((64, 2)))
    spread, start = jax.device_put(plain, NamedSharding(mesh, P("chains"))), init_score_network(2, 4, seed=1)
    for seed in (1, Portable(1)):
        settings = dict(epochs=12, batch_size=16, seed=seed, progress=False)
        expected = fit(Denoising(0.5), start, plain, validation=plain[:32], **settings)
        for _ in range(2):  # and once more, from its checkpoint
            own = settings | dict(checkpoint=f"{folder}/{seed}", validation=spread[:32])
            found = fit(Denoising(0.5), start, spread, **own)
            np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-9)
            np.testing.assert_allclose(found.validation_losses, expected.validation_losses, rtol=1e-9)
"""

RUNS = """
    runs = {
        "SRMC": (SRMC(MALA(0.3), 0.5, tilt=Exact()), 4, dict(burn_in=5, thinning=2)),
        "HMC": (HMC(), Portable(4), dict(warmup=20)),
        "NUTS": (NUTS(), 4, dict(warmup=20)),
    }
    found, recorders = {}, (Draws(), Statistics(), Moments())
    for name, (kernel, seed, settings) in runs.items():
        trace = sample(target, kernel, x0, 20, seed=seed, recorders=recorders, progress=False, **settings)
        assert trace.draws.sharding.is_equivalent_to(NamedSharding(mesh, P(None, "chains")), 3)
        here = [shard.data.shape for shard in trace.draws.addressable_shards]
        assert here == [(20, 4, 3)] * (4 // count), here
        processes = {"count": 2, "here": number} if count == 2 else None
        assert trace.metadata.get("processes") == processes and (str(processes) in repr(trace)) == (count == 2)
        summary = trace.summary()
        kept = {
            "draws": trace.draws,
            "statistics": trace.statistics,
            "recorded": trace.recorded,
            "warmup": trace.warmup,
            "run_statistics": dict(vars(trace.run_statistics)),
            "summary": [summary.mean, summary.mcse, summary.ess_bulk, summary.rhat],
        }
        found |= {f"{name}/{path}": to_host(leaf) for path, leaf in tree.items(kept) if leaf is not None}
        found[f"{name}/warnings"] = np.asarray([str(finding) for finding in trace.diagnose()])
    np.savez(f"{folder}/{count}-{number}.npz", **found)
"""

APART = """
    import signal
    import time
    from xpsample.sampling import loop
    from xpsample.sampling.noise import NoiseSource
    from xpsample.score_mh import Sliced, fit

    if number == 1:  # its clock is ten times as fast
        real = time.perf_counter
        time.perf_counter = lambda: 10 * real()

    loop.SECONDS, usual = 0.1, loop.SECONDS  # so that blocks follow the clock
    trace = sample(target, MALA(0.3), x0, 60, seed=1, progress=number == 0)
    assert str(trace.summary())
    loop.SECONDS = usual

    limit = 20.0 if number == 0 else 10.0  # which is a second, enough to trace a run on a busy machine
    late = sample(target, MALA(0.3), x0, 10**6, seed=1, progress=False, until=Until(seconds=limit))
    assert len(late.draws) < 10**6

    class Signalled(NoiseSource):
        def block(self, backend, specs, start, stop, like):
            if start <= 100 < stop and number == 0:
                signal.raise_signal(signal.SIGTERM)
            return Portable(3).block(backend, specs, start, stop, like)

        def describe(self):
            return None

    try:
        sample(target, MALA(0.3), x0, 10**5, seed=Signalled(), progress=False)
        raise AssertionError("it went on")
    except Interrupted as stop:
        assert stop.by == "SIGTERM" and 100 < len(stop.trace.draws) < 10**5
        ended = len(stop.trace.draws)

    try:
        sample(target, MALA(0.3), x0, 10, seed=1, checkpoint=f"{folder}/run")
        raise AssertionError("it went on")
    except CapabilityError as error:
        assert "checkpoint= does not work with arrays of which 2 processes" in str(error), error
    assert not os.path.exists(f"{folder}/run")
    try:
        fit(Sliced(), {"weight": np.ones(3)}, x0, epochs=2, seed=1)
        raise AssertionError("it went on")
    except CapabilityError as error:
        assert "fit does not work with arrays of which 2 processes" in str(error), error

    np.savez(f"{folder}/{count}-{number}.npz", late=len(late.draws), ended=ended)
"""


def processes(folder, script, count, wide=True):
    """Run a script in `count` processes, which have four devices together; what each saved."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    environment = {
        **os.environ,
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={4 // count}",
        "JAX_ENABLE_X64": "1" if wide else "0",
        "JAX_PLATFORMS": "cpu",
        "JAX_ENABLE_COMPILATION_CACHE": "0",  # its warnings would be errors here
    }
    code = textwrap.dedent(START) + textwrap.dedent(script)
    command = [sys.executable, "-W", "error", "-c", code, str(count)]
    outputs = [folder / f"{count}-{number}.txt" for number in range(count)]
    started = []
    try:
        for number, output in enumerate(outputs):
            with output.open("w") as out:
                arguments = [*command, str(number), port, str(folder)]
                started.append(subprocess.Popen(arguments, env=environment, stdout=out, stderr=out))
        for process in started:
            process.wait(LIMIT)
    finally:
        for process in started:
            process.kill()
            process.wait()
    texts = [output.read_text() for output in outputs]
    assert [process.returncode for process in started] == [0] * count, "\n\n".join(texts)
    saved = [folder / f"{count}-{number}.npz" for number in range(count)]
    return [dict(np.load(path)) for path in saved if path.exists()]


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.parametrize("script", [SHARDED, RESUMED, TRAINED], ids=["whole", "resumed", "trained"])
def test_sharded_positions_stay_sharded(tmp_path, script):
    assert processes(tmp_path, script, 1) == []


@pytest.mark.slow
def test_two_processes_give_what_one_gives(tmp_path):
    first, second = processes(tmp_path, RUNS, 2)
    (alone,) = processes(tmp_path, RUNS, 1)
    assert list(first) == list(second) == list(alone)
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name], err_msg=name)
        if values.dtype.kind == "f":
            np.testing.assert_allclose(values, alone[name], atol=1e-9, err_msg=name)
        else:
            np.testing.assert_array_equal(values, alone[name], err_msg=name)


@pytest.mark.slow
def test_what_one_process_sees_alone_leads_none_another_way(tmp_path):
    first, second = processes(tmp_path, APART, 2, wide=False)
    assert first == second
