"""Kernels in files: values of xpsample's own classes as JSON and arrays, from which nothing but these is made again."""

import json
import sys
from dataclasses import is_dataclass
from importlib import import_module
from typing import Any

import numpy as np

from xpsample.core.arrays import is_array
from xpsample.core.hyperparameters import is_frozen, settings
from xpsample.core.registry import to_host
from xpsample.kernels.kernel import Kernel

PACKAGES = (
    "adaptation core gradients hiss kernels metrics optimize particles prox score_mh sosmc spaces srld srmc targets"
)
"""Packages whose classes and functions a kernel in a file may name."""

PLAIN = (bool, int, float, str, type(None))

JSON = "json"
"""Name of the array that holds the description, as bytes; numbers in it refer to the other arrays."""


def packed(kernel: Any) -> dict[str, Any] | None:
    """Return a kernel as arrays by name, or None if it is none, or holds functions or classes of the user's."""
    arrays: dict[str, Any] = {}
    if not isinstance(kernel, Kernel):
        return None
    try:
        text = json.dumps(_described(kernel, arrays))
    except TypeError:
        return None
    return arrays | {JSON: np.frombuffer(text.encode(), np.uint8)}


def unpacked(arrays: dict[str, Any]) -> Kernel | None:
    """Return the kernel that `packed` described, or None if this version of xpsample has no such kernel."""
    try:
        kernel = _made(json.loads(arrays[JSON].tobytes()), arrays)
    except (AttributeError, ImportError, KeyError, TypeError, ValueError):
        return None
    return kernel if isinstance(kernel, Kernel) else None


def _described(value: Any, arrays: dict[str, Any]) -> Any:
    """JSON values; TypeError if the value cannot be rebuilt."""
    if type(value) in PLAIN:
        return value
    if is_array(value):
        arrays[name := str(len(arrays))] = to_host(value)
        return {"array": name}
    if type(value) is tuple:
        return {"tuple": [_described(part, arrays) for part in value]}
    if is_frozen(value):
        # Fields that are not shown hold what a run binds a kernel to, such as the space of a block.
        parts = {f.name: _described(part, arrays) for f, part in settings(value) if f.init and f.repr}
        return {"class": _name(type(value)), "fields": parts}
    if callable(value):
        return {"name": _name(value)}
    raise TypeError(f"a {type(value).__name__} is not saved")


def _name(value: Any) -> str:
    """Module and qualified name of an xpsample class or function; TypeError for others."""
    name = f"{getattr(value, '__module__', None)}:{getattr(value, '__qualname__', None)}"
    if _found(name) is not value:
        raise TypeError(f"{name} is not one of xpsample's")
    return name


def _found(name: Any) -> Any:
    """An xpsample class or function by its name, or None."""
    module, _, path = name.partition(":")
    if module.split(".")[:1] != ["xpsample"] or module.split(".")[1:2] not in [[own] for own in PACKAGES.split()]:
        return None
    found: Any = sys.modules.get(module) or import_module(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found if getattr(found, "__module__", None) == module else None


def _made(described: Any, arrays: dict[str, Any]) -> Any:
    match described:
        case {"array": name}:
            return arrays[name]
        case {"tuple": parts}:
            return tuple([_made(part, arrays) for part in parts])
        case {"class": name, "fields": parts}:
            kind: Any = _found(name)
            if not (isinstance(kind, type) and is_dataclass(kind)):
                raise TypeError(f"{name} is no class of values")
            return kind(**{key: _made(part, arrays) for key, part in parts.items()})
        case {"name": name}:
            return _found(name)
    return described
