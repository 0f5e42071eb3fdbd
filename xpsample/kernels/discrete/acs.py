"""The automatic cyclical sampler: discrete Langevin steps whose size and balance go through cycles."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from xpsample.core.arrays import Array
from xpsample.core.checks import check_count, check_instance, given, settle
from xpsample.core.errors import HyperparameterError
from xpsample.core.hyperparameters import PER_CHAIN, ROWS_PER_CHAIN, check_range, check_reals
from xpsample.core.specs import Specs
from xpsample.kernels.discrete.dlp import langevin_noise, langevin_step
from xpsample.kernels.kernel import Info, Kernel
from xpsample.kernels.traits import ADJUSTED
from xpsample.targets.bound import BoundTarget, counter
from xpsample.targets.point import Capability, Point


class Cycle(ABC):
    """Step sizes and balances of one cycle of `length` steps.

    Attributes
    ----------
    length : int
        Steps after which the cycle begins again.
    """

    length: int

    @abstractmethod
    def at(self, xp: Any, k: Array, like: Array) -> tuple[Any, Any]:
        """Step size and balance of step k, a 0-d integer below `length`; both broadcast against the chain axes.

        Parameters
        ----------
        like : array
            Of the dtype that they shall have.
        """


@dataclass(frozen=True, eq=False)
class Cosine(Cycle):
    """From ``2 step_size`` and `balance` at the start of a cycle down to nearly 0 and 1/2, along half a cosine.

    With c = cos(pi k / length), alpha_k = step_size (c + 1) and beta_k = (balance - 1/2) / 2 c + (balance + 1/2) / 2.

    Parameters
    ----------
    step_size : float or array
        The mean step size of a cycle, as `DMALA`'s; broadcasts against the chain axes.
    length : int
        Steps of a cycle, at least 1.
    balance : float or array
        beta at the largest step; broadcasts against the chain axes.
    """

    step_size: Any = field(metadata=PER_CHAIN)
    length: int
    balance: Any = field(default=0.95, metadata=PER_CHAIN)

    def __post_init__(self) -> None:
        settle(self, "step_size", check_range, 0)
        settle(self, "length", check_count)
        settle(self, "balance", check_range, 0, closed=True)

    def at(self, xp: Any, k: Array, like: Array) -> tuple[Any, Any]:
        # (c + 1) / 2 is the square of the half angle's cosine, which does not cancel where a cycle ends.
        share = xp.cos(xp.astype(k, like.dtype) * (0.5 * math.pi / self.length)) ** 2
        return 2.0 * self.step_size * share, 0.5 + (self.balance - 0.5) * share


@dataclass(frozen=True, eq=False)
class Table(Cycle):
    """Given step by step; what `xpsample.tune_acs` finds.

    Parameters
    ----------
    step_sizes, balances : array, shape (length,) or (length, ...)
        Of every step of a cycle, in the library of the positions; further axes broadcast against the chain axes.
    """

    step_sizes: Array = field(metadata=ROWS_PER_CHAIN)
    balances: Array = field(metadata=ROWS_PER_CHAIN)

    def __post_init__(self) -> None:
        for name in ("step_sizes", "balances"):
            check_range(
                name, check_reals(name, getattr(self, name), "an array (length, ...)"), 0, closed=name == "balances"
            )
            if not getattr(self, name).ndim:
                raise HyperparameterError(f"{name} must have a row for each step; got {given(getattr(self, name))}")
        if self.step_sizes.shape[0] != self.balances.shape[0]:
            shapes = tuple(self.step_sizes.shape), tuple(self.balances.shape)
            raise HyperparameterError(
                f"step_sizes and balances are of one cycle; got shapes {shapes[0]} and {shapes[1]}"
            )

    @property
    def length(self) -> int:  # type: ignore[override]
        """Rows of the table."""
        return self.step_sizes.shape[0]

    def at(self, xp: Any, k: Array, like: Array) -> tuple[Any, Any]:
        row = xp.reshape(k, (1,))
        return tuple(xp.take(table, row, axis=0)[0, ...] for table in (self.step_sizes, self.balances))


class ACSState(NamedTuple):
    """Where the chains are, and the number of steps made (0-d)."""

    point: Point
    n: Array


@dataclass(frozen=True, eq=False)
class ACS(Kernel[ACSState, Info]):
    """The automatic cyclical sampler (Pynadath, Bhattacharya, Hariharan & Zhang 2024).

    Step n is `DMALA`'s with the step size and the balance of step ``n mod length`` of the cycle. Proposals there and
    back are made with the same two numbers, so every step leaves the target invariant. Large steps look for modes,
    small ones for what is in them. `xpsample.tune_acs` finds the cycle: what it asks of each step size, with which
    balance it is accepted most, takes runs beside each other, and no warm-up of one run tells.

    Parameters
    ----------
    cycle : Cycle
        `Cosine`, or `Table`.

    See Also
    --------
    tune_acs : Finds its cycle.
    DMALA : With one step size.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> b = np.array([1.0, -1.0, 0.5])
    >>> target = xps.Target(lambda x: x @ b, score=lambda x: b + 0 * x, space=xps.Binary())
    >>> x0 = np.zeros((8, 3))
    >>> kernel = xps.tune_acs(target, x0, 6, seed=1)
    >>> trace = xps.sample(target, kernel, x0, 2000, seed=1)
    >>> trace.draws.shape
    (2000, 8, 3)
    """

    cycle: Any = None

    requires = Capability.LOG_DENSITY | Capability.SCORE | Capability.DISCRETE
    traits = ADJUSTED

    def __post_init__(self) -> None:
        if self.cycle is None:
            raise HyperparameterError("ACS needs a cycle, such as tune_acs(target, x0, length, seed=...) finds")
        settle(self, "cycle", check_instance, Cycle, "Cosine(0.5, 20)")

    def init(self, target: BoundTarget, x: Array) -> ACSState:
        return ACSState(target.evaluate(x), counter(target, x))

    def noise(self, x: Array) -> Specs:
        return langevin_noise(x)

    def step(self, target: BoundTarget, state: ACSState, noise: dict[str, Array]) -> tuple[ACSState, Info]:
        step_size, balance = self.cycle.at(target.xp, state.n % self.cycle.length, state.point.score)
        point, info = langevin_step(target, state.point, noise, step_size, balance)
        return ACSState(point, state.n + 1), info
