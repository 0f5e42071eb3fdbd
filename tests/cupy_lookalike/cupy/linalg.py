"""Linear algebra: of batches, of float32 and float64; where LAPACK would refuse a matrix, the result is NaN."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError as LinAlgError

from cupy import _core
from cupy._functions import kernel as _kernel

_NAMES = "det eigh eigvalsh lstsq matrix_power matrix_rank norm pinv qr slogdet svd"


def _each(function: Callable[..., np.ndarray], a: np.ndarray, *more: np.ndarray) -> np.ndarray:
    """A function of each matrix of a batch; NaN where it refuses one."""
    try:
        return function(a, *more)
    except LinAlgError:
        if a.ndim == 2:
            like = more[-1] if more else a
            return np.full(like.shape, np.nan, dtype=np.result_type(a, like))
        return np.stack([_each(function, *matrices) for matrices in zip(a, *more, strict=True)])


def cholesky(a: _core.ndarray) -> Any:
    return _core.box(_each(np.linalg.cholesky, _core.operand(a)))


def inv(a: _core.ndarray) -> Any:
    return _core.box(_each(np.linalg.inv, _core.operand(a)))


def solve(a: _core.ndarray, b: _core.ndarray) -> _core.ndarray:
    """No broadcasting of one batch to another's."""
    if not (a.ndim == b.ndim or (a.ndim == 2 and b.ndim == 1)) or a.shape[:-1] != b.shape[: a.ndim - 1]:
        raise ValueError("a must have (..., M, M) shape and b must have (..., M, K) for multidimensional b")
    return _core.box(_each(np.linalg.solve, _core.operand(a), _core.operand(b)))


globals().update({name: _kernel(getattr(np.linalg, name), name) for name in _NAMES.split()})
