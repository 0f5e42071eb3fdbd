"""What identifies a run, and what its numbers depend on beside it: versions, devices, the code of this package."""

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from xpsample.core.arrays import Array
from xpsample.core.devices import DeviceDtype
from xpsample.core.registry import backend_of
from xpsample.core.same import describe
from xpsample.core.version import __version__
from xpsample.sampling.noise import NoiseSource
from xpsample.sampling.program import Program
from xpsample.targets.target import AbstractTarget

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
"""The version that the code of functions is compiled by: that of another one has other digests."""


def identity(target: AbstractTarget, program: Program, x: Array, source: NoiseSource) -> dict[str, Any]:
    """What identifies a run, as JSON values. The number of draws is left out, so that a run can be extended."""
    return {
        "python": PYTHON,
        "target": describe(target, lambda: program.target.evaluate(x)),
        "kernel": describe(program.kernel),
        "noise": source.describe(),
        "positions": describe(x),
        "backend": backend_of(x).name,
        "burn_in": program.schedule.burn_in,
        "thinning": program.schedule.thinning,
        "recorders": [describe(r) for r in program.recorders],
        "compiled": program.compile,
    }


def environment(x: Array) -> dict[str, Any]:
    """What the numbers of a run depend on, beside the run itself: versions, and the kinds of device that hold x."""
    backend = backend_of(x)
    return {
        "xpsample": __version__,
        backend.name: str(getattr(sys.modules.get(backend.name), "__version__", "unknown")),
        "devices": [device.name.partition(":")[0] for device in backend.devices(x)],
    }


def made_with(devices: Sequence[DeviceDtype], modules: Sequence[str] = ()) -> dict[str, Any]:
    """What the results of a command depend on, beside its settings, as JSON values.

    These are the devices, the versions of Python and of the libraries, and digests of the code of xpsample, its
    backends, and the packages of the user's `modules`.
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
