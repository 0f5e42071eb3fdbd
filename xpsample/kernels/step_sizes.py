"""Step sizes that change along a chain, for kernels without an accept step (Welling & Teh 2011)."""

from abc import ABC, abstractmethod
from typing import Any

from xpsample.core.arrays import Array
from xpsample.core.fields import FrozenDataclass, parameter
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


def check_step_size(name: str, value: Any) -> Any:
    """A schedule of step sizes, a step size that is positive everywhere, or what a warm-up is to tune."""
    return value if isinstance(value, StepSizes) else check_range(name, value, 0, optional=True)
