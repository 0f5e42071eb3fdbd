"""Matrices of kernels: a proposal's covariance, a preconditioner, a mass.

Each is a symmetric positive definite C with a root A, C = A A^T: products with A draw from N(0, C).
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.checks import check_number, given, plain_number
from xpsample.core.devices import current_device
from xpsample.core.errors import HyperparameterError
from xpsample.core.fields import checked
from xpsample.core.hyperparameters import MATRIX, PER_GROUP, VECTOR, ToBeTuned, check_reals
from xpsample.core.registry import backend_of, namespace, to_host


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
    """C = diag(variance), with ``sd`` its root; both (dim,), ``(*groups, 1, dim)``, or numbers for all coordinates."""

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
    """C in full, its inverse, a root A and the inverse of that, each (dim, dim) or (*groups, dim, dim)."""

    matrix: Array
    inverse: Array
    factor: Array
    factor_inverse: Array

    def product(self, v: Array) -> Array:
        return v @ self.matrix

    def solve(self, v: Array) -> Array:
        return v @ self.inverse

    def root(self, u: Array) -> Array:
        return u @ _transposed(self.factor)

    def root_transpose(self, v: Array) -> Array:
        return v @ self.factor

    def whiten(self, v: Array) -> Array:
        return v @ _transposed(self.factor_inverse)


@dataclass(frozen=True, eq=False)
class LowRankCovariance(Covariance):
    """C = S B S with S = diag(sd) and B = I + U (diag(values) - 1) U^T: a diagonal and a few directions.

    In units of the sds C is the identity but for the directions U, whose variances are the values. Its root is S times
    the root of B. Pass it wherever a kernel accepts a matrix, such as ``HMC(mass=...)``, in O(dim rank) numbers.

    Parameters
    ----------
    sd : array, shape (dim,) or (*groups, 1, dim)
        Positive.
    vectors : array, shape (dim, rank) or (*groups, dim, rank)
        U, whose columns are orthogonal and of length 1; a column of zeros is one that is not used.
    values : array, shape (rank,) or (*groups, 1, rank)
        Positive.

    See Also
    --------
    LowRankMetric : Tunes one.

    Examples
    --------
    >>> import numpy as np
    >>> matrix = LowRankCovariance(np.array([1.0, 2.0]), np.array([[0.6], [0.8]]), np.array([101.0]))
    >>> matrix.product(np.eye(2))
    array([[ 37.,  96.],
           [ 96., 260.]])
    """

    sd: Any = field(metadata=VECTOR)
    vectors: Any = field(metadata=PER_GROUP)
    values: Any = field(metadata=PER_GROUP)

    def product(self, v: Array) -> Array:
        return self.sd * self._along(self.sd * v, self.values)

    def solve(self, v: Array) -> Array:
        return self._along(v / self.sd, 1 / self.values) / self.sd

    def root(self, u: Array) -> Array:
        return self.sd * self._along(u, self.values**0.5)

    def root_transpose(self, v: Array) -> Array:
        return self._along(self.sd * v, self.values**0.5)

    def whiten(self, v: Array) -> Array:
        return self._along(v / self.sd, self.values**-0.5)

    def inverse(self) -> "LowRankCovariance":
        """C^{-1}, of the same form."""
        return LowRankCovariance(1 / self.sd, self.vectors, 1 / self.values)

    def of_one_group(self) -> "LowRankCovariance":
        """Without the axes of groups, where there is one."""
        xp, (*groups, dim, rank) = array_namespace(self.vectors), self.vectors.shape
        if any(n != 1 for n in groups):
            return self
        reshaped = xp.reshape(self.sd, (dim,)), xp.reshape(self.vectors, (dim, rank)), xp.reshape(self.values, (rank,))
        return LowRankCovariance(*reshaped)

    def diagonal(self) -> Array:
        """The diagonal of C, of the shape of the sds."""
        xp = array_namespace(self.vectors)
        more = xp.sum((self.values - 1) * self.vectors**2, axis=-1)
        return self.sd**2 * (1 + xp.reshape(more, self.sd.shape))

    def _along(self, v: Array, values: Array) -> Array:
        """(I + U (diag(values) - 1) U^T) v."""
        return v + ((v @ self.vectors) * (values - 1)) @ _transposed(self.vectors)


def _transposed(matrix: Array) -> Array:
    return array_namespace(matrix).matrix_transpose(matrix) if matrix.ndim > 2 else matrix.T


def dense_covariance(root: Array, inverse: bool = False) -> DenseCovariance:
    """C = A A^T from its root A, (dim, dim) or (*groups, dim, dim); with `inverse`, C = (A A^T)^-1."""
    xp = array_namespace(root)
    other = xp.linalg.inv(root)
    if inverse:
        root, other = xp.matrix_transpose(other), xp.matrix_transpose(root)
    matrix = root @ xp.matrix_transpose(root)
    return DenseCovariance(matrix, xp.matrix_transpose(other) @ other, root, other)


def matrix(*, default: Any = None, tune: ToBeTuned | None = None, only_with: str | None = None) -> Any:
    """Declare a positive number, a diagonal (dim,), a matrix (dim, dim) or a `LowRankCovariance`.

    Steps use it as a `Covariance`, ``self.matrix(name)``, which is the identity for None.

    Parameters
    ----------
    default, tune, only_with : optional
        As in `checked`.
    """
    return checked(None, default=default, derive=as_covariance, tune=tune, only_with=only_with, kind=MATRIX)


def as_covariance(name: str, matrix: Any) -> Covariance:
    """A hyperparameter as a `Covariance`; HyperparameterError if it is not positive (definite), or not symmetric.

    None, and a matrix that a warm-up will replace, are the identity. A number is a multiple of the identity, an array
    of one axis a diagonal, of two a matrix; three and more hold a diagonal ``(*groups, 1, dim)`` or a matrix
    ``(*groups, dim, dim)`` for each group of chains.
    """
    if matrix is None or isinstance(matrix, ToBeTuned):
        return IdentityCovariance()
    if plain_number(matrix) is not None:
        variance = check_number(name, matrix, 0)
        return DiagonalCovariance(variance, math.sqrt(variance))
    if isinstance(matrix, LowRankCovariance):
        return _checked_low_rank(name, matrix)
    check_reals(name, matrix, "a positive number, or an array (dim,) or (dim, dim) of the positions' library")
    with current_device(matrix):
        return _of_matrix(name, matrix)


def _of_matrix(name: str, matrix: Any) -> Covariance:
    xp = namespace(matrix)
    if not xp.isdtype(matrix.dtype, "real floating"):
        raise HyperparameterError(f"{name} must be a real floating array; got {given(matrix)}")
    if matrix.ndim == 1 or (matrix.ndim > 2 and matrix.shape[-2] == 1):
        host = to_host(matrix)
        if not np.all((host > 0) & np.isfinite(host)):
            raise HyperparameterError(f"{name} must be positive and finite; got {host}")
        return DiagonalCovariance(matrix, backend_of(matrix).from_host(np.sqrt(host), matrix))
    if matrix.ndim < 2 or matrix.shape[-2] != matrix.shape[-1]:
        raise HyperparameterError(
            f"{name} is a positive number or has shape (dim,) or (dim, dim); got {tuple(matrix.shape)}"
        )
    if 0 in matrix.shape:
        raise HyperparameterError(f"{name} is empty; got {given(matrix)}")
    asymmetry = float(xp.max(xp.abs(matrix - xp.matrix_transpose(matrix))))
    if not asymmetry <= 1e-5 * float(xp.max(xp.abs(matrix))):
        raise HyperparameterError(f"{name} must be symmetric; largest difference {asymmetry:.2g}")
    try:
        lower = xp.linalg.cholesky(matrix)
        definite = bool(xp.all(xp.isfinite(lower)))
    except (AttributeError, TypeError):  # the library has no cholesky, or not for its own arrays
        raise
    except Exception:  # each library has its own exception for this, and one gives nan instead
        definite = False
    if not definite:
        raise HyperparameterError(f"{name} must be positive definite; got {to_host(matrix)}")
    return replace(dense_covariance(lower), matrix=matrix)


def _checked_low_rank(name: str, given_matrix: LowRankCovariance) -> LowRankCovariance:
    sd, vectors, values = given_matrix.sd, given_matrix.vectors, given_matrix.values
    for own, array in {"sd": sd, "vectors": vectors, "values": values}.items():
        check_reals(f"{name}.{own}", array, "an array of the positions' library")
    rows = vectors.shape[-1:] if len(vectors.shape) == 2 else (1, *vectors.shape[-1:])
    groups, dims = vectors.shape[:-2], vectors.shape[-2:-1] if len(vectors.shape) == 2 else (1, *vectors.shape[-2:-1])
    if len(vectors.shape) < 2 or sd.shape != (*groups, *dims) or values.shape != (*groups, *rows):
        shapes = tuple(sd.shape), tuple(vectors.shape), tuple(values.shape)
        raise HyperparameterError(
            f"{name} has sd (dim,), vectors (dim, rank) and values (rank,); got {', '.join(map(str, shapes))}"
        )
    with current_device(vectors):
        for own, array in {"sd": sd, "values": values}.items():
            host = to_host(array)
            if not np.all((host > 0) & np.isfinite(host)):
                raise HyperparameterError(f"{name}.{own} must be positive and finite; got {host}")
        host = np.asarray(to_host(vectors), np.float64)
        products = np.swapaxes(host, -1, -2) @ host
        used = np.diagonal(products, axis1=-2, axis2=-1) > 0
        # C and its inverse are written for such columns: with others a kernel would be wrong and silent.
        wrong = np.max(np.abs(products - used[..., None] * np.eye(host.shape[-1])), initial=0.0)
        if not wrong <= 100 * float(np.finfo(to_host(vectors).dtype).eps):
            raise HyperparameterError(
                f"{name}.vectors must have orthogonal columns of length 1, or of zeros; their products are off by "
                f"{wrong:.2g}"
            )
    return given_matrix
