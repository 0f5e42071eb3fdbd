"""The devices of the installed libraries, with the dtypes that work on them."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from xpsample.core.arrays import Array, Tree, is_array
from xpsample.core.backend import Backend
from xpsample.core.errors import BackendError, CapabilityError
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
    devices = backend_of(array).devices(array)
    return devices[0].context if devices else nullcontext()


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


@dataclass(frozen=True)
class Processes:
    """The processes that hold the positions of a run together: how many, and the number of this one.

    All of them make the same calls, in the same order. What only one process knows, such as the time or a
    signal, must not lead it another way than the others, which would wait for it.
    """

    backend: Backend
    count: int
    here: int

    @classmethod
    def of(cls, x: Array) -> "Processes | None":
        """Return the processes that hold an array; None if this one holds all of it."""
        backend = backend_of(x)
        count = len({device.process for device in backend.devices(x)})
        return cls(backend, count, backend.devices()[0].process) if count > 1 else None

    def largest(self, carry: Tree, number: float) -> float:
        """Return the largest `number` of all processes."""
        return self.backend.synchronize(carry, number)

    def agreed_signal(self, carry: Tree, signal: str | None) -> str | None:
        """Return the signal that came here or to another process."""
        names = [None, "Ctrl-C", "SIGTERM"]
        return names[int(self.largest(carry, names.index(signal)))]

    def refuse(self, what: str, instead: str) -> None:
        """Raise CapabilityError: `what` needs all chains in one process. The message says what to do `instead`."""
        raise CapabilityError(
            f"{what} does not work with arrays of which {self.count} processes hold a part each: {instead}"
        )


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
