"""Names of the array API standard that the library uses, and a check of a namespace for them."""

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

from xpsample.core.devices import DeviceDtype

STANDARD = """
    __array_namespace_info__ abs acos all any arange argmax asarray asinh astype atan2 bool broadcast_arrays
    broadcast_to ceil clip concat cos count_nonzero cumulative_sum empty exp expm1 eye finfo flip float32 floor
    from_dlpack full full_like iinfo imag inf int32 int8 isdtype isfinite isnan log log1p logaddexp matrix_transpose
    max maximum mean min minimum moveaxis nan ones_like permute_dims real remainder repeat reshape result_type roll
    round searchsorted sign sin sort sqrt squeeze stack std sum take take_along_axis tanh triu var where zeros
    zeros_like fft.irfft fft.rfft linalg.cholesky linalg.diagonal linalg.eigh linalg.eigvalsh linalg.inv linalg.qr
    linalg.solve
"""
NAMES = tuple(STANDARD.split())


def lacking(devices: Iterable[DeviceDtype]) -> Iterator[str]:
    """Yield one line for every backend whose namespace does not have all `NAMES`."""
    for backend in dict.fromkeys(device.backend for device in devices):
        names = [name for name in NAMES if not _has(backend.xp, name)]
        if names:
            yield f"{backend.name} lacks {len(names)} of the {len(NAMES)} names used: {', '.join(names)}"


def _has(xp: Any, name: str) -> bool:
    try:
        attrgetter(name)(xp)
    except AttributeError:
        return False
    return True
