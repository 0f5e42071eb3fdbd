"""The changelog's tables of moved modules: what they name is there, and the old modules are not."""

import inspect
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from xpsample.core.backend import Backend, DrivenProgram
from xpsample.sampling.eager import eager_drive

CHANGELOG = Path(__file__).parents[2] / "docs" / "changelog.md"
SECTION = CHANGELOG.read_text(encoding="utf-8").split("### Moved since the development versions")[1].split("\n### ")[0]
ROWS = re.findall(r"^\| (`.*?) \| (.*?) \|$", SECTION, re.M)


def is_there(name):
    """Return whether a dotted name is a module, or an attribute of one."""
    try:
        if find_spec(name) is not None:
            return True
    except ModuleNotFoundError:
        pass
    module, _, attribute = name.rpartition(".")
    try:
        return hasattr(import_module(module), attribute)
    except ModuleNotFoundError:
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
