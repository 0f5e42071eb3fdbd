"""Cycles of step sizes and balances of discrete Langevin steps, and the rule that finds one in a warm-up."""

import math
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from array_api_compat import device as device_of

from xpsample.adaptation.rule import STEP_BITS, Rule, StepRecord, per_group, rounded
from xpsample.core.arrays import Array
from xpsample.core.checks import given
from xpsample.core.errors import HyperparameterError
from xpsample.core.fields import FrozenDataclass, checked, count, number, parameter
from xpsample.core.hyperparameters import ROWS_PER_CHAIN, check_range, check_reals

# Step sizes that are tried, evenly on a logarithmic scale: from steps that flip next to nothing on {0, 1} to steps
# whose size counts for nothing on {-1, 1}.
SMALLEST, LARGEST, SIZES = 0.05, 50.0, 16

GROWTH = math.log(LARGEST / SMALLEST) / (SIZES - 1)  # Growth of the log step size from one candidate to the next

BALANCES = 4  # Number of candidate balances for each step size, from 1/2 up

AT_FIRST = 0.25  # Share of the warm-up whose acceptances are ignored, because the chains are in their transient phase


class Cycle(ABC):
    """Step sizes and balances of one cycle of `length` steps.

    Attributes
    ----------
    length : int
        Steps after which the cycle begins again.
    """

    if TYPE_CHECKING:  # subclasses have it as a field, or as a property

        @property
        def length(self) -> int: ...

    @abstractmethod
    def at(self, xp: Any, k: Array, like: Array) -> tuple[Any, Any]:
        """Step size and balance of step k, a 0-d integer below `length`; both broadcast against the chain axes.

        Parameters
        ----------
        like : array
            Array with the dtype of the results.
        """


class Cosine(Cycle, FrozenDataclass):
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

    step_size: Any = parameter(gt=0)
    length: int = count()
    balance: Any = parameter(default=0.95, ge=0)

    def at(self, xp: Any, k: Array, like: Array) -> tuple[Any, Any]:
        # (c + 1) / 2 is the square of the half angle's cosine, which does not cancel where a cycle ends.
        share = xp.cos(xp.astype(k, like.dtype) * (0.5 * math.pi / self.length)) ** 2
        return 2.0 * self.step_size * share, 0.5 + (self.balance - 0.5) * share


def _check_rows(name: str, value: Any, closed: bool = False) -> Any:
    rows = check_range(name, check_reals(name, value, "an array (length, ...)"), 0, closed=closed)
    if not rows.ndim:
        raise HyperparameterError(f"{name} must have a row for each step; got {given(value)}")
    return rows


class Table(Cycle, FrozenDataclass):
    """Cycle set step by step; the result of `CycleSearch`.

    Parameters
    ----------
    step_sizes, balances : array, shape (length,) or (length, ...)
        Values for every step of a cycle, in the library of the positions; further axes broadcast against the chain
        axes.
    """

    step_sizes: Array = checked(_check_rows, kind=ROWS_PER_CHAIN)
    balances: Array = checked(partial(_check_rows, closed=True), kind=ROWS_PER_CHAIN)

    def __check_init__(self) -> None:
        if self.step_sizes.shape[0] != self.balances.shape[0]:
            shapes = tuple(self.step_sizes.shape), tuple(self.balances.shape)
            raise HyperparameterError(
                f"step_sizes and balances are of one cycle; got shapes {shapes[0]} and {shapes[1]}"
            )

    def of_one_group(self) -> "Table":
        """Drop the group axes if all chains share the same values."""
        if math.prod(self.step_sizes.shape[1:]) * math.prod(self.balances.shape[1:]) != 1:
            return self
        return Table(*(rows[(slice(None), *[0] * (rows.ndim - 1))] for rows in (self.step_sizes, self.balances)))

    @property
    def length(self) -> int:
        """Rows of the table."""
        return self.step_sizes.shape[0]

    def at(self, xp: Any, k: Array, like: Array) -> tuple[Any, Any]:
        row = xp.reshape(k, (1,))
        return tuple(xp.take(table, row, axis=0)[0, ...] for table in (self.step_sizes, self.balances))


class _Candidate(Cycle, FrozenDataclass):
    """One step size and one balance, 0-d arrays, which the warm-up tries."""

    step_size: Array
    balance: Array

    length: ClassVar[int] = 1

    def at(self, xp: Any, k: Array, like: Array) -> tuple[Any, Any]:
        return self.step_size, self.balance


class Tried(NamedTuple):
    """The memory of a search: steps made (0-d), the sums of the acceptance probabilities of each candidate in each
    group, ``(*groups, 1, candidates)``, and how many times each was tried, (candidates,)."""

    n: Array
    accepted: Array
    times: Array


