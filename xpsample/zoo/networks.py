"""Multilayer perceptrons as plain functions of a tree of parameters, with the score written out.

A network of one output is a negative energy: `mlp_energy` makes the family ``exp(f_theta)`` of it.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.gradients.choices import Auto, GradientChoice
from xpsample.targets.parametric import Parametric


class Dense(NamedTuple):
    """Weight (in, out) and bias (out,); of a batch of runs (*runs, 1, in, out) and (*runs, 1, out)."""

    weight: Array
    bias: Array


def init_mlp(sizes: Sequence[int], seed: int, sd: float | None = None) -> tuple[Dense, ...]:
    """Random parameters on the host, float64: independent normal weights and zero biases.

    Parameters
    ----------
    sizes : sequence of int
        Inputs, the hidden layers' widths, outputs; such as ``(2, 128, 128, 1)``.
    seed : int
    sd : float, optional
        Standard deviation of all weights; one over the root of a layer's number of inputs when not given, so that
        activations keep their size from layer to layer.

    Returns
    -------
    tuple of Dense
        One for each layer.

    Raises
    ------
    HyperparameterError
        If there are fewer than two sizes, one is not positive, or sd is not.
    """
    if len(sizes) < 2 or min(sizes) < 1:
        raise HyperparameterError(f"sizes are at least two positive integers; got {tuple(sizes)}")
    if sd is not None and not sd > 0:
        raise HyperparameterError(f"sd must be positive; got {sd}")
    rng = np.random.default_rng(seed)
    return tuple(
        Dense(rng.standard_normal((a, b)) * (a**-0.5 if sd is None else sd), np.zeros(b)) for a, b in pairwise(sizes)
    )


def mlp(x: Array, parameters: Sequence[Dense]) -> Array:
    """The first output of the network, with swish (SiLU) after every layer but the last.

    Parameters
    ----------
    x : array, shape (*chains, inputs)
        (*runs, particles, inputs) for parameters of a batch of runs.
    parameters : sequence of Dense

    Returns
    -------
    array, shape (*chains)
    """
    return _forward(x, parameters)[0]


def mlp_and_score(x: Array, parameters: Sequence[Dense]) -> tuple[Array, Array]:
    """Evaluate `mlp` and its gradient in x (*chains, inputs): two matrix products for each layer.

    Both can be differentiated in the parameters.
    """
    xp = array_namespace(x)
    value, slopes = _forward(x, parameters)
    gradient = xp.matrix_transpose(_matrix(parameters[-1]))[..., :1, :]
    for layer, slope in zip(reversed(parameters[:-1]), reversed(slopes), strict=True):
        gradient = (slope * gradient) @ xp.matrix_transpose(_matrix(layer))
    return value, xp.broadcast_to(gradient, x.shape)


def mlp_score(x: Array, parameters: Sequence[Dense]) -> Array:
    """The gradient of `mlp` in x, (*chains, inputs)."""
    return mlp_and_score(x, parameters)[1]


def mlp_energy(parameters: Sequence[Dense], gradient: GradientChoice | None = None) -> Parametric:
    """The family of densities proportional to ``exp(f)``, with f the network `mlp`.

    Parameters
    ----------
    parameters : sequence of Dense
        The first ones, such as from `init_mlp`.
    gradient : GradientChoice, optional
        For derivatives in the parameters, `Auto` when not given; the score is analytic.

    Notes
    -----
    f grows at most linearly, and nothing here makes the integral of exp(f) finite: the training has to.
    """
    return Parametric(
        mlp,
        tuple(parameters),
        score=mlp_score,
        gradient=Auto() if gradient is None else gradient,
        log_density_and_score=mlp_and_score,
    )


def _forward(x: Array, parameters: Sequence[Dense]) -> tuple[Array, list[Array]]:
    """The output, and the derivative of every swish."""
    xp, hidden, slopes = array_namespace(x), x, []
    for layer in parameters[:-1]:
        hidden, slope = swish(xp, hidden @ _matrix(layer) + layer.bias)
        slopes.append(slope)
    last = parameters[-1]
    return (hidden @ _matrix(last) + last.bias)[..., 0], slopes


def swish(xp: Any, a: Array) -> tuple[Array, Array]:
    """a sigmoid(a), which is also called SiLU, and its derivative; the tanh form overflows nowhere."""
    sigmoid = 0.5 + 0.5 * xp.tanh(0.5 * a)
    return a * sigmoid, sigmoid * (1.0 + a * (1.0 - sigmoid))


def _matrix(layer: Dense) -> Array:
    """The weight, without the axis of length one that a batch of runs has for its particles."""
    return layer.weight if layer.weight.ndim == 2 else layer.weight[..., 0, :, :]
