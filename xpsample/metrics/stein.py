"""Stein's force on a point from other points: the pair kernels, their bandwidths, and the force itself.

SRLD, SVGD and the kernel discrepancies share them. Sources: Liu & Wang (2016); Ye, Ren & Liu (2020), Eq. 1.
"""

import math
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from array_api_compat import device as device_of
from array_api_compat import numpy as numpy_xp

from xpsample.core.arrays import Array
from xpsample.core.checks import check_instance
from xpsample.core.errors import GradientError, HyperparameterError
from xpsample.core.fields import FrozenDataclass, checked, number
from xpsample.core.hyperparameters import PER_CHAIN, check_range

PAIRS = 1000  # Largest number of pairs for a median distance; its standard error is then 4 % of their spread


CHECKED_AT = (0.3, 1.1, 3.1)  # Values of u at which the derivatives of a `PairKernel` are compared with differences


class Bandwidth(ABC):
    """A rule for the bandwidth sigma, in units of x squared, from the points that repel.

    Attributes
    ----------
    local : bool
        Whether it depends on where the repelled point is.
    """

    local: ClassVar[bool]

    @abstractmethod
    def at(self, xp: Any, squared: Array | None, points: Array) -> Array:
        """sigma, (*chains).

        Parameters
        ----------
        squared : array, shape (*chains, M), or None
            Squared distances of the repelled point from the points; None unless `local`.
        points : array, shape (*chains, M, dim)
        """


class Median(Bandwidth, FrozenDataclass, eq=True):
    """med^2 / log M, with med the median of the pairwise distances of the M points (App. A); M is at least 2.

    From 46 points on, med is the median of `PAIRS` pairs, the same ones at every step, drawn once and for all: sorting
    all M (M - 1) / 2 would dominate a step's time. If most pairs coincide, med is 0 and nothing repels.
    """

    local = False

    def at(self, xp: Any, squared: Array | None, points: Array) -> Array:
        m = points.shape[-2]
        _check_count(m)
        first, second = (xp.asarray(ends, device=device_of(points)) for ends in _pairs(m))
        apart = xp.take(points, first, axis=-2) - xp.take(points, second, axis=-2)
        return self.of_pairs(xp, xp.sum(apart * apart, axis=-1), m)

    def of_pairs(self, xp: Any, squared: Array, m: int) -> Array:
        """sigma, (*chains), from the squared distances of pairs of m points, (*chains, pairs)."""
        return middle(xp.sqrt(xp.sort(squared, axis=-1))) ** 2 / math.log(m)


class MedianFromPoint(Bandwidth, FrozenDataclass, eq=True):
    """med / log M, with med the median of the squared distances from the point to the M points; M is at least 2.

    The rule of the authors' code, except for an even M: there the code takes the lower of the two middle distances,
    and this rule their mean. Costs a sort of M numbers each time the force is evaluated.
    """

    local = True

    def at(self, xp: Any, squared: Array | None, points: Array) -> Array:
        _check_count(points.shape[-2])
        return middle(xp.sort(squared, axis=-1)) / math.log(points.shape[-2])


class PairKernel(ABC):
    """A positive definite function ``K(a, b) = f(|a - b|^2 / sigma)``.

    Attributes
    ----------
    bandwidth : float, array or Bandwidth
        sigma, in units of x squared; an array broadcasts against the chain axes.
    checked : bool
        Whether the derivatives of `profile` are compared with differences; class attribute, True.
    """

    checked: ClassVar[bool] = True

    if TYPE_CHECKING:  # subclasses have it as a field

        @property
        def bandwidth(self) -> float | Array | Bandwidth: ...

    @abstractmethod
    def profile(self, xp: Any, u: Array) -> tuple[Array, Array, Array]:
        """f(u) and its first two derivatives, each of the shape of u."""


def check_kernel(name: str, value: Any, example: str = "RBF()") -> PairKernel:
    """Check the type, and compare the derivatives of `profile` with central differences on NumPy, to 1 %.

    A profile that does not accept NumPy arrays is not compared.

    Raises
    ------
    HyperparameterError
        If the value is no `PairKernel`.
    GradientError
        If a derivative disagrees with the function.
    """
    kernel: PairKernel = value
    check_instance(name, kernel, PairKernel, example)
    for u in CHECKED_AT if kernel.checked else ():
        h = 3e-4 * u  # exp(-u^4) passes in float64, and RBF where numbers are rounded to float32
        try:
            at, above, below = (kernel.profile(numpy_xp, np.asarray([v])) for v in (u, u + h, u - h))
        except (AttributeError, TypeError):
            break
        for order in (1, 2):
            stated = float(np.asarray(at[order]).flat[0])
            slope = float(np.asarray((above[order - 1] - below[order - 1]) / (2 * h)).flat[0])
            if abs(stated - slope) > 0.01 * (abs(stated) + abs(slope)):
                raise GradientError(
                    f"derivative {order} of {type(kernel).__name__}.profile is {stated:.3g} at u = {u}, but by the "
                    f"difference {slope:.3g}: return f, f' and f'' at u"
                )
    return kernel


def _check_bandwidth(name: str, value: float | Array | Bandwidth) -> Any:
    return value if isinstance(value, Bandwidth) else check_range(name, value, 0)