class CycleSearch(Rule, eq=True):
    """The cycle of `ACS` by acceptance rates, as Pynadath et al. (2024) find it.

    The warm-up makes its steps with 64 pairs of a step size and a balance in turn, each of which leaves the target
    invariant. The smallest step size of the cycle is the largest that reaches the target acceptance with balance 1/2;
    the largest is the largest that does so with some balance. In between the step sizes follow half a cosine. Each has
    the balance with which it accepts most, falling along the cycle. If no larger step is accepted often enough, the
    cycle is constant: such a target does not benefit from one.

    Parameters
    ----------
    length : int
        Steps of a cycle.
    acceptance : float
        The mean acceptance probability asked for.
    balance : float
        The largest beta, at least 1/2.

    See Also
    --------
    ACS : The kernel whose cycle it finds.

    Notes
    -----
    The published search goes through candidates one after another, from both ends; what it finds depends on where it
    starts. The pairs here are a grid, step sizes from 0.05 to 50 and balances from 1/2 to `balance`.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> b = np.array([1.0, -1.0, 0.5])
    >>> target = xps.Target(lambda x: x @ b, score=lambda x: b + 0 * x, space=xps.Binary())
    >>> kernel = xps.ACS(xps.CycleSearch(length=6))
    >>> trace = xps.sample(target, kernel, np.zeros((8, 3)), 600, seed=1)
    >>> len(trace.kernel.cycle.step_sizes)
    6
    """

    length: int = count(default=20)
    acceptance: float = number(default=0.5, gt=0, lt=1)
    balance: float = number(default=0.95, ge=0.5)

    rank = 1
    patience: ClassVar[float] = 5.0

    def init(self, xp: Any, point: Any, pooled: bool) -> Tried:
        zero = per_group(xp, point.x, pooled)[..., None]
        none = xp.zeros(SIZES * BALANCES, dtype=zero.dtype, device=device_of(zero))
        return Tried(xp.sum(xp.zeros_like(zero)), zero + none, none)

    def value(self, xp: Any, memory: Tried, kernel: Any) -> Cycle:
        """The next candidate."""
        place = memory.n % (SIZES * BALANCES)
        size = rounded(xp, math.log(SMALLEST) + GROWTH * xp.floor(place / BALANCES), STEP_BITS)
        return _Candidate(size, self._balance(place % BALANCES))

    def update(self, memory: Tried, seen: StepRecord) -> tuple[Tried, StepRecord]:
        xp, times = seen.xp, memory.times
        this = (_places(xp, times) == memory.n % times.shape[0]) & (seen.n > AT_FIRST * seen.steps)
        this = xp.astype(this, times.dtype)
        accepted = xp.astype(seen.mean(seen.info.acceptance_probability), times.dtype)[..., None]
        return Tried(memory.n + 1, memory.accepted + this * accepted, times + this), seen

    def final(self, xp: Any, memory: Tried) -> Table:
        if memory.n > 0 and not xp.all(memory.times > 0):  # before the first step, only shapes are requested
            raise HyperparameterError(
                f"the warm-up was too short for all of the {SIZES * BALANCES} settings of a cycle. Set "
                f"warmup={10 * SIZES * BALANCES}, or omit warmup."
            )
        rates = self._rates(xp, memory)
        smallest, largest = self._ends(xp, rates)
        halfway = 0.5 * math.pi / self.length
        share = xp.cos(halfway * _places(xp, xp.stack([memory.n] * self.length))) ** 2
        log_sizes = xp.maximum(smallest[..., None], largest[..., None] + xp.log(share))

        # Each candidate step size gets the balance that accepts most, but none above the balances of larger step sizes.
        best = self._balance(xp.astype(xp.argmax(rates, axis=-1), rates.dtype))
        places, last = _places(xp, best), ((largest - math.log(SMALLEST)) / GROWTH)[..., None, None]
        larger = (places[:, None] <= places) & (places < last + 0.5)
        best = xp.min(xp.where(larger, best[..., None, :], self.balance), axis=-1)
        between = xp.abs((log_sizes[..., None] - math.log(SMALLEST)) / GROWTH - places)
        balances = xp.sum(xp.clip(1.0 - between, min=0.0) * best[..., None, :], axis=-1)
        balances = xp.round(balances * STEP_BITS) / STEP_BITS
        return Table(xp.moveaxis(rounded(xp, log_sizes, STEP_BITS), -1, 0), xp.moveaxis(balances, -1, 0))

    def path(self, xp: Any, memory: Tried) -> Array:
        """Smallest and largest step size of the cycle, as estimated so far, ``(*groups, 1, 2)``."""
        return xp.exp(xp.stack([*self._ends(xp, self._rates(xp, memory))], axis=-1))

    def _balance(self, place: Array) -> Array:
        return 0.5 + (self.balance - 0.5) / (BALANCES - 1) * place

    def _rates(self, xp: Any, memory: Tried) -> Array:
        """Mean acceptance probabilities, ``(*groups, 1, sizes, balances)``, rounded: what is the same is a tie."""
        rates = memory.accepted / xp.clip(memory.times, min=1.0)
        return xp.reshape(xp.round(rates * 2**20) / 2**20, (*rates.shape[:-1], SIZES, BALANCES))

    def _ends(self, xp: Any, rates: Array) -> tuple[Array, Array]:
        """The logarithms of the smallest and of the largest step size, ``(*groups, 1)``."""
        return self._largest(xp, rates[..., 0]), self._largest(xp, xp.max(rates, axis=-1))

    def _largest(self, xp: Any, rates: Array) -> Array:
        """The log of the largest step size that accepts often enough, or of the one that accepts most.

        ``(*groups, 1, sizes)`` to ``(*groups, 1)``.
        """
        last = xp.max(xp.where(rates >= self.acceptance, _places(xp, rates), -1.0), axis=-1)
        most = xp.astype(xp.argmax(rates, axis=-1), rates.dtype)
        return math.log(SMALLEST) + GROWTH * xp.where(last >= 0, last, most)


def _places(xp: Any, like: Array) -> Array:
    """0, 1, 2, ... along the last axis, (n,)."""
    return xp.arange(like.shape[-1], dtype=like.dtype, device=device_of(like))
