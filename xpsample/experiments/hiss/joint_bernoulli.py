"""Joint Bernoulli distributions, given by a table of probabilities, with the relaxation of the HiSS paper."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.spaces.discrete import Binary
from xpsample.targets.target import Target

LOG_OF_ZERO = math.log(float(np.finfo(np.float32).tiny))
"""The relaxation's logarithm of a probability of 0."""


def isolated_modes() -> np.ndarray:
    """Table (2, 2, 2, 2) of Appendix D.1 of the HiSS paper: three of 16 states hold all but 8e-5 of the mass."""
    table = np.full((2, 2, 2, 2), 5.882e-6)
    table[0, 0, 0, 0], table[1, 1, 1, 0], table[1, 1, 1, 1] = 0.588204, 0.294102, 0.117641
    return table / np.sum(table)  # the printed numbers sum to 1 + 2e-5


def joint_bernoulli(probabilities: np.ndarray) -> Target:
    """The distribution on {0, 1}^dim with a table of probabilities.

    The relaxation is the paper's energy (Section 6.1), the multilinear extension of the logarithm of the table. Its
    gradient on a state is the exact change of the log probability by every flip.

    Parameters
    ----------
    probabilities : numpy.ndarray, shape (2,) * dim
        Not negative; divided by their sum. Entry ``[a_1, ..., a_dim]`` belongs to the position (a_1, ..., a_dim).

    Returns
    -------
    Target
        On `Binary`, with score, hvp and differences. A state of probability 0 has log density -inf; for the score,
        which must be finite, it has `LOG_OF_ZERO`.

    Raises
    ------
    HyperparameterError
        If the table has another shape, a number in it is negative or not finite, or none is positive.

    Notes
    -----
    An evaluation costs 2^dim operations; a score costs 2 dim times and an hvp 4 dim^2 times as many.
    """
    table = np.asarray(probabilities, dtype=np.float64)
    if table.ndim < 1 or set(table.shape) != {2}:
        raise HyperparameterError(f"probabilities have shape (2, ..., 2), one axis a variable; got {table.shape}")
    if not np.all((table >= 0) & np.isfinite(table)) or not np.any(table > 0):
        raise HyperparameterError("probabilities must be finite and not negative, and one at least positive")
    dim, table = table.ndim, np.ravel(table / np.sum(table))
    zero = table == 0
    logs = np.where(zero, LOG_OF_ZERO, np.log(np.where(zero, 1.0, table)))
    data = {"logs": logs, "exact": np.where(zero, -np.inf, logs), "identity": np.eye(dim)}
    return Target(
        _log_density, score=_score, hvp=_hvp, differences=_differences, data=data, space=Binary(), constrained=True
    )


def _state(x: Array) -> Array:
    """Indices into the flat table, (*chains) of int32, of the states that x is rounded to."""
    xp = array_namespace(x)
    bits = xp.astype(x > 0.5, xp.int32)
    index = bits[..., 0]
    for i in range(1, x.shape[-1]):
        index = 2 * index + bits[..., i]
    return index


def _look_up(table: Array, index: Array) -> Array:
    xp = array_namespace(table)
    return xp.reshape(xp.take(table, xp.reshape(index, (-1,))), index.shape)


def _smooth(x: Array, data: Any) -> Array:
    """Sum of the table's logarithms, weighted by the product of x_i where a_i = 1 and 1 - x_i where a_i = 0."""
    xp = array_namespace(x)
    left = data["logs"]  # (*chains, 2^k): the sum over the first variables is done
    for i in range(x.shape[-1]):
        half = left.shape[-1] // 2
        left = left[..., :half] + x[..., i, None] * (left[..., half:] - left[..., :half])
    return xp.reshape(left, x.shape[:-1])


def _along(x: Array, v: Array, data: Any) -> Array:
    """`v`, (*chains, dim), along each coordinate in turn: (dim, *chains, dim)."""
    identity = data["identity"]
    return array_namespace(x).reshape(identity, (*identity.shape[:1], *(1,) * (x.ndim - 1), *identity.shape[:1])) * v


def _slopes(f: Callable[..., Array], x: Array, data: Any) -> Array:
    """Partial derivatives of a function that is linear in every coordinate: (dim, *chains, ...)."""
    x0 = x - _along(x, x, data)
    return f(x0 + _along(x, array_namespace(x).ones_like(x), data), data) - f(x0, data)


def _log_density(x: Array, data: Any) -> Array:
    xp = array_namespace(x)
    possible = xp.isfinite(_look_up(data["exact"], _state(x)))
    return xp.where(possible, _smooth(x, data), -math.inf)


def _score(x: Array, data: Any) -> Array:
    return array_namespace(x).moveaxis(_slopes(_smooth, x, data), 0, -1)


def _hvp(x: Array, v: Array, data: Any) -> Array:
    xp = array_namespace(x)
    return xp.sum(xp.moveaxis(v, -1, 0)[..., None] * _slopes(_score, x, data), axis=0)


def _differences(x: Array, data: Any) -> Array:
    xp, exact = array_namespace(x), data["exact"]
    there = _look_up(exact, _state(x + _along(x, 1.0 - 2.0 * x, data)))  # (dim, *chains)
    return xp.moveaxis(there - _look_up(exact, _state(x)), 0, -1)[..., None]
