"""Step sizes that change along a chain, for kernels without an accept step (Welling & Teh 2011)."""

import math
from abc import ABC, abstractmethod
from typing import Any

from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.fields import FrozenDataclass, count, parameter
from xpsample.core.hyperparameters import check_range


class StepSizes(ABC):
    """A schedule, given where a kernel takes a step size."""

    @abstractmethod
    def at(self, n: Array) -> Array:
        """The step size of step n = 1, 2, ..., a 0-d floating array; positive, broadcasting against the chain axes."""


class PolynomialDecay(StepSizes, FrozenDataclass):
    """``scale (offset + n)^-power`` at step n = 1, 2, ...

    Parameters
    ----------
    scale : float or array
        Positive, in units of the step size; broadcasts against the chain axes.
    power : float or array
        At least 0; in (1/2, 1] the steps sum to infinity and their squares do not, as convergence asks for.
    offset : float or array
        At least 0, in steps.

    See Also
    --------
    ULA : Takes it as a step size.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> steps = xps.PolynomialDecay(0.1, power=0.5)
    >>> round(steps.at(4), 3)
    0.05
    >>> kernel = xps.ULA(steps)
    """

    scale: Any = parameter(gt=0)
    power: Any = parameter(default=0.55, ge=0)
    offset: Any = parameter(default=0.0, ge=0)

    def at(self, n: Array) -> Array:
        return self.scale * (n + self.offset) ** (-self.power)


class CosineCycles(StepSizes, FrozenDataclass):
    """Cycles from a large step size down to nearly 0, ``scale / 2 (cos(pi ((n - 1) mod length) / length) + 1)``.

    The large steps at the start of a cycle move between modes, and the small ones at its end sample a mode (Zhang et
    al. 2020). Keep draws from the ends of the cycles: ``sample(..., thinning=length)`` keeps the last step of each.

    Parameters
    ----------
    scale : float or array
        Positive, in units of the step size; broadcasts against the chain axes.
    length : int
        Steps per cycle.

    See Also
    --------
    PolynomialDecay : Step sizes that fall once.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> steps = xps.CosineCycles(0.1, length=4)
    >>> [round(float(steps.at(np.asarray(n))), 3) for n in (1.0, 3.0, 4.0, 5.0)]
    [0.1, 0.05, 0.015, 0.1]
    >>> kernel = xps.ULA(steps)
    """

    scale: Any = parameter(gt=0)
    length: int = count()

    def at(self, n: Array) -> Array:
        return 0.5 * self.scale * (array_namespace(n).cos(((n - 1) % self.length) * (math.pi / self.length)) + 1.0)


def check_step_size(name: str, value: Any) -> Any:
    """A schedule of step sizes, a step size that is positive everywhere, or what a warm-up is to tune."""
    return value if isinstance(value, StepSizes) else check_range(name, value, 0, optional=True)
