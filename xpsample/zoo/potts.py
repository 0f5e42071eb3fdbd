"""Potts models on lattices: every site has one of a few states, and equal neighbours attract."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.errors import CapabilityError, HyperparameterError
from xpsample.spaces.discrete import Categorical, OneHot, as_index
from xpsample.targets.target import Target
from xpsample.zoo.ising import check_lattice, neighbour_sum


def potts(
    shape: Sequence[int],
    states: int,
    coupling: float,
    field: float | np.ndarray = 0.0,
    periodic: bool = True,
    one_hot: bool = True,
) -> Target:
    """Potts model: log density ``coupling * number of bonds between equal states + sum_i field[i, x_i]``.

    On one-hot positions the log density is a polynomial, linear in every site's block, so its gradient gives the exact
    change by every change of one site. On integers 0 .. states - 1 it has no natural extension to real numbers: that
    form has differences and no score, and takes kernels that ask for differences.

    Parameters
    ----------
    shape : sequence of int
        Sites along each axis, at least 2 each; the last axis changes fastest.
    states : int
        q, at least 2.
    coupling : float
        Positive for a ferromagnet. With q = 2 it is twice the coupling of the Ising model.
    field : float or numpy.ndarray, shape (states,) or (prod(shape), states)
    periodic : bool
        As in `ising_lattice`.
    one_hot : bool
        Positions (*chains, prod(shape) * states) of `OneHot`; else (*chains, prod(shape)) of `Categorical`.

    Returns
    -------
    Target
        With differences, in O(sites * states); one-hot also with score and hvp.

    Raises
    ------
    HyperparameterError
        If the shape, the number of states or the field does not fit.
    """
    shape, sites, coupling = check_lattice(shape), math.prod(shape), float(coupling)
    if not isinstance(states, int) or states < 2:
        raise HyperparameterError(f"states must be an integer of at least 2; got {states}")
    field = np.asarray(field, dtype=np.float64)
    if field.shape not in ((), (states,), (sites, states)):
        raise HyperparameterError(f"field must have shape ({states},) or ({sites}, {states}); got {field.shape}")
    data = {
        "field": np.broadcast_to(field, (sites, states)).copy(),
        "states": np.arange(states, dtype=np.int32),
    }

    def pulls(blocks: Array) -> Array:
        """The pull of all neighbours on every state of every site, (*chains, sites, states), the shape of `blocks`."""
        xp = array_namespace(blocks)
        by_state = neighbour_sum(xp.moveaxis(blocks, -1, -2), shape, periodic)
        return coupling * xp.moveaxis(by_state, -2, -1)

    def density(blocks: Array, data: Any) -> Array:
        weights = 0.5 * pulls(blocks) + data["field"]
        return array_namespace(blocks).sum(blocks * weights, axis=(-2, -1))

    def changes(index: Array, blocks: Array, data: Any) -> Array:
        xp = array_namespace(blocks)
        gain = pulls(blocks) + data["field"]
        gain = xp.take_along_axis(gain, as_index(xp, (index[..., None] + data["states"]) % states), axis=-1)
        return gain[..., 1:] - gain[..., :1]

    def split(x: Array) -> Array:
        return array_namespace(x).reshape(x, (*x.shape[:-1], sites, states))

    def written(x: Array, data: Any) -> tuple[Array, Array]:
        xp = array_namespace(x)
        index = xp.astype(x, xp.int32)
        return index, xp.astype(index[..., None] == data["states"], x.dtype)

    if not one_hot:
        return Target(
            lambda x, data: density(written(x, data)[1], data),
            score=_no_score,
            differences=lambda x, data: changes(*written(x, data), data),
            data=data,
            space=Categorical(tuple(range(states))),
        )

    def score(x: Array, data: Any) -> Array:
        return array_namespace(x).reshape(pulls(split(x)) + data["field"], x.shape)

    def differences(x: Array, data: Any) -> Array:
        xp, blocks = array_namespace(x), split(x)
        return changes(xp.astype(xp.argmax(blocks, axis=-1), xp.int32), blocks, data)

    return Target(
        lambda x, data: density(split(x), data),
        score=score,
        hvp=lambda x, v, data: array_namespace(x).reshape(pulls(split(v)), x.shape),
        differences=differences,
        data=data,
        space=OneHot(states),
    )


def _no_score(x: Array, data: Any) -> Array:
    raise CapabilityError(
        "a Potts model on integers has no score: take potts(..., one_hot=True), or a kernel that asks for differences"
    )
