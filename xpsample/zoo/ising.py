"""Ising and Potts models: nearest neighbors on a lattice, and any couplings, given by a matrix."""

import functools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from array_api_compat import device as device_of

from xpsample.core.arrays import Array, Same
from xpsample.core.checks import check_instance, given
from xpsample.core.errors import CapabilityError, HyperparameterError
from xpsample.spaces.categorical import Categorical, OneHot
from xpsample.spaces.discrete import Spins, TwoValues, as_index
from xpsample.targets.bonds import Bonds
from xpsample.targets.target import Target
from xpsample.zoo.couplings import (
    couplings_bonds,
    lists,
    lists_pull,
    lists_pull_at,
    matrix,
    matrix_pull,
    matrix_pull_at,
)

SPINS = Spins()


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
        return coupling * neighbor_sum(x, shape, periodic) + field

    def both(x: Array, field: Array) -> tuple[Array, Array]:
        pull = coupling * neighbor_sum(x, shape, periodic)
        return array_namespace(x).sum(x * (0.5 * pull + field), axis=-1), pull + field

    return Target(
        lambda x, field: both(x, field)[0],
        score=score,
        hvp=lambda x, v, field: coupling * neighbor_sum(v, shape, periodic),
        log_density_and_score=both,
        # No spin is coupled with itself, so the density is linear in each.
        differences=lambda x, field: (-2.0 * x * score(x, field))[..., None],
        differences_at=lambda x, i, field: (
            -2.0 * x[..., i] * (coupling * _sum_around(x, i, shape, periodic) + field[i, ...])
        )[..., None],
        bonds=lambda field: lattice_bonds(
            shape, periodic, 2.0 * coupling, array_namespace(field).stack([-field, field], axis=-1)
        ),
        data=data,
        space=Spins(),
    )


def ising_couplings(
    couplings: Any, field: float | np.ndarray = 0.0, pairs: np.ndarray | None = None, space: TwoValues = SPINS
) -> Target:
    """Any quadratic density on spins or bits: log density ``x' W x / 2 + field . x``.

    Parameters
    ----------
    couplings : numpy.ndarray, shape (dim, dim), or (pairs,) or a number with `pairs`
        W, symmetric, or its elements at `pairs`. On spins its diagonal adds a constant to the log density. It is in the
        score ``W x + field``, the gradient in real x, and not in the differences.
    field : float or numpy.ndarray, shape (dim,)
    pairs : numpy.ndarray of int, shape (pairs, 2), optional
        The variables that are coupled, each pair once. All costs are then proportional to the number of variables times
        the largest number of neighbors, and no matrix is made. Pass `field` as an array if the last variables have no
        neighbor.
    space : Spins or Binary

    Returns
    -------
    Target
        With score, hvp, differences, and differences of one variable.

    Raises
    ------
    HyperparameterError
        If the couplings are not a symmetric matrix, or the field does not fit it.

    Notes
    -----
    A matrix is faster than `pairs` unless a variable is coupled with less than about one in fifty.
    """
    check_instance("space", space, TwoValues, "Spins()")
    field = np.asarray(field, dtype=np.float64)
    data = matrix(couplings) if pairs is None else lists(couplings, pairs, field)
    shape = data["diagonal"].shape
    if field.shape not in ((), shape) or not np.all(np.isfinite(field)):
        raise HyperparameterError(f"field must be a number or have shape {shape}, and all be finite")
    data |= {"field": np.broadcast_to(field, shape).copy()}
    pull, pull_at = (matrix_pull, matrix_pull_at) if pairs is None else (lists_pull, lists_pull_at)
    total = space.low + 1.0

    def both(x: Array, data: Any) -> tuple[Array, Array]:
        pulled = pull(x, data)
        return array_namespace(x).sum(x * (0.5 * pulled + data["field"]), axis=-1), pulled + data["field"]

    def change(x: Array, score: Array, diagonal: Array) -> Array:
        flip = total - 2.0 * x
        return (flip * (score + 0.5 * diagonal * flip))[..., None]

    return Target(
        lambda x, data: both(x, data)[0],
        score=lambda x, data: both(x, data)[1],
        hvp=lambda x, v, data: pull(v, data),
        log_density_and_score=both,
        differences=lambda x, data: change(x, both(x, data)[1], data["diagonal"]),
        bonds=lambda data: couplings_bonds(data, space.low, shape[0] ** 2 if pairs is None else len(pairs)),
        differences_at=lambda x, i, data: change(
            x[..., i], pull_at(x, i, data) + data["field"][i, ...], data["diagonal"][i, ...]
        ),
        data=data,
        space=space,
    )


def cross_diagonal(sites: int = 9, strength: float = 10.0) -> np.ndarray:
    """The couplings of the HiSS paper's small Ising model: `strength` on both diagonals, (sites, sites).

    Every site is coupled with the opposite one; the center is free. With 9 sites, strength 10 and a field of 0.1
    (`ising_couplings`), 32 of the 512 states have nearly all of the mass.
    """
    identity = np.eye(sites)
    return strength * np.maximum(identity, identity[::-1])


