"""Programs of JAX for a GPU, and runs on a device that is not the default one. No GPU is needed.

JAX lowers programs for CUDA on a machine that has none, and makes several devices of one CPU.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import xpsample as xps
from xpsample.conformance import DeviceDtype, scenarios
from xpsample.core.registry import backend_named

jax = pytest.importorskip("jax")

from xpsample_jax import programs  # noqa: E402

ROOT = Path(__file__).parents[2]
SCENARIOS = {scenario.name: scenario for scenario in scenarios()}
FIRST_TIER = ("nuts", "sr-mala")


@pytest.fixture
def lowered(monkeypatch):
    """The texts of all programs, lowered for CUDA. None is compiled: results are zeros."""
    texts = []

    def instead(self, traced, form, args):
        texts.append(traced.lower(lowering_platforms=("cuda",)).as_text())
        return lambda *args: jax.tree.map(lambda a: jax.device_put(np.zeros(a.shape, a.dtype)), traced.out_info)

    monkeypatch.setattr(programs.Compiled, "_compiled", instead)
    monkeypatch.setattr("xpsample.targets.target.check_discrete", lambda *args: None)  # of values, which are zeros
    return texts


@pytest.mark.sampled(6)
@pytest.mark.first_cases(1)
@pytest.mark.parametrize("name", [n if n in FIRST_TIER else pytest.param(n, marks=pytest.mark.slow) for n in SCENARIOS])
def test_programs_are_lowered_for_cuda(lowered, name):
    """The block of steps, the start, and what a target's functions are called by; all of it is in their texts."""
    scenario = SCENARIOS[name]
    device = DeviceDtype(backend_named("jax"), "cpu", jax.devices()[0], "float32")
    x0 = device.array(scenario.stationary.draw(np.random.default_rng(3), 6))
    xps.sample(scenario.target(device.array), scenario.kernel(device.array), x0, 2, seed=1, progress=False)
    assert sum("@jit_block" in text[:200] for text in lowered) == 1
    assert all(programs._is_whole(text) for text in lowered)


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.parametrize("mass", [xps.DiagonalMetric(), xps.DenseMetric(), xps.LowRankMetric()])
def test_warm_ups_are_lowered_for_cuda(monkeypatch, mass):
    """Their steps and all that follows, with the factors of matrices that they take; and made on the CPU."""
    texts, compiled = [], programs.Compiled._compiled

    def noted(self, traced, form, args):
        texts.append(traced.lower(lowering_platforms=("cuda",)).as_text())
        return compiled(self, traced, form, args)

    monkeypatch.setattr(programs.Compiled, "_compiled", noted)
    x0 = jax.numpy.asarray(np.random.default_rng(0).normal(size=(4, 3)), dtype=np.float32)
    target = xps.Target(lambda x: -0.5 * jax.numpy.sum(x**2, axis=-1))
    xps.sample(target, xps.HMC(mass=mass), x0, 2, warmup=30, seed=1, progress=False)
    assert sum("@jit_block" in text[:200] for text in texts) >= 2
    assert all(programs._is_whole(text) for text in texts)


def test_options_of_the_cpus_compiler_are_given_on_cpus_alone():
    for few in (True, False, None):
        on_cpu, on_gpu = (programs.compiler_options(few, platform) for platform in ("cpu", "gpu"))
        assert any(name.startswith("xla_cpu_") for name in on_cpu)
        assert on_gpu == {name: value for name, value in on_cpu.items() if not name.startswith("xla_cpu_")}
        assert on_gpu["xla_allow_excess_precision"] is False


SECOND = """
import sys
from contextlib import ExitStack
from unittest import mock

import jax
import numpy as np

import xpsample as xps
from xpsample.conformance import DeviceDtype, scenarios
from xpsample.core.registry import backend_named
from xpsample.core.tree import items

first, second = jax.devices()
device = DeviceDtype(backend_named("jax"), "cpu:1", second, "float32")
known = {scenario.name: scenario for scenario in scenarios()}
guard = jax.transfer_guard_device_to_device("disallow")


def to_and_from_the_host(level):
    both = ExitStack()
    for direction in (jax.transfer_guard_host_to_device, jax.transfer_guard_device_to_host):
        both.enter_context(direction(level))
    return both


def run(target, kernel, x0, draws, seed):
    with guard, mock.patch.object(jax, "transfer_guard", to_and_from_the_host):
        trace = xps.sample(target, kernel, x0, draws, seed=seed, progress=False)
    for path, leaf in items((trace.draws, trace.statistics, trace.state, trace.warmup or {})):
        assert leaf.devices() == {second}, (path, leaf.devices())


for name in sys.argv[1:]:
    scenario = known[name]
    x0 = device.array(scenario.stationary.draw(np.random.default_rng(3), 6))
    for seed in (1, xps.Portable(1)):
        run(scenario.target(device.array), scenario.kernel(device.array), x0, 3, seed)
    print(name)
target = xps.Target(lambda x: -0.5 * jax.numpy.sum(x**2, axis=-1))
xps.sample(target, xps.MALA(0.5), jax.device_put(np.ones((4, 2)), first), 3, seed=1, progress=False)
run(target, xps.MALA(0.5), jax.device_put(np.ones((4, 2)), second), 3, 1)  # by no program that is for the first device
run(target, xps.HMC(), device.array(np.random.default_rng(0).normal(size=(4, 2))), 10, 1)
print("warm-up")
"""


@pytest.mark.slow
def test_nothing_leaves_the_device_of_the_positions():
    """All that a run makes is on the second of two devices, and no array goes from one to the other unasked."""
    names = ["mala", "sr-mala", "gwg"]
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SECOND, *names],
        cwd=ROOT,
        env=os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    assert child.stdout.split() == [*names, "warm-up"]
