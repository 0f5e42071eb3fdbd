"""Resampling schemes: from weights to the ancestors of as many equally weighted particles.

All are unbiased: particle i has ``N w_i`` copies on average. Each scheme chooses N points of the unit interval and
searches the cumulative weights for them. Source: Douc, Cappe & Moulines, "Comparison of resampling schemes for particle
filtering" (2005).
"""

import math
from abc import ABC, abstractmethod
from typing import Any

import array_api_extra as xpx
from array_api_compat import device as device_of

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.fields import FrozenDataclass
from xpsample.core.registry import backend_of
from xpsample.core.specs import Uniform
from xpsample.spaces.discrete import as_index


class Resampling(ABC):
    """Resampling scheme: draws the ancestors. Final subclasses are frozen values."""

    @abstractmethod
    def noise(self, runs: tuple[int, ...], particles: int) -> Uniform:
        """The uniforms that one resampling consumes."""

    @abstractmethod
    def ancestors(self, xp: Any, weights: Array, uniforms: Array) -> Array:
        """Indices (*runs, particles) from weights of that shape, which sum to 1 over the last axis."""


class Multinomial(Resampling, FrozenDataclass, eq=True):
    """N independent draws, as in Algorithm 1 of SOSMC."""

    def noise(self, runs: tuple[int, ...], particles: int) -> Uniform:
        return Uniform((*runs, particles))

    def ancestors(self, xp: Any, weights: Array, uniforms: Array) -> Array:
        return search(xp, weights, uniforms)


class InStrata(Resampling):
    """One draw in each of N equal parts of the unit interval."""

    def ancestors(self, xp: Any, weights: Array, uniforms: Array) -> Array:
        points = (_slots(xp, weights) + _in_float64(xp, uniforms)) / weights.shape[-1]
        below_one = 1.0 - 0.5 * float(xp.finfo(points.dtype).eps)
        return search(xp, weights, xp.where(points < below_one, points, below_one))


class Stratified(InStrata, FrozenDataclass, eq=True):
    """One draw in each of N equal parts of the unit interval, with independent offsets."""

    def noise(self, runs: tuple[int, ...], particles: int) -> Uniform:
        return Uniform((*runs, particles))


class Systematic(InStrata, FrozenDataclass, eq=True):
    """Stratified resampling with a common offset: one uniform a run. Equal weights give one copy of each."""

    def noise(self, runs: tuple[int, ...], particles: int) -> Uniform:
        return Uniform((*runs, 1))


class Residual(Resampling, FrozenDataclass, eq=True):
    """``floor(N w_i)`` copies of each particle; the rest is multinomial, by the remainders."""

    def noise(self, runs: tuple[int, ...], particles: int) -> Uniform:
        return Uniform((*runs, particles))

    def ancestors(self, xp: Any, weights: Array, uniforms: Array) -> Array:
        expected = weights.shape[-1] * _in_float64(xp, weights)
        # Rounding of the weights may leave a whole number just below it.
        copies = xp.floor(expected * (1.0 + 16 * float(xp.finfo(weights.dtype).eps)))
        rest = xp.where(expected > copies, expected - copies, 0.0)
        total = xp.sum(rest, axis=-1, keepdims=True)
        drawn = search(xp, xp.where(total > 0.0, rest, xp.ones_like(rest)), uniforms)
        slots = _slots(xp, weights)
        certain = xp.sum(copies, axis=-1, keepdims=True)
        some = certain > 0.0
        points = (slots + 0.5) / xp.where(some, certain, xp.ones_like(certain))
        kept = search(xp, xp.where(some, copies, xp.ones_like(copies)), xp.where(slots < certain, points, 0.5))
        return xp.where(slots < certain, kept, drawn)


def search(xp: Any, weights: Array, points: Array) -> Array:
    """The particle in whose share of the unit interval each point lies, (*runs, points), in the library's index dtype.

    Shares are proportional to weights (*runs, particles), summed in the widest dtype of the library: in float32 the sum
    of 10,000 is off by more than some shares. A particle of weight 0 is never found.
    """
    ends = xp.cumulative_sum(_in_float64(xp, weights), axis=-1)
    ends = ends / ends[..., -1:]
    count = math.prod(weights.shape[:-1])
    ends, flat_points = xp.reshape(ends, (count, -1)), xp.reshape(xp.astype(points, ends.dtype), (count, -1))

    def search_run(run: Any, found: Any) -> Any:
        index: Any = as_index(xp, xp.searchsorted(ends[run, :], flat_points[run, :], side="right"))
        return xpx.at(found)[run, :].set(index)

    found = backend_of(points).repeat(count, search_run, as_index(xp, xp.zeros_like(flat_points)))
    found = xp.reshape(found, tuple(points.shape))
    # A parallel sum may round the ends of a share of 0 apart.
    largest = as_index(xp, xp.argmax(weights, axis=-1, keepdims=True))
    return xp.where(xp.take_along_axis(weights, found, axis=-1) > 0.0, found, largest)


def take_ancestors(xp: Any, where: Array, index: Array, value: tree.Tree) -> tree.Tree:
    """Replace the particles of a tree by their ancestors, `index` (*runs, particles), in the runs of a mask, (*runs).

    Leaves (*runs, particles, ...) are replaced; other leaves stay as they are.
    """
    chains, n = tuple(index.shape), index.shape[-1]
    numbers = xp.reshape(xp.arange(math.prod(chains), dtype=index.dtype, device=device_of(index)), chains)
    rows = xp.reshape(xp.where(where[..., None], numbers - numbers % n + index, numbers), (-1,))
    taken: dict[int, tuple[Array, Array]] = {}  # by identity: a point and those under it share their positions

    def gather(leaf: Array) -> Array:
        if tuple(leaf.shape[: len(chains)]) != chains:
            return leaf
        if id(leaf) not in taken:
            flat = xp.reshape(leaf, (-1, *leaf.shape[len(chains) :]))
            taken[id(leaf)] = leaf, xp.reshape(xp.take(flat, rows, axis=0), leaf.shape)
        return taken[id(leaf)][1]

    return tree.map(gather, value)


def _in_float64(xp: Any, array: Array) -> Array:
    """In float64, where the library has it."""
    return xp.astype(array, xp.__array_namespace_info__().dtypes(kind="real floating").get("float64", array.dtype))


def _slots(xp: Any, weights: Array) -> Array:
    """0, 1, ... N - 1 in the widest dtype."""
    return _in_float64(xp, xp.arange(weights.shape[-1], dtype=weights.dtype, device=device_of(weights)))
