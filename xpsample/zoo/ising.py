"""Ising and Potts models: nearest neighbors on a lattice, and any couplings, given by a matrix."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array, Same
from xpsample.core.checks import given
from xpsample.core.errors import CapabilityError, HyperparameterError
from xpsample.spaces.categorical import Categorical, OneHot
from xpsample.spaces.discrete import Spins, as_index
from xpsample.targets.target import Target


def ising_lattice(
    shape: Sequence[int], coupling: float, field: float | np.ndarray = 0.0, periodic: bool = True
) -> Target:
    """Spins on a lattice: log density ``coupling * sum over bonds of s_i s_j + sum_i field_i s_i``.

    A bond joins a site with the next one along an axis and is counted once. With J = 1 the coupling is the inverse
    temperature beta. A score, or the differences of all flips, takes 2 len(shape) shifts and no array larger than the
    positions.

    Parameters
    ----------
    shape : sequence of int
        Sites along each axis, at least 2 each. Positions are (*chains, prod(shape)), the last axis changing fastest.
    coupling : float
        Positive for a ferromagnet.
    field : float or numpy.ndarray, shape (prod(shape),)
    periodic : bool
        Whether the last site of an axis is joined with the first. Two bonds then join the sites of an axis of 2.

    Returns
    -------
    Target
        On `Spins`, with score, hvp and differences.
    """
    shape = check_lattice(shape)
    sites, coupling = math.prod(shape), float(coupling)  # a NumPy number would turn float32 into float64
    field = np.asarray(field, dtype=np.float64)
    if field.shape not in ((), (sites,)):
        raise HyperparameterError(f"field must be a number or have shape ({sites},); got {field.shape}")
    data = np.broadcast_to(field, (sites,)).copy()

    def score(x: Array, field: Array) -> Array:
        return coupling * neighbour_sum(x, shape, periodic) + field

    def both(x: Array, field: Array) -> tuple[Array, Array]:
        pull = coupling * neighbour_sum(x, shape, periodic)
        return array_namespace(x).sum(x * (0.5 * pull + field), axis=-1), pull + field

    return Target(
        lambda x, field: both(x, field)[0],
        score=score,
        hvp=lambda x, v, field: coupling * neighbour_sum(v, shape, periodic),
        log_density_and_score=both,
        # No spin is coupled with itself, so the density is linear in each.
        differences=lambda x, field: (-2.0 * x * score(x, field))[..., None],
        data=data,
        space=Spins(),
    )


def ising_couplings(couplings: np.ndarray, field: float | np.ndarray = 0.0) -> Target:
    """Spins with any couplings: log density ``s' W s / 2 + field . s``.

    Parameters
    ----------
    couplings : numpy.ndarray, shape (dim, dim)
        W, symmetric. On spins its diagonal adds a constant to the log density. It is in the score ``W s + field``, the
        gradient in real s, and not in the differences.
    field : float or numpy.ndarray, shape (dim,)

    Returns
    -------
    Target
        On `Spins`, with score, hvp and differences.

    Raises
    ------
    HyperparameterError
        If the couplings are not a symmetric matrix, or the field does not fit it.
    """
    couplings, field = np.asarray(couplings, dtype=np.float64), np.asarray(field, dtype=np.float64)
    if couplings.ndim != 2 or couplings.shape[0] != couplings.shape[1] or not np.array_equal(couplings, couplings.T):
        raise HyperparameterError(f"couplings must be a symmetric matrix (dim, dim); got shape {couplings.shape}")
    if field.shape not in ((), couplings.shape[:1]) or not (
        np.all(np.isfinite(couplings)) and np.all(np.isfinite(field))
    ):
        raise HyperparameterError(f"field must be a number or have shape {couplings.shape[:1]}, and all be finite")
    data = {
        "couplings": couplings,
        "diagonal": np.diag(couplings).copy(),
        "field": np.broadcast_to(field, couplings.shape[:1]).copy(),
    }

    def both(x: Array, data: Any) -> tuple[Array, Array]:
        pull = x @ data["couplings"]
        return array_namespace(x).sum(x * (0.5 * pull + data["field"]), axis=-1), pull + data["field"]

    return Target(
        lambda x, data: both(x, data)[0],
        score=lambda x, data: both(x, data)[1],
        hvp=lambda x, v, data: v @ data["couplings"],
        log_density_and_score=both,
        differences=lambda x, data: (-2.0 * x * (both(x, data)[1] - data["diagonal"] * x))[..., None],
        data=data,
        space=Spins(),
    )


def cross_diagonal(sites: int = 9, strength: float = 10.0) -> np.ndarray:
    """The couplings of the HiSS paper's small Ising model: `strength` on both diagonals, (sites, sites).

    Every site is coupled with the opposite one; the centre is free. With 9 sites, strength 10 and a field of 0.1
    (`ising_couplings`), 32 of the 512 states have nearly all of the mass.
    """
    identity = np.eye(sites)
    return strength * np.maximum(identity, identity[::-1])


def internal_energy(x: Same, shape: Sequence[int], periodic: bool = True) -> Same:
    """Minus the sum over bonds of s_i s_j, per site: ``(..., prod(shape)) -> (...)``, in units of the coupling J.

    Its mean over a run has the Monte Carlo standard error ``mcse_mean(energy[..., None])``.
    """
    xp = array_namespace(x)
    return -0.5 * xp.mean(x * neighbour_sum(x, check_lattice(shape), periodic), axis=-1)


def lattice_pairs(shape: Sequence[int], periodic: bool = True) -> np.ndarray:
    """The pairs of sites that the bonds of a lattice join, (bonds, 2): for `xpsample.kernels.greedy_coloring`.

    Parameters
    ----------
    shape : sequence of int
    periodic : bool
        As in `ising_lattice`.
    """
    shape = check_lattice(shape)
    sites = np.arange(math.prod(shape)).reshape(shape)
    pairs = []
    for axis, n in enumerate(shape):
        ends = np.stack([sites, np.roll(sites, -1, axis)], axis=-1)
        pairs.append((ends if periodic else ends.take(range(n - 1), axis)).reshape(-1, 2))
    return np.concatenate(pairs)


def neighbour_sum(x: Array, shape: tuple[int, ...], periodic: bool) -> Array:
    """For every site the sum over those joined with it: ``(..., prod(shape)) -> (..., prod(shape))``."""
    xp = array_namespace(x)
    lattice = xp.reshape(x, (*x.shape[:-1], *shape))
    total = None
    for axis in range(lattice.ndim - len(shape), lattice.ndim):
        for step in (1, -1):
            moved = xp.roll(lattice, step, axis=axis) if periodic else _shifted(xp, lattice, step, axis)
            total = moved if total is None else total + moved
    return xp.reshape(total, x.shape)


def _shifted(xp: Any, lattice: Array, step: int, axis: int) -> Array:
    """As xp.roll by 1 or -1, but with zeros at the edge."""

    def part(start: int | None, stop: int | None) -> Array:
        return lattice[(slice(None),) * axis + (slice(start, stop), ...)]

    edge = xp.zeros_like(part(0, 1))
    return xp.concat([edge, part(None, -1)] if step > 0 else [part(1, None), edge], axis=axis)


def check_lattice(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape as a tuple; HyperparameterError unless all its numbers are integers of at least 2."""
    if not isinstance(shape, Sequence | np.ndarray):
        raise HyperparameterError(
            "a lattice has a shape, a number of sites for each axis, such as (8, 8), or (8,) for a ring; got "
            f"{given(shape)}"
        )
    if not len(shape) or any(not isinstance(n, (int, np.integer)) or n < 2 for n in shape):
        raise HyperparameterError(f"a lattice has at least 2 sites along each axis; got shape {tuple(shape)}")
    return tuple(int(n) for n in shape)


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
