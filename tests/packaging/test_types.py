"""What a type checker tells users of the package: the public names have types, and first examples have no error."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

LEAST = 0.98
"""The share of exported names whose types are known."""

EXAMPLE = """
import numpy as np

import xpsample as xps


def log_density(x):
    return -0.5 * (x**2).sum(-1)


x0 = np.zeros((4, 2))
trace = xps.sample(xps.Target(log_density), xps.HMC(), x0, 100, seed=1)
print(trace.summary())
kernel = xps.SRMC(xps.HMC(), 0.3)
more = xps.sample(xps.Target(log_density), kernel, np.ones((4, 2), dtype=np.float32), 100, seed=xps.Portable(1))
"""


def pyright(*args, cwd):
    """What it reports, as a dict; the package is found by the interpreter that is first on the path."""
    pytest.importorskip("pyright")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "-m", "pyright", "--outputjson", *args]
    told = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=os.environ | {"PATH": path})
    return json.loads(told.stdout[told.stdout.index("{") :])


def test_nearly_all_types_are_known(tmp_path):
    found = pyright("--verifytypes", "xpsample", "--ignoreexternal", cwd=tmp_path)["typeCompleteness"]
    unknown = [s["name"] for s in found["symbols"] if s["isExported"] and not s["isTypeKnown"]]
    assert found["completenessScore"] >= LEAST, unknown


def test_the_first_examples_have_no_error(tmp_path):
    (tmp_path / "example.py").write_text(EXAMPLE)
    found = pyright("--pythonpath", sys.executable, "example.py", cwd=tmp_path)
    assert [d["message"] for d in found["generalDiagnostics"] if d["severity"] == "error"] == []
