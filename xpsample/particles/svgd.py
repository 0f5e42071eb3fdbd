"""Stein variational gradient descent and its stochastic form: sets of particles that repel one another.

Sources: Liu & Wang, "Stein variational gradient descent" (2016), Algorithm 1; Gallego & Rios Insua, "Stochastic
gradient MCMC with repulsive forces" (2018).
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from array_api_compat import device as device_of

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError, PositionError
from xpsample.core.fields import FrozenDataclass, checked, instance, number, parameter
from xpsample.core.hyperparameters import per_coordinate, sqrt
from xpsample.core.registry import to_host
from xpsample.core.specs import Specs
from xpsample.diagnostics.findings import Finding
from xpsample.diagnostics.temperatures import judge_particles
from xpsample.kernels.kernel import Info, Kernel, freeze, none_frozen, normal_like
from xpsample.kernels.traits import Trait
from xpsample.metrics.stein import (
    RBF,
    Bandwidth,
    PairKernel,
    check_kernel,
    common_bandwidth,
    squared_distances,
    stein_force,
)
from xpsample.targets.bound import BoundTarget, counter
from xpsample.targets.point import Capability, Point

OF_A_SET = Trait.MOVABLE | Trait.EXACT | Trait.TAKES_ESTIMATES
"""Traits of particles that move by one another: none is a chain that samples the target."""


class AdaGrad(FrozenDataclass, eq=True):
    """Divides each coordinate's step by the root of a running mean of its squared forces, as SVGD codes commonly do.

    Parameters
    ----------
    decay : float
        Decay of the running mean, in [0, 1). The mean starts at the first square.
    offset : float
        Positive, added to the root, in one over the units of x.

    See Also
    --------
    SVGD : Takes it as a step size.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.SVGD(0.1, adagrad=xps.AdaGrad()), x0, 10, seed=1)
    >>> trace.draws.shape
    (10, 4, 2)
    """

    decay: float = number(default=0.9, ge=0, lt=1)
    offset: float = number(default=1e-06, gt=0)


class SVGDState(NamedTuple):
    """The particles, and which of them left the finite numbers and are ``frozen``, (*sets, particles).

    With `AdaGrad` also the running mean of squared forces, (*sets, particles, dim), and the number of steps made (0-d).
    """

    point: Point
    frozen: Array
    squares: Array | None = None
    n: Array | None = None

    def findings(self) -> list[Finding]:
        """Check if the particles have diverged."""
        return judge_particles(to_host(self.point.x), to_host(self.point.score))


class SVGD(Kernel[SVGDState, Info]):
    """``x_i + eta g(x_i)``, with g Stein's force from all particles of the set; consumes no randomness.

    Positions are (*sets, particles, dim). The particles of a set are not independent chains. Few particles
    underestimate variances, the more the higher the dimension.

    Parameters
    ----------
    step_size : float or array
        eta, in units of x squared (with `AdaGrad` in units of x); broadcasts against (*sets, particles).
    kernel : PairKernel
        K and its bandwidth.
    adagrad : AdaGrad, optional
        Scales the steps; plain steps when not given.

    See Also
    --------
    StochasticSVGD : With noise, so that the particles are draws.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(50, 2)) + 3  # one set of 50 particles
    >>> trace = xps.sample(target, xps.SVGD(0.5), x0, 1, burn_in=499, seed=1)
    >>> bool(np.all(abs(trace.draws[-1].mean(axis=0)) < 0.1))
    True
    """

    step_size: Any = parameter(default=None, gt=0)
    kernel: PairKernel = checked(check_kernel, default=RBF())
    adagrad: AdaGrad | None = instance(AdaGrad, "AdaGrad()", default=None)

    requires: ClassVar[Capability] = Capability.SCORE | Capability.REAL
    traits = OF_A_SET

    def __check_init__(self) -> None:
        if self.step_size is None:
            raise HyperparameterError(
                "SVGD needs a step_size: it accepts every move, so no warm-up can tune it. With adagrad=AdaGrad(), "
                "start with 0.01 times the target's width."
            )

    def init(self, target: BoundTarget, x: Array) -> SVGDState:
        _check_set("SVGD", x)
        frozen = none_frozen(target.xp, x)
        if self.adagrad is None:
            return SVGDState(target.evaluate(x), frozen)
        return SVGDState(target.evaluate(x), frozen, target.xp.zeros_like(x), counter(target, x))

    def noise(self, x: Array) -> Specs:
        return {}

    def step(self, target: BoundTarget, state: SVGDState, noise: dict[str, Array]) -> tuple[SVGDState, Info]:
        xp = target.xp
        current = state.point
        force = _force(xp, self.kernel, current)
        squares, n = state.squares, state.n
        if self.adagrad is not None and n is not None:
            decay = xp.where(n == 0, xp.zeros_like(force), self.adagrad.decay)
            squares, n = decay * squares + (1 - decay) * force * force, n + 1
            force = force / (self.adagrad.offset + xp.sqrt(squares))
        new = target.evaluate(current.x + per_coordinate(self.step_size) * force)
        point, frozen, info = freeze(xp, new, current, state.frozen, target.costs.evaluate)
        return SVGDState(point, frozen, squares, n), info


class StochasticSVGD(Kernel[SVGDState, Info]):
    """SVGD's drift, with noise of covariance 2 eta K(x_i, x_j) / particles: Langevin dynamics of a whole set.

    With a fixed bandwidth and any number of particles, the limit of small steps leaves the product of the targets
    invariant. A step takes a Cholesky factor of K for every set.

    Parameters
    ----------
    step_size : float or array
        eta, in units of x squared, the same for all particles of a set; broadcasts against (*sets, particles).
    kernel : PairKernel
        K and its bandwidth, which must be the same for all points of a set.

    See Also
    --------
    SVGD : Without noise.

    Notes
    -----
    ``particles**2`` machine epsilons are added to the diagonal of K, which rounding may leave indefinite.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.StochasticSVGD(0.1), x0, 10, seed=1)
    >>> trace.draws.shape
    (10, 4, 2)
    """

    step_size: Any = parameter(default=None, gt=0)
    kernel: PairKernel = checked(check_kernel, default=RBF())

    requires: ClassVar[Capability] = Capability.SCORE | Capability.REAL
    traits = OF_A_SET

    def __check_init__(self) -> None:
        if self.step_size is None:
            raise HyperparameterError(
                "StochasticSVGD needs a step_size: it accepts every move, so no warm-up measures its bias. Start with "
                "ULA's: sample(target, ULA(), ...).kernel.step_size"
            )
        if isinstance(self.kernel.bandwidth, Bandwidth) and self.kernel.bandwidth.local:
            raise HyperparameterError("K must be symmetric. Use Median() or a number for its bandwidth.")

    def init(self, target: BoundTarget, x: Array) -> SVGDState:
        _check_set("StochasticSVGD", x)
        return SVGDState(target.evaluate(x), none_frozen(target.xp, x))

    def noise(self, x: Array) -> Specs:
        return {"proposal": normal_like(x)}

    def step(self, target: BoundTarget, state: SVGDState, noise: dict[str, Array]) -> tuple[SVGDState, Info]:
        xp = target.xp
        current = state.point
        m, eta = current.x.shape[-2], per_coordinate(self.step_size)
        spread = xp.linalg.cholesky(_kernel_matrix(xp, self.kernel, current.x)) @ noise["proposal"]
        move = eta * _force(xp, self.kernel, current) + sqrt(xp, 2 * eta / m) * spread
        new = target.evaluate(current.x + move)
        point, frozen, info = freeze(xp, new, current, state.frozen, target.costs.evaluate)
        return SVGDState(point, frozen), info


def _force(xp: Any, kernel: PairKernel, point: Point) -> Array:
    return stein_force(xp, kernel, point.x, point.x[..., None, :, :], point.score[..., None, :, :])


def _kernel_matrix(xp: Any, kernel: PairKernel, x: Array) -> Array:
    """K(x_i, x_j), (*sets, particles, particles), with a diagonal that makes it positive definite."""
    squared = squared_distances(xp, x, x)
    sigma = common_bandwidth(xp, kernel, x[..., None, :, :])
    assert sigma is not None  # `StochasticSVGD` refuses bandwidths that depend on the point
    if hasattr(sigma, "ndim"):
        sigma = xp.where(sigma > 0, sigma, 1.0)[..., None]
    m = x.shape[-2]
    jitter = m**2 * float(xp.finfo(x.dtype).eps)
    return kernel.profile(xp, squared / sigma)[0] + jitter * xp.eye(m, dtype=x.dtype, device=device_of(x))


def _check_set(name: str, x: Array) -> None:
    if x.ndim < 2:
        raise HyperparameterError(f"{name} moves sets of particles, (*sets, particles, dim); got {tuple(x.shape)}")
    sets = to_host(x).reshape(-1, *x.shape[-2:])
    apart = [len(np.unique(one, axis=0)) for one in sets]
    if min(apart) < x.shape[-2]:
        raise PositionError(
            f"{name} starts with {x.shape[-2]} particles at {min(apart)} positions; equal particles would stay equal. "
            "Start from distinct positions, such as start(target, like, chains)."
        )
