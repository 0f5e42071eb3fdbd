"""Elliptical slice sampling (Murray, Adams & MacKay 2010)."""

import math
from typing import ClassVar

from xpsample.core.arrays import Array
from xpsample.core.covariance import matrix
from xpsample.core.fields import vector
from xpsample.core.specs import Specs
from xpsample.kernels.kernel import ChainState, Info, MemorylessKernel, normal_like, uniform_per_chain
from xpsample.kernels.shrinking import shrink, tries_per_chain
from xpsample.kernels.traits import REVERSIBLE
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability, Point


class EllipticalSlice(MemorylessKernel[Info]):
    """Elliptical slice sampling: a move on the ellipse through x and a draw of the Gaussian prior N(m, A A^T).

    The target's log density is the whole one, prior included. Nothing is tuned, and every step moves; its number of log
    densities depends on how narrow the likelihood is.

    Parameters
    ----------
    mean : float, or array of shape (dim,), optional
        Mean of the prior; zero when not given.
    covariance : float, or array of shape (dim,) or (dim, dim), optional
        Covariance of the prior; the identity when not given.

    See Also
    --------
    PCN : One log density a step, and a step size.

    Notes
    -----
    Any target has its likelihood, the quotient of its density and this prior's density: a wrong prior costs
    evaluations, and biases nothing. A step that finds no position in 64 tries stays, which is exact, too.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> # a posterior whose prior is N(0, I), the kernel's own
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1) - 0.5 * (x[..., 0] - 1) ** 2)
    >>> trace = xps.sample(target, xps.EllipticalSlice(), np.zeros((4, 2)), 2000, seed=1)
    >>> bool(abs(trace.draws[..., 0].mean() - 0.5) < 0.1)
    True
    """

    mean: Array | None = vector(default=None)
    covariance: Array | None = matrix(default=None)

    # Asking for ratios, too, refuses targets whose acceptance gives nothing else.
    requires: ClassVar[Capability] = Capability.LOG_DENSITY | Capability.DENSITY_RATIO | Capability.REAL
    traits = REVERSIBLE

    def noise(self, x: Array) -> Specs:
        uniform = uniform_per_chain(x)
        return {"ellipse": normal_like(x), "level": uniform, "angle": uniform, "shrink": tries_per_chain(x)}

    def step(self, target: BoundTarget, state: ChainState, noise: dict[str, Array]) -> tuple[ChainState, Info]:
        xp = target.xp
        current = state.point
        # In whitened coordinates u = A^{-1} (x - m) the prior is a standard normal.
        u = self.matrix("covariance").whiten(current.x if self.mean is None else current.x - self.mean)
        nu = noise["ellipse"]

        def ellipse(theta: Array) -> tuple[Point, Array]:
            v = xp.cos(theta)[..., None] * u + xp.sin(theta)[..., None] * nu
            y = self.matrix("covariance").root(v)
            point = target.evaluate(y if self.mean is None else self.mean + y)
            prior = 0.5 * xp.sum(u * u - v * v, axis=-1)  # log of its ratio
            return point, point.log_density - current.log_density - prior

        zeros = xp.zeros_like(current.log_density)
        level = zeros + xp.log(noise["level"])
        theta = zeros + 2 * math.pi * noise["angle"]
        bracket = (theta, theta - 2 * math.pi, theta)
        found = shrink(target, current, ellipse, level, bracket, noise["shrink"])
        spent = target.costs.evaluate.times(found.tried)
        moved = ~found.searching
        return ChainState(found.point), Info(xp.astype(moved, zeros.dtype), moved, found.diverged, spent)
