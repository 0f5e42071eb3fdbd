"""Potts models on lattices: every site has one of a few states, and equal neighbours attract."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.errors import CapabilityError, HyperparameterError
from xpsample.spaces.categorical import Categorical, OneHot
from xpsample.spaces.discrete import as_index
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

    own = _Potts(shape, states, coupling, periodic)
    if one_hot:
        return Target(
            own.log_density,
            score=own.score,
            hvp=own.hvp,
            differences=own.differences,
            data=data,
            space=OneHot(states),
        )
    return Target(
        own.log_density_of_integers,
        score=_no_score,
        differences=own.differences_of_integers,
        data=data,
        space=Categorical(tuple(range(states))),
    )


@dataclass(frozen=True, eq=False)
class _Potts:
    """The functions of a Potts model. Blocks ``(*chains, sites, states)`` are a row of 0 and 1 for each site."""

    shape: tuple[int, ...]
    states: int
    coupling: float
    periodic: bool

    def log_density(self, x: Array, data: Any) -> Array:
        return self._density(self._split(x), data)

    def score(self, x: Array, data: Any) -> Array:
        return array_namespace(x).reshape(self._pulls(self._split(x)) + data["field"], x.shape)

    def hvp(self, x: Array, v: Array, data: Any) -> Array:
        return array_namespace(x).reshape(self._pulls(self._split(v)), x.shape)

    def differences(self, x: Array, data: Any) -> Array:
        xp, blocks = array_namespace(x), self._split(x)
        return self._changes(xp.astype(xp.argmax(blocks, axis=-1), xp.int32), blocks, data)

    def log_density_of_integers(self, x: Array, data: Any) -> Array:
        return self._density(self._written(x, data)[1], data)

    def differences_of_integers(self, x: Array, data: Any) -> Array:
        return self._changes(*self._written(x, data), data)

    def _pulls(self, blocks: Array) -> Array:
        """The pull of all neighbours on every state of every site, in the shape of `blocks`."""
        xp = array_namespace(blocks)
        by_state = neighbour_sum(xp.moveaxis(blocks, -1, -2), self.shape, self.periodic)
        return self.coupling * xp.moveaxis(by_state, -2, -1)

    def _density(self, blocks: Array, data: Any) -> Array:
        weights = 0.5 * self._pulls(blocks) + data["field"]
        return array_namespace(blocks).sum(blocks * weights, axis=(-2, -1))

    def _changes(self, index: Array, blocks: Array, data: Any) -> Array:
        xp = array_namespace(blocks)
        gain = self._pulls(blocks) + data["field"]
        gain = xp.take_along_axis(gain, as_index(xp, (index[..., None] + data["states"]) % self.states), axis=-1)
        return gain[..., 1:] - gain[..., :1]

    def _split(self, x: Array) -> Array:
        return array_namespace(x).reshape(x, (*x.shape[:-1], math.prod(self.shape), self.states))

    def _written(self, x: Array, data: Any) -> tuple[Array, Array]:
        """Integers (*chains, sites), and their blocks."""
        xp = array_namespace(x)
        index = xp.astype(x, xp.int32)
        return index, xp.astype(index[..., None] == data["states"], x.dtype)


def _no_score(x: Array, data: Any) -> Array:
    raise CapabilityError(
        "a Potts model on integers has no score: take potts(..., one_hot=True), or a kernel that asks for differences"
    )
