"""How strong a repulsion is: the alpha of `SRMC` and of `SRLD`."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.core.hyperparameters import PER_CHAIN, check_range
from xpsample.core.tree import Tree


class Strength(ABC):
    """A rule for alpha, passed where a number or an array may be."""

    @abstractmethod
    def init(self, xp: Any, zeros: Array) -> tuple[Array, Tree]:
        """(alpha, memory), alpha of the shape and dtype of `zeros`, (*chains); no two arrays the same object."""


@dataclass(frozen=True, eq=False)
class Fixed(Strength):
    """The same alpha at every step; what a number or an array passed as ``alpha`` means.

    Parameters
    ----------
    value : float or array
        At least 0; broadcasts against the chain axes.
    """

    value: Any = field(metadata=PER_CHAIN)

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", check_range("alpha", self.value, 0, closed=True))

    def init(self, xp: Any, zeros: Array) -> tuple[Array, Tree]:
        return zeros + self.value, None


def check_strength(name: str, alpha: Any, rule: type) -> Any:
    """A number or an array, at least 0, or a rule of the kind that a kernel follows."""
    if not isinstance(alpha, Strength):
        return check_range(name, alpha, 0, closed=True)
    if not isinstance(alpha, (Fixed, rule)):
        raise HyperparameterError(f"{name} must be a number, an array or a {rule.__name__} rule; got {alpha!r}")
    return alpha


def as_strength(alpha: Any) -> Strength:
    """A rule as it is, a number or an array as `Fixed`."""
    return alpha if isinstance(alpha, Strength) else Fixed(alpha)
