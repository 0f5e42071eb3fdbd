"""When SRMC's history stays bounded on a Gaussian.

Along an eigendirection of a Gaussian target with precision eigenvalue lambda, the tilted target is
N(alpha theta, 1 / lambda). A base kernel with lag-one autocorrelation c moves the mean of x towards alpha theta by the
share 1 - c. With s(x) = -lambda x the means of x and theta follow

    x_{n+1}     = c x_n + (1 - c) alpha theta_n
    theta_{n+1} = (1 - gamma) theta_n - gamma lambda x_{n+1}

This 2x2 recursion has trace c + 1 - gamma (1 + alpha lambda (1 - c)) and determinant c (1 - gamma). Of Jury's criterion
for 0 <= gamma <= 1 and |c| < 1, only 1 + trace + determinant > 0 can fail, which is

    gamma < 2 (1 + c) / ((1 + c) + alpha lambda (1 - c)).
"""

import math
from abc import ABC, abstractmethod
from functools import singledispatch
from typing import Any

from array_api_compat import device as device_of

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.core.fields import FrozenDataclass, count, parameter
from xpsample.core.hyperparameters import per_coordinate
from xpsample.kernels import HMC, MALA, PCN, RWM, ULA, IndependentMH, Kernel
from xpsample.kernels.step_sizes import StepSizes
from xpsample.targets.point import Capability
from xpsample.targets.target import AbstractTarget, check_target


def stability_bound(xp: Any, alpha: Array, eigenvalues: Array, autocorrelation: Array) -> Array:
    """The gamma below which the recursion of x and theta contracts along an eigendirection of a Gaussian.

    Parameters
    ----------
    xp : namespace
        The array API namespace of the arrays.
    alpha, eigenvalues, autocorrelation : arrays that broadcast
        Repellence strength, in units of x squared; eigenvalue of the precision, in one over that; the base kernel's
        lag-one autocorrelation along the eigendirection, in [-1, 1].

    Returns
    -------
    array
        In [0, 2]: 0 at autocorrelation -1, where no gamma is stable; 2 where nothing repels.
    """
    stays, moves = 1 + autocorrelation, alpha * eigenvalues * (1 - autocorrelation)
    some = stays + moves > 0
    return xp.where(some, 2 * stays / xp.where(some, stays + moves, 1.0), 2.0)


class Autocorrelation(ABC):
    """A base kernel's lag-one autocorrelation along the eigendirections of a Gaussian target."""

    @abstractmethod
    def at(self, xp: Any, eigenvalues: Array) -> Array:
        """c of each eigenvalue, in [-1, 1]; eigenvalues (k,) or (*chains, k), of the precision."""

    @abstractmethod
    def least(self, xp: Any, largest: Array) -> Array:
        """The smallest c of all eigenvalues in (0, largest]; largest (k,) or (*chains, k)."""


class LangevinAutocorrelation(Autocorrelation, FrozenDataclass):
    """ULA and MALA: c = 1 - eta lambda, which is smallest at the largest eigenvalue.

    Parameters
    ----------
    step_size : float or array
        eta of the kernel; broadcasts against the chain axes.
    """

    step_size: float | Array = parameter(gt=0)

    def at(self, xp: Any, eigenvalues: Array) -> Array:
        return xp.clip(1 - per_coordinate(self.step_size) * eigenvalues, -1.0, 1.0)

    def least(self, xp: Any, largest: Array) -> Array:
        return self.at(xp, largest)


class LeapfrogAutocorrelation(Autocorrelation, FrozenDataclass):
    """HMC: c = cos(L phi) with cos phi = 1 - eta^2 lambda / 2, and -1 where the leapfrog is unstable.

    At L phi = pi, 3 pi, ... the trajectory ends at the mirror image of its start: c = -1 and no gamma is stable.

    Parameters
    ----------
    step_size : float or array
        eta of the kernel; broadcasts against the chain axes.
    steps : int
        L of the kernel.
    """

    step_size: float | Array = parameter(gt=0)
    steps: int = count()

    def at(self, xp: Any, eigenvalues: Array) -> Array:
        cosine, angle = self._turn(xp, eigenvalues)
        return xp.where(cosine < -1, -1.0, xp.cos(angle))

    def least(self, xp: Any, largest: Array) -> Array:
        # cos(L phi) falls until L phi = pi. Beyond it some eigenvalue below the largest is in resonance.
        cosine, angle = self._turn(xp, largest)
        return xp.where((cosine < -1) | (angle >= math.pi), -1.0, xp.cos(angle))

    def _turn(self, xp: Any, eigenvalues: Array) -> tuple[Array, Array]:
        """cos phi, and L phi."""
        cosine = 1 - 0.5 * per_coordinate(self.step_size) ** 2 * eigenvalues
        return cosine, self.steps * xp.acos(xp.clip(cosine, -1.0, 1.0))


