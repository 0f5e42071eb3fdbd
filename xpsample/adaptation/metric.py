"""Metrics: scales of the coordinates and their correlations, estimated from the chains."""

import math
from abc import abstractmethod
from typing import Any, NamedTuple

from array_api_compat import device as device_of

from xpsample.adaptation.rule import METRIC_BITS, FollowingRule, StepRecord, rounded, vector_per_group
from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.covariance import DenseCovariance, DiagonalCovariance, dense_covariance
from xpsample.core.declared import declared
from xpsample.core.fields import flag

FROZEN = 0.7  # Share of the warm-up after which a metric stays as it is, so that the step size can settle

SHRINKAGE = 5.0  # Draws that a scale of 1 counts for


# Steps of the first window, and the share by which each window is longer than the one before.
# The first draws, whose scores may be larger than the target's by many orders of magnitude, are therefore soon
# forgotten.
SHORTEST, GROWTH = 10.0, 0.5

# The same for metrics without scores, whose windows each measure how far the chains move.
SHORTEST_WITHOUT, GROWTH_WITHOUT = 20.0, 0.2

LARGEST_LOG = 80.0  # Largest logarithm of a number, or of its inverse, that fits into float32

EVERY = 10  # Steps from one dense estimate to the next

DENSE_BITS = 2**14  # `METRIC_BITS` for the entries of a matrix, which change its inverse by more

WITHOUT_SCORES = 4.0  # Factor on the warm-up's recommended length for a metric without scores


class DrawMoments(NamedTuple):
    """Draws seen (0-d), and means and sums of squared deviations of positions and of scores, ``(*groups, 1, dim)``.

    A dense metric has sums of products, ``(*groups, dim, dim)``. Those of scores are None where they do not count.
    """

    seen: Array
    mean: Array
    squares: Array
    score_mean: Any
    score_squares: Any


class Windows(NamedTuple):
    """The memory of a metric: the estimate as it is, and two sets of moments.

    The estimate is the logarithm of the scales, ``(*groups, 1, dim)``, or a root ``(*groups, dim, dim)``. It comes from
    `front`. `back` takes its place at the end of a window, so that early draws are forgotten.
    """

    estimate: Array
    front: DrawMoments
    back: DrawMoments


class Metric(FollowingRule, eq=True):
    """A metric from the moments of positions, and of scores, in two overlapping windows."""

    scores: bool | None = flag(default=None)
    inverse: bool | None = flag(default=None)

    rank = 0

    @declared
    def patience(self) -> float:
        return 1.0 if self._by_scores else WITHOUT_SCORES

    def init(self, xp: Any, point: Any, pooled: bool) -> Windows:
        x = point.x
        zero = vector_per_group(xp, x, pooled)
        moments = self._moments(xp, point, DrawMoments(xp.sum(zero) * 0.0, zero, zero, zero, zero), pooled)
        return Windows(self._start(xp, moments), moments, moments)

    def follow(self, xp: Any, memory: Windows, point: Any, pooled: bool) -> Windows:
        return self.init(xp, point, pooled)

    def update(self, memory: Windows, seen: StepRecord) -> tuple[Windows, StepRecord]:
        xp = seen.xp
        adapts = seen.n <= FROZEN * seen.steps
        switched = adapts & ends_window(xp, seen.n, *self._windows)

        def next_window(i: Any, moments: tuple[DrawMoments, DrawMoments]) -> tuple[DrawMoments, DrawMoments]:
            # An empty window behind: its first draws come with the next step.
            return moments[1], tree.map(xp.zeros_like, moments[1])

        def adapted(i: Any, memory: Windows) -> Windows:
            now = self._moments(xp, seen.after, memory.front, seen.pooled)
            moments = tuple(self._merged(xp, window, now, seen.pooled) for window in (memory.front, memory.back))
            front, back = seen.backend.repeat(switched, next_window, moments)
            return Windows(self._update(seen, memory.estimate, front), front, back)

        # Once or not at all: moments that are not used are not computed.
        return seen.backend.repeat(adapts, adapted, memory), seen._replace(switched=switched)

    def path(self, xp: Any, memory: Windows) -> Array:
        return self.final(xp, memory)

    @property
    def _windows(self) -> tuple[float, float]:
        return (SHORTEST, GROWTH) if self._by_scores else (SHORTEST_WITHOUT, GROWTH_WITHOUT)

    @property
    def _by_scores(self) -> bool:
        return self.scores is not False

    @abstractmethod
    def _products(self, xp: Any, values: Array, pooled: bool) -> Array:
        """Sums over the chains of a group of squares, or of all products, of values ``(*chains, dim)``."""

    @abstractmethod
    def _start(self, xp: Any, moments: DrawMoments) -> Array:
        """The first estimate."""

    @abstractmethod
    def _update(self, seen: StepRecord, estimate: Array, moments: DrawMoments) -> Array:
        """The next one."""

    def _moments(self, xp: Any, point: Any, before: DrawMoments, pooled: bool) -> DrawMoments:
        """The moments of the chains' positions, and scores; where one is not finite, the mean before stands for it."""
        x = self._of_values(xp, point.x, before.mean, pooled)
        scores = self._of_values(xp, point.score, before.score_mean, pooled) if self._by_scores else (None, None)
        count = float(point.x.shape[-2]) if pooled else 1.0
        return DrawMoments(xp.zeros_like(before.seen) + count, *x, *scores)

    def _of_values(self, xp: Any, values: Array, mean: Array, pooled: bool) -> tuple[Array, Array]:
        values = xp.where(xp.isfinite(values), values, mean)
        mean = xp.mean(values, axis=-2, keepdims=True) if pooled else values
        return mean, self._products(xp, values - mean, pooled)

    def _merged(self, xp: Any, a: DrawMoments, b: DrawMoments, pooled: bool) -> DrawMoments:
        """The moments of two samples together (Chan, Golub & LeVeque 1983)."""
        share = b.seen / (a.seen + b.seen)

        def both(mean: Array, squares: Array, other_mean: Array, other_squares: Array) -> tuple[Array, Array]:
            gap = other_mean - mean
            return mean + share * gap, squares + other_squares + a.seen * share * self._products(xp, gap, pooled)

        x = both(a.mean, a.squares, b.mean, b.squares)
        scores: tuple[Any, Any] = (None, None)
        if self._by_scores:
            scores = both(a.score_mean, a.score_squares, b.score_mean, b.score_squares)
        return DrawMoments(a.seen + b.seen, *x, *scores)


