"""What a type checker tells users of the package: the public names have types, and first examples have no error."""

import importlib
import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import xpsample

LEAST = 0.98
"""The share of exported names whose types are known."""

NOT_OURS = {"reportMissingImports"}
"""Rules that tell of what is not installed here."""

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(?:python|\{code-cell\}[^\n]*)\n(.*?)^```", re.M | re.S)

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


def annotated(module):
    """Functions, classes and their methods that a module defines."""
    for value in vars(module).values():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(value) or inspect.isclass(value):
            yield value
        if inspect.isclass(value):
            own = (getattr(member, "__func__", getattr(member, "fget", member)) for member in vars(value).values())
            yield from (member for member in own if inspect.isfunction(member))


def test_annotations_resolve_at_run_time():
    """As pydantic, beartype and command-line makers ask for them."""
    unresolved = []
    for info in pkgutil.walk_packages(xpsample.__path__, "xpsample."):
        if info.name.endswith("__main__") or ".experiments" in info.name:
            continue
        for value in annotated(importlib.import_module(info.name)):
            try:
                typing.get_type_hints(value)
            except (NameError, TypeError) as error:
                unresolved.append(f"{info.name}.{value.__qualname__}: {error}")
    assert unresolved == []


@pytest.mark.slow
def test_nearly_all_types_are_known(tmp_path):
    found = pyright("--verifytypes", "xpsample", "--ignoreexternal", cwd=tmp_path)["typeCompleteness"]
    unknown = [s["name"] for s in found["symbols"] if s["isExported"] and not s["isTypeKnown"]]
    assert found["completenessScore"] >= LEAST, unknown


@pytest.mark.slow
def test_the_first_examples_have_no_error(tmp_path):
    (tmp_path / "example.py").write_text(EXAMPLE)
    found = pyright("--pythonpath", sys.executable, "example.py", cwd=tmp_path)
    assert [d["message"] for d in found["generalDiagnostics"] if d["severity"] == "error"] == []


@pytest.mark.slow
def test_examples_of_the_pages_have_no_error(tmp_path):
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        blocks = [re.sub(r"^[:%].*\n", "", block, flags=re.M) for block in BLOCK.findall(page.read_text())]
        if blocks and not {"_build", "_generated"} & set(page.parts):
            name = re.sub(r"\W", "_", str(page.relative_to(ROOT).with_suffix("")))
            (tmp_path / f"{name}.py").write_text("\n".join(blocks))
    found = pyright("--pythonpath", sys.executable, ".", cwd=tmp_path)["generalDiagnostics"]
    errors = [d for d in found if d["severity"] == "error" and d.get("rule") not in NOT_OURS]
    told = [f"{Path(d['file']).name}: {d['message'].splitlines()[0]}" for d in errors]
    told = [line for line in told if 'is not exported from module "arviz_stats"' not in line]  # by its own __init__
    assert told == [], "\n".join(told)
