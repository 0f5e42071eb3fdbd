"""What a step frees is there for the next one: the C library does not give it back to the system and ask again."""

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a C library without glibc's thresholds")

FAULTS = """
import resource, sys
import numpy as np
import xpsample as xps

if sys.argv[1] == "run":
    xps.sample(xps.Target(lambda x: -0.5 * np.sum(x * x, axis=-1)), xps.RWM(1.0), np.zeros((2, 2)), 2, seed=1)

def step():
    return [np.ones(100_000, dtype=np.float32) for _ in range(10)]

for _ in range(3):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how):
    """Pages that the system had to give in 100 steps that make and free 4 MB in ten arrays, of 1,000 pages."""
    done = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_steps_after_a_first_run_ask_the_system_for_no_memory():
    assert faults("run") < 10_000 < 30_000 < faults("no run")
