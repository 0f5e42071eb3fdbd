"""The conformance suite of the real `xpsample_cupy`, on the look-alike's two devices in both precisions."""

import argparse

import pytest

from xpsample.conformance import CHECKS, run_check, scenarios
from xpsample.conformance.cli import run as run_command
from xpsample.core.devices import device_dtypes

SCENARIOS = {scenario.name: scenario for scenario in scenarios()}
FIRST_TIER = ("rwm", "mala", "hmc-dense-mass", "tempering", "sr-mala", "sr-ula-stable", "srld-mala", "dmala")
"""Kernels of every kind; the others are in the full tier."""


@pytest.mark.parametrize("name", [n if n in FIRST_TIER else pytest.param(n, marks=pytest.mark.slow) for n in SCENARIOS])
def test_kernel_conforms(cupy, name):
    places = device_dtypes(["cupy"])
    assert [(place.name, place.dtype) for place in places] == [
        (device, dtype) for device in ("cuda:0", "cuda:1") for dtype in ("float32", "float64")
    ]
    for place in places:
        outcomes = {check: run_check(check, SCENARIOS[name], place, quick=True) for check in CHECKS}
        assert not {check: outcome.detail for check, outcome in outcomes.items() if outcome.passed is False}
        assert sum(outcome.passed is True for outcome in outcomes.values()) >= 5
        assert outcomes["no host transfer"].passed is True
    assert cupy.cuda.Device().id == 0


def test_command_prints_the_table(cupy, capsys):
    args = argparse.Namespace(backend=["cupy"], kernel=["mala", "sr-mala"], quick=True, markdown=False)
    assert run_command(args) == 0
    out = capsys.readouterr().out
    assert "cuda:1" in out
    assert "8 of 8 rows passed" in out
