"""A diagonal metric with a few scaled directions, from the last draws and their scores (Seyboldt, Carlson & Carpenter
2026, "Preconditioning Hamiltonian Monte Carlo by minimizing Fisher divergence")."""

import math
from typing import Any, ClassVar, NamedTuple

from array_api_compat import device as device_of

from xpsample.adaptation.metric import EVERY, FROZEN, SHRINKAGE, correlations, ends_window, geometric_mean
from xpsample.adaptation.rule import METRIC_BITS, Rule, StepRecord, rounded, vector_per_group
from xpsample.core.arrays import Array
from xpsample.core.covariance import LowRankCovariance
from xpsample.core.errors import HyperparameterError
from xpsample.core.fields import count, flag

DRAWS = 128  # Approximate number of draws kept per group: from as many chains, or from several steps of fewer chains

SPAN = 3.0  # Draws count that are of the last two thirds of the steps so far, evenly spread on a logarithmic scale

FAR = 2.0  # Directions whose variance is above this in units of the diagonal, or below its inverse, are scaled

ROUNDS = 4  # Number of alternating updates of the diagonal and the directions

COVERED = 0.9  # The share of a coordinate in the directions from which on these leave nothing to find its scale by

GRID = 2.0**16  # Entries of the directions are rounded to multiples of its inverse


class Directions(NamedTuple):
    """An estimate: log sds ``(*groups, 1, dim)``, directions ``(*groups, dim, rank)``, variances ``(*groups, 1, rank)``
    along them."""

    log_sd: Array
    vectors: Array
    values: Array


class LastDraws(NamedTuple):
    """The memory: the estimate, and draws and scores ``(*groups, slots, chains, dim)``, and the steps that they are of.

    ``made`` is ``(*groups, slots, chains)``, and -1 where a draw or its score is not finite.
    """

    estimate: Directions
    x: Array
    score: Array
    made: Array


