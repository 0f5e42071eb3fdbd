"""Gibbs with gradients: one variable changed at a time, chosen by the score's estimate of every change."""

from typing import Any, ClassVar

from xpsample.core.arrays import Array
from xpsample.core.fields import parameter
from xpsample.kernels.discrete.common import OneVariable, estimated_differences
from xpsample.kernels.traits import REVERSIBLE
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability, Point


class GWG(OneVariable):
    """Gibbs with gradients (Grathwohl et al., 2021; SRMC Eq. 27), with the exact Metropolis-Hastings correction.

    A move takes one variable to one other value, with probability proportional to ``exp(temperature * D)``, D the
    first-order estimate of the change of the log density (`estimated_differences`).

    Parameters
    ----------
    temperature : float or array
        tau, 1/2 for the locally balanced proposal; 0 proposes all moves alike. Broadcasts against the chain axes.

    See Also
    --------
    DMALA : Moves many variables at once.
    LocallyBalanced : With the true ratios.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> b = np.array([1.0, -1.0, 0.5])
    >>> target = xps.Target(lambda x: x @ b, score=lambda x: b + 0 * x, space=xps.Binary())
    >>> x0 = np.zeros((8, 3))
    >>> trace = xps.sample(target, xps.GWG(0.5), x0, 2000, seed=1)
    >>> bool(np.all(abs(trace.draws.mean(axis=(0, 1)) - 1 / (1 + np.exp(-b))) < 0.05))
    True
    """

    temperature: Any = parameter(default=0.5, ge=0)

    requires: ClassVar[Capability] = Capability.LOG_DENSITY | Capability.SCORE | Capability.DISCRETE
    traits = REVERSIBLE

    def logits(self, target: BoundTarget, point: Point) -> Array:
        return estimated_differences(target, point, self.temperature)
