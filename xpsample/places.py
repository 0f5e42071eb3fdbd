"""Where something is run: a library, one of its devices, a dtype."""

from typing import Any, NamedTuple

import numpy as np

from xpsample.backend import Array, Backend, backend_named, installed_backends, registered_backends
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
        return f"{self.backend.name}-{self.device.replace(':', '')}-{self.dtype}"


def places(names: list[str] | None = None) -> list[Place]:
    """All places present now, of all installed backends or of those named.

    Raises
    ------
    BackendError
        If a named backend is not there, or finds no device.
    """
    found = []
    for name in installed_backends() if names is None else dict.fromkeys(names):
        try:
            backend = backend_named(name)
            devices = backend.devices()
            if not devices:
                raise BackendError(f"{name} is installed and finds no device on this machine")
        except BackendError:
            if names is not None:
                raise
            continue  # `missing` says so
        found += [Place(backend, d.name, d.device, dtype) for d in devices for dtype in d.dtypes]
    return found


def widest(where: list[Place]) -> list[Place]:
    """Of places, the widest dtype on the first device of each kind, such as cpu or cuda."""
    kept: dict[tuple[str, str], Place] = {}
    for place in where:
        key = (place.backend.name, place.device.partition(":")[0])
        if key not in kept or (kept[key].device == place.device and place.dtype > kept[key].dtype):
            kept[key] = place
    return list(kept.values())


def missing(names: list[str] | None = None) -> list[str]:
    """One line for every backend, device or dtype that is not there, so that a skip is seen."""
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
