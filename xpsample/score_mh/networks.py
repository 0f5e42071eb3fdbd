"""Score and acceptance networks of Score-MH (Appendix D.2) as plain functions of a tree of parameters.

A score network is any ``f(x, parameters)``. An acceptance network is any ``f(x_new, x, parameters)`` that returns the
logit of the acceptance probability. Conditional networks receive the noise level ``sigma`` before the parameters.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace
from array_api_compat import device as device_of

from xpsample.core.arrays import Array, is_array
from xpsample.core.errors import HyperparameterError
from xpsample.core.hyperparameters import check_range
from xpsample.core.registry import to_host
from xpsample.core.special import softplus
from xpsample.score_mh.activations import gelu
from xpsample.zoo.networks import Dense, init_mlp


class ResidualBlock(NamedTuple):
    """A residual block: ``h + second(gelu(first(gelu(h))))``."""

    first: Dense
    second: Dense


class AcceptanceNetwork(NamedTuple):
    """Parameters of `acceptance_network`."""

    first: Dense
    blocks: tuple[ResidualBlock, ...]
    last: Dense


def init_score_network(dim: int, hidden: int, seed: int, *, conditional: bool = False) -> tuple[Dense, ...]:
    """Random parameters of `score_network` or `conditional_score_network`, on the host, float64.

    Parameters
    ----------
    dim : int
    hidden : int
        Width of the two hidden layers.
    seed : int
    conditional : bool
        For `conditional_score_network`, which has one more input.
    """
    return init_mlp((dim + conditional, hidden, hidden, dim), seed)


def score_network(x: Array, parameters: Sequence[Dense]) -> Array:
    """A perceptron with softplus after every layer but the last.

    Parameters
    ----------
    x : array, shape (*chains, dim)
    parameters : sequence of Dense

    Returns
    -------
    array, shape (*chains, dim)
        Not the gradient of a function, in general.
    """
    hidden = x
    for layer in parameters[:-1]:
        hidden = softplus(_dense(hidden, layer))
    return _dense(hidden, parameters[-1])


def conditional_score_network(x: Array, sigma: float | Array, parameters: Sequence[Dense]) -> Array:
    """`score_network` of (x, log sigma), divided by sigma: the score of the data with N(0, sigma^2 I) added.

    Parameters
    ----------
    x : array, shape (*chains, dim)
    sigma : float or array
        Positive; broadcasts against the chain axes.
    parameters : sequence of Dense
    """
    sigma = _per_chain(sigma, x)
    return score_network(_beside(x, array_namespace(x).log(sigma)), parameters) / sigma[..., None]


def init_acceptance_network(
    dim: int, hidden: int, seed: int, *, blocks: int = 3, conditional: bool = False
) -> AcceptanceNetwork:
    """Random parameters of `acceptance_network` or `conditional_acceptance_network`, on the host, float64.

    Parameters
    ----------
    dim : int
        Dimension of x and of x'.
    hidden : int
        Width of all layers.
    seed : int
    blocks : int
        Residual blocks of two layers.
    conditional : bool
        For `conditional_acceptance_network`, which has one more input.
    """
    check_range("blocks", blocks, 0, closed=True)
    if isinstance(blocks, bool) or not isinstance(blocks, int):
        raise HyperparameterError(f"blocks must be an integer; got {blocks!r}")
    first, *inner, last = init_mlp((2 * dim + conditional, *(hidden,) * (2 * blocks + 1), 1), seed)
    pairs = tuple(ResidualBlock(*pair) for pair in zip(inner[::2], inner[1::2], strict=True))
    return AcceptanceNetwork(first, pairs, last)


def acceptance_network(x_new: Array, x: Array, parameters: AcceptanceNetwork) -> Array:
    """The logit of a(x', x): linear, residual blocks with GELU, GELU, linear.

    Parameters
    ----------
    x_new, x : array, shape (*chains, dim)
        The proposal x' and the current position x.
    parameters : AcceptanceNetwork

    Returns
    -------
    array, shape (*chains)
        a is its sigmoid, and log a its `log_sigmoid`. The paper's text puts the last GELU after the last linear layer,
        where it would keep a above 0.46.
    """
    return _residual(array_namespace(x).concat([x_new, x], axis=-1), parameters)


def conditional_acceptance_network(
    x_new: Array, x: Array, sigma: float | Array, parameters: AcceptanceNetwork
) -> Array:
    """`acceptance_network` of (x', x, log sigma).

    Parameters
    ----------
    x_new, x : array, shape (*chains, dim)
    sigma : float or array
        Positive; broadcasts against the chain axes.
    parameters : AcceptanceNetwork
    """
    xp = array_namespace(x)
    return _residual(_beside(xp.concat([x_new, x], axis=-1), xp.log(_per_chain(sigma, x))), parameters)


def _residual(inputs: Array, parameters: AcceptanceNetwork) -> Array:
    hidden = _dense(inputs, parameters.first)
    for block in parameters.blocks:
        hidden = hidden + _dense(gelu(_dense(gelu(hidden), block.first)), block.second)
    return _dense(gelu(hidden), parameters.last)[..., 0]


def _dense(x: Array, layer: Dense) -> Array:
    return x @ layer.weight + layer.bias


def _per_chain(value: float | Array, x: Array) -> Array:
    """A number or an array as an array (*chains) in the library, dtype and on the device of x."""
    xp = array_namespace(x)
    if not is_array(value) or isinstance(value, np.generic):
        value = xp.asarray(float(to_host(value)), dtype=x.dtype, device=device_of(x))
    return xp.broadcast_to(value, x.shape[:-1])


def _beside(x: Array, value: Array) -> Array:
    return array_namespace(x).concat([x, value[..., None]], axis=-1)
