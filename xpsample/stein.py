"""Stein's force on a point from other points: the pair kernels, their bandwidths, and the force itself.

Shared by self-repulsive dynamics, SVGD and the kernel metrics. Sources: Liu & Wang (2016); Ye, Ren & Liu (2020), Eq. 1.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from array_api_compat import device as device_of

from xpsample.backend import Array
from xpsample.errors import HyperparameterError
from xpsample.hyperparameters import PER_CHAIN, check_range


class Bandwidth(ABC):
    """A rule for the bandwidth sigma, in units of x squared, from the points that repel."""

    @abstractmethod
    def at(self, xp: Any, squared: Array, points: Array) -> Array:
        """sigma, (*chains), from squared distances to the point (*chains, M) and the points (*chains, M, dim)."""


@dataclass(frozen=True)
class Median(Bandwidth):
    """med^2 / log M, med the median of the pairwise distances of the M points (App. A); at least two points.

    Costs a sort of M^2 numbers. Where med is 0, since more than half of the pairs coincide, nothing repels.
    """

    def at(self, xp: Any, squared: Array, points: Array) -> Array:
        m = points.shape[-2]
        _check_count(m)
        pairs = xp.where(_eye(xp, m, points), 0.0, squared_distances(xp, points, points))
        # The m zeros of the diagonal come first and every pair occurs twice, which leaves the median as it is.
        ordered = xp.sort(xp.reshape(pairs, (*pairs.shape[:-2], m * m)), axis=-1)[..., m:]
        return _middle(xp, xp.sqrt(ordered)) ** 2 / math.log(m)


@dataclass(frozen=True)
class MedianFromPoint(Bandwidth):
    """med / log M, med the median of the squared distances from the point to the M points; at least two points.

    The rule of the authors' code, which takes the lower of the two middle ones where M is even; here their mean. Costs
    a sort of M numbers.
    """

    def at(self, xp: Any, squared: Array, points: Array) -> Array:
        _check_count(squared.shape[-1])
        return _middle(xp, xp.sort(squared, axis=-1)) / math.log(squared.shape[-1])


class PairKernel(ABC):
    """A positive definite function K(a, b) = f(|a - b|^2 / sigma).

    Attributes
    ----------
    bandwidth : float, array or Bandwidth
        sigma, in units of x squared; an array broadcasts against the chain axes.
    """

    bandwidth: Any

    @abstractmethod
    def profile(self, xp: Any, u: Array) -> tuple[Array, Array, Array]:
        """f(u) and its first two derivatives."""


@dataclass(frozen=True, eq=False)
class RBF(PairKernel):
    """K(a, b) = exp(-|a - b|^2 / sigma).

    Parameters
    ----------
    bandwidth : float, array or Bandwidth
        sigma, positive, in units of x squared (no factor of 2); an array broadcasts against the chain axes.
    """

    bandwidth: Any = field(default=Median(), metadata=PER_CHAIN)

    def __post_init__(self) -> None:
        _check_bandwidth(self.bandwidth)

    def profile(self, xp: Any, u: Array) -> tuple[Array, Array, Array]:
        f = xp.exp(-u)
        return f, -f, f


@dataclass(frozen=True, eq=False)
class InverseMultiquadric(PairKernel):
    """K(a, b) = (1 + |a - b|^2 / sigma)^power.

    Parameters
    ----------
    bandwidth : float, array or Bandwidth
        sigma, positive, in units of x squared; an array broadcasts against the chain axes.
    power : float
        In (-1, 0), where the kernel Stein discrepancy detects non-convergence (Gorham & Mackey 2017).
    """

    bandwidth: Any = field(default=Median(), metadata=PER_CHAIN)
    power: float = -0.5

    def __post_init__(self) -> None:
        _check_bandwidth(self.bandwidth)
        if not -1 < self.power < 0:
            raise HyperparameterError(f"power must lie between -1 and 0; got {self.power}")

    def profile(self, xp: Any, u: Array) -> tuple[Array, Array, Array]:
        p, base = self.power, 1.0 + u
        f = base**p
        return f, p * f / base, p * (p - 1) * f / base**2


def stein_force(xp: Any, kernel: PairKernel, x: Array, points: Array, scores: Array) -> Array:
    """g(x) = mean_j [ K(a_j, x) s(a_j) + grad_{a_j} K(a_j, x) ] over the points a_j (Eqs. 1 and 3).

    Parameters
    ----------
    x : array, shape (*chains, dim)
    points, scores : array, shape (*chains, M, dim)
        The a_j and the target's scores there; chain axes broadcast.

    Returns
    -------
    array, shape (*chains, dim)
        In one over the units of x; 0 where a bandwidth rule gives 0.
    """
    apart = x[..., None, :] - points
    squared = xp.sum(apart * apart, axis=-1)
    sigma = bandwidth_at(xp, kernel, squared, points)
    if hasattr(sigma, "ndim"):
        sigma = sigma[..., None]
        repels = sigma > 0
        sigma = xp.where(repels, sigma, 1.0)
    f, slope, _ = kernel.profile(xp, squared / sigma)
    pull = (2.0 / sigma) * slope
    force = xp.mean(f[..., None] * scores - pull[..., None] * apart, axis=-2)
    return xp.where(repels, force, 0.0) if hasattr(sigma, "ndim") else force


def bandwidth_at(xp: Any, kernel: PairKernel, squared: Array, points: Array) -> Any:
    """The kernel's sigma: a number, or an array (*chains)."""
    rule = kernel.bandwidth
    return rule.at(xp, squared, points) if isinstance(rule, Bandwidth) else rule


def squared_distances(xp: Any, a: Array, b: Array) -> Array:
    """|a_i - b_j|^2, (..., n, m), of points (..., n, dim) and (..., m, dim), in memory n m rather than n m dim."""
    centre = xp.mean(b, axis=-2, keepdims=True)  # rounding errors are relative to the distances from it
    a, b = a - centre, b - centre
    lengths = xp.sum(a * a, axis=-1)[..., :, None] + xp.sum(b * b, axis=-1)[..., None, :]
    squared = lengths - 2.0 * (a @ xp.matrix_transpose(b))
    return xp.where(squared > 0.0, squared, 0.0)


def _middle(xp: Any, ordered: Array) -> Array:
    """Median along the last axis, sorted."""
    n = ordered.shape[-1]
    return 0.5 * (ordered[..., (n - 1) // 2] + ordered[..., n // 2])


def _eye(xp: Any, n: int, like: Array) -> Array:
    return xp.eye(n, dtype=like.dtype, device=device_of(like)) > 0


def _check_count(m: int) -> None:
    if m < 2:
        raise HyperparameterError("a median bandwidth needs at least 2 points: give a number, or a larger M")


def _check_bandwidth(value: Any) -> None:
    if not isinstance(value, Bandwidth):
        check_range("bandwidth", value, 0)
