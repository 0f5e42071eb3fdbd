"""Couplings of variables as a matrix, or as lists of neighbors: what they make of a position, and of one variable."""

from typing import Any

import numpy as np
from array_api_compat import array_namespace
from array_api_compat import device as device_of

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.kernels.discrete.colors import check_pairs
from xpsample.targets.bonds import Bonds


def matrix(couplings: Any) -> dict[str, np.ndarray]:
    """A symmetric matrix, and its diagonal."""
    couplings = np.asarray(couplings, dtype=np.float64)
    if couplings.ndim != 2 or couplings.shape[0] != couplings.shape[1] or not np.array_equal(couplings, couplings.T):
        raise HyperparameterError(f"couplings must be a symmetric matrix (dim, dim); got shape {couplings.shape}")
    if not np.all(np.isfinite(couplings)):
        raise HyperparameterError("couplings must all be finite")
    return {"couplings": couplings, "diagonal": np.diag(couplings).copy()}


def matrix_pull(x: Array, data: Any) -> Array:
    """W x, ``(*chains, dim)``, by a matrix."""
    return x @ data["couplings"]


def matrix_pull_at(x: Array, i: Any, data: Any) -> Array:
    """Element i of W x, ``(*chains)``, by a matrix."""
    return x @ data["couplings"][i, ...]


def lists(couplings: Any, pairs: Any, field: np.ndarray) -> dict[str, np.ndarray]:
    """For each variable its neighbors and their couplings, (dim, most); 0 stands for none."""
    pairs = check_pairs(pairs, field.shape[0] if field.ndim else 2**31)
    dim = field.shape[0] if field.ndim else int(np.max(pairs, initial=0)) + 1
    couplings = np.asarray(couplings, dtype=np.float64)
    if couplings.shape not in ((), pairs.shape[:1]) or not np.all(np.isfinite(couplings)):
        raise HyperparameterError(
            f"couplings must be a number or one for each of the {len(pairs)} pairs, and all be finite; got shape "
            f"{couplings.shape}"
        )
    couplings = np.broadcast_to(couplings, pairs.shape[:1])
    neighbors, pair = neighbor_lists(pairs, dim)
    weights = np.where(pair < len(pairs), np.append(couplings, 0.0)[pair], 0.0)
    return {"neighbors": neighbors, "pair": pair, "couplings": weights, "diagonal": np.zeros(dim)}


def neighbor_lists(pairs: np.ndarray, variables: int) -> tuple[np.ndarray, np.ndarray]:
    """For each variable those joined with it and the numbers of their pairs, both (variables, most) of int32.

    Slots without a pair have variable 0 and the number of pairs.
    """
    both = np.concatenate([pairs, pairs[:, ::-1]])
    order = np.argsort(both[:, 0], kind="stable")
    one, other = both[order].T
    place = np.arange(len(one)) - np.searchsorted(one, one)
    shape = (variables, int(np.max(place, initial=0)) + 1)
    neighbors, pair = np.zeros(shape, dtype=np.int32), np.full(shape, len(pairs), dtype=np.int32)
    neighbors[one, place], pair[one, place] = other, np.tile(np.arange(len(pairs)), 2)[order]
    return neighbors, pair


def lists_pull(x: Array, data: Any) -> Array:
    """W x, ``(*chains, dim)``, by lists."""
    xp, neighbors = array_namespace(x), data["neighbors"]
    around = xp.reshape(xp.take(x, xp.reshape(neighbors, (-1,)), axis=-1), (*x.shape[:-1], *neighbors.shape))
    return xp.sum(around * data["couplings"], axis=-1)


def lists_pull_at(x: Array, i: Any, data: Any) -> Array:
    """Element i of W x, ``(*chains)``, by lists."""
    return array_namespace(x).take(x, data["neighbors"][i, ...], axis=-1) @ data["couplings"][i, ...]


def couplings_bonds(data: Any, low: int, number: int) -> Bonds:
    """The `number` bonds of variables with values `low` and 1.

    On bits a coupling w makes a gain of w / 2, and adds w / 2 to the fields of both variables.
    """
    w, own = data["couplings"], data["field"]
    xp, dim = array_namespace(w), own.shape[0]
    if "pair" in data:
        neighbors, bond = data["neighbors"], data["pair"]
    else:
        i = xp.arange(dim, dtype=xp.int32, device=device_of(w))
        neighbors = xp.broadcast_to(i, (dim, dim))
        first, last = xp.minimum(i, i[:, None]), xp.maximum(i, i[:, None])
        bond = xp.where(first < last, first * dim + last, number)
    if low:
        return Bonds(neighbors, bond, 2.0 * w, xp.stack([-own, own], axis=-1), number)
    own = own + 0.5 * xp.sum(w, axis=-1)  # the diagonal of a matrix, too
    return Bonds(neighbors, bond, 0.5 * w, xp.stack([xp.zeros_like(own), own], axis=-1), number)
