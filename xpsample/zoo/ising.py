"""Ising models: nearest neighbours on a lattice, and any couplings, given by a matrix."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array, Same
from xpsample.core.checks import given
from xpsample.core.errors import HyperparameterError
from xpsample.spaces.discrete import Spins
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
