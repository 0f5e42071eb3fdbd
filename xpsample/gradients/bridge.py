"""Every rule about passing arrays between libraries lives here.

DLPack where both sides can: no copy on one device. A consumer never writes into what came over. Buffers that DLPack
cannot carry (a NumPy array marked read-only, a library without DLPack) go through the host when both ends are there.
"""

from typing import Any

from xpsample.core.arrays import Array
from xpsample.core.backend import Backend
from xpsample.core.errors import BackendError, GradientError
from xpsample.core.registry import backend_of
from xpsample.core.tree import dtype_name


def bridge(array: Array, to: "Backend | Array") -> Array:
    """`array` in another library: that of a backend, or that of (and on the device of) an array.

    GradientError if the other library would change the dtype (float64 with 64-bit types switched off, for one).
    """
    mine = backend_of(array)
    theirs, home = (to, None) if isinstance(to, Backend) else (backend_of(to), to)
    if mine is theirs:
        return array
    moved = _by_dlpack(array, theirs)
    if moved is None or (home is not None and theirs.devices(moved) != theirs.devices(home)):
        moved = theirs.from_host(mine.to_host(array), _anywhere(theirs) if home is None else home)
    if dtype_name(moved) != dtype_name(array):
        raise GradientError(
            f"{theirs.name} turned {dtype_name(array)} into {dtype_name(moved)}: switch its 64-bit types on, or pass "
            "float32 positions"
        )
    return moved


def _by_dlpack(array: Array, theirs: Backend) -> Any:
    """None where DLPack cannot: read-only NumPy buffers, autograd tensors and unaligned memory have no such form."""
    try:
        return theirs.xp.from_dlpack(array)
    # The AssertionError is that of a library without CUDA, for an array on a GPU.
    except (BufferError, RuntimeError, TypeError, AttributeError, ValueError, AssertionError):
        return None


def _anywhere(theirs: Backend) -> Array:
    """An array on the first device of a library."""
    devices = theirs.devices()
    if not devices:
        raise BackendError(f"{theirs.name} has no device to take an array")
    return theirs.xp.empty((), dtype=theirs.xp.float32, device=devices[0].device)
