"""Descriptions of values as JSON, which are equal for equal values in every process."""

import enum
import hashlib
import json
from dataclasses import fields
from pathlib import PurePath
from typing import Any

import numpy as np

from xpsample.core.arrays import is_array
from xpsample.core.hyperparameters import is_frozen
from xpsample.core.registry import to_host, unpacked

PLAIN = (int, float, str, bool, type(None))
TEXTS = (complex, bytes, range, slice, enum.Enum, PurePath, np.dtype)


def describe(value: Any) -> Any:
    """Return a value as JSON values.

    Arrays are known by shape, dtype and a digest of their numbers, frozen dataclasses by their fields, functions of
    xpsample by their names, and other objects by their types. A function of the user is known to be one, and no more:
    its values have to be compared instead.
    """
    if type(value) in PLAIN:
        return value
    name = type(value).__qualname__
    if is_array(value) or isinstance(value, np.generic):
        return _array(value)
    if isinstance(value, TEXTS):
        return {"type": name, "value": str(value)}
    if isinstance(value, dict):
        return {str(key): describe(part) for key, part in value.items()}
    if (parts := _parts(value)) is not None:
        return {"type": name, **{str(key): describe(part) for key, part in parts.items()}}
    if isinstance(value, (list, tuple, set, frozenset)):
        found = [describe(part) for part in value]
        return found if isinstance(value, (list, tuple)) else sorted(found, key=str)
    if callable(value):
        return {"type": f"{value.__module__}.{value.__qualname__}" if _is_ours(value) else "function"}
    return {"type": name}


def holds_code(value: Any) -> bool:
    """Return whether a value holds functions or classes of the user, which `describe` does not tell apart."""
    if type(value) in PLAIN or is_array(value) or isinstance(value, (np.generic, *TEXTS)):
        return False
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(map(holds_code, value))
    if isinstance(value, dict) or (is_frozen(value) and _is_ours(type(value))):
        return any(map(holds_code, (value if isinstance(value, dict) else _parts(value) or {}).values()))
    return not _is_ours(value if callable(value) else type(value))


def differences(there: Any, here: Any, path: str = "") -> list[str]:
    """Return the places where two descriptions differ, one line each."""
    if isinstance(there, dict) and isinstance(here, dict) and there.get("type") == here.get("type"):
        pairs = [(name, there.get(name), here.get(name)) for name in dict.fromkeys((*here, *there))]
    elif isinstance(there, list) and isinstance(here, list) and len(there) == len(here) and dict in map(type, here):
        pairs = [(str(i), *pair) for i, pair in enumerate(zip(there, here, strict=True))]
    else:
        same = json.dumps(there, sort_keys=True) == json.dumps(here, sort_keys=True)  # as texts, so that nan is nan
        return [] if same else [f"{path}: {_shown(there)} there, {_shown(here)} here"]
    return [line for name, a, b in pairs for line in differences(a, b, f"{path} {name}".strip())]


def _array(value: Any) -> dict[str, Any]:
    try:
        host = np.asarray(to_host(value))
    except Exception:  # an array that a compiler traces, or a sparse one
        return {"type": type(value).__qualname__}
    if host.dtype.hasobject:
        return {"array": describe(host.tolist()), "shape": list(host.shape)}
    if host.ndim == 0 and host.dtype.kind in "biuf":  # NumPy returns scalars or 0-d arrays, a checkpoint arrays
        return {"type": str(host.dtype), "value": host.item()}
    digest = hashlib.sha256(np.ascontiguousarray(host).reshape(-1).view(np.uint8).data).hexdigest()[:16]
    return {"array": digest, "shape": list(host.shape), "dtype": str(host.dtype)}


def _parts(value: Any) -> dict[str, Any] | None:
    """The named parts of a value, or None."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: getattr(value, name) for name in value._fields}
    if is_frozen(value):  # whose hidden private fields are caches
        own = [f.name for f in fields(value) if f.init and (f.repr or not f.name.startswith("_"))]
        return {name: getattr(value, name) for name in own}
    found = unpacked(value)  # a module of another library, such as Flax
    return None if found is None else dict(found.leaves)


def _is_ours(value: Any) -> bool:
    """Return whether a function or class is one of xpsample's, or of its backends'."""
    named = isinstance(getattr(value, "__qualname__", None), str)
    return named and str(value.__module__).partition(".")[0].partition("_")[0] == "xpsample"


def _shown(value: Any) -> str:
    text = str(value.get("value", value.get("array", value.get("type", value))) if isinstance(value, dict) else value)
    return text if len(text) <= 60 else f"{text[:57]}..."
