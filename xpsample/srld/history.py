"""History of self-repulsive dynamics: past positions with their scores, and which of them repel."""

from abc import abstractmethod
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device as device_of

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.core.fields import FrozenDataclass, count, flag
from xpsample.core.hyperparameters import check_range, check_reals
from xpsample.targets.bound import BoundTarget, counter
from xpsample.targets.point import Point


class Past(NamedTuple):
    """M positions and the scores evaluated there, each (*chains, M, dim), the newest first.

    ``squared`` (*chains, M, M - 1) has the squared distances of each position from the M - 1 before it, for a median
    bandwidth: a position that enters adds M - 1 distances, not M (M - 1) / 2. It is (*chains, M, 0) if nothing needs
    them.
    """

    x: Array
    score: Array
    squared: Array

    def entered(self, xp: Any, point: Point) -> "Past":
        """The past after `point` has taken the place of the oldest position."""
        apart = point.x[..., None, :] - self.x[..., : self.squared.shape[-1], :]
        new = (point.x, point.score, xp.sum(apart * apart, axis=-1))
        return Past(*(xp.concat([a[..., None, :], b[..., :-1, :]], axis=-2) for a, b in zip(new, self, strict=True)))

    def pairs(self, xp: Any) -> Array:
        """The squared distances of all pairs, (*chains, M (M - 1) / 2)."""
        m = self.x.shape[-2]
        flat = xp.reshape(self.squared, (*self.squared.shape[:-2], m * (m - 1)))
        return xp.take(flat, xp.asarray(_both_kept(m), device=device_of(flat)), axis=-1)


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

    @abstractmethod
    def begin(self, past: Past) -> Any:
        """The memory of chains whose M positions so far are `past`."""

    @abstractmethod
    def push(self, xp: Any, memory: Any, n: Array, point: Point) -> Any:
        """The memory after a step that began at theta_n, `point`, with `changes` true; n is a 0-d integer."""

    @abstractmethod
    def stored(self, memory: Any, n: Array) -> tuple[Past, Array]:
        """The M positions that repel theta_n, newest first, and how many are stored (0-d; M or more is all)."""

    @abstractmethod
    def changes(self, n: Array) -> Array | bool:
        """Return whether theta_{n+1} is repelled by other positions than theta_n (0-d)."""


class Rolling(History, eq=True):
    """theta_{k - jc}, j = 1..M, exactly Eq. 3. Keeps M c positions and as many scores per chain.

    The memory is a queue of c pasts. Step k is repelled by the one with theta_{k-c}, theta_{k-2c}, ..., which theta_k
    then enters and which goes to the end of the queue: the other c - 1 are not copied.

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

    def begin(self, past: Past) -> tuple[Past, ...]:
        return tuple(_copy(past) for _ in range(self.every))

    def changes(self, n: Array) -> bool:
        return True

    def push(self, xp: Any, memory: tuple[Past, ...], n: Array, point: Point) -> tuple[Past, ...]:
        return (*memory[1:], memory[0].entered(xp, point))

    def stored(self, memory: tuple[Past, ...], n: Array) -> tuple[Past, Array]:
        return memory[0], n // self.every


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

    def begin(self, past: Past) -> Past:
        return _copy(past)

    def push(self, xp: Any, memory: Past, n: Array, point: Point) -> Past:
        return memory.entered(xp, point)

    def stored(self, memory: Past, n: Array) -> tuple[Past, Array]:
        return memory, (n + (self.every - 1)) // self.every

    def changes(self, n: Array) -> Array | bool:
        return n % self.every == 0


def empty(xp: Any, x: Array, positions: int, distances: bool = False) -> Past:
    """A past of zeros for chains at x, (*chains, dim), with the distances of its positions or without."""
    zeros = xp.broadcast_to(xp.zeros_like(x)[..., None, :], (*x.shape[:-1], positions, x.shape[-1])) + 0.0
    one = zeros[..., :1] if x.shape[-1] else zeros
    return Past(zeros, zeros + 0.0, xp.repeat(one, positions - 1 if distances else 0, axis=-1))


def check_past(name: str, value: Any, size: int) -> None:
    """Raise HyperparameterError unless `value` has M = `size` positions."""
    wanted = f"an array (M, dim) or (M, *chains, dim) with the M = {size} positions of the history"
    shape = tuple(check_reals(name, value, wanted).shape)
    if len(shape) < 2 or shape[0] != size:
        raise HyperparameterError(f"{name} must be {wanted}; got the shape {shape}")
    check_range(name, value)


def begin(target: BoundTarget, x: Array, history: History, given: Array | None, distances: bool) -> tuple[Any, Array]:
    """The memory of chains at x, (*chains, dim), before their first step, and the steps since its first position.

    If M positions are given, the oldest first, it is the past of chains that were at one of them every c steps before
    they began. `Rolling` keeps the steps in between as well: each stands for the c steps from it to the next one.
    """
    xp, n = target.xp, counter(target, x)
    past = empty(xp, x, history.size, distances)
    if given is None:
        return history.begin(past), n
    for i in range(history.size):
        at = xp.zeros_like(x) + given[i, ...]
        past = past.entered(xp, Point(at, None, target.score(at)))
    return history.begin(past), n + history.size * history.every


def repeated(xp: Any, past: Past, count: Array) -> Past:
    """The `count` stored positions repeated until there are M: each M // count + 1 times, beginning with the oldest."""
    m = past.x.shape[-2]
    age = xp.arange(m, dtype=count.dtype, device=device_of(past.x))
    some = xp.where(count > 0, count, 1)
    spread = (some - 1) - age // (m // some + 1)
    at = xp.where(count < m, spread, age)
    return Past(*(xp.take(a, at, axis=-2) for a in past))


def pooled(xp: Any, past: Past) -> Past:
    """One past for all chains of the last chain axis: (*groups, chains, M, dim) to (*groups, 1, chains * M, dim)."""
    if past.x.ndim < 3:
        return past  # a single chain
    *groups, chains, positions, _ = past.x.shape
    return Past(*(xp.reshape(a, (*groups, 1, chains * positions, a.shape[-1])) for a in past))


def _copy(past: Past) -> Past:
    copied: Past = tree.map(lambda a: a + 0.0, past)  # JAX gives no array away twice
    return copied


@lru_cache
def _both_kept(m: int) -> np.ndarray:
    """Which of the M (M - 1) distances in `Past.squared`, flat, are from a position that is still kept."""
    kept = [i * (m - 1) + before for i in range(m) for before in range(m - 1 - i)]
    return np.asarray(kept, dtype=np.int32)