class DiagonalMetric(Metric, eq=True):
    """A diagonal metric: a scale for each coordinate, in two overlapping windows.

    With scores the variance is ``sqrt(var x / var score)``, which minimizes the Fisher divergence to a Gaussian and
    is right for a Gaussian after few draws, wherever they are [1]_; without, it is ``var x``. Start positions
    count. An estimate of n draws gets the weight n / (n + 5), a variance of 1 the rest, as logarithms.

    Parameters
    ----------
    scores : bool, optional
        Whether scores count; as in the kernel's own rule when not given.
    inverse : bool, optional
        Whether the field is a mass, the inverse of a covariance; as in the kernel's own rule when not given.

    See Also
    --------
    LowRankMetric : With some directions more.
    DenseMetric : A whole matrix.

    References
    ----------
    .. [1] Seyboldt, Carlson & Carpenter (2026), "Preconditioning Hamiltonian Monte Carlo by minimizing Fisher
       divergence".

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.HMC(mass=xps.DiagonalMetric()), x0, 1000, seed=1)
    >>> trace.kernel.mass.shape
    (2,)
    """

    def value(self, xp: Any, memory: Windows, kernel: Any) -> DiagonalCovariance:
        sd = rounded(xp, -memory.estimate if self.inverse else memory.estimate, METRIC_BITS)
        return DiagonalCovariance(sd * sd, sd)

    def final(self, xp: Any, memory: Windows) -> Array:
        return self.value(xp, memory, None).variance

    def _products(self, xp: Any, values: Array, pooled: bool) -> Array:
        return xp.sum(values * values, axis=-2, keepdims=True) if pooled else values * values

    def _start(self, xp: Any, moments: DrawMoments) -> Array:
        return log_scale(xp, moments, moments.squares, moments.score_squares)

    def _update(self, seen: StepRecord, estimate: Array, moments: DrawMoments) -> Array:
        return self._start(seen.xp, moments)


