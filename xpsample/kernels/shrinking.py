"""Shrinkage, by which slice samplers find a position on a curve: Figure 5 of Neal (2003)."""

from collections.abc import Callable
from typing import NamedTuple

from xpsample.core.arrays import Array, Mask
from xpsample.core.specs import Uniform
from xpsample.kernels.kernel import select_point
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Point

MOST_TRIES = 64
"""Positions of a step that are tried, at most: brackets shrink by about 1.4 each, to 1e-9 of their length."""

Curve = Callable[[Array], tuple[Point, Array]]
"""The point at t, (*chains), on a curve that is at the current one for t = 0; how much higher its log density is."""


class Shrunk(NamedTuple):
    """What shrinkage found, (*chains): the point, whether it is still ``searching``, positions ``tried``, divergences.

    ``t`` is what is tried next, between ``low`` and ``high``.
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
    """Try positions of a bracket until one is above the level, and shrink the bracket to those that are not.

    The level is the logarithm of a uniform, (*chains), and the bracket the first t that is tried and both ends, with 0
    between them. `tries` are uniforms, (*chains, MOST_TRIES). Chains that find nothing stay.

    To stay is exact. Of every number of tries, the step there by way of some positions that were missed is as probable
    as the step back by way of the same ones, since both shrink to the same brackets. So what moves within a number of
    tries is reversible, and what stays is, too.
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
    """Where a log density is not finite, but for -inf beyond a declared bound."""
    found = ~target.xp.isfinite(gain)
    return found & (point.log_density != -target.xp.inf) if target.constrained else found
