"""Matrices of kernels: a proposal's covariance, a preconditioner, a mass.

Each is a symmetric positive definite C with a root A, C = A A^T: products with A draw from N(0, C).
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.checks import check_number, given, plain_number
from xpsample.core.devices import current_device
from xpsample.core.errors import HyperparameterError
from xpsample.core.hyperparameters import check_reals
from xpsample.core.registry import to_host


class Covariance(ABC):
    """C = A A^T, acting on the last axis of arrays ``(*chains, dim)``."""

    @abstractmethod
    def product(self, v: Array) -> Array:
        """C v."""

    @abstractmethod
    def solve(self, v: Array) -> Array:
        """C^{-1} v."""

    @abstractmethod
    def root(self, u: Array) -> Array:
        """A u: of standard normals u, draws from N(0, C)."""

    @abstractmethod
    def root_transpose(self, v: Array) -> Array:
        """A^T v."""

    @abstractmethod
    def whiten(self, v: Array) -> Array:
        """A^{-1} v: of draws from N(0, C), standard normals."""


@dataclass(frozen=True)
class IdentityCovariance(Covariance):
    """C = I."""

    def product(self, v: Array) -> Array:
        return v

    def solve(self, v: Array) -> Array:
        return v

    def root(self, u: Array) -> Array:
        return u

    def root_transpose(self, v: Array) -> Array:
        return v

    def whiten(self, v: Array) -> Array:
        return v


@dataclass(frozen=True, eq=False)
class DiagonalCovariance(Covariance):
    """C = diag(variance), with ``sd`` its root; both of shape (dim,), or numbers for all coordinates."""

    variance: Any
    sd: Any

    def product(self, v: Array) -> Array:
        return self.variance * v

    def solve(self, v: Array) -> Array:
        return v / self.variance

    def root(self, u: Array) -> Array:
        return self.sd * u

    def root_transpose(self, v: Array) -> Array:
        return self.sd * v

    def whiten(self, v: Array) -> Array:
        return v / self.sd


@dataclass(frozen=True, eq=False)
class DenseCovariance(Covariance):
    """C in full, its inverse, its lower Cholesky factor A and the inverse of that, each (dim, dim)."""

    matrix: Array
    inverse: Array
    lower: Array
    lower_inverse: Array

    def product(self, v: Array) -> Array:
        return v @ self.matrix

    def solve(self, v: Array) -> Array:
        return v @ self.inverse

    def root(self, u: Array) -> Array:
        return u @ self.lower.T

    def root_transpose(self, v: Array) -> Array:
        return v @ self.lower

    def whiten(self, v: Array) -> Array:
        return v @ self.lower_inverse.T


def as_covariance(name: str, matrix: Any) -> Covariance:
    """A hyper-parameter as a `Covariance`.

    Parameters
    ----------
    name : str
        The hyper-parameter, for messages.
    matrix : None, float, array (dim,) or array (dim, dim)
        None is the identity, a number a multiple of it, one axis a diagonal.

    Raises
    ------
    HyperparameterError
        If it is not positive (definite), or not symmetric.
    """
    if matrix is None:
        return IdentityCovariance()
    if plain_number(matrix) is not None:
        variance = check_number(name, matrix, 0)
        return DiagonalCovariance(variance, math.sqrt(variance))
    check_reals(name, matrix, "a positive number, or an array (dim,) or (dim, dim) of the positions' library")
    with current_device(matrix):
        return _of_matrix(name, matrix)


def _of_matrix(name: str, matrix: Any) -> Covariance:
    xp = array_namespace(matrix)
    if not xp.isdtype(matrix.dtype, "real floating"):
        raise HyperparameterError(f"{name} must be a real floating array; got {given(matrix)}")
    if matrix.ndim == 1:
        if not bool(xp.all((matrix > 0) & xp.isfinite(matrix))):
            raise HyperparameterError(f"{name} must be positive and finite; got {to_host(matrix)}")
        return DiagonalCovariance(matrix, xp.sqrt(matrix))
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise HyperparameterError(
            f"{name} is a positive number or has shape (dim,) or (dim, dim); got {tuple(matrix.shape)}"
        )
    if 0 in matrix.shape:
        raise HyperparameterError(f"{name} is empty; got {given(matrix)}")
    asymmetry = float(xp.max(xp.abs(matrix - matrix.T)))
    if not asymmetry <= 1e-5 * float(xp.max(xp.abs(matrix))):
        raise HyperparameterError(f"{name} must be symmetric; largest difference {asymmetry:.2g}")
    try:
        lower = xp.linalg.cholesky(matrix)
        definite = bool(xp.all(xp.isfinite(lower)))
    except Exception:  # each library has an exception of its own for this, and one gives nan instead
        definite = False
    if not definite:
        raise HyperparameterError(f"{name} must be positive definite; got {to_host(matrix)}")
    lower_inverse = xp.linalg.inv(lower)
    return DenseCovariance(matrix, lower_inverse.T @ lower_inverse, lower, lower_inverse)
