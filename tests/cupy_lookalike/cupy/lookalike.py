"""What the look-alike has and CuPy has not: it notes where the host waits for the device, and forbids it.

Values that reach the host (`bool`, `float`, `item`, `get`, a shape that depends on values, ...) make the host wait
until the device has computed them, and the device is idle until the host sends more work.
"""

from collections.abc import Iterator
from contextlib import contextmanager

DEVICES = 2
"""Devices of the machine; a test may set another number."""

waits: list[str] = []
"""What made the host wait, in order."""

_forbidden: list[str] = []


class HostWaits(RuntimeError):
    """The host waited for the device where that is forbidden."""


def reset() -> None:
    """The state after an import: the first device is current, and nobody has waited."""
    global DEVICES
    from cupy.cuda import runtime, stream

    DEVICES = 2
    waits.clear()
    stream.forget()
    runtime.setDevice(0)


def note_wait(what: str) -> None:
    """Note that the host waits; raise where it must not."""
    if _forbidden:
        raise HostWaits(f"{what} makes the host wait for the device {_forbidden[-1]}")
    waits.append(what)


@contextmanager
def no_waits(where: str = "here") -> Iterator[None]:
    """A block in which the host must not wait for the device.

    Raises
    ------
    HostWaits
        From the call that waits.
    """
    _forbidden.append(where)
    try:
        yield
    finally:
        _forbidden.pop()


@contextmanager
def waits_allowed() -> Iterator[None]:
    """A block in which the host may wait after all, for what a loop has to know."""
    hidden = _forbidden[:]
    _forbidden.clear()
    try:
        yield
    finally:
        _forbidden[:] = hidden


class Undefined(RuntimeError):
    """The result of this is undefined in CuPy."""
