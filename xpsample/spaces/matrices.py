"""Cholesky factors of correlation and covariance matrices: lower triangular matrices with a positive diagonal.

A density is about the factor L, and the matrix is ``L @ L.T``. The factor is what is drawn and what densities need;
log determinants and solves of the matrix come from it at no cost.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpsample.core.arrays import Array
from xpsample.spaces.space import OfShape, minus_size, put, tolerance


@dataclass(frozen=True, init=False, repr=False)
class CorrelationCholesky(OfShape):
    """Cholesky factors of n by n correlation matrices: rows of length 1; n (n - 1) / 2 coordinates.

    Coordinates go row by row below the diagonal. A row is a stick of squares that is broken at the partial correlations
    ``w = tanh(z)``: ``L_ij = w_ij sqrt(left_ij)`` and ``left_{i,j+1} = (1 - w_ij^2) left_ij``; the diagonal entry is
    the root of the remainder. The log Jacobian, for densities in the entries below the diagonal, is the sum of
    ``log(left_ij) / 2 + log(1 - w_ij^2)`` (Lewandowski, Kurowicka and Joe, 2009; torch's ``CorrCholeskyTransform``).

    Parameters
    ----------
    *shape : int
        ``CorrelationCholesky(n)`` is one matrix, ``CorrelationCholesky(m, n)`` are m of them.

    See Also
    --------
    CovarianceCholesky : With scales.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> value, log_jacobian = xps.CorrelationCholesky(2).constrain(np, np.asarray([[0.5]]))
    >>> (value @ np.swapaxes(value, -1, -2)).round(3)  # a correlation matrix
    array([[[1.   , 0.462],
            [0.462, 1.   ]]])
    """

    least = 2
    square = True

    @property
    def axes(self) -> tuple[int, ...]:
        n = self.shape[-1]
        return (*self.shape[:-2], n * (n - 1) // 2)

    def _constrain(self, xp: Any, z: Array) -> tuple[Array, Array]:
        n = self.shape[-1]
        z = xp.concat([z, xp.zeros_like(z[..., :1])], axis=-1)
        z = _place(xp, z, _positions(n, np.arange(z.shape[-1] - 1), empty=z.shape[-1] - 1))
        # log sqrt(1 - tanh(z)^2), which is 0 where there is no coordinate.
        size = minus_size(xp, z)
        log_root = size - xp.log1p(xp.exp(2.0 * size)) + math.log(2.0)
        log_left = xp.cumulative_sum(log_root[..., :-1], axis=-1)
        log_left = xp.concat([xp.zeros_like(log_root[..., :1]), log_left], axis=-1)
        below = put(xp, np.tril(np.ones((n, n)), -1), z)
        value = (xp.tanh(z) + put(xp, np.eye(n), z)) * xp.exp(log_left)
        return value, below * (log_left + 2.0 * log_root)

    def _unconstrain(self, xp: Any, value: Array) -> Array:
        n = self.shape[-1]
        # sinh(z) = w / sqrt(1 - w^2), where 1 - w^2 is the part of the stick that the entries behind have.
        left = xp.flip(xp.cumulative_sum(xp.flip(value * value, axis=-1), axis=-1), axis=-1)
        row, column = np.tril_indices(n, -1)
        entry = _place(xp, _flat(xp, value), row * n + column)
        behind = _place(xp, _flat(xp, left), row * n + column + 1)
        return xp.asinh(entry / xp.sqrt(behind))

    def _inside(self, xp: Any, value: Array) -> Array:
        length = xp.sum(value * value, axis=-1)
        return _is_factor(xp, value) & xp.all(xp.abs(length - 1.0) <= tolerance(xp, value), axis=-1)


@dataclass(frozen=True, init=False, repr=False)
class CovarianceCholesky(OfShape):
    """Cholesky factors of n by n covariance matrices; n (n + 1) / 2 coordinates.

    The entries below the diagonal, row by row, are coordinates themselves; then come the logarithms of the diagonal
    entries, whose sum is the log Jacobian, for densities in the entries on and below the diagonal (NumPyro's
    ``LowerCholeskyTransform``).

    Parameters
    ----------
    *shape : int
        ``CovarianceCholesky(n)`` is one matrix, ``CovarianceCholesky(m, n)`` are m of them.

    See Also
    --------
    CorrelationCholesky : Scales of 1.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> value, log_jacobian = xps.CovarianceCholesky(2).constrain(np, np.asarray([[0.0, 1.0, 0.0]]))
    >>> value.round(3)
    array([[[2.718, 0.   ],
            [0.   , 1.   ]]])
    """

    least = 1
    square = True

    @property
    def axes(self) -> tuple[int, ...]:
        n = self.shape[-1]
        return (*self.shape[:-2], n * (n + 1) // 2)

    def _constrain(self, xp: Any, z: Array) -> tuple[Array, Array]:
        n = self.shape[-1]
        below = z.shape[-1] - n
        entries = xp.concat([z[..., :below], xp.exp(z[..., below:]), xp.zeros_like(z[..., :1])], axis=-1)
        where = _positions(n, np.arange(below), empty=below + n)
        np.fill_diagonal(where, np.arange(below, below + n))
        return _place(xp, entries, where), z[..., below:]

    def _unconstrain(self, xp: Any, value: Array) -> Array:
        n, flat = self.shape[-1], _flat(xp, value)
        row, column = np.tril_indices(n, -1)
        diagonal = _place(xp, flat, np.arange(n) * (n + 1))
        return xp.concat([_place(xp, flat, row * n + column), xp.log(diagonal)], axis=-1)

    def _inside(self, xp: Any, value: Array) -> Array:
        return _is_factor(xp, value)


def _positions(n: int, below: np.ndarray, empty: int) -> np.ndarray:
    """An n by n matrix of positions in a vector: `below` under the diagonal, row by row, otherwise `empty`."""
    where = np.full((n, n), empty)
    where[np.tril_indices(n, -1)] = below
    return where


def _place(xp: Any, entries: Array, where: np.ndarray) -> Array:
    """Entries of vectors ``(..., m)`` by position, ``(..., *where.shape)``."""
    taken = xp.take(entries, put(xp, where.reshape(-1), entries), axis=-1)
    return xp.reshape(taken, (*entries.shape[:-1], *where.shape))


def _flat(xp: Any, matrices: Array) -> Array:
    """Matrices ``(..., n, n)`` as vectors ``(..., n * n)``."""
    return xp.reshape(matrices, (*matrices.shape[:-2], -1))


def _is_factor(xp: Any, value: Array) -> Array:
    """Which matrices are finite, zero above the diagonal and positive on it, ``(..., n, n) -> (...)``."""
    n, flat = value.shape[-1], _flat(xp, value)
    above = put(xp, np.triu(np.ones((n, n)), 1).reshape(-1), value)
    diagonal = _place(xp, flat, np.arange(n) * (n + 1))
    finite = xp.all(xp.isfinite(flat), axis=-1)
    return finite & xp.all((flat == 0.0) | (above == 0.0), axis=-1) & xp.all(diagonal > 0.0, axis=-1)
