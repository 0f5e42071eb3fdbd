"""Total variation of sequences: the exact proximal operator, by dynamic programming (Johnson 2013)."""

from typing import Any

from array_api_compat import device as device_of

from xpsample.core.arrays import Array
from xpsample.core.backend import Backend


def prox_line(backend: Backend, y: Array, scale: float | Array) -> Array:
    """``argmin_x scale sum_i |x_{i+1} - x_i| + |x - y|^2 / 2`` along the last axis, exact up to rounding.

    Dynamic programming from left to right. The least value of the terms up to ``|x_{i+1} - x_i|``, as a function of
    x_{i+1}, has a derivative that is piecewise linear and clipped to +-scale: its knots are kept. A sequential code
    visits a few knots a step; here every step looks at all of them, without a branch on a value, which is O(n^2) for
    each sequence.

    Parameters
    ----------
    backend : Backend
        Of y.
    y : array, shape (..., n)
    scale : float or array, shape (...)
        Positive; an array broadcasts against the leading axes.
    """
    xp, n, where = backend.xp, y.shape[-1], device_of(y)
    if n == 1:
        return y
    y = xp.permute_dims(y, (y.ndim - 1, *range(y.ndim - 1)))  # the sequence first, to be indexed
    ones = (1,) * (y.ndim - 1)
    bound = xp.zeros_like(y[0, ...]) + scale
    index = xp.arange(n, device=where)
    slot = xp.arange(2 * n, device=where)
    left = xp.reshape(slot < n, (-1, *ones))
    depth = xp.reshape(xp.where(slot < n, n - 1 - slot, slot - n), (-1, *ones))  # distance from the middle
    row = xp.reshape(index, (-1, *ones))

    def crossing(level: Array, knots: Array, values: Array, here: Array) -> Array:
        """Where the derivative meets a level: knots (2n, ...), sorted; beyond them it has slope one."""
        below = xp.sum(xp.astype(values <= level, index.dtype), axis=0)
        before = xp.where(below > 0, below - 1, 0)[None, ...]
        after = xp.where(below < 2 * n, below, 2 * n - 1)[None, ...]
        t0, t1, v0, v1 = (xp.take_along_axis(a, k, axis=0)[0, ...] for a in (knots, values) for k in (before, after))
        inside = v1 > v0
        between = t0 + (level - v0) / xp.where(inside, v1 - v0, 1.0) * (t1 - t0)
        return xp.where(below == 0, here + bound + level, xp.where(below == 2 * n, here - bound + level, between))

    def forward(i: Any, carry: tuple[Any, ...]) -> tuple[Any, ...]:
        # The derivative after term i: `value` at the knots `at`, -bound left of them and +bound right of them.
        at, value, lower, upper = carry
        here = y[i + 1, ...]
        value = value + at - here
        low, high = crossing(-bound, at, value, here), crossing(bound, at, value, here)
        at = xp.minimum(xp.maximum(at, low), high)
        value = xp.minimum(xp.maximum(value, -bound), bound)
        new = depth >= index[i + 1, ...]
        at = xp.where(new, xp.where(left, low, high), at)
        value = xp.where(new, xp.where(left, -bound, bound), value)
        now = row == index[i + 1, ...]
        return at, value, xp.where(now, low, lower), xp.where(now, high, upper)

    low, high = y[0, ...] - bound, y[0, ...] + bound
    at, value = xp.where(left, low, high), xp.where(left, -bound, bound)
    at, value, lower, upper = backend.repeat(
        n - 2, forward, (at, value, xp.zeros_like(y) + low, xp.zeros_like(y) + high)
    )
    here = y[-1, ...]
    x = crossing(xp.zeros_like(bound), at, value + at - here, here)

    def backward(i: Any, carry: tuple[Any, ...]) -> tuple[Any, ...]:
        x, solution = carry
        k = n - 2 - i
        x = xp.minimum(xp.maximum(x, lower[k, ...]), upper[k, ...])
        return x, xp.where(row == index[k, ...], x, solution)

    _, solution = backend.repeat(n - 1, backward, (x, xp.zeros_like(y) + x))
    return xp.permute_dims(solution, (*range(1, y.ndim), 0))
