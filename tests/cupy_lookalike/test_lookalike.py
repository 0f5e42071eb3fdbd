"""The real backend of CuPy on a CuPy look-alike over NumPy: the conformance suite, and slips that it catches.

Each test is a child process, in which the look-alike is the module ``cupy``.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FEW = ("mala", "hmc", "sr-mala", "gwg", "srld")


def child(*arguments, timeout=600):
    """A Python process that imports the look-alike as cupy; warnings are errors there, too."""
    path = os.pathsep.join(map(str, (HERE, ROOT, ROOT / "backends")))
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-W", "error", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=timeout, check=False)


def rows(*kernels):
    """The lines of the suite's table for the look-alike."""
    chosen = [word for kernel in kernels for word in ("--kernel", kernel)]
    done = child("-m", "xpsample", "conformance", "--backend", "cupy", "--quick", *chosen)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_some_kernels_conform():
    lines = rows(*FEW)
    assert lines[-1] == f"{4 * len(FEW)} of {4 * len(FEW)} rows passed"  # two devices, two dtypes


@pytest.mark.slow
def test_every_kernel_conforms():
    passed, _, total, *_ = rows()[-1].split()
    assert passed == total and int(total) >= 4 * 60


RUN = """
import cupy, numpy as np, xpsample as xps
from cupy import lookalike

def log_density(x):
    {slip}
    return -0.5 * cupy.sum(x * x, axis=-1)

target = xps.Target(log_density, score=lambda x: -x)
x0 = cupy.ones((5, 3))
xps.sample(target, xps.MALA(0.1), x0, 5, seed=1, progress=False)
bound = target.prepare(x0, xps.MALA.requires)
kernel = xps.MALA(0.1)
state = kernel.init(bound, x0)
noise = {{"proposal": cupy.ones((5, 3)), "accept": 0.5 * cupy.ones(5)}}
with lookalike.no_waits("in a step"):
    kernel.step(bound, state, noise)
print("no slip was seen")
"""


def test_a_step_does_not_wait_for_the_host():
    done = child("-c", RUN.format(slip="pass"))
    assert done.returncode == 0 and "no slip was seen" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("slip", "message"),
    [
        ("np.asarray(x)", "Implicit conversion to a NumPy array is not allowed"),
        ("float(x[0, 0])", "makes the host wait"),
        ("bool(cupy.all(x > 0))", "makes the host wait"),
        ("x + np.ones(3)", "Unsupported type"),
    ],
)
def test_slips_are_seen(slip, message):
    done = child("-c", RUN.format(slip=slip))
    assert done.returncode != 0 and message in done.stderr, done.stdout + done.stderr


def test_two_devices_in_one_run_are_refused_by_name():
    code = """
import cupy, xpsample as xps
target = xps.Target(lambda x: -0.5 * cupy.sum(x * x, axis=-1), score=lambda x: -x)
with cupy.cuda.Device(1):
    step_size = cupy.asarray([0.1])
xps.sample(target, xps.MALA(step_size), cupy.ones((5, 3)), 5, seed=1, progress=False)
"""
    done = child("-c", code)
    assert done.returncode != 0
    assert "step_size is on cuda:1 and the positions are on cuda:0" in done.stderr
