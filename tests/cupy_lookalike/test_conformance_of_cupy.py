"""The conformance suite of the real `xpsample_cupy`, on the look-alike's two devices in both precisions."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cupy_lookalike.installed import environment
from xpsample.conformance import CHECKS, run_check, scenarios
from xpsample.core.devices import device_dtypes

ROOT = Path(__file__).parents[2]
SCENARIOS = {scenario.name: scenario for scenario in scenarios()}
FIRST_TIER = ("rwm", "mala", "hmc-dense-mass", "tempering", "sr-mala", "sr-ula-stable", "srld", "dmala")
"""Kernels of every kind; the others are in the full tier."""

EVERYWHERE = ("mala", "sr-mala")
"""Kernels that run on both devices; the others on the device that is not the current one."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [n if n in FIRST_TIER else pytest.param(n, marks=pytest.mark.slow) for n in SCENARIOS])
def test_kernel_conforms(cupy, name):
    places = device_dtypes(["cupy"])
    assert [(place.name, place.dtype) for place in places] == [
        (device, dtype) for device in ("cuda:0", "cuda:1") for dtype in ("float32", "float64")
    ]
    for place in places if name in EVERYWHERE else places[2:]:
        outcomes = {check: run_check(check, SCENARIOS[name], place, quick=True) for check in CHECKS}
        assert not {check: outcome.detail for check, outcome in outcomes.items() if outcome.passed is False}
        assert sum(outcome.passed is True for outcome in outcomes.values()) >= 5
        assert outcomes["no host transfer"].passed is True
    assert cupy.cuda.Device().id == 0


@pytest.mark.slow
def test_the_command_prints_the_table():
    """As a developer runs it: in a child, with the look-alike's folder in the path, and warnings as errors."""
    command = [sys.executable, "-W", "error", "-m", "xpsample", "conformance", "--backend", "cupy", "--quick"]
    child = subprocess.run(
        [*command, "--kernel", "mala"],
        cwd=ROOT,
        env=environment() | {"COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stdout + child.stderr
    lines = child.stdout.splitlines()
    assert [line.split() for line in lines[-5:-1]] == [
        ["mala", f"cupy-{device}-{dtype}", "7", "checks", "passed"]
        for device in ("cuda0", "cuda1")
        for dtype in ("float32", "float64")
    ]
    assert lines[-1] == "4 of 4 rows passed"