class Constant(Autocorrelation, FrozenDataclass):
    """The same c in every direction.

    Parameters
    ----------
    value : float or array
        c, in (-1, 1]; broadcasts against the chain axes. 0 for independent draws.
    """

    value: float | Array = parameter(default=0.0, gt=-1, le=1)

    def at(self, xp: Any, eigenvalues: Array) -> Array:
        return xp.zeros_like(eigenvalues) + per_coordinate(self.value)

    def least(self, xp: Any, largest: Array) -> Array:
        return self.at(xp, largest)


TUNED_FIRST = "tune it in a separate run, and pass Constant(c) with the smallest c to Stable"


@singledispatch
def autocorrelation(kernel: Kernel) -> Autocorrelation:
    """The lag-one autocorrelation of a base kernel on a Gaussian, without rejections, which raise c and the bound.

    For RWM, PCN and IndependentMH the value is 0: they are positive operators, so their autocorrelations are not
    negative.

    Parameters
    ----------
    kernel : ULA, MALA, HMC, RWM, PCN or IndependentMH
        Others register theirs: ``autocorrelation.register(MyKernel)(lambda kernel: ...)``.

    Raises
    ------
    HyperparameterError
        For a kernel with a preconditioner or mass, whose eigendirections differ from the precision's, and for
        kernels that are not registered.
    """
    raise HyperparameterError(
        f"the autocorrelation of {type(kernel).__name__} is unknown. Pass Constant, LangevinAutocorrelation, "
        "LeapfrogAutocorrelation or your own Autocorrelation to Stable."
    )


@autocorrelation.register(ULA)
@autocorrelation.register(MALA)
def _langevin(kernel: ULA | MALA) -> Autocorrelation:
    _refuse(kernel, "preconditioner")
    if kernel.step_size is None:
        raise HyperparameterError(f"the step size of the {type(kernel).__name__} is not set: {TUNED_FIRST}")
    if isinstance(kernel.step_size, StepSizes):
        raise HyperparameterError(
            "the step size has a schedule: pass LangevinAutocorrelation with its largest value to Stable"
        )
    return LangevinAutocorrelation(kernel.step_size)


@autocorrelation.register
def _leapfrog(kernel: HMC) -> Autocorrelation:
    _refuse(kernel, "mass")
    if kernel.step_size is None or kernel.steps is None:
        raise HyperparameterError(
            f"HMC has no step_size or steps, which its autocorrelation depends on: set both, or {TUNED_FIRST}"
        )
    return LeapfrogAutocorrelation(kernel.step_size, kernel.steps)


@autocorrelation.register(RWM)
@autocorrelation.register(PCN)
@autocorrelation.register(IndependentMH)
def _positive(kernel: Kernel) -> Autocorrelation:
    return Constant(0.0)


def _refuse(kernel: Kernel, name: str) -> None:
    if getattr(kernel, name) is not None:
        raise HyperparameterError(
            f"{type(kernel).__name__} has a {name}, which changes its autocorrelation. Pass Constant(c) with the "
            "smallest c, or your own Autocorrelation, to Stable."
        )


def spectrum(target: AbstractTarget, x: Array) -> Array:
    """Eigenvalues of a target's mean precision: minus its Hessian, averaged over positions.

    Averaged over the target it is the covariance of the score. Costs dim Hessian-vector products for each position:
    pass a few dozen draws of a pilot run with the base kernel.

    Parameters
    ----------
    target : AbstractTarget
        Must give Hessian-vector products.
    x : array, shape (*chains, dim)
        Positions to average over.

    Returns
    -------
    array, shape (dim,)
        Ascending. Negative ones, which a log-concave target does not have, are set to 0.

    Raises
    ------
    CapabilityError
        If the target gives no Hessian-vector products.
    """
    bound = check_target("target", target).prepare(x, Capability.SCORE | Capability.HVP)
    xp, dim = bound.xp, x.shape[-1]
    positions = xp.reshape(x, (-1, dim))
    basis = xp.eye(dim, dtype=x.dtype, device=device_of(x))
    columns = [xp.mean(bound.hvp(positions, xp.zeros_like(positions) + basis[i, :]), axis=0) for i in range(dim)]
    hessian = xp.stack(columns)
    return xp.clip(xp.linalg.eigvalsh(-0.5 * (hessian + hessian.T)), 0.0, None)
