"""The look-alike as `cupy`, in this process for a while, or in a child."""

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import array_api_compat

from xpsample.core.registry import backend_named

FOLDER = str(Path(__file__).parent)
ROOTS = ("cupy", "cupyx", "cupy_backends", "xpsample_cupy", "array_api_compat.cupy")
"""CuPy, and the modules that were made for the CuPy that they found."""

_kept: dict[str, ModuleType] = {}


def _taken_out() -> dict[str, ModuleType]:
    """The modules of `ROOTS`, no longer imported."""
    names = [name for name in sys.modules if name.startswith(tuple(f"{root}." for root in ROOTS)) or name in ROOTS]
    vars(array_api_compat).pop("cupy", None)
    backend_named.cache_clear()
    return {name: sys.modules.pop(name) for name in names}


def _put_in(modules: dict[str, ModuleType]) -> None:
    sys.modules.update(modules)
    if "array_api_compat.cupy" in modules:
        array_api_compat.cupy = modules["array_api_compat.cupy"]


@contextmanager
def installed() -> Iterator[ModuleType]:
    """``import cupy`` gives the look-alike in this block, and afterwards what it gave before."""
    before = _taken_out()
    _put_in(_kept)  # one ndarray type for all blocks, since array-api-compat remembers types
    sys.path.insert(0, FOLDER)
    importlib.invalidate_caches()
    try:
        cupy = importlib.import_module("cupy")
        cupy.lookalike.reset()
        yield cupy
    finally:
        sys.path.remove(FOLDER)
        importlib.invalidate_caches()
        _kept.update(_taken_out())
        _put_in(before)


def environment() -> dict[str, str]:
    """The environment of a child in which ``import cupy`` gives the look-alike."""
    path = os.pathsep.join(filter(None, (FOLDER, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}