def internal_energy(x: Same, shape: Sequence[int], periodic: bool = True) -> Same:
    """Minus the sum over bonds of s_i s_j, per site: ``(..., prod(shape)) -> (...)``, in units of the coupling J.

    Its mean over a run has the Monte Carlo standard error ``mcse_mean(energy[..., None])``.
    """
    xp = array_namespace(x)
    return -0.5 * xp.mean(x * neighbor_sum(x, check_lattice(shape), periodic), axis=-1)


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


def neighbor_sum(x: Array, shape: tuple[int, ...], periodic: bool) -> Array:
    """For every site the sum over those joined with it: ``(..., prod(shape)) -> (..., prod(shape))``."""
    xp = array_namespace(x)
    lattice = xp.reshape(x, (*x.shape[:-1], *shape))
    total = None
    for axis in range(lattice.ndim - len(shape), lattice.ndim):
        for step in (1, -1):
            moved = xp.roll(lattice, step, axis=axis) if periodic else _shifted(xp, lattice, step, axis)
            total = moved if total is None else total + moved
    return xp.reshape(total, x.shape)


def neighbors_of(i: Any, shape: tuple[int, ...], periodic: bool) -> list[tuple[Any, Any]]:
    """The sites joined with site i, by arithmetic, each with 1, or with 0 at an edge that has none."""
    found, stride = [], math.prod(shape)
    for n in shape:
        stride //= n
        place = i // stride % n
        for step, edge in ((1, (place + 1) // n), (n - 1, 1 - (place + n - 1) // n)):
            found.append((i + stride * ((place + step) % n - place), 1 if periodic else 1 - edge))
    return found


def lattice_bonds(shape: tuple[int, ...], periodic: bool, gain: float, field: Array) -> Bonds:
    """Bonds of a lattice, by arithmetic: the bond of site i and the next along axis a has number a sites + i."""
    xp, sites = array_namespace(field), math.prod(shape)
    i = xp.arange(sites, dtype=xp.int32, device=device_of(field))
    pairs = neighbors_of(i, shape, periodic)
    number = len(shape) * sites
    bonds = []
    for slot, (j, there) in enumerate(pairs):
        bond = slot // 2 * sites + (j if slot % 2 else i)
        bonds.append(bond if periodic else xp.where(there > 0, bond, number))
    neighbors, bond = (xp.stack(parts, axis=-1) for parts in ([j for j, _ in pairs], bonds))
    return Bonds(neighbors, bond, gain * xp.ones_like(bond, dtype=field.dtype), field, number)


def _sum_around(x: Array, i: Any, shape: tuple[int, ...], periodic: bool) -> Array:
    """`neighbor_sum` at site i alone."""
    pairs = neighbors_of(i, shape, periodic)
    return functools.reduce(operator.add, (x[..., j] if periodic else there * x[..., j] for j, there in pairs))


def _shifted(xp: Any, lattice: Array, step: int, axis: int) -> Array:
    """Shift like xp.roll by 1 or -1, but with zeros at the edge."""

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
        Positions (*chains, prod(shape) * states) of `OneHot`; otherwise (*chains, prod(shape)) of `Categorical`.

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
            differences_at=own.differences_at,
            bonds=own.bonds,
            data=data,
            space=OneHot(states),
        )
    return Target(
        own.log_density_of_integers,
        score=_no_score,
        differences=own.differences_of_integers,
        differences_at=own.differences_of_integers_at,
        bonds=own.bonds,
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

    def differences_at(self, x: Array, i: Any, data: Any) -> Array:
        blocks, xp = self._split(x), array_namespace(x)
        index = xp.astype(xp.argmax(blocks[..., i, :], axis=-1), xp.int32)
        return self._changes_at(index, lambda j: blocks[..., j, :], i, data)

    def differences_of_integers_at(self, x: Array, i: Any, data: Any) -> Array:
        xp = array_namespace(x)

        def block(j: Any) -> Array:
            return xp.astype(xp.astype(x[..., j, None], xp.int32) == data["states"], x.dtype)

        return self._changes_at(xp.astype(x[..., i], xp.int32), block, i, data)

    def bonds(self, data: Any) -> Bonds:
        return lattice_bonds(self.shape, self.periodic, self.coupling, data["field"])

    def _changes_at(self, index: Array, block: Callable[[Any], Array], i: Any, data: Any) -> Array:
        pairs = neighbors_of(i, self.shape, self.periodic)
        around = functools.reduce(operator.add, (there * block(j) for j, there in pairs))
        return self._gains(index, self.coupling * around + data["field"][i, ...], data)

    def _pulls(self, blocks: Array) -> Array:
        """The pull of all neighbors on every state of every site, in the shape of `blocks`."""
        xp = array_namespace(blocks)
        by_state = neighbor_sum(xp.moveaxis(blocks, -1, -2), self.shape, self.periodic)
        return self.coupling * xp.moveaxis(by_state, -2, -1)

    def _density(self, blocks: Array, data: Any) -> Array:
        weights = 0.5 * self._pulls(blocks) + data["field"]
        return array_namespace(blocks).sum(blocks * weights, axis=(-2, -1))

    def _changes(self, index: Array, blocks: Array, data: Any) -> Array:
        return self._gains(index, self._pulls(blocks) + data["field"], data)

    def _gains(self, index: Array, gain: Array, data: Any) -> Array:
        xp = array_namespace(gain)
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
        "a Potts model on integers has no score: use potts(..., one_hot=True), or a kernel that needs differences"
    )
