"""L-BFGS on many paths at once: the way up a log density, and the inverse Hessians that are learned on it.

Sources: Byrd, Nocedal & Schnabel (1994), for the compact form; Gilbert & Lemarechal (1989), for its diagonal; Lewis &
Overton (2013), for the line search.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from array_api_compat import device as device_of

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.backend import Backend
from xpsample.core.covariance import LowRankCovariance

# Wolfe's conditions: the least share of the rise predicted by the slope, and the largest share of the slope left.
RISE, FLATTER = 1e-4, 0.9


class Ascent(NamedTuple):
    """A point of each path: positions and scores ``(paths, 1, dim)``, log densities ``(paths, 1)``."""

    x: Array
    log_density: Array
    score: Array


class Curvature(NamedTuple):
    """Curvature estimates along the paths.

    ``diagonal`` ``(paths, 1, dim)`` is the diagonal of an initial inverse Hessian. ``moves`` and ``changes``
    ``(paths, history, dim)`` are the last moves s, and the changes z of the negative score on them, in units in which
    ``s.z = 1``; zeros before the first moves.
    """

    diagonal: Array
    moves: Array
    changes: Array

    @classmethod
    def none(cls, xp: Any, x: Array, history: int) -> "Curvature":
        """Return the curvature of paths that begin at x, ``(paths, 1, dim)``."""
        zeros = xp.zeros((x.shape[0], history, x.shape[-1]), dtype=x.dtype, device=device_of(x))
        return cls(xp.ones_like(x), zeros, zeros)

    def known(self, xp: Any) -> Array:
        """Which paths have seen any, ``(paths, 1)``."""
        return xp.any(self.moves[:, -1:, :] != 0, axis=-1)

    def after(self, xp: Any, s: Array, z: Array, moved: Array) -> "Curvature":
        """Add the last move of the paths that moved, if the curvature along it is positive.

        The diagonal follows the BFGS update, as in Algorithm 3 of Pathfinder.
        """
        sizes = xp.sqrt(xp.sum(s * s, axis=-1, keepdims=True)) * xp.sqrt(xp.sum(z * z, axis=-1, keepdims=True))
        product = xp.sum(s * z, axis=-1, keepdims=True)
        use = moved[..., None] & (product > 10 * float(xp.finfo(s.dtype).eps) * sizes)
        root = xp.sqrt(xp.where(use, product, 1.0))
        s, z = xp.where(use, s / root, 0.0), xp.where(use, z / root, 0.0)
        old = self.diagonal
        along = xp.sum(s * s / old, axis=-1, keepdims=True)
        left = 1 - s * s / old / xp.where(use, along, 1.0)
        precision = xp.sum(old * z * z, axis=-1, keepdims=True) / old * xp.clip(left, min=0.0) + z * z
        tiny = float(xp.finfo(s.dtype).smallest_normal)
        diagonal = xp.where(use & (precision > tiny), 1 / xp.where(precision > tiny, precision, 1.0), old)
        moves = xp.where(use, xp.concat([self.moves[:, 1:, :], s], axis=1), self.moves)
        return Curvature(diagonal, moves, xp.where(use, xp.concat([self.changes[:, 1:, :], z], axis=1), self.changes))

    def inverse_hessian(self, xp: Any) -> LowRankCovariance:
        """The estimate of the inverse of the negative Hessian, for each path.

        In units of the diagonal it is ``I + W G W^T``, with W = (s, z) and R the upper triangle of ``s^T z``, ::

            G = [[R^-T (I + z^T z) R^-1, -R^-T], [-R^-1, 0]].
        """
        sd = xp.sqrt(self.diagonal)
        s, z = self.moves / sd, self.changes * sd
        one = xp.eye(s.shape[1], dtype=s.dtype, device=device_of(s))
        empty = xp.astype(xp.all(s == 0, axis=-1), s.dtype)[..., None, :]
        r = xp.linalg.inv(xp.triu(s @ xp.matrix_transpose(z)) + one * empty)
        r_t = xp.matrix_transpose(r)
        top = xp.concat([r_t @ (one + z @ xp.matrix_transpose(z)) @ r, -r_t], axis=-1)
        core = xp.concat([top, xp.concat([-r, xp.zeros_like(r)], axis=-1)], axis=-2)
        basis, triangle = xp.linalg.qr(xp.matrix_transpose(xp.concat([s, z], axis=-2)))
        inside = triangle @ core @ xp.matrix_transpose(triangle)
        inside = 0.5 * (inside + xp.matrix_transpose(inside))
        inside = xp.where(xp.isfinite(inside), inside, 0.0)
        more, axes = xp.linalg.eigh(inside)
        values = xp.clip(1 + more, min=float(xp.finfo(s.dtype).eps))
        return LowRankCovariance(sd, basis @ axes, values[..., None, :])


class _Climb(NamedTuple):
    """State of all paths: arrays without another shape are ``(paths, 1)``; `estimate` is an inverse Hessian."""

    at: Ascent
    curvature: Curvature
    estimate: tuple[Array, Array, Array]
    moving: Array
    endless: Array
    evaluations: Array
    seen: Any


def climb(
    backend: Backend,
    evaluate: Callable[[Array], Ascent],
    x: Array,
    steps: int,
    history: int,
    see: Callable[[Ascent, LowRankCovariance, Array, Any], Any],
    seen: Any,
) -> tuple[Ascent, Array, Array, Any]:
    """Climb a log density by L-BFGS from each start, until it is flat or can be followed no further.

    Paths begin at x, ``(paths, 1, dim)``, and make at most `most` steps, with an inverse Hessian from their last moves,
    `history` of them. Points that are not finite are rejected. After each step
    ``see(point, inverse_hessian, moved, seen)`` returns the next `seen`; `moved` ``(paths, 1)`` flags the paths that
    moved.

    Returns the last points of the paths; whether the log density rises along a line as far as that can be followed; the
    number of evaluations of log density and score, both ``(paths, 1)``; and the last `seen`.
    """
    xp = backend.xp

    def step(i: Any, path: _Climb) -> _Climb:
        estimate = LowRankCovariance(*path.estimate)
        direction = estimate.product(path.at.score)
        # The first direction has no natural length: no coordinate moves by more than 1.
        length = xp.max(xp.abs(direction), axis=-1)
        first = xp.where(path.curvature.known(xp), 1.0, 1 / xp.where(length > 1, length, 1.0))
        new, moved, endless, tried = _search(backend, evaluate, path.at, direction, first, path.moving)
        at = chosen(xp, moved, new, path.at)
        curvature = path.curvature.after(xp, at.x - path.at.x, path.at.score - at.score, moved)
        estimate = curvature.inverse_hessian(xp)
        seen = see(at, estimate, moved & curvature.known(xp), path.seen)
        gain = 0.5 * xp.sum(at.score * estimate.product(at.score), axis=-1)
        # A path ends if a Newton step would raise the log density by no more than 1e-10, or than its rounding error.
        # The bound is small because an unexplored wide coordinate makes the estimate too small by orders of magnitude.
        least = xp.clip(float(xp.finfo(x.dtype).eps) * xp.abs(at.log_density), min=1e-10)
        there = curvature.known(xp) & ~(gain > least)
        found = (estimate.sd, estimate.vectors, estimate.values)
        return _Climb(at, curvature, found, moved & ~there, path.endless | endless, path.evaluations + tried, seen)

    at, curvature = evaluate(x), Curvature.none(xp, x, history)
    first = curvature.inverse_hessian(xp)
    moving = xp.isfinite(at.log_density) & xp.all(xp.isfinite(at.score), axis=-1)
    count = xp.ones_like(moving, dtype=xp.int32)
    begun = _Climb(at, curvature, (first.sd, first.vectors, first.values), moving, xp.zeros_like(moving), count, seen)
    end = backend.repeat(steps, step, begun, until=lambda path: ~xp.any(path.moving))
    return end.at, end.endless, end.evaluations, end.seen


class _Search(NamedTuple):
    """Line search: the step to try, its bracket, whether the search continues, and its result."""

    step: Array
    low: Array
    high: Array
    looking: Array
    point: Ascent
    tried: Array


def _search(
    backend: Backend, evaluate: Callable[[Array], Ascent], at: Ascent, direction: Array, first: Array, moving: Array
) -> tuple[Ascent, Array, Array, Array]:
    """A point on each line for which Wolfe's conditions hold, whether there is one, whether no step was too long, and
    how many were evaluated.

    A step that does not rise enough is too long, and one behind which it rises as before is too short: twice as long
    while none was too long, then halfway between the two.
    """
    xp = backend.xp
    slope = xp.sum(direction * at.score, axis=-1)

    def try_one(i: Any, search: _Search) -> _Search:
        new = evaluate(at.x + search.step[..., None] * direction)
        fine = xp.isfinite(new.log_density) & xp.all(xp.isfinite(new.score), axis=-1)
        rises = fine & (new.log_density >= at.log_density + RISE * search.step * slope)
        found = rises & (xp.sum(direction * new.score, axis=-1) <= FLATTER * slope)
        low, high = xp.where(rises, search.step, search.low), xp.where(rises, search.high, search.step)
        between = 0.5 * (low + xp.where(xp.isfinite(high), high, 3 * low))
        point = chosen(xp, search.looking & found, new, search.point)
        tried = search.tried + xp.astype(search.looking, search.tried.dtype)
        step = xp.where(search.looking & ~found, between, search.step)
        return _Search(step, low, high, search.looking & ~found, point, tried)

    looking = moving & (slope > 0) & xp.isfinite(slope)
    none = xp.zeros_like(moving, dtype=xp.int32)
    begun = _Search(first, xp.zeros_like(first), xp.full_like(first, xp.inf), looking, at, none)
    # Factors of 2 up to 1e12, or down to 1e-12.
    end = backend.repeat(40, try_one, begun, until=lambda search: ~xp.any(search.looking))
    return end.point, looking & ~end.looking, end.looking & ~xp.isfinite(end.high), end.tried


def chosen(xp: Any, where: Array, new: tree.Tree, old: tree.Tree) -> Any:
    """Return the leaves of `new` for the paths for which `where` ``(paths, 1)`` holds, otherwise of `old`."""
    return tree.map(lambda a, b: xp.where(where[(..., *(None,) * (a.ndim - 2))], a, b), new, old)
