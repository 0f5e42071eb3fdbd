"""Shrinkage, by which slice samplers find a position on a curve: Figure 5 of Neal (2003)."""

from collections.abc import Callable
from typing import NamedTuple

from xpsample.core.arrays import Array, Mask
from xpsample.core.specs import Uniform
from xpsample.kernels.kernel import select_point
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Point

# Positions of a step that are tried, at most: brackets shrink by about 1.4 each, to 1e-9 of their length.
MOST_TRIES = 64

Curve = Callable[[Array], tuple[Point, Array]]
"""The point at t, (*chains), on a curve that is at the current one for t = 0; how much higher its log density is."""


class Shrunk(NamedTuple):
    """Result of shrinkage, (*chains): the point, whether it is still ``searching``, positions ``tried``, divergences.

    ``t`` is the next position to try, between ``low`` and ``high``.
    """

    point: Point
    t: Array
    low: Array
    high: Array
    searching: Mask
    tried: Array
    diverged: Mask


def tries_per_chain(x: Array) -> Uniform:
    """The uniforms of all tries."""
    return Uniform((*x.shape[:-1], MOST_TRIES))


def shrink(
    target: BoundTarget, current: Point, curve: Curve, level: Array, bracket: tuple[Array, Array, Array], tries: Array
) -> Shrunk:
    """Try positions of a bracket until one is above the level, and shrink the bracket to the rejected positions.

    The level is the logarithm of a uniform, (*chains), and the bracket consists of the first t to try and both ends,
    with 0 between them. `tries` are uniforms, (*chains, MOST_TRIES). Chains that find no position stay.

    Staying is exact. For every number of tries, a step by way of some rejected positions is as probable as the step
    back by way of the same positions, since both shrink to the same brackets. Therefore moves within a number of tries
    and staying are reversible.
    """
    xp = target.xp
    zeros = xp.zeros_like(level)

    def attempt(k: Array, s: Shrunk) -> Shrunk:
        point, gain = curve(s.t)
        missed = s.searching & ~(gain > level)
        low, high = xp.where(missed & (s.t < 0), s.t, s.low), xp.where(missed & (s.t >= 0), s.t, s.high)
        return Shrunk(
            select_point(xp, s.searching & ~missed, point, s.point),
            low + (zeros + tries[..., k]) * (high - low),
            low,
            high,
            missed,
            s.tried + xp.astype(s.searching, xp.int32),
            s.diverged | (s.searching & broken(target, point, gain)),
        )

    nobody = zeros != 0
    start = Shrunk(current, *bracket, ~nobody, xp.zeros_like(zeros, dtype=xp.int32), nobody)
    return target.backend.repeat(MOST_TRIES, attempt, start, until=lambda s: ~xp.any(s.searching))


def broken(target: BoundTarget, point: Point, gain: Array) -> Mask:
    """Flag log densities that are not finite, except -inf beyond a declared bound."""
    found = ~target.xp.isfinite(gain)
    return found & (point.log_density != -target.xp.inf) if target.constrained else found
