"""Step sizes of SRMC's history."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from xpsample.backend import Array
from xpsample.hyperparameters import PER_CHAIN, check_range


class Schedule(ABC):
    """The step sizes gamma_n of the history, n = 1, 2, ..."""

    @abstractmethod
    def gamma(self, xp: Any, n: Array) -> Any:
        """gamma_n for n a 0-d array in the positions' dtype; a result with axes broadcasts against the chain axes."""


@dataclass(frozen=True, eq=False)
class PowerLaw(Schedule):
    """gamma_n = scale (n + offset)^(-rho), Eq. 1.

    Parameters
    ----------
    rho : float or array
        Decay in (1/2, 1]; an array broadcasts against the chain axes.
    scale, offset : float
        The paper takes 1 and 1.
    """

    rho: Any = field(default=1.0, metadata=PER_CHAIN)
    scale: float = 1.0
    offset: float = 1.0

    def __post_init__(self) -> None:
        check_range("rho", self.rho, 0.5, 1)
        check_range("scale", self.scale, 0)
        check_range("offset", self.offset, 0, closed=True)

    def gamma(self, xp: Any, n: Array) -> Any:
        return self.scale * (n + self.offset) ** (-self.rho)


@dataclass(frozen=True)
class Frozen(Schedule):
    """gamma = 0: the history stays what it was, so the kernel samples a fixed tilted target (for checks)."""

    def gamma(self, xp: Any, n: Array) -> Any:
        return 0.0
