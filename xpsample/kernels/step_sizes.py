"""Step sizes that change along a chain, for kernels without an accept step (Welling & Teh 2011)."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from xpsample.core.arrays import Array
from xpsample.core.hyperparameters import PER_CHAIN, check_range


class StepSizes(ABC):
    """A schedule, given where a kernel takes a step size."""

    @abstractmethod
    def at(self, n: Array) -> Array:
        """The step size of step n = 1, 2, ..., a 0-d floating array; positive, broadcasting against the chain axes."""


@dataclass(frozen=True, eq=False)
class PolynomialDecay(StepSizes):
    """``scale (offset + n)^-power`` at step n = 1, 2, ...

    Parameters
    ----------
    scale : float or array
        Positive, in units of the step size; broadcasts against the chain axes.
    power : float or array
        At least 0; in (1/2, 1] the steps sum to infinity and their squares do not, as convergence asks for.
    offset : float or array
        At least 0, in steps.
    """

    scale: Any = field(metadata=PER_CHAIN)
    power: Any = field(default=0.55, metadata=PER_CHAIN)
    offset: Any = field(default=0.0, metadata=PER_CHAIN)

    def __post_init__(self) -> None:
        check_range("scale", self.scale, 0)
        check_range("power", self.power, 0, closed=True)
        check_range("offset", self.offset, 0, closed=True)

    def at(self, n: Array) -> Array:
        return self.scale * (n + self.offset) ** (-self.power)


def check_step_size(value: Any) -> None:
    """Raise HyperparameterError unless a step size is a schedule or positive everywhere."""
    if not isinstance(value, StepSizes):
        check_range("step_size", value, 0)
