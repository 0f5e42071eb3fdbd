"""Running moments: count, mean and variance of what is seen one by one (Welford 1962)."""

from typing import Any, NamedTuple

from xpsample.core.arrays import Array


class RunningMoments(NamedTuple):
    """Count (0-d), mean and unbiased variance (*chains, dim) of the kept positions."""

    count: Array  # type: ignore[assignment]  # a tuple's method of that name is never called
    mean: Array
    variance: Array


def welford(xp: Any, moments: RunningMoments, x: Array) -> RunningMoments:
    """Moments with one more value. Here `variance` holds the sum of squared deviations."""
    count = moments.count + 1
    delta = x - moments.mean
    mean = moments.mean + delta / xp.astype(count, x.dtype)
    return RunningMoments(count, mean, moments.variance + delta * (x - mean))


def unbiased(xp: Any, moments: RunningMoments) -> RunningMoments:
    """Sums of squared deviations divided by count - 1."""
    count = at_least(xp, moments.count, 2, moments.mean)
    return moments._replace(variance=moments.variance / (count - 1))


def at_least(xp: Any, count: Array, least: int, like: Array) -> Array:
    """A count in a floating dtype, nan where it is too small to divide by."""
    return xp.where(count >= least, xp.astype(count, like.dtype), xp.full_like(like, float("nan")))