class RBF(PairKernel, FrozenDataclass):
    """``K(a, b) = exp(-|a - b|^2 / sigma)``.

    Parameters
    ----------
    bandwidth : float, array or Bandwidth
        sigma, positive, in units of x squared (no factor of 2); an array broadcasts against the chain axes.

    See Also
    --------
    InverseMultiquadric : With heavier tails.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.SVGD(0.5, kernel=xps.RBF(1.0)), x0, 10, seed=1)
    >>> trace.draws.shape
    (10, 4, 2)
    """

    bandwidth: float | Array | Bandwidth = checked(_check_bandwidth, default=Median(), kind=PER_CHAIN)

    def profile(self, xp: Any, u: Array) -> tuple[Array, Array, Array]:
        f = xp.exp(-u)
        return f, -f, f


class InverseMultiquadric(PairKernel, FrozenDataclass):
    """``K(a, b) = (1 + |a - b|^2 / sigma)^power``.

    Parameters
    ----------
    bandwidth : float, array or Bandwidth
        sigma, positive, in units of x squared; an array broadcasts against the chain axes.
    power : float
        In (-1, 0): there the kernel Stein discrepancy detects non-convergence (Gorham & Mackey 2017).

    See Also
    --------
    RBF : With lighter tails.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.SVGD(0.5, kernel=xps.InverseMultiquadric(1.0)), x0, 10, seed=1)
    >>> trace.draws.shape
    (10, 4, 2)
    """

    bandwidth: float | Array | Bandwidth = checked(_check_bandwidth, default=Median(), kind=PER_CHAIN)
    power: float = number(default=-0.5, gt=-1, lt=0)

    def profile(self, xp: Any, u: Array) -> tuple[Array, Array, Array]:
        p, base = self.power, 1.0 + u
        f = base**p
        return f, p * f / base, p * (p - 1) * f / base**2


def stein_force(xp: Any, kernel: PairKernel, x: Array, points: Array, scores: Array, sigma: Any = None) -> Array:
    """``g(x) = mean_j [K(a_j, x) s(a_j) + grad_{a_j} K(a_j, x)]`` over the points a_j (Eqs. 1 and 3 of SRLD).

    Parameters
    ----------
    x : array, shape (*chains, dim)
    points, scores : array, shape (*chains, M, dim)
        The a_j and the target's scores there; chain axes broadcast.
    sigma : float or array, optional
        The kernel's bandwidth, if `common_bandwidth` has given it.

    Returns
    -------
    array, shape (*chains, dim)
        In one over the units of x; 0 where the bandwidth is 0.
    """
    apart = x[..., None, :] - points
    squared = xp.sum(apart * apart, axis=-1)
    if sigma is None:
        rule = kernel.bandwidth
        sigma = rule.at(xp, squared, points) if isinstance(rule, Bandwidth) else rule
    if not hasattr(sigma, "ndim"):
        return _force(xp, kernel, apart, squared, scores, sigma)
    repels = sigma[..., None] > 0
    safe = xp.where(repels, sigma[..., None], 1.0)
    return xp.where(repels, _force(xp, kernel, apart, squared, scores, safe), 0.0)


def _force(xp: Any, kernel: PairKernel, apart: Array, squared: Array, scores: Array, sigma: float | Array) -> Array:
    f, slope, _ = kernel.profile(xp, squared / sigma)
    return xp.mean(f[..., None] * scores - ((2.0 / sigma) * slope)[..., None] * apart, axis=-2)


def common_bandwidth(xp: Any, kernel: PairKernel, points: Array) -> float | Array | None:
    """Return sigma, a number or (*chains), if it depends on the points (*chains, M, dim) alone, otherwise None."""
    rule = kernel.bandwidth
    if not isinstance(rule, Bandwidth):
        return rule
    return None if rule.local else rule.at(xp, None, points)


def squared_distances(xp: Any, a: Array, b: Array) -> Array:
    """|a_i - b_j|^2, (..., n, m), of points (..., n, dim) and (..., m, dim); takes memory n m, not n m dim."""
    centre = xp.mean(b, axis=-2, keepdims=True)  # rounding errors grow with the distances from the origin
    a, b = a - centre, b - centre
    lengths = xp.sum(a * a, axis=-1)[..., :, None] + xp.sum(b * b, axis=-1)[..., None, :]
    squared = lengths - 2.0 * (a @ xp.matrix_transpose(b))
    return xp.where(squared > 0.0, squared, 0.0)


def middle(ordered: Array) -> Array:
    """The median along the last axis, which is sorted."""
    n = ordered.shape[-1]
    return 0.5 * (ordered[..., (n - 1) // 2] + ordered[..., n // 2])


@lru_cache
def _pairs(m: int) -> tuple[np.ndarray, np.ndarray]:
    """Two ends of each pair of m points, int32; of `PAIRS` pairs where there are more."""
    if m * (m - 1) // 2 <= PAIRS:
        first, second = np.triu_indices(m, 1)
    else:
        rng = np.random.default_rng(m)
        first = rng.integers(0, m, PAIRS)
        second = (first + rng.integers(1, m, PAIRS)) % m
    return first.astype(np.int32), second.astype(np.int32)


def _check_count(m: int) -> None:
    if m < 2:
        raise HyperparameterError("a median bandwidth needs at least 2 points. Set a number, or a larger M.")
