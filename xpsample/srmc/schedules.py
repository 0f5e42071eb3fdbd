"""Step sizes of SRMC's history."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from xpsample.core.arrays import Array, is_array
from xpsample.core.errors import HyperparameterError
from xpsample.core.fields import FrozenDataclass, checked, instance, number, parameter
from xpsample.core.hyperparameters import check_range
from xpsample.core.tree import Tree
from xpsample.srmc.stability import Autocorrelation, stability_bound
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Point


class Schedule(ABC):
    """The step sizes gamma_n of the history, n = 1, 2, ...

    Attributes
    ----------
    hvps : int
        Hessian-vector products of the target that one `gamma` spends.
    """

    @property
    @abstractmethod
    def hvps(self) -> int:
        """A class attribute of schedules that always spend the same."""

    @abstractmethod
    def init(self, target: BoundTarget, x: Array) -> Tree:
        """The memory at the start positions x, (*chains, dim): a tree of arrays, or None."""

    @abstractmethod
    def gamma(
        self, target: BoundTarget, n: Array, alpha: Array, point: Point, memory: Tree
    ) -> tuple[float | Array, Tree]:
        """(gamma_n, new memory): gamma_n is a number, or an array that broadcasts against the chain axes.

        Parameters
        ----------
        target : BoundTarget
            Without the tilt.
        n : array, 0-d
            The step, from 1, in the positions' dtype.
        alpha : array, shape (*chains)
            The repellence strength in force.
        point : Point
            X_n under `target`.
        memory : tree of arrays
            The schedule's, from the step before.
        """


class PowerLaw(Schedule, FrozenDataclass):
    """gamma_n = min(1, scale (n + offset)^(-rho)), Eq. 1. Above 1 the history would be no average.

    Parameters
    ----------
    rho : float or array
        Decay in (1/2, 1]; an array broadcasts against the chain axes.
    scale, offset : float
        The paper takes 1 and 1.

    See Also
    --------
    SRMC : Takes it as a schedule.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> schedule = xps.PowerLaw(rho=0.6, scale=1.0, offset=100.0)  # remembers less of the past than the mean does
    >>> kernel = xps.SRMC(xps.MALA(), alpha=0.5, schedule=schedule)
    """

    rho: float | Array = parameter(default=1.0, gt=0.5, le=1)
    scale: float = number(default=1.0, gt=0)
    offset: float = number(default=1.0, ge=0)

    hvps = 0

    def init(self, target: BoundTarget, x: Array) -> Tree:
        return None

    def gamma(
        self, target: BoundTarget, n: Array, alpha: Array, point: Point, memory: Tree
    ) -> tuple[float | Array, Tree]:
        gamma = self.scale * (n + self.offset) ** (-self.rho)
        return target.xp.where(gamma < 1, gamma, 1.0), None


class Frozen(Schedule, FrozenDataclass, eq=True):
    """gamma = 0: the history does not change, so the kernel samples a fixed tilted target. For checks."""

    hvps = 0

    def init(self, target: BoundTarget, x: Array) -> Tree:
        return None

    def gamma(
        self, target: BoundTarget, n: Array, alpha: Array, point: Point, memory: Tree
    ) -> tuple[float | Array, Tree]:
        return 0.0, None


class Curvature(NamedTuple):
    """The vector (*chains, dim) of a power iteration, and the largest curvature found so far, (*chains)."""

    direction: Array
    largest: Array


class StableMemory(NamedTuple):
    """The inner schedule's memory, and the curvature, or None if the eigenvalues are given."""

    inner: Tree
    curvature: Curvature | None


def _check_eigenvalues(name: str, value: Any) -> Any:
    eigenvalues = check_range(name, value, 0, closed=True)
    if is_array(eigenvalues) and eigenvalues.ndim != 1:
        raise HyperparameterError(f"{name} have shape (k,), the same for all chains; got {tuple(eigenvalues.shape)}")
    return eigenvalues