class DenseMetric(Metric, eq=True):
    """A full matrix, for targets whose correlations slow a diagonal one down.

    With scores it is the matrix S with ``S cov(score) S = cov(x)``, which minimizes the Fisher divergence to a
    Gaussian; without, cov(x). Correlations of n draws get the weight n / (n + 5), or n / (n + 5 + dim) without scores,
    correlations of the identity the rest. It therefore needs many draws: a few times the dimension, over all chains of
    a group. Every estimate costs some times dim^3 operations; one is made in every tenth step.

    ``HMC(mass=DenseMetric())`` asks for it in place of the diagonal one.

    Parameters
    ----------
    scores, inverse : bool, optional
        As for `DiagonalMetric`.

    See Also
    --------
    DiagonalMetric : Scales only.
    LowRankMetric : For many coordinates.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.HMC(mass=xps.DenseMetric()), x0, 1000, seed=1)
    >>> trace.kernel.mass.shape
    (2, 2)
    """

    def value(self, xp: Any, memory: Windows, kernel: Any) -> DenseCovariance:
        return dense_covariance(memory.estimate, inverse=bool(self.inverse))

    def final(self, xp: Any, memory: Windows) -> Array:
        return self.value(xp, memory, None).matrix

    def _products(self, xp: Any, values: Array, pooled: bool) -> Array:
        if pooled:
            return xp.matrix_transpose(values) @ values
        return values[..., :, None] * values[..., None, :]

    def _start(self, xp: Any, moments: DrawMoments) -> Array:
        return self._root(xp, moments)

    def _update(self, seen: StepRecord, estimate: Array, moments: DrawMoments) -> Array:
        xp = seen.xp
        now = xp.remainder(seen.n, EVERY) == 0
        return seen.backend.repeat(now, lambda i, old: self._root(xp, moments), estimate)

    def _root(self, xp: Any, moments: DrawMoments) -> Array:
        """The lower Cholesky factor of the metric, (*groups, dim, dim), rounded."""
        variance = xp.linalg.diagonal(moments.squares)[..., None, :]
        by_scores = self._by_scores
        score_variance = xp.linalg.diagonal(moments.score_squares)[..., None, :] if by_scores else None
        sd = xp.exp(log_scale(xp, moments, variance, score_variance))
        dim = sd.shape[-1]
        rest = (SHRINKAGE if by_scores else SHRINKAGE + dim) / (moments.seen + SHRINKAGE + (0 if by_scores else dim))
        rest = xp.clip(rest, min=10 * dim * float(xp.finfo(sd.dtype).eps))
        matrix = correlations(xp, moments.squares, variance, rest)
        if by_scores:
            # In units of these sds both covariances have the same diagonal, whose root is `common`.
            common = xp.sqrt(xp.sqrt(variance * score_variance) / xp.clip(moments.seen, min=1.0))
            common = xp.where(common > 0, common, 1.0)
            pairs = xp.matrix_transpose(common) * common
            scores = correlations(xp, moments.score_squares, score_variance, rest)
            matrix = geometric_mean(xp, pairs * matrix, pairs * scores)
        root = xp.matrix_transpose(sd) * xp.linalg.cholesky(matrix)
        size = rounded(xp, xp.log(xp.where(root == 0, 1.0, xp.abs(root))), DENSE_BITS)
        return xp.sign(root) * size


def ends_window(xp: Any, n: Array, shortest: float = SHORTEST, growth: float = GROWTH) -> Array:
    """Return whether a window ends with step n."""
    return xp.floor(_windows(xp, n, shortest, growth)) != xp.floor(_windows(xp, n - 1, shortest, growth))


def _windows(xp: Any, n: Array, shortest: float, growth: float) -> Array:
    """Windows that n steps make up. No whole number of steps is one of windows: rounding does not decide."""
    return xp.log1p(xp.clip(n - 0.5, min=0.0) * (growth / shortest)) / math.log1p(growth)


def correlations(xp: Any, products: Array, squares: Any, rest: Array) -> Array:
    """Correlations, shrunk toward the identity with weight `rest`."""
    sd = xp.sqrt(xp.where(squares > 0, squares, 1.0))
    dim = sd.shape[-1]
    one = xp.eye(dim, dtype=products.dtype, device=device_of(products))
    found = products / (xp.matrix_transpose(sd) * sd)
    return xp.where(one > 0, 1.0, (1 - rest) * found)


def geometric_mean(xp: Any, a: Array, b: Array) -> Array:
    """Geometric mean of a and the inverse of b: the positive definite matrix S with S b S = a."""
    lower = xp.linalg.cholesky(b)
    upper = xp.matrix_transpose(lower)
    values, vectors = xp.linalg.eigh(upper @ a @ lower)
    values = xp.sqrt(xp.clip(values, min=0.0))[..., None, :]
    half = xp.linalg.inv(upper)
    middle = (vectors * values) @ xp.matrix_transpose(vectors)
    matrix = half @ middle @ xp.matrix_transpose(half)
    return 0.5 * (matrix + xp.matrix_transpose(matrix))


def log_scale(xp: Any, moments: DrawMoments, squares: Array, score_squares: Any) -> Array:
    """Logarithms of the standard deviations, from sums of squares of positions, and of scores or None.

    If the score is constant, as for an exponential distribution or in a box, it carries no information about the scale:
    only the variance of the positions is used there, and where sums of squares of scores overflow.
    """
    seen = moments.seen
    moved = squares > 0
    variance = xp.where(moved, squares, 1.0) / xp.where(moved, seen + xp.zeros_like(squares), 1.0)
    log_variance = xp.where(moved, xp.log(variance), 0.0)
    if score_squares is not None:
        mean, eps = moments.score_mean, float(xp.finfo(squares.dtype).eps)
        varies = score_squares > seen * (100 * eps * mean) ** 2  # and not by rounding alone
        varies = varies & xp.isfinite(score_squares)
        top, below = (xp.where(moved & varies, of, 1.0) for of in (squares, score_squares))
        # The ratio is the fourth power of a scale: float32 can represent scales from 1e-9 to 1e9.
        log_both = xp.log(top) - xp.log(below)
        held = xp.abs(log_both) < LARGEST_LOG
        log_both = xp.where(held, xp.log(top / xp.where(held, below, top)), log_both)
        log_variance = xp.where(varies, 0.5 * log_both, log_variance)
    return 0.5 * seen / (seen + SHRINKAGE) * log_variance
