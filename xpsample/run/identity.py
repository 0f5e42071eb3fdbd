"""What identifies a run, as JSON values: two runs of one identity make the same draws."""

import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from xpsample.core.arrays import Array, is_array
from xpsample.core.devices import DeviceDtype
from xpsample.core.registry import backend_of, to_host, unpacked
from xpsample.core.version import __version__
from xpsample.targets.batched import BEHIND

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
"""The version that the code of functions is compiled by: that of another one has other digests."""

SCALARS = (int, float, str, bool, type(None))


def describe(value: Any, within: tuple = ()) -> Any:
    """A setting as JSON values, to compare it with another.

    Arrays and functions are known by a digest, dataclasses by their fields, other objects by their type alone. Of a
    function count its code, its defaults, and the numbers, texts, arrays and functions that it encloses; what it reads
    elsewhere, and lists and objects that it encloses, do not.

    Parameters
    ----------
    value : object
    within : tuple
        The dataclasses and functions that hold it, which may be among what it holds.
    """
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        value = value.item()  # NumPy gives one or the other, and a checkpoint gives back arrays
    if isinstance(value, SCALARS):
        return value
    if not is_dataclass(value) and (own := unpacked(value)) is not None:
        return {"type": type(value).__name__, **{path: describe(leaf, within) for path, leaf in own.leaves.items()}}
    if is_array(value):
        host = np.ascontiguousarray(to_host(value))
        digest = hashlib.sha256(host.reshape(-1).view(np.uint8).data).hexdigest()[:16]
        return {"array": digest, "shape": list(host.shape), "dtype": str(host.dtype)}
    if isinstance(value, (tuple, list)):
        return [describe(v, within) for v in value]
    if isinstance(value, Mapping):
        return {str(key): describe(v, within) for key, v in value.items()}
    if any(value is outer for outer in within) or isinstance(value, type):
        return getattr(value, "__qualname__", type(value).__qualname__)
    if is_dataclass(value):
        names = [f.name for f in fields(value) if f.init and not f.name.startswith("_")]
        return {"type": type(value).__name__, **{n: describe(getattr(value, n), (*within, value)) for n in names}}
    if callable(value):
        return _function(value, (*within, value))
    text = repr(value)
    return type(value).__qualname__ if " at 0x" in text else text  # an address differs from process to process


def environment(x: Array) -> dict[str, Any]:
    """What the numbers of a run depend on, beside the run itself: versions, and the kinds of device that hold x."""
    backend = backend_of(x)
    return {
        "xpsample": __version__,
        backend.name: str(getattr(sys.modules.get(backend.name), "__version__", "unknown")),
        "devices": [device.name.partition(":")[0] for device in backend.devices(x)],
    }


def made_with(devices: Sequence[DeviceDtype], modules: Sequence[str] = ()) -> dict[str, Any]:
    """What the results of a command depend on, beside its settings.

    Parameters
    ----------
    devices : sequence of DeviceDtype
        Where they are made.
    modules : sequence of str
        Names of modules of the user's that are used.

    Returns
    -------
    dict
        JSON values: the devices, the versions of Python and of the libraries, and digests of the code of xpsample, its
        backends, and the packages of the modules.
    """
    versions: dict[str, Any] = {"python": PYTHON}
    for device in devices:
        versions |= environment(device.array(0.0))
    versions.pop("devices", None)
    backends = [type(device.backend).__module__ for device in devices]
    packages = dict.fromkeys(name.partition(".")[0] for name in (__name__, *backends, *modules))
    return {
        "devices": list(map(str, devices)),
        "versions": versions,
        "code": {package: _source(sys.modules[package]) for package in packages},
    }


def _source(package: ModuleType) -> str:
    """A digest of the files of a package, or of a module."""
    folders = [Path(folder) for folder in getattr(package, "__path__", ())]
    files = [path for folder in folders for path in sorted(folder.rglob("*.py"))] or [Path(str(package.__file__))]
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def differences(there: Any, here: Any, path: str = "") -> list[str]:
    """Where two descriptions differ, a line each."""
    if isinstance(there, dict) and isinstance(here, dict) and there.get("type") == here.get("type"):
        names = dict.fromkeys((*here, *there))
        lines = (differences(there.get(n), here.get(n), f"{path} {n}".strip()) for n in names)
        return [line for found in lines for line in found]
    same = json.dumps(there, sort_keys=True) == json.dumps(here, sort_keys=True)  # as texts, so that nan is nan
    return [] if same else [f"{path}: {_short(there)} there, {_short(here)} here"]


def _short(value: Any) -> str:
    if isinstance(value, dict):
        value = value.get("type", value.get("array", value))
    return str(value)


def _function(f: Callable[..., Any], within: tuple) -> str:
    """The name of a function, and a digest of what it does."""
    name, enclosed = getattr(f, "__qualname__", type(f).__qualname__), partial(_enclosed, within=within)
    name = name.removesuffix(BEHIND)  # which it has once it was sent to another process
    parts: list | None = None
    if isinstance(f, partial):
        name = f"partial of {getattr(f.func, '__qualname__', type(f.func).__qualname__)}"
        parts = [enclosed(f.func), [*map(enclosed, f.args)], {key: enclosed(v) for key, v in f.keywords.items()}]
    elif isinstance(f, MethodType):
        parts = [enclosed(f.__func__), enclosed(f.__self__)]
    elif isinstance(f, FunctionType):
        defaults = [*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()]
        contents = [_content(cell, enclosed) for cell in f.__closure__ or ()]
        parts = [_code(f.__code__), [*map(enclosed, defaults)], contents]
    elif hasattr(f, "__wrapped__"):  # such as a compiled one
        parts = [enclosed(f.__wrapped__)]
    if parts is None:
        return name
    return f"{name} {hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]}"


def _enclosed(value: Any, within: tuple) -> Any:
    """What a function holds, as far as it does not change from process to process, or from call to call."""
    if isinstance(value, tuple):
        return [_enclosed(v, within) for v in value]
    known = isinstance(value, SCALARS) or is_array(value) or is_dataclass(value) or callable(value)
    return describe(value, within) if known else type(value).__qualname__


def _content(cell: Any, enclosed: Callable[[Any], Any]) -> Any:
    try:
        return enclosed(cell.cell_contents)
    except ValueError:  # it is still empty
        return None


def _code(code: CodeType) -> list:
    constants = [
        _code(c) if isinstance(c, CodeType) else sorted(map(repr, c)) if isinstance(c, frozenset) else repr(c)
        for c in code.co_consts
    ]
    return [code.co_code.hex(), constants, code.co_names, code.co_varnames]
