"""Discrepancies: the maximum mean discrepancy of two samples, the kernel Stein and the Fisher divergence of one.

Sources: Gretton et al., "A kernel two-sample test", JMLR 13 (2012) 723-773, Lemma 6; Liu, Lee & Jordan (2016) and
Chwialkowski, Strathmann & Gretton (2016) for the Stein discrepancy. Pairs are summed in blocks of rows, so that no more
than `BLOCK` pairs are in memory at once.
"""

from collections.abc import Iterator
from typing import Any

from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.checks import check_flag, given
from xpsample.core.devices import as_in_runs
from xpsample.core.errors import HyperparameterError
from xpsample.core.hyperparameters import check_reals, per_coordinate
from xpsample.core.registry import check_same_home
from xpsample.metrics.stein import RBF, Bandwidth, PairKernel, check_kernel, middle, squared_distances

BLOCK = 2**22  # Pairs that are held at once

MEDIAN_POINTS = 1000  # Points, evenly spaced in the sample, among which the median distance is taken


@as_in_runs
def squared_mmd(x: Array, y: Array, kernel: PairKernel | None = None, unbiased: bool = True) -> Array:
    """Squared maximum mean discrepancy between the distributions that two samples come from.

    Parameters
    ----------
    x : array, shape (..., n, dim)
    y : array, shape (..., m, dim)
        Samples; leading axes are separate comparisons and broadcast.
    kernel : PairKernel, optional
        With a number for its bandwidth: ``RBF(10.0)`` is exp(-0.1 d^2). By default an RBF; its sigma is the
        `median_bandwidth` of both samples together.
    unbiased : bool
        The U-statistic, which may be negative, or the V-statistic, which is not.

    Returns
    -------
    array, shape (...)
        Without unit.

    Raises
    ------
    HyperparameterError
        If the kernel has a bandwidth rule, or a sample has fewer than two points.
    """
    xp, unbiased = _namespace("x", x), check_flag("unbiased", unbiased)
    _namespace("y", y)
    n, m = _count(x), _count(y)
    if x.shape[-1] != y.shape[-1]:
        raise HyperparameterError(f"x and y have {x.shape[-1]} and {y.shape[-1]} coordinates")
    check_same_home("y", y, x)
    kernel = _fixed(RBF(median_bandwidth(_joined(xp, x, y))) if kernel is None else kernel)
    across: Any = sum(_sums(xp, kernel, x, y)) / (n * m)
    within: list[Any] = []
    for a, count in ((x, n), (y, m)):
        total = sum(_sums(xp, kernel, a, a))
        own = kernel.profile(xp, xp.zeros_like(total))[0] * count  # of every point with itself
        within.append((total - own) / (count * (count - 1)) if unbiased else total / count**2)
    return within[0] + within[1] - 2.0 * across


@as_in_runs
def squared_ksd(x: Array, score: Array, kernel: PairKernel | None = None, unbiased: bool = True) -> Array:
    """Squared kernel Stein discrepancy between the distribution of a sample and a target known by its score.

    It is the mean over pairs of ``s_i . s_j K + s_i . grad_j K + s_j . grad_i K + tr grad_i grad_j K``, whose
    expectation is 0 if the sample comes from the target.

    Parameters
    ----------
    x : array, shape (..., n, dim)
        The sample; leading axes are separate samples.
    score : array, shape (..., n, dim)
        The target's score there.
    kernel : PairKernel, optional
        With a number for its bandwidth. By default an RBF; its sigma is the `median_bandwidth` of the sample. In
        higher dimension an `InverseMultiquadric` detects what an RBF may miss.
    unbiased : bool
        The U-statistic, which may be negative, or the V-statistic, which is not.

    Returns
    -------
    array, shape (...)
        In one over x squared.

    Raises
    ------
    HyperparameterError
        If the kernel has a bandwidth rule, or the sample fewer than two points.
    """
    xp, unbiased = _namespace("x", x), check_flag("unbiased", unbiased)
    _namespace("score", score)
    n, dim = _count(x), x.shape[-1]
    if tuple(score.shape) != tuple(x.shape):
        raise HyperparameterError(f"score has shape {tuple(score.shape)}, and x {tuple(x.shape)}: give one alike")
    check_same_home("score", score, x)
    kernel = _fixed(RBF(median_bandwidth(x)) if kernel is None else kernel)
    sigma = _sigma(kernel)
    centred = x - xp.mean(x, axis=-2, keepdims=True)
    own = xp.sum(score * centred, axis=-1)  # s_j . x_j
    total = xp.zeros_like(own[..., 0])
    for rows in _blocks(n, n):
        a, s = centred[..., rows, :], score[..., rows, :]
        squared = squared_distances(xp, a, centred)
        f, first, second = kernel.profile(xp, squared / sigma)
        mixed = s @ xp.matrix_transpose(centred) + a @ xp.matrix_transpose(score)  # s_i . x_j + s_j . x_i
        mixed = mixed - own[..., rows][..., :, None] - own[..., None, :]  # (s_i - s_j) . (x_j - x_i)
        trace = -(2.0 * dim / sigma) * first - (4.0 / sigma) * (squared / sigma) * second
        pairs = f * (s @ xp.matrix_transpose(score)) + (2.0 / sigma) * first * mixed + trace
        total = total + xp.sum(pairs, axis=(-2, -1))
    if not unbiased:
        return total / n**2
    at_zero, first, _ = kernel.profile(xp, xp.zeros_like(own))
    diagonal = xp.sum(
        at_zero * xp.sum(score * score, axis=-1) - (2.0 * dim / per_coordinate(kernel.bandwidth)) * first, axis=-1
    )
    return (total - diagonal) / (n * (n - 1))