class LowRankMetric(Rule, eq=True):
    """A diagonal metric and the few directions in which it is far off: for many coordinates with few correlations.

    In units of the diagonal, standardized draws x and their scores s have ``s = -x`` where the target is a standard
    Gaussian. The directions are the principal ones of ``x + s``, whose mean square is the Fisher divergence that the
    diagonal leaves. Their variances come from the geometric mean of the covariance of the draws and the inverse
    covariance of the scores; directions whose variance is within [1 / 2, 2] are not scaled. The diagonal is
    ``sqrt(var x / var score)`` of the part of a coordinate that the directions leave; the two are updated alternately.

    On a Gaussian of this form a few more draws than directions are enough, wherever they are. The paper takes the
    directions from the whole span of draws and scores, for which few draws were not enough on such a Gaussian, and the
    diagonal once. An estimate takes O(dim) memory and work, with about 128 draws; one is made in every tenth step. If
    more directions need scaling, use `DenseMetric`.

    Use it with ``HMC(mass=LowRankMetric())``. Because it uses the kernel's scores, it cannot be used with `RWM`.

    Parameters
    ----------
    directions : int
        The most of them.
    inverse : bool, optional
        As for `DiagonalMetric`.

    See Also
    --------
    DiagonalMetric : Scales only.
    DenseMetric : A whole matrix.
    LowRankCovariance : What it gives.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.HMC(mass=xps.LowRankMetric()), x0, 1000, seed=1)
    >>> type(trace.kernel.mass).__name__
    'LowRankCovariance'
    """

    directions: int = count(default=10)
    inverse: bool | None = flag(default=None)

    rank = 0
    patience: ClassVar[float] = 1.0

    def init(self, xp: Any, point: Any, pooled: bool) -> LastDraws:
        if point.score is None:
            raise HyperparameterError(
                "LowRankMetric needs scores, but the kernel computes none. Use DiagonalMetric or DenseMetric."
            )
        zero = vector_per_group(xp, point.x, pooled)
        x, score, made = _usable(xp, point, pooled, xp.sum(zero) * 0.0)
        slots = -(-DRAWS // x.shape[-2])
        first = xp.arange(slots, device=device_of(x)) == 0
        x, score = (xp.where(first[:, None, None], a[..., None, :, :], 0.0) for a in (x, score))
        made = xp.where(first[:, None], made[..., None, :], -1.0)
        most = min(self.directions, zero.shape[-1], slots * x.shape[-2])
        no_vectors = xp.zeros((*zero.shape[:-2], zero.shape[-1], most), dtype=x.dtype, device=device_of(x))
        ones = xp.sum(no_vectors, axis=-2, keepdims=pooled) + 1.0
        return LastDraws(Directions(zero, no_vectors, ones), x, score, made)

    def value(self, xp: Any, memory: LastDraws, kernel: Any) -> LowRankCovariance:
        log_sd, vectors, values = memory.estimate
        found = LowRankCovariance(rounded(xp, log_sd, METRIC_BITS), vectors, values)
        return found.inverse() if self.inverse else found

    def update(self, memory: LastDraws, seen: StepRecord) -> tuple[LastDraws, StepRecord]:
        xp = seen.xp
        x, score, made = _usable(xp, seen.after, seen.pooled, seen.n)
        slots = memory.made.shape[-2]
        slot = xp.remainder(_slot(xp, seen.n, slots), slots)
        here = xp.arange(slots, dtype=slot.dtype, device=device_of(x)) == slot
        x = xp.where(here[:, None, None], x[..., None, :, :], memory.x)
        score = xp.where(here[:, None, None], score[..., None, :, :], memory.score)
        made = xp.where(here[:, None], made[..., None, :], memory.made)

        def estimate(i: Any, old: Directions) -> Directions:
            rows = (*made.shape[:-2], made.shape[-2] * made.shape[-1])
            counts = xp.astype(xp.reshape(made, rows) >= seen.n / SPAN, x.dtype)[..., None]
            x_rows, score_rows = (xp.reshape(a, (*rows, a.shape[-1])) for a in (x, score))
            return self._estimate(seen, old, x_rows, score_rows, counts)

        adapts = seen.n <= FROZEN * seen.steps
        now = adapts & (xp.remainder(seen.n, EVERY) == 0)
        # Once or not at all: an estimate that is not used is not computed.
        new = seen.backend.repeat(now, estimate, memory.estimate)
        return LastDraws(new, x, score, made), seen._replace(switched=adapts & ends_window(xp, seen.n))

    def final(self, xp: Any, memory: LastDraws) -> LowRankCovariance:
        return self.value(xp, memory, None)

    def path(self, xp: Any, memory: LastDraws) -> Array:
        return self.value(xp, memory, None).diagonal()

    def _estimate(self, seen: StepRecord, old: Directions, x: Array, score: Array, counts: Array) -> Directions:
        """Estimate directions from draws and scores (*groups, n, dim); ``counts`` is 1 for those used, otherwise 0."""
        xp, pooled = seen.xp, seen.pooled
        count = xp.sum(counts, axis=-2, keepdims=pooled)
        weight = count / (count + SHRINKAGE)
        x, score = (_centred(xp, a, counts) for a in (x, score))
        # Draws that do not change, or whose scores do not, say nothing of a scale.
        known = _known(xp, xp.sum(x * x, axis=-2, keepdims=pooled), xp.sum(score * score, axis=-2, keepdims=pooled))
        like = old.vectors

        def round_of_both(i: Any, found: tuple[Array, Array]) -> tuple[Array, Array]:
            log_sd, vectors = found
            sd = xp.exp(log_sd)
            x_left, score_left = (a - (a @ vectors) @ xp.matrix_transpose(vectors) for a in (x / sd, score * sd))
            squares = xp.sum(x_left * x_left, axis=-2, keepdims=pooled)
            score_squares = xp.sum(score_left * score_left, axis=-2, keepdims=pooled)
            covered = xp.reshape(xp.sum(vectors * vectors, axis=-1), log_sd.shape) > COVERED
            ratio = known & _known(xp, squares, score_squares)
            change = 0.25 * (xp.log(xp.where(ratio, squares, 1.0)) - xp.log(xp.where(ratio, score_squares, 1.0)))
            log_sd = xp.where(covered, log_sd, weight * xp.where(known, log_sd + change, 0.0))
            # Those of one coordinate, without its unit: 1 for each draw, or less where they are near to one another.
            level = xp.sum(xp.where(ratio, xp.sqrt(squares) * xp.sqrt(score_squares), 0.0), axis=-1, keepdims=True)
            level = level / xp.clip(xp.sum(xp.astype(ratio, x.dtype), axis=-1, keepdims=True), min=1.0)
            return log_sd, self._principal(xp, *_in_units(xp, x, score, log_sd, known), level, like)

        log_sd, vectors = seen.backend.repeat(ROUNDS, round_of_both, (0.0 * old.log_sd, 0.0 * like))
        return Directions(log_sd, *self._scaled(xp, *_in_units(xp, x, score, log_sd, known), vectors, count, weight))

    def _principal(self, xp: Any, x: Array, score: Array, level: Array, like: Array) -> Array:
        """Compute the principal directions of x + score, zero for those whose share of the divergence needs no scaling.

        A direction that is not scaled has the squares `level` of draws, and of scores.
        """
        both, most = x + score, like.shape[-1]
        both = xp.where(xp.isfinite(both), both, 0.0)
        if both.shape[-2] < both.shape[-1]:  # of the smaller of the two matrices of products
            squares, axes = xp.linalg.eigh(both @ xp.matrix_transpose(both))
            axes = xp.matrix_transpose(both) @ (axes / xp.sqrt(xp.where(squares > 0, squares, 1.0))[..., None, :])
        else:
            squares, axes = xp.linalg.eigh(xp.matrix_transpose(both) @ both)
        squares = xp.reshape(squares[..., -most:], (*level.shape[:-1], most))
        # A direction of variance v has (v - 1)^2 / v.
        used = (squares > (FAR - 1) ** 2 / FAR * level) & (level > 0)
        return xp.where(used, axes[..., -most:], 0.0)

    def _scaled(
        self, xp: Any, x: Array, score: Array, vectors: Array, count: Array, weight: Array
    ) -> tuple[Array, Array]:
        """Select the given directions in which the variance is far from 1, and compute their variances."""
        one = xp.eye(vectors.shape[-1], dtype=vectors.dtype, device=device_of(vectors))
        products = [xp.matrix_transpose(a @ vectors) @ (a @ vectors) for a in (x, score)]
        squares = [xp.linalg.diagonal(a)[..., None, :] for a in products]
        used = (squares[0] > 0) & (squares[1] > 0)
        sizes = [xp.sqrt(xp.where(used, a, 1.0)) for a in squares]
        # In units in which both have the same diagonal, and a little nearer to it, so that they have inverses.
        unit, common = xp.sqrt(sizes[0] / sizes[1]), xp.sqrt(sizes[0]) * xp.sqrt(sizes[1])
        largest = xp.max(xp.where(used, common, 0.0), axis=-1, keepdims=True)
        common = xp.where(used, common / xp.where(largest > 0, largest, 1.0), 1.0)
        rest = 10 * one.shape[0] * float(xp.finfo(x.dtype).eps)
        both = [_pairs(xp, common) * correlations(xp, a, b, rest) for a, b in zip(products, squares, strict=True)]
        values, axes = xp.linalg.eigh(_pairs(xp, unit) * geometric_mean(xp, *both))
        values = xp.clip(values, min=float(xp.finfo(x.dtype).smallest_normal))
        values = weight * xp.log(xp.reshape(values, (*count.shape[:-1], one.shape[0])))
        far = xp.abs(values) > math.log(FAR)
        vectors = xp.where(far, xp.round(vectors @ axes * GRID) / GRID, 0.0)
        return _orthonormal(xp, vectors, one), xp.where(far, rounded(xp, values, METRIC_BITS), 1.0)


def _usable(xp: Any, point: Any, pooled: bool, n: Array) -> tuple[Array, Array, Array]:
    """Draws and scores ``(*groups, chains, dim)`` of at most `DRAWS` chains, and their step, -1 where not finite."""
    x, score = (a[..., : min(DRAWS, a.shape[-2]), :] if pooled else a[None, :] for a in (point.x, point.score))
    fine = xp.all(xp.isfinite(x) & xp.isfinite(score), axis=-1)
    x, score = (xp.where(fine[..., None], a, 0.0) for a in (x, score))
    return x, score, xp.where(fine, n, -1.0)


def _slot(xp: Any, n: Array, slots: int) -> Array:
    """Return the slot for the draws of a step: one slot per step at first, later one for as many as keep `SPAN`."""
    rate = slots / math.log(SPAN)
    return xp.floor(rate * xp.log1p(n / rate))


def _centred(xp: Any, values: Array, counts: Array) -> Array:
    """Deviations from the mean over the entries counted; 0 for the others."""
    mean = xp.sum(counts * values, axis=-2, keepdims=True) / xp.clip(xp.sum(counts, axis=-2, keepdims=True), min=1.0)
    return counts * (values - mean)


def _known(xp: Any, squares: Array, score_squares: Array) -> Array:
    return (squares > 0) & (score_squares > 0) & xp.isfinite(squares) & xp.isfinite(score_squares)


def _in_units(xp: Any, x: Array, score: Array, log_sd: Array, known: Array) -> tuple[Array, Array]:
    """Draws and scores in units of the diagonal."""
    sd = xp.exp(log_sd)
    return xp.where(known, x / sd, 0.0), xp.where(known, score * sd, 0.0)


def _pairs(xp: Any, values: Array) -> Array:
    """Products of two of the values (*groups, 1, rank)."""
    return xp.matrix_transpose(values) * values


def _orthonormal(xp: Any, vectors: Array, one: Array) -> Array:
    """Columns that are nearly so, or zero, made orthonormal in their order (Gram & Schmidt, by Cholesky)."""
    products = xp.matrix_transpose(vectors) @ vectors
    products = products + one * xp.astype(xp.linalg.diagonal(products) == 0, vectors.dtype)[..., None, :]
    return vectors @ xp.matrix_transpose(xp.linalg.inv(xp.linalg.cholesky(products)))
