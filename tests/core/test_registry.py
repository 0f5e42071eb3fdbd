"""The registry: a plug-in that does not work is in the way of its own library only."""

import sys
from importlib.machinery import ModuleSpec
from importlib.metadata import EntryPoint
from types import ModuleType

import numpy as np
import pytest

import xpsample as xps
from xpsample.core import registry
from xpsample.core.devices import device_dtypes, missing
from xpsample.core.errors import BackendError

BROKEN = "xpsample_broken"


@pytest.fixture
def broken(monkeypatch, tmp_path):
    """A registered plug-in whose import fails, for a library that is imported; first of all."""
    (tmp_path / f"{BROKEN}.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    library = ModuleType("brokenlib")
    library.__spec__ = ModuleSpec("brokenlib", None)
    monkeypatch.setitem(sys.modules, "brokenlib", library)
    entry = EntryPoint("brokenlib", f"{BROKEN}:BACKEND", registry.ENTRY_POINT_GROUP)
    entries = {"brokenlib": entry} | registry._entry_points()
    monkeypatch.setattr(registry, "_entry_points", lambda: entries)
    monkeypatch.setattr(registry, "_by_type", {})
    return "brokenlib"


def test_a_plug_in_that_fails_to_import_is_named(broken):
    with pytest.raises(BackendError, match="the backend of 'brokenlib' cannot be loaded: ZeroDivisionError"):
        registry.backend_named(broken)


@pytest.mark.parametrize("ask", [lambda: xps.backend_of(np.zeros(2)), xps.installed_backends, device_dtypes, missing])
def test_a_checkout_that_is_not_installed_says_so(monkeypatch, ask):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: ())
    monkeypatch.setattr(registry, "_by_type", {})
    registry._entry_points.cache_clear()
    with pytest.raises(BackendError, match=r"xpsample is not installed \(`pip install -e \.` in its checkout\)"):
        ask()


def test_a_plug_in_that_fails_to_import_is_not_in_the_way_of_others(broken):
    class Derived(np.ndarray):
        pass

    assert xps.backend_of(np.zeros(2).view(Derived)).name == "numpy"
    with pytest.raises(BackendError, match="is not an array of a registered library"):
        xps.backend_of(object())
    assert broken in xps.installed_backends()
    assert "numpy" in {where.backend.name for where in device_dtypes()}
    assert any(line.startswith(f"{broken}: skipped") for line in missing())
