"""The changelog's tables of moved modules: what they name is there, and the old modules are not."""

import inspect
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.backend import Backend, DrivenProgram
from xpsample.sampling.eager import eager_drive

CHANGELOG = Path(__file__).parents[2] / "docs" / "changelog.md"
SECTION = CHANGELOG.read_text(encoding="utf-8").split("### Moved since the development versions")[1].split("\n### ")[0]
ROWS = re.findall(r"^\| (`.*?) \| (.*?) \|$", SECTION, re.M)


def is_there(name):
    """Return whether a dotted name is a module, or an attribute of one."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        module = ".".join(parts[:end])
        try:
            found = find_spec(module)
        except ModuleNotFoundError:
            continue
        if found is not None:
            return end >= len(parts) - 1 and (end == len(parts) or hasattr(import_module(module), parts[-1]))
    return False


@pytest.mark.parametrize(("before", "now"), [row for row in ROWS if row[0].startswith("`xpsample.")])
def test_a_moved_module_is_where_the_table_says(before, now):
    old, new = (re.findall(r"`([\w.]+)`", cell) for cell in (before, now))
    assert not is_there(old[0])
    first = next((name for name in new if name.startswith("xpsample.")), "")
    for name in new:
        assert is_there(name if name.startswith("xpsample.") else f"{first.rpartition('.')[0]}.{name}"), name
    assert new or "none:" in now


@pytest.mark.parametrize(("before", "now"), [row for row in ROWS if row[0].startswith("`from ")])
def test_what_a_backend_imports_is_where_the_table_says(before, now):
    exec(now.strip("`"))
    with pytest.raises(ModuleNotFoundError if "engine" in before or "ending" in before else ImportError):
        exec(before.strip("`"))


def test_what_a_backend_is_handed_is_what_the_table_says():
    shown = dict(ROWS)["`drive(self, stepper, carry, buffers, source, start, stop, ending)`"]
    assert f"`drive({', '.join(inspect.signature(Backend.drive).parameters)})`" in shown
    assert [*inspect.signature(eager_drive).parameters][:7] == [*inspect.signature(Backend.drive).parameters][1:]
    assert hasattr(DrivenProgram, "form") and not hasattr(DrivenProgram, "constant_data")
    assert [*inspect.signature(DrivenProgram.record).parameters][1:] == ["recorder_states", "state", "info", "data"]


OLD_KERNEL = """
from dataclasses import dataclass, field
from typing import Any
from xpsample.core.checks import settle
from xpsample.core.hyperparameters import PER_CHAIN, check_range
from xpsample.kernels import ADJUSTED, MemorylessKernel, metropolis, normal_like, uniform_per_chain
from xpsample.targets import Capability
from xpsample.adaptation import StepSize, tuned

@dataclass(frozen=True, eq=False)
class Walk(MemorylessKernel):
    step_size: Any = field(default=None, metadata=PER_CHAIN | tuned(StepSize(0.3)))
    requires = Capability.LOG_DENSITY
    traits = ADJUSTED

    def __post_init__(self):
        settle(self, "step_size", check_range, 0, optional=True)

    def noise(self, x):
        return {"proposal": normal_like(x), "accept": uniform_per_chain(x)}

    def step(self, target, state, noise):
        current = target.refresh(state.point)
        proposal = target.evaluate(current.x + self.step_size * noise["proposal"])
        spent = target.costs.of_proposal
        point, info = metropolis(target, target.log_ratio(proposal, current), noise["accept"], proposal, current, spent)
        return state._replace(point=point), info
"""
"""A kernel of before."""

CHANGES = {
    "from dataclasses import dataclass, field\n": "",
    "from xpsample.core.checks import settle\n": "",
    "from xpsample.core.hyperparameters import PER_CHAIN, check_range\n": "",
    "normal_like, uniform": "normal_like, parameter, uniform",
    "import StepSize, tuned": "import StepSize",
    "@dataclass(frozen=True, eq=False)\n": "",
    "field(default=None, metadata=PER_CHAIN | tuned(StepSize(0.3)))": (
        "parameter(default=None, gt=0, tune=StepSize(0.3))"
    ),
    '    def __post_init__(self):\n        settle(self, "step_size", check_range, 0, optional=True)\n\n': "",
    "target.refresh(state.point)": "state.point",
    "        spent = target.costs.of_proposal\n": "",
    "proposal, current, spent)": "proposal, current)",
}
"""What it changes, by the table."""


def test_what_a_kernel_changes_is_what_the_table_says():
    with pytest.raises(ImportError):
        exec(OLD_KERNEL, {})
    new = OLD_KERNEL
    for before, now in CHANGES.items():
        assert new.count(before) == 1
        new = new.replace(before, now)
    names = {}
    exec(new, names)
    x0 = np.random.default_rng(0).normal(size=(4, 2))
    target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1))
    trace = xps.sample(target, names["Walk"](), x0, 20, seed=1, warmup=50, progress=False)
    assert trace.draws.shape == (20, 4, 2) and trace.run_statistics.evaluations["log_density"] == 1
