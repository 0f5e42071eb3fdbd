"""Ladders: the sequences of inverse temperatures, or of noise levels, that particles go through."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.checks import check_count, check_number, check_numbers
from xpsample.core.errors import HyperparameterError
from xpsample.core.tree import dtype_name
from xpsample.spaces.discrete import as_index
from xpsample.targets.bound import BoundTarget


def geometric_ladder(rungs: int, hottest: float) -> tuple[float, ...]:
    """Inverse temperatures ``hottest^(k / (rungs - 1))`` for k = 0 .. rungs - 1, from 1 to `hottest`.

    Parameters
    ----------
    rungs : int
        At least 2.
    hottest : float
        Between 0 and 1.
    """
    rungs, hottest = check_count("rungs", rungs, 2), check_number("hottest", hottest, 0, 1, below=True)
    return tuple(hottest ** (k / (rungs - 1)) for k in range(rungs))


def check_ladder(name: str, betas: Sequence[float]) -> tuple[float, ...]:
    """Inverse temperatures as numbers; raises HyperparameterError unless they go from 0 to 1 and never decrease."""
    ladder = check_numbers(name, betas, least=2)
    if ladder[0] != 0 or ladder[-1] != 1 or any(b > c for b, c in pairwise(ladder)):
        raise HyperparameterError(f"{name} must go from 0 to 1 and never decrease; got {ladder}")
    return ladder


def ladder_array(target: BoundTarget, betas: Sequence[float], x: Array) -> Array:
    """Inverse temperatures as an array (rungs,) in the library, on the device and in the floating dtype of x."""
    return target.backend.from_host(np.asarray(betas, dtype=dtype_name(target.as_floating(x))), x)


def rung(xp: Any, betas: Array, n: Array) -> Array:
    """The inverse temperature of step n (0-d), 0-d; after the end of the ladder the last one."""
    last = betas.shape[0] - 1
    return xp.take(betas, as_index(xp, xp.where(n < last, n, last))[None])[0]
