"""Where a scenario is run: a library, a device, a dtype."""

from typing import Any, NamedTuple

import numpy as np

from xpsample.backend import Array, Backend, backend_named, installed_backends
from xpsample.errors import BackendError


class Place(NamedTuple):
    """A library's device and a dtype on it."""

    backend: Backend
    device: str
    handle: Any
    dtype: str

    def array(self, host: Any) -> Array:
        """A host array, as an array of this place (floating ones in its dtype)."""
        host = np.asarray(host)
        if host.dtype.kind == "f":
            host = host.astype(self.dtype)
        return self.backend.xp.asarray(host, device=self.handle, copy=True)

    def __str__(self) -> str:
        return f"{self.backend.name}-{self.device}-{self.dtype}"


REFERENCE = "numpy"


def reference() -> Place:
    """NumPy float64, which the chains of every other place are compared with."""
    return next(place for place in places([REFERENCE]) if place.dtype == "float64")


def places(names: list[str] | None = None) -> list[Place]:
    """All places present now, of all installed backends or of those named.

    Raises
    ------
    BackendError
        If a named backend is missing.
    """
    found = []
    for name in installed_backends() if names is None else names:
        try:
            backend = backend_named(name)
        except BackendError:
            if names is not None:
                raise
            continue  # installed and not loadable, such as a GPU library without its driver: `missing` says so
        for device in backend.devices():
            found += [Place(backend, device.name, device.device, dtype) for dtype in device.dtypes]
    return found


def missing(names: list[str] | None = None) -> list[str]:
    """One line for every backend, device or dtype that is not there, so that a skip is seen."""
    from xpsample.backend import registered_backends

    lines = []
    for name in registered_backends() if names is None else names:
        if name not in installed_backends():
            lines.append(f"{name}: skipped, the library is not installed")
            continue
        try:
            devices = backend_named(name).devices()
        except BackendError as error:
            lines.append(f"{name}: skipped, {error}")
            continue
        if not devices:
            lines.append(f"{name}: skipped, no device")
        lines += [f"{name} {d.name}: {d.note}" for d in devices if d.note]
    return lines
