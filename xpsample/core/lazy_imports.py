"""Packages whose names are imported at first use (PEP 562), so that a run loads only what it needs."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def attach(package: str, names: Mapping[str, str], subpackages: str = "") -> tuple[Callable[[str], Any], list[str]]:
    """Return ``__getattr__`` and ``__all__`` of a package.

    `names` has the names that come from each module of the package, or with a leading dot from one next to the package;
    they are separated by spaces, as are the `subpackages`. The ``.pyi`` next to the package repeats them for type
    checkers, and a test compares both.
    """
    modules = {name: f".{module}" for module, own in names.items() for name in own.split()}

    def get(name: str) -> Any:
        if name in modules:
            value = getattr(import_module(modules[name], package), name)
        elif name in subpackages.split():
            value = import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    return get, sorted(modules)
