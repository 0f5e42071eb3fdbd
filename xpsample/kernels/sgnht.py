"""Stochastic gradient Nosé-Hoover thermostat (Ding et al. 2014), BADODAB splitting (Leimkuhler & Shang 2016)."""

from typing import Any, ClassVar, NamedTuple

from xpsample.core.arrays import Array
from xpsample.core.fields import parameter
from xpsample.core.hyperparameters import per_coordinate
from xpsample.core.registry import to_host
from xpsample.core.specs import Specs
from xpsample.diagnostics.findings import Finding
from xpsample.diagnostics.temperatures import judge_heat, judge_uneven_heat
from xpsample.kernels.kernel import Info, Kernel, freeze, none_frozen, normal_like, select
from xpsample.kernels.traits import UNADJUSTED, Trait
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability, Point


class SGNHTState(NamedTuple):
    """Positions, momenta (*chains, dim), friction and squared length of the momenta (*chains), and frozen chains."""

    point: Point
    momentum: Array
    friction: Array
    frozen: Array
    heat: Array

    def findings(self) -> list[Finding]:
        """Check the temperature of the momenta, which the friction regulates over all coordinates together."""
        return judge_heat(to_host(self.heat), self.momentum.shape[-1]) or judge_uneven_heat(to_host(self.momentum))


class SGNHT(Kernel[SGNHTState, Info]):
    """Langevin dynamics whose friction adapts until noisy scores no longer heat the momenta; one score a step.

    ``dx = p dt``, ``dp = s(x) dt - xi p dt + sqrt(2 A) dW`` and ``dxi = A^2 (p . p / dim - 1) dt`` by BADODAB. Scores
    with independent noise of variance V per coordinate act like a diffusion of ``step_size V / 2``, and the friction xi
    settles at ``A + step_size V / 2`` without knowing V. If the noise differs between coordinates or positions, the
    bias shrinks with the step size.

    Needs a score only. Chains start at rest with ``xi = A``. In the paper the factor ``A^2`` is 1; with it the friction
    settles in a time of ``xi / A^2``, whatever the unit of time.

    Parameters
    ----------
    step_size : float or array
        Time step, in units of x; stable below 2 / sqrt(lambda) for curvature lambda. Broadcasts against the chain axes.
    friction : float or array
        A, the friction without noise, inverse time; broadcasts against the chain axes.

    See Also
    --------
    UnderdampedLangevin : With a constant friction; in `Minibatch` it is SGHMC.
    Minibatch : Scores from random rows of the data.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> rows = np.random.default_rng(0).normal(2.0, 1.0, size=(1000, 1))
    >>> target = xps.posterior(
    ...     lambda x: -0.5 * np.sum(x**2, axis=-1),
    ...     lambda x, rows: -0.5 * np.sum((rows - x[..., None, :]) ** 2, axis=(-2, -1)),
    ...     rows,
    ...     prior_score=lambda x: -x,
    ...     likelihood_score=lambda x, rows: np.sum(rows - x[..., None, :], axis=-2),
    ... )
    >>> kernel = xps.Minibatch(xps.SGNHT(0.01, friction=10.0), 100)
    >>> trace = xps.sample(target, kernel, np.full((20, 1), 2.0), 2000, seed=1, burn_in=1000)
    >>> bool(0.8 < np.var(trace.draws) * 1001 < 1.25)  # the posterior has variance 1 / 1001
    True
    """

    step_size: Any = parameter(gt=0)
    friction: Any = parameter(default=1.0, gt=0)

    requires: ClassVar[Capability] = Capability.SCORE | Capability.REAL
    traits = UNADJUSTED & ~Trait.DRIFTS  # the friction would undo a force's work

    def init(self, target: BoundTarget, x: Array) -> SGNHTState:
        xp, rest = target.xp, target.xp.zeros_like(x)
        at_rest = xp.sum(rest, axis=-1)
        return SGNHTState(target.evaluate(x), rest, at_rest + self.friction, none_frozen(xp, x), at_rest)

    def noise(self, x: Array) -> Specs:
        return {"momentum": normal_like(x)}

    def step(self, target: BoundTarget, state: SGNHTState, noise: dict[str, Array]) -> tuple[SGNHTState, Info]:
        xp, h, a = target.xp, per_coordinate(self.step_size), per_coordinate(self.friction)
        current, xi, rate = state.point, state.friction[..., None], 0.5 * h * a * a

        p = state.momentum + 0.5 * h * current.score  # B
        x = current.x + 0.5 * h * p  # A
        xi = xi + rate * (xp.mean(p * p, axis=-1, keepdims=True) - 1.0)  # D
        # O: the variance is 2 A times the integral of exp(-2 xi t) from 0 to h, which is h (1 - exp(-u)) / u
        u = 2.0 * h * xi
        small = xp.abs(u) < 1e-4
        divisor = xp.where(small, xp.ones_like(u), u)
        variance = 2.0 * a * h * xp.where(small, 1.0 - 0.5 * u, -xp.expm1(-u) / divisor)
        p = xp.exp(-h * xi) * p + xp.sqrt(variance) * noise["momentum"]
        xi = xi + rate * (xp.mean(p * p, axis=-1, keepdims=True) - 1.0)  # D
        new = target.evaluate(x + 0.5 * h * p)  # A
        p = p + 0.5 * h * new.score  # B

        point, frozen, info = freeze(xp, new, current, state.frozen, target.costs.evaluate)
        p, friction = select(xp, info.moved, (p, xi[..., 0]), (state.momentum, state.friction))
        return SGNHTState(point, p, friction, frozen, xp.sum(p * p, axis=-1)), info
