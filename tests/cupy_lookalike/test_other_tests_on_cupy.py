"""The tests of the whole house, in a child where the look-alike is `cupy`: those that a GPU would run as well."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cupy_lookalike.installed import environment

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "core gradients kernels optimize prox spaces": 200,
    "hiss srld srmc": 50,
    "metrics particles sampling score_mh sosmc": 200,
    "targets zoo test_bad_input.py": 150,
}
"""Folders of one child, and how many tests on CuPy are in them at least."""


def run_on_cupy(*paths: str) -> tuple[int, str]:
    """How many tests passed in a child, and what it printed; fails where one failed."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "--full", "-q", "-k", "cupy", *paths]
    child = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=1200)
    assert child.returncode == 0, child.stdout[-5000:] + child.stderr[-2000:]
    return int(re.search(r"(\d+) passed", child.stdout)[1]), child.stdout


@pytest.mark.slow
def test_core_runs():
    """Noise, checkpoints and recorders."""
    passed, printed = run_on_cupy(
        "tests/sampling/test_noise.py", "tests/sampling/test_checkpoint.py", "tests/trace/test_recorders.py"
    )
    assert passed >= 20
    assert "cupy is not installed" not in printed


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("folders", FOLDERS)
def test_folders(folders):
    passed, printed = run_on_cupy(*(f"tests/{folder}" for folder in folders.split()))
    assert passed >= FOLDERS[folders]
    assert "cupy is not installed" not in printed
