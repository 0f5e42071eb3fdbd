"""What self-repulsive dynamics remembers: past positions with their scores, and which of them repel."""

from abc import abstractmethod
from typing import Any, NamedTuple

from array_api_compat import device as device_of

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.core.fields import FrozenDataclass, count, flag
from xpsample.core.hyperparameters import check_range, check_reals
from xpsample.targets.bound import BoundTarget, counter
from xpsample.targets.point import Point


class Past(NamedTuple):
    """Positions and the scores evaluated there, each (*chains, positions, dim), the newest first."""

    x: Array
    score: Array


class History(FrozenDataclass, eq=True):
    """Which M past positions repel. Final subclasses are frozen dataclasses.

    Attributes
    ----------
    size : int
        M.
    every : int
        c, the steps between two of them.
    padded : bool
        Whether repulsion begins with the first stored position, and not after M c steps.
    """

    size: int = count()
    every: int = count(default=1)
    padded: bool = flag(default=False)

    @property
    @abstractmethod
    def length(self) -> int:
        """Positions kept."""

    @abstractmethod
    def push(self, xp: Any, past: Past, n: Array, point: Point) -> Past:
        """The memory after the step that began at theta_n, `point`; n is a 0-d integer."""

    @abstractmethod
    def stored(self, xp: Any, past: Past, n: Array) -> tuple[Past, Array]:
        """The M positions that repel theta_n, newest first, and how many are stored (0-d; M or more is all)."""


class Rolling(History, eq=True):
    """theta_{k - jc}, j = 1..M, exactly Eq. 3. Keeps M c positions and as many scores per chain.

    Parameters
    ----------
    size : int
        M, at least 1 (2 for a median bandwidth).
    every : int
        c in steps, the thinning factor c_eta of the paper.
    padded : bool
        False: no repulsion during the first M c steps. True: repulsion from the first stored position on, with stored
        positions repeated until there are M, as in the authors' code.

    See Also
    --------
    Thinned : A past that is spaced out.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> kernel = xps.SRLD(xps.ULA(0.1), alpha=2.0, history=xps.Rolling(size=10, every=10))
    """

    @property
    def length(self) -> int:
        return self.size * self.every

    def push(self, xp: Any, past: Past, n: Array, point: Point) -> Past:
        return _rolled(xp, past, point)

    def stored(self, xp: Any, past: Past, n: Array) -> tuple[Past, Array]:
        first = self.every - 1  # row i holds theta_{n - 1 - i}
        return Past(past.x[..., first :: self.every, :], past.score[..., first :: self.every, :]), n // self.every


class Thinned(History, eq=True):
    """Every c steps the newest position enters a buffer of M: theta_{ic} with ic < k. Keeps M positions and scores.

    At the steps k = c, 2 c, ... it equals `Rolling`; in between, the newest position is less than c steps old.

    Parameters
    ----------
    size, every, padded
        As for `Rolling`.

    See Also
    --------
    Rolling : The last positions.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> kernel = xps.SRLD(xps.ULA(0.1), alpha=2.0, history=xps.Thinned(size=10, every=10))
    """

    @property
    def length(self) -> int:
        return self.size

    def push(self, xp: Any, past: Past, n: Array, point: Point) -> Past:
        enters = n % self.every == 0
        new = _rolled(xp, past, point)
        return Past(xp.where(enters, new.x, past.x), xp.where(enters, new.score, past.score))

    def stored(self, xp: Any, past: Past, n: Array) -> tuple[Past, Array]:
        return past, (n + (self.every - 1)) // self.every


def empty(xp: Any, x: Array, positions: int) -> Past:
    """A memory of zeros for chains at x, (*chains, dim)."""
    shape = (*x.shape[:-1], positions, x.shape[-1])
    zeros = xp.broadcast_to(xp.zeros_like(x)[..., None, :], shape)
    return Past(zeros + 0.0, zeros + 0.0)


def check_past(name: str, value: Any, size: int) -> None:
    """Raise HyperparameterError unless `value` has M = `size` positions."""
    wanted = f"an array (M, dim) or (M, *chains, dim) with the M = {size} positions of the history"
    shape = tuple(check_reals(name, value, wanted).shape)
    if len(shape) < 2 or shape[0] != size:
        raise HyperparameterError(f"{name} must be {wanted}; got the shape {shape}")
    check_range(name, value)


def begin(target: BoundTarget, x: Array, history: History, given: Array | None) -> tuple[Past, Array]:
    """The memory of chains at x, (*chains, dim), before their first step, and the steps since its first position.

    Where M positions are given, the oldest first, it is that of chains which were at one of them every c steps before
    they began. `Rolling` keeps the steps in between as well: each stands for the c steps from it to the next one.
    """
    xp, n = target.xp, counter(target, x)
    if given is None:
        return empty(xp, x, history.length), n
    points = [xp.zeros_like(x) + given[i, ...] for i in range(history.size)]
    times = history.length // history.size
    x, score = (
        xp.stack([row for row in reversed(rows) for _ in range(times)], axis=-2)
        for rows in (points, [target.score(point) for point in points])
    )
    return Past(x, score), n + history.size * history.every


def repeated(xp: Any, past: Past, count: Array) -> Past:
    """The `count` stored positions repeated until there are M: each M // count + 1 times, beginning with the oldest."""
    m = past.x.shape[-2]
    age = xp.arange(m, dtype=count.dtype, device=device_of(past.x))
    some = xp.where(count > 0, count, 1)
    spread = (some - 1) - age // (m // some + 1)
    at = xp.where(count < m, spread, age)
    return Past(xp.take(past.x, at, axis=-2), xp.take(past.score, at, axis=-2))


def pooled(xp: Any, past: Past) -> Past:
    """One past for all chains of the last chain axis: (*groups, chains, M, dim) to (*groups, 1, chains * M, dim)."""
    if past.x.ndim < 3:
        return past  # a single chain
    *groups, chains, positions, dim = past.x.shape
    shape = (*groups, 1, chains * positions, dim)
    return Past(xp.reshape(past.x, shape), xp.reshape(past.score, shape))


def _rolled(xp: Any, past: Past, point: Point) -> Past:
    # On NumPy, torch and JAX this copy is cheaper than a masked write into a ring buffer, and reading is a slice.
    return Past(
        xp.concat([point.x[..., None, :], past.x[..., :-1, :]], axis=-2),
        xp.concat([point.score[..., None, :], past.score[..., :-1, :]], axis=-2),
    )
