"""Kills at random instants: no save is lost, and the same call gives bit for bit what an uninterrupted one gives."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import open_library
from tests.sampling.kills import entries


def attacked(library, how, times, *names):
    open_library(library, "float32")  # skips where it is missing
    command = [sys.executable, "-m", "tests.sampling.kills", "--library", library, how, str(times), *names]
    environment = {**os.environ, "JAX_ENABLE_X64": "1"}
    root = Path(__file__).parents[2]
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def kill(library, kills, *names):
    found = attacked(library, "--kills", kills, *names)
    assert {row["name"] for row in found} == set(names or entries())
    for row in found:
        assert row["lost"] == 0 and row["differing"] == [], row
    assert any(row["saved"] > 0 for row in found)
    return sum(row["kills"] for row in found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "names", [("sr-hmc-stable", "warm-up"), pytest.param(("mala", "fit", "store"), marks=pytest.mark.slow)], ids=len
)
def test_a_few(names):
    assert kill("numpy", 2, *names) >= len(names)


@pytest.mark.release
@pytest.mark.parametrize("part", range(2))
def test_many_kernels_and_entry_points(part):
    """Every fourth; ``python -m tests.sampling.kills`` takes all of them."""
    names = [name for name in entries() if name != "fit score balance"][2 * part :: 8]
    assert kill("numpy", 2, *names) > 1.5 * len(names)


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("library", ["torch", "jax"])
def test_other_libraries(library):
    """A warm-up, particles, and a training with derivatives in its loss; others save as these do."""
    names = ("warm-up", "sosmc", "fit score balance")
    assert kill(library, 2, *names) > len(names)


@pytest.mark.slow
def test_two_processes_in_one_folder():
    (row,) = attacked("numpy", "--together", 2, "mala")
    assert row["differing"] == 0, row


@pytest.mark.release
@pytest.mark.parametrize("library", ["numpy", "jax"])
def test_two_processes_in_one_folder_often(library):
    (row,) = attacked(library, "--together", 6, "mala")
    assert row["differing"] == 0 and row["killed"] > 0, row
