"""Colors of variables: variables of one color are independent of one another, given all others."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from xpsample.core.arrays import Array, is_array
from xpsample.core.checks import check_count, given
from xpsample.core.errors import HyperparameterError
from xpsample.core.registry import to_host
from xpsample.kernels.discrete.common import space_of
from xpsample.targets.bound import BoundTarget

# Minimum number of random moves of half a color per chain; each misses a dependent pair with probability 1 / 2.
TRIALS = 32


def greedy_coloring(pairs: Any, variables: int) -> np.ndarray:
    """Color the variables of a graph: each variable takes the first color that none of its neighbors has.

    A lattice has two colors, a checkerboard, where every periodic axis is even. No graph needs more than one color
    above the largest number of variables that one is joined with.

    Parameters
    ----------
    pairs : array of int, shape (pairs, 2)
        The variables that are joined: those whose distributions depend on each other, given all the others.
    variables : int
        How many there are.

    Returns
    -------
    numpy.ndarray of int, shape (variables,)
        From 0.

    See Also
    --------
    ChromaticGibbs : Takes them.
    xpsample.zoo.ising.lattice_pairs : The pairs of a lattice.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample.kernels import greedy_coloring
    >>> greedy_coloring([(0, 1), (1, 2), (2, 3)], 4).tolist()
    [0, 1, 0, 1]
    >>> couplings = np.ones((3, 3))  # every variable with every other one
    >>> greedy_coloring(np.argwhere(np.triu(couplings, 1)), 3).tolist()
    [0, 1, 2]
    """
    variables = check_count("variables", variables)
    pairs = check_pairs(pairs, variables)
    both = np.concatenate([pairs, pairs[:, ::-1]])
    both = both[np.argsort(both[:, 0], kind="stable")]
    joined = np.split(both[:, 1], np.searchsorted(both[:, 0], np.arange(1, variables)))
    colors = np.full(variables, -1)
    for variable, others in enumerate(joined):
        taken = set(colors[others].tolist())
        colors[variable] = next(color for color in range(len(others) + 1) if color not in taken)
    return colors


def check_pairs(pairs: Any, variables: int) -> np.ndarray:
    """Pairs of different variables as an array of int, (pairs, 2)."""
    pairs = _as_array(pairs)
    if pairs.size == 0:
        pairs = np.zeros((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise HyperparameterError(f"pairs must be integers of shape (pairs, 2); got {given(pairs)}")
    if np.any((pairs < 0) | (pairs >= variables)) or np.any(pairs[:, 0] == pairs[:, 1]):
        raise HyperparameterError(f"pairs must hold two different numbers from 0 to {variables - 1} each")
    return pairs


def as_colors(name: str, value: Any) -> tuple[int, ...]:
    """Colors as a tuple of numbers from 0, without gaps."""
    value = _as_array(value)
    if value.ndim != 1 or not value.size or value.dtype.kind not in "iu":
        raise HyperparameterError(
            f"{name} must be an integer for each variable, as greedy_coloring(pairs, variables) gives them; got "
            f"{given(value)}"
        )
    return tuple(np.unique(value, return_inverse=True)[1].tolist())


def _as_array(value: Any) -> np.ndarray:
    """Without an axis where it is no array; what it holds is checked by who asks."""
    if is_array(value):
        return to_host(value)
    try:
        return np.asarray(value if isinstance(value, Iterable) else None)
    except ValueError:  # rows of unequal lengths
        return np.asarray(None)


def check_colors(target: BoundTarget, x: Array, colors: tuple[int, ...]) -> None:
    """Raise HyperparameterError if variables of one color are seen to depend on each other.

    Half of a color moves at random, and the differences of the other half must stay, up to rounding: from the start
    positions, and from positions where half of all variables have moved.
    """
    variables = space_of(target).variables(x.shape[-1])
    if len(colors) != variables:
        raise HyperparameterError(f"there are {len(colors)} colors, and the positions have {variables} variables")
    rng, of, chains = np.random.default_rng(0), np.asarray(colors), int(np.prod(x.shape[:-1]))
    counts = np.bincount(of)
    with np.errstate(invalid="ignore", over="ignore"):
        for trial in range(max(4, -(-TRIALS // max(1, chains)))):
            at = _moved(target, x, rng.random((*x.shape[:-1], variables)) < 0.5 * (trial % 2), rng)
            before = _differences(target, at)
            for color in np.flatnonzero(counts > 1):
                moves = (of == color) & (rng.random((*x.shape[:-1], variables)) < 0.5)
                after = _differences(target, _moved(target, at, moves, rng))
                feels = _changed(before, after) & (of == color) & ~moves
                if np.any(feels):
                    _refuse(int(np.argwhere(feels)[0][-1]), int(color))


def _moved(target: BoundTarget, x: Array, which: np.ndarray, rng: np.random.Generator) -> Array:
    """Positions with some variables, (*chains, variables), at random other values."""
    space = space_of(target)
    choice = np.where(which, rng.integers(1, space.choices, which.shape), 0).astype(np.int32)
    return space.move(target.xp, x, target.backend.from_host(choice, x))


def _differences(target: BoundTarget, x: Array) -> tuple[np.ndarray, np.ndarray]:
    """Differences of all moves, (*chains, variables, choices - 1), and their rounding error bounds, (*chains, 1, 1)."""
    point = target.evaluate(x)
    found = to_host(point.differences)
    sizes = np.abs(np.where(np.isfinite(found), found, 0.0))
    scale = 1.0 + np.abs(to_host(point.log_density))[..., None, None] + np.sum(sizes, axis=(-2, -1), keepdims=True)
    return found, 32 * np.finfo(found.dtype).eps * scale


def _changed(before: tuple[np.ndarray, np.ndarray], after: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Which variables have another distribution, (*chains, variables); where a density is 0, none is known."""
    (old, old_error), (new, new_error) = before, after
    apart = ~(np.abs(new - old) <= old_error + new_error) & (new != old) & ~np.isnan(new) & ~np.isnan(old)
    return np.any(apart, axis=-1)


def _refuse(variable: int, color: int) -> None:
    raise HyperparameterError(
        f"variable {variable} depends on others of its color, {color}, so drawing them at once is biased. Use "
        "greedy_coloring(pairs, variables), or range(variables)."
    )