class Stable(Schedule, FrozenDataclass):
    """gamma_n = min(schedule's gamma_n, kappa * bound): the first, large steps are cut if they would be unstable.

    The bound is the smallest `stability_bound` over the eigenvalues, for every chain and for the alpha in force. It
    does not depend on n, so from some n on the steps, and the theory, equal the inner schedule's.

    Parameters
    ----------
    autocorrelation : Autocorrelation
        For the base kernel: ``autocorrelation(base)``, or `LangevinAutocorrelation`, `LeapfrogAutocorrelation`,
        `Constant`.
    eigenvalues : array of shape (k,), float, or None
        Eigenvalues of the target's precision, at least 0. An array is the spectrum; `spectrum` computes it from draws
        of a pilot run. A number is an upper bound of all eigenvalues. With None each chain keeps its own upper bound,
        the largest absolute curvature found by power iteration, at one Hessian-vector product a step.
    schedule : Schedule
        What is capped.
    kappa : float
        Share of the bound, in (0, 1].

    Notes
    -----
    For `LeapfrogAutocorrelation` and an upper bound past its first resonance (L phi above pi) gamma is 0, the only
    value that is stable for all eigenvalues below the bound: nothing repels. Set the spectrum, or shorten the
    trajectories.
    """

    autocorrelation: Autocorrelation = instance(Autocorrelation, "autocorrelation(MALA(0.1))")
    eigenvalues: float | Array | None = checked(_check_eigenvalues, default=None)
    schedule: Schedule = instance(Schedule, "PowerLaw()", default=PowerLaw())
    kappa: float = number(default=0.5, gt=0, le=1)

    @property
    def hvps(self) -> int:
        return self.schedule.hvps + (1 if self.eigenvalues is None else 0)

    def init(self, target: BoundTarget, x: Array) -> StableMemory:
        inner = self.schedule.init(target, x)
        if self.eigenvalues is not None:
            return StableMemory(inner, None)
        xp, at = target.xp, target.as_floating(x)
        # A fixed start without symmetry: a symmetric one may be orthogonal to eigenvectors.
        irregular = xp.cos(xp.cumulative_sum(xp.cumulative_sum(xp.ones_like(at), axis=-1), axis=-1))
        curvature = Curvature(irregular, xp.zeros_like(at[..., 0]))
        for _ in range(20):
            curvature = _follow(target, x, curvature)
        return StableMemory(inner, curvature)

    def gamma(
        self, target: BoundTarget, n: Array, alpha: Array, point: Point, memory: StableMemory
    ) -> tuple[Array, StableMemory]:
        xp, curvature = target.xp, memory.curvature
        wanted, inner = self.schedule.gamma(target, n, alpha, point, memory.inner)
        if is_array(self.eigenvalues):
            eigenvalues = self.eigenvalues
            c = self.autocorrelation.at(xp, eigenvalues)
        else:
            if curvature is not None:
                curvature = _follow(target, point.x, curvature)
                eigenvalues = curvature.largest[..., None]
            else:
                eigenvalues = xp.zeros_like(alpha)[..., None] + self.eigenvalues
            c = self.autocorrelation.least(xp, eigenvalues)
        cap = self.kappa * xp.min(stability_bound(xp, alpha[..., None], eigenvalues, c), axis=-1)
        return xp.minimum(xp.zeros_like(cap) + wanted, cap), StableMemory(inner, curvature)


def _follow(target: BoundTarget, x: Array, curvature: Curvature) -> Curvature:
    """One power iteration with the Hessian at x. A product that is 0 or not finite changes nothing."""
    xp = target.xp
    product = target.hvp(x, curvature.direction)
    size = xp.sqrt(xp.sum(product * product, axis=-1))
    start = xp.sqrt(xp.sum(curvature.direction * curvature.direction, axis=-1))
    ok = (size > 0) & xp.isfinite(size)
    direction = product / xp.where(ok, size, 1.0)[..., None]
    found = xp.where(ok, size / start, 0.0)
    return Curvature(xp.where(ok[..., None], direction, curvature.direction), xp.maximum(curvature.largest, found))
