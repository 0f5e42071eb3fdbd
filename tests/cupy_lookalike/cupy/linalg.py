"""Linear algebra: of batches, of float32 and float64; where LAPACK would refuse a matrix, the result is NaN."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError as LinAlgError

from cupy import _core
from cupy._functions import checked as _checked

_PARAMETERS = {
    "cholesky": "a",
    "det": "a",
    "eigh": "a UPLO",
    "eigvalsh": "a UPLO",
    "inv": "a",
    "matrix_power": "M n",
    "matrix_rank": "M tol",
    "norm": "x ord axis keepdims",
    "pinv": "a rcond",
    "qr": "a mode",
    "slogdet": "a",
    "svd": "a full_matrices compute_uv",
}


def _opened(a: _core.ndarray) -> np.ndarray:
    if not isinstance(a, _core.ndarray):
        raise LinAlgError(f"cupy.linalg only supports cupy.ndarray: {type(a)}")
    if a.dtype == np.float16:
        raise TypeError("float16 is unsupported in linalg")
    return _core.operand(a)


def _each(function: Callable[..., np.ndarray], a: np.ndarray, *more: np.ndarray) -> np.ndarray:
    """A function of each matrix of a batch; NaN where it refuses one."""
    try:
        return function(a, *more)
    except LinAlgError:
        if a.ndim == 2:
            like = more[-1] if more else a
            return np.full(like.shape, np.nan, dtype=np.result_type(a, like))
        return np.stack([_each(function, *matrices) for matrices in zip(a, *more, strict=True)])


def _function(name: str) -> Callable[..., Any]:
    function = getattr(np.linalg, name)

    def call(a: _core.ndarray, *args: Any, **options: Any) -> Any:
        _checked(name, _PARAMETERS[name], (a, *args), options)
        if name in ("cholesky", "inv"):
            return _core.box(_each(function, _opened(a)))
        return _core.boxed(function(_opened(a), *args, **options))

    call.__name__ = name
    return call


def solve(a: _core.ndarray, b: _core.ndarray) -> _core.ndarray:
    """No broadcasting of one batch to another's."""
    if not (a.ndim == b.ndim or (a.ndim == 2 and b.ndim == 1)) or a.shape[:-1] != b.shape[: a.ndim - 1]:
        raise ValueError("a must have (..., M, M) shape and b must have (..., M, K) for multidimensional b")
    return _core.box(_each(np.linalg.solve, _opened(a), _opened(b)))


def lstsq(a: _core.ndarray, b: _core.ndarray, rcond: Any = None) -> Any:
    return _core.boxed(np.linalg.lstsq(_opened(a), _opened(b), rcond=rcond))


globals().update({name: _function(name) for name in _PARAMETERS})
