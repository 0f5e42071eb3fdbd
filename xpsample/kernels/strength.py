"""Repellence strength: the alpha of `SRMC` and of `SRLD`."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.core.fields import FrozenDataclass, checked, parameter
from xpsample.core.hyperparameters import PER_CHAIN, ToBeTuned, check_range
from xpsample.core.tree import Tree


class Strength(ABC):
    """A rule for alpha, passed where a number or an array may be."""

    @abstractmethod
    def init(self, xp: Any, zeros: Array) -> tuple[Array, Tree]:
        """(alpha, memory), alpha of the shape and dtype of `zeros`, (*chains); no two arrays the same object."""

    @abstractmethod
    def now(self, alpha: Array) -> Array:
        """alpha of a step, (*chains), where the one before left `alpha`."""


class Fixed(Strength, FrozenDataclass):
    """The same alpha at every step; what a number or an array passed as ``alpha`` means."""

    value: Any = parameter(ge=0)

    def init(self, xp: Any, zeros: Array) -> tuple[Array, Tree]:
        return zeros + self.value, None

    def now(self, alpha: Array) -> Array:
        return 0.0 * alpha + self.value


class Waiting(Strength, FrozenDataclass):
    """0 while a kernel warms up; `then` begins after that, or what the warm-up finds where it is None."""

    then: Strength | None = None

    def init(self, xp: Any, zeros: Array) -> tuple[Array, Tree]:
        return zeros + 0.0, None if self.then is None else self.then.init(xp, zeros)[1]

    def now(self, alpha: Array) -> Array:
        return alpha


def strength(
    rule: type, *, tune: ToBeTuned | None = None, default: Any = None, factory: Callable[[Any], Any] | None = None
) -> Any:
    """Declare a number, an array, or a `rule` of the kind that the kernel follows.

    Steps use it as a `Strength`, ``self.derived(name)``.
    """
    return checked(
        partial(check_strength, rule=rule),
        default=default,
        derive=as_strength,
        factory=factory,
        tune=tune,
        kind=PER_CHAIN,
    )


def check_strength(name: str, alpha: Any, rule: type) -> Any:
    """A number or an array, at least 0, a rule of the kind that a kernel follows, or what a warm-up is to find."""
    if not isinstance(alpha, Strength):
        return check_range(name, alpha, 0, closed=True)
    if not isinstance(alpha, (Fixed, rule)):
        raise HyperparameterError(f"{name} must be a number, an array or a {rule.__name__} rule; got {alpha!r}")
    return alpha


def as_strength(name: str, alpha: Any) -> Strength:
    """Return a rule unchanged, a number or an array as `Fixed`, and a value to be tuned in a warm-up as `Waiting`."""
    if alpha is None or isinstance(alpha, ToBeTuned):
        return Waiting()
    return alpha if isinstance(alpha, Strength) else Fixed(alpha)
