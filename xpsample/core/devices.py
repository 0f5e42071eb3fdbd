"""The devices of the installed libraries, with the dtypes that work on them."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from xpsample.core.arrays import Array, is_array
from xpsample.core.backend import Backend
from xpsample.core.errors import BackendError
from xpsample.core.registry import (
    backend_named,
    backend_of,
    check_registered,
    installed_backends,
    registered_backends,
)

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class DeviceDtype:
    """A library's device and a dtype on it; devices of one library are told apart by their names."""

    backend: Backend
    name: str
    handle: Any = field(compare=False)  # not every library's can be hashed
    dtype: str

    def array(self, host: Any) -> Array:
        """A host array, as an array on this device (floating ones in its dtype)."""
        host = np.asarray(host)
        if host.dtype.kind == "f":
            host = host.astype(self.dtype)
        return self.backend.xp.asarray(np.array(host), device=self.handle)  # a copy: torch shares memory with NumPy

    def __str__(self) -> str:
        return f"{self.backend.name}-{self.name.replace(':', '')}-{self.dtype}"


def current_device(array: object) -> AbstractContextManager[Any]:
    """A block in which an array is computed with as in a run (`Device.context`).

    What is no array is let through, for others to refuse.
    """
    if not is_array(array):
        return nullcontext()
    return next((device.context for device in backend_of(array).devices(array)), nullcontext())


def as_in_runs(f: F) -> F:
    """A function that computes in the `current_device` of the first array that it is given, as runs do.

    Within a program of the user's, where arrays hold no numbers, that program's settings hold.
    """

    @wraps(f)
    def within(*args: Any, **options: Any) -> Any:
        array = next(filter(is_array, (*args, *options.values())), None)
        try:
            block = current_device(array)
        except BackendError:
            block = nullcontext()
        with block:
            return f(*args, **options)

    return cast(F, within)


def device_dtypes(names: list[str] | None = None) -> list[DeviceDtype]:
    """All devices and dtypes present now, of all installed backends or of those named.

    Raises
    ------
    BackendError
        If a named backend is not there, or finds no device.
    """
    chosen = installed_backends() if names is None else list(dict.fromkeys(names))
    for name in chosen:
        check_registered(name)  # all of them, before a library is loaded
    found = []
    for name in chosen:
        try:
            backend = backend_named(name)
            devices = backend.devices()
            if not devices:
                raise BackendError(f"{name} is installed and finds no device on this machine")
        except BackendError:
            if names is not None:
                raise
            continue  # `missing` says so
        found += [DeviceDtype(backend, d.name, d.device, dtype) for d in devices for dtype in d.dtypes]
    return found


def missing(names: list[str] | None = None) -> list[str]:
    """One line for every backend, device or dtype that is missing, so that a skip is seen."""
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
