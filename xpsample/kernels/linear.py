"""Linear maps A with A A^T = C: how a covariance, preconditioner or mass enters a kernel.

Kernels work in whitened coordinates: a displacement is ``A u`` and a whitened score is ``A^T s``, so no kernel needs an
inverse of its own.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace

from xpsample.backend import Array, to_host
from xpsample.errors import HyperparameterError


class LinearMap(ABC):
    """A square matrix A acting on the last axis."""

    @abstractmethod
    def apply(self, u: Array) -> Array:
        """A u."""

    @abstractmethod
    def transpose(self, s: Array) -> Array:
        """A^T s."""

    @abstractmethod
    def solve(self, v: Array) -> Array:
        """A^{-1} v."""


@dataclass(frozen=True)
class Identity(LinearMap):
    """A = I."""

    def apply(self, u: Array) -> Array:
        return u

    def transpose(self, s: Array) -> Array:
        return s

    def solve(self, v: Array) -> Array:
        return v


@dataclass(frozen=True, eq=False)
class Diagonal(LinearMap):
    """A = diag(scale), scale of shape (dim,)."""

    scale: Array

    def apply(self, u: Array) -> Array:
        return self.scale * u

    def transpose(self, s: Array) -> Array:
        return self.scale * s

    def solve(self, v: Array) -> Array:
        return v / self.scale


@dataclass(frozen=True, eq=False)
class Dense(LinearMap):
    """A full matrix and its inverse, each (dim, dim)."""

    matrix: Array
    inverse: Array

    def apply(self, u: Array) -> Array:
        return u @ self.matrix.T

    def transpose(self, s: Array) -> Array:
        return s @ self.matrix

    def solve(self, v: Array) -> Array:
        return v @ self.inverse.T


def factor(name: str, covariance: Any, inverse: bool = False) -> LinearMap:
    """The map A of a covariance C = A A^T, given C or (with `inverse`) given C^{-1}, such as a mass.

    Parameters
    ----------
    name : str
        The hyper-parameter, for messages.
    covariance : None, array (dim,) or array (dim, dim)
        None is the identity, one axis a diagonal.

    Raises
    ------
    HyperparameterError
        If it is not positive (definite), or not symmetric.
    """
    if covariance is None:
        return Identity()
    xp = array_namespace(covariance)
    if covariance.ndim == 1:
        if not bool(xp.all(covariance > 0)):
            raise HyperparameterError(f"{name} must be positive; got {covariance}")
        return Diagonal(1 / xp.sqrt(covariance) if inverse else xp.sqrt(covariance))
    if covariance.ndim != 2 or covariance.shape[0] != covariance.shape[1]:
        raise HyperparameterError(f"{name} has shape (dim,) or (dim, dim); got {tuple(covariance.shape)}")
    asymmetry = float(xp.max(xp.abs(covariance - covariance.T)))
    if not asymmetry <= 1e-5 * float(xp.max(xp.abs(covariance))):
        raise HyperparameterError(f"{name} must be symmetric; largest difference {asymmetry:.2g}")
    try:
        lower = xp.linalg.cholesky(covariance)
        definite = bool(xp.all(xp.isfinite(lower)))
    except Exception:  # each library has an exception of its own for this, and one gives nan instead
        definite = False
    if not definite:
        raise HyperparameterError(f"{name} must be positive definite; got {to_host(covariance)}")
    upper_inverse = xp.linalg.inv(lower)
    if inverse:
        return Dense(upper_inverse.T, lower.T)
    return Dense(lower, upper_inverse)