def fisher_divergence(score: Array, other: Array) -> Array:
    """The Fisher divergence of one distribution from another, by their scores at draws of the first.

    It is the mean of ``|score - other|^2``: what score matching minimizes (Hyvarinen 2005; Definition 1 of Score-MH).
    It sees no weights of distant modes, since scores do not either.

    Parameters
    ----------
    score : array, shape (..., n, dim)
        Score of the distribution from which the n draws come, at the draws.
    other : array, shape (..., n, dim)
        Score of the other distribution at the same draws. With a learned score the result measures how well it was
        learned.

    Returns
    -------
    array, shape (...)
        In one over x squared.

    Examples
    --------
    N(0, I) and N((3, 4), I) are 3^2 + 4^2 apart, whatever the draws:

    >>> import numpy as np
    >>> from xpsample.metrics import fisher_divergence
    >>> x = np.random.default_rng(0).standard_normal((100, 2))
    >>> print(fisher_divergence(-x, np.array([3.0, 4.0]) - x).round(6))
    25.0
    """
    xp = _namespace("score", score)
    _namespace("other", other)
    if tuple(other.shape) != tuple(score.shape):
        raise HyperparameterError(
            f"other has shape {tuple(other.shape)}, but score has {tuple(score.shape)}. Pass both at the same draws."
        )
    check_same_home("other", other, score)
    return xp.mean(xp.sum((score - other) ** 2, axis=-1), axis=-1)


@as_in_runs
def median_bandwidth(x: Array) -> Array:
    """The median of the squared distances between the points (..., n, dim), shape (...), in units of x squared.

    It is taken among at most `MEDIAN_POINTS` of them, evenly spaced.
    """
    xp = _namespace("x", x)
    x = x[..., :: -(-_count(x) // MEDIAN_POINTS), :]
    n = x.shape[-2]
    flat = xp.sort(xp.reshape(squared_distances(xp, x, x), (*x.shape[:-2], n * n)), axis=-1)[..., n:]
    return middle(flat)


def _namespace(name: str, x: Array) -> Any:
    """The namespace of a sample."""
    xp = array_namespace(check_reals(name, x, "an array (..., n, dim)"))
    if not xp.isdtype(x.dtype, "real floating"):
        raise HyperparameterError(f"{name} must be a real floating array; got {given(x)}")
    return xp


def _sums(xp: Any, kernel: PairKernel, x: Array, y: Array) -> Iterator[Array]:
    """Sums of K over blocks of pairs, (...)."""
    sigma = _sigma(kernel)
    for rows in _blocks(x.shape[-2], y.shape[-2]):
        f, _, _ = kernel.profile(xp, squared_distances(xp, x[..., rows, :], y) / sigma)
        yield xp.sum(f, axis=(-2, -1))


def _blocks(n: int, m: int) -> Iterator[slice]:
    step = max(1, BLOCK // m)
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def _joined(xp: Any, x: Array, y: Array) -> Array:
    batch = xp.broadcast_arrays(x[..., 0, 0], y[..., 0, 0])[0].shape
    return xp.concat([xp.broadcast_to(a, (*batch, *a.shape[-2:])) for a in (x, y)], axis=-2)


def _fixed(kernel: PairKernel) -> PairKernel:
    check_kernel("kernel", kernel, "RBF(1.0)")
    if isinstance(kernel.bandwidth, Bandwidth):
        raise HyperparameterError(
            "a metric needs a fixed bandwidth. Pass a number, or median_bandwidth(...) of the points."
        )
    return kernel


def _sigma(kernel: PairKernel) -> float | Array:
    """A number, or an array (..., 1, 1)."""
    return per_coordinate(per_coordinate(kernel.bandwidth))


def _count(x: Array) -> int:
    if x.ndim < 2 or x.shape[-2] < 2:
        raise HyperparameterError(f"a sample has shape (..., n, dim) with n at least 2; got {tuple(x.shape)}")
    return x.shape[-2]
