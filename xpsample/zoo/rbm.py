"""Restricted Boltzmann machines: binary visible units, with the binary hidden units summed out."""

from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.core.special import accurate_sigmoid, softplus
from xpsample.spaces.discrete import Binary
from xpsample.targets.target import Target

LARGEST_SIDE = 24
_ROWS = 2**14


class RBM(NamedTuple):
    """Parameters: weights (visible, hidden), biases (visible,) and (hidden,)."""

    weights: Array
    visible_bias: Array
    hidden_bias: Array


def rbm(parameters: RBM) -> Target:
    """The visible units v of ``p(v, h) ~ exp(v . a + h . b + v' W h)``, h in {0, 1} summed out (the free energy).

    Parameters
    ----------
    parameters : RBM of numpy.ndarray

    Returns
    -------
    Target
        On `Binary`, log density ``v . a + sum_j softplus(b_j + (v' W)_j)``, with score, hvp and differences. The
        differences of all flips need O(visible * hidden) operations and an array (*chains, visible, hidden).
    """
    parameters = RBM(*(np.asarray(p, dtype=np.float64) for p in parameters))
    weights, visible_bias, hidden_bias = parameters
    if weights.ndim != 2 or weights.shape != (*visible_bias.shape, *hidden_bias.shape):
        raise HyperparameterError(
            f"an RBM has weights (visible, hidden) and biases (visible,) and (hidden,); got {weights.shape}, "
            f"{visible_bias.shape} and {hidden_bias.shape}"
        )
    return Target(
        log_density, score=_score, hvp=_hvp, log_density_and_score=_both, differences=_differences, data=parameters,
        space=Binary()
    )  # fmt: skip


def log_normalizer(parameters: RBM) -> float:
    """log of the sum of ``exp(log density)`` over all visible states, by enumeration of the smaller side, on the host.

    Raises
    ------
    HyperparameterError
        If both sides have more than `LARGEST_SIDE` units.
    """
    weights, a, b = (np.asarray(p, dtype=np.float64) for p in parameters)
    if weights.shape[0] > weights.shape[1]:
        weights, a, b = weights.T, b, a
    n = len(a)
    if n > LARGEST_SIDE:
        raise HyperparameterError(f"the smaller side has {n} units, too many to enumerate ({LARGEST_SIDE} at most)")
    total = -np.inf
    for first in range(0, 2**n, _ROWS):
        number = np.arange(first, min(first + _ROWS, 2**n))
        states = ((number[:, None] >> np.arange(n)) & 1).astype(np.float64)
        logs = states @ a + np.sum(np.logaddexp(0.0, b + states @ weights), axis=-1)
        total = np.logaddexp(total, np.logaddexp.reduce(logs))
    return float(total)


def gibbs_sweep(parameters: RBM, v: Array, hidden_uniform: Array, visible_uniform: Array) -> Array:
    """Draw the hidden units given the visible ones, then the visible ones given those; leaves the RBM invariant.

    Parameters
    ----------
    parameters : RBM
    v : array of floating numbers, shape (*chains, visible)
    hidden_uniform, visible_uniform : array, shape (*chains, hidden) and (*chains, visible)
        Uniforms on (0, 1).
    """
    xp = array_namespace(v)
    weights, visible_bias, hidden_bias = parameters
    h = xp.astype(hidden_uniform < accurate_sigmoid(hidden_bias + v @ weights), v.dtype)
    return xp.astype(visible_uniform < accurate_sigmoid(visible_bias + h @ weights.T), v.dtype)


def _inputs(v: Array, parameters: RBM) -> Array:
    return parameters.hidden_bias + v @ parameters.weights


def _density(v: Array, inputs: Array, parameters: RBM) -> Array:
    xp = array_namespace(v)
    return v @ parameters.visible_bias + xp.sum(softplus(inputs), axis=-1)


def log_density(v: Array, parameters: RBM) -> Array:
    """Unnormalized, ``(*chains, visible) -> (*chains)``."""
    return _density(v, _inputs(v, parameters), parameters)


def _both(v: Array, parameters: RBM) -> tuple[Array, Array]:
    inputs = _inputs(v, parameters)
    p = accurate_sigmoid(inputs)
    return _density(v, inputs, parameters), parameters.visible_bias + p @ parameters.weights.T


def _score(v: Array, parameters: RBM) -> Array:
    return _both(v, parameters)[1]


def _hvp(v: Array, w: Array, parameters: RBM) -> Array:
    p = accurate_sigmoid(_inputs(v, parameters))
    return (p * (1.0 - p) * (w @ parameters.weights)) @ parameters.weights.T


def _differences(v: Array, parameters: RBM) -> Array:
    xp, sign = array_namespace(v), 1.0 - 2.0 * v
    inputs = _inputs(v, parameters)
    flipped = inputs[..., None, :] + sign[..., None] * parameters.weights
    gain = xp.sum(softplus(flipped) - softplus(inputs)[..., None, :], axis=-1)
    return (sign * parameters.visible_bias + gain)[..., None]
