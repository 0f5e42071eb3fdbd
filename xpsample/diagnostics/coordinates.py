"""Coordinates that the diagnosis uses: all of them in a coarse pass, then exact figures of the worst ones."""

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.registry import backend_of, to_host
from xpsample.diagnostics.convergence import FEWEST_DRAWS, MANY_CHAINS, Mixing, mixing
from xpsample.diagnostics.findings import Column

# Array elements of the coarse pass; its fewest draws, and how many of the first draws are also kept.
# If 32 draws of all coordinates have more elements, the pass has fewer coordinates: half of them evenly spread, and
# half the worst in a few chains.
COARSE, FEWEST_ROWS, FIRST_ROWS = 2**18, 32, 64

MEASURED = 2**17  # Array elements for which ESS and R-hat are computed, of the worst columns, at least four

# Draws of a chain, and chains, for which the ESS of a column is computed; the ESS is scaled up to all chains.
LONGEST, MOST_CHAINS = 2**13, 32

COPIED = 2**23  # Array elements up to which draws are copied to the host as a whole


@runtime_checkable
class StoredDraws(Protocol):
    """Draws (draw, *chains, column) that are read in parts, such as from a store."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of all draws."""

    def read(self, rows: slice, columns: slice | Sequence[int], chains: np.ndarray | None = None) -> np.ndarray:
        """Some draws of some columns, on the host; all chains of the last chain axis, or those given."""


class Figures(NamedTuple):
    """Columns, the standard deviation of each, and how they mixed."""

    columns: Sequence[Column]
    sd: np.ndarray
    mixing: Mixing


def worst(draws: Array | StoredDraws, categorical: bool = False, ensembles: bool = False) -> tuple[float, float]:
    """Return the least ESS (bulk or tail) and the largest R-hat of the columns that look worst; nan if there is none.

    Draws are (draw, *chains, dim). The columns of names of states (`categorical`) are indicators, one for each state.
    Chains are `ensembles` as in `CoarsePass`.
    """
    coarse = CoarsePass(draws, [""] * draws.shape[-1], ensembles=ensembles)
    if coarse.rows < FEWEST_DRAWS:
        return math.nan, math.nan
    found = coarse.figures(categorical, longest=coarse.rows).mixing
    with np.errstate(all="ignore"):
        least = np.fmin(found.ess_bulk, found.ess_tail)
    return (
        float(np.min(least)) if least.size and not np.any(np.isnan(least)) else math.nan,
        float(np.max(found.rhat)) if found.rhat.size else math.nan,
    )


class CoarsePass:
    """Some draws of all columns of a run, by which the worst columns are chosen.

    Attributes
    ----------
    rows, shape : int and tuple of int
        Number of draws, and the chain axes.
    groups, chains, walkers : tuple of int, int, int
        Axes of the groups, and chains of each group. In `ensembles` the chains of the last axis depend on one another:
        they are walkers, and an ensemble counts as one chain of the axis before it.
    step : int
        The pass has each so many-th draw.
    columns : list of Column
        Columns of the pass.
    draws : numpy.ndarray, shape (draw, chain, column)
        Draws of the pass, in their own dtype.
    values, first : numpy.ndarray, shape (draw, chain, column)
        Draws of the pass, and the first draws of the run, in float64. Angles are differences from their mean, which no
        cut of the circle is near.
    """

    def __init__(
        self,
        draws: Array | StoredDraws,
        names: Sequence[str],
        angles: Sequence[int] = (),
        ensembles: bool = False,
    ) -> None:
        self.rows, *axes, dim = draws.shape
        self.shape, axes = tuple(axes), axes or [1]
        self.walkers, pooled = (axes[-1], 2) if ensembles else (1, 1)
        self.groups, self.chains = tuple(axes[:-pooled]), math.prod(axes[-pooled:])
        self._draws = draws
        if self.rows * math.prod(axes) * dim <= COPIED:
            whole = slice(None)
            self._draws = draws.read(whole, whole) if isinstance(draws, StoredDraws) else to_host(draws)
        most = max(FEWEST_ROWS, COARSE // (math.prod(axes) * dim))
        self.step = -(-self.rows // most)
        some = max(2, COARSE // (math.prod(axes) * len(range(0, self.rows, self.step))))
        self.coordinates = np.arange(dim) if some >= dim else self._spread_and_worst(some, dim, axes[-1])
        self.columns = [(group, names[int(i)]) for group in np.ndindex(*self.groups) for i in self.coordinates]
        self.draws = self._read(slice(None, None, self.step), self.coordinates)
        around = np.tile(np.isin(self.coordinates, angles), math.prod(self.groups))
        self._means = np.full(len(around), np.nan)  # of angles
        self._means[around] = circular_mean(self.draws[..., around].astype(np.float64))
        self.values = _centered(self.draws, self._means)
        first = slice(min(self.rows // 4, FIRST_ROWS, most))
        self.first = _centered(self._read(first, self.coordinates), self._means)

    def _spread_and_worst(self, some: int, dim: int, last: int) -> np.ndarray:
        """About so many coordinates: half of them evenly spread, and half those that look worst in a few chains."""
        if self.rows < FEWEST_DRAWS:  # too few to show how they mix
            return np.arange(0, dim, -(-dim // some))
        rows = slice(None, None, self.step)
        few = max(4, COARSE // (len(range(self.rows)[rows]) * math.prod(self.groups) * dim))
        chains = np.arange(0, last, last // few) if last > few else None
        part = self._read(rows, np.arange(dim), chains).astype(np.float64)
        order = np.argsort(-_looks(part).reshape((-1, dim)).max(axis=0), kind="stable")
        every = -(-dim // max(1, some // 2))
        others = order[:some][order[:some] % every > 0]
        return np.concatenate([np.arange(0, dim, every), others[: some // 2]])

    def figures(self, categorical: bool = False, longest: int = LONGEST) -> Figures:
        """Figures of the columns that look worst: as many as `MEASURED` array elements allow, but at least four."""
        with np.errstate(all="ignore"):
            order = np.argsort(-_looks(self.values), kind="stable")
        many = self.chains >= MANY_CHAINS and self.walkers == 1
        chains, step = MOST_CHAINS if many else self.chains, -(-self.rows // longest)
        chosen = np.sort(order[: max(4, MEASURED // (min(self.rows, longest) * chains))])
        group, at = np.divmod(chosen, len(self.coordinates))
        wanted, place = np.unique(self.coordinates[at], return_inverse=True)
        picked, means = group * len(wanted) + place, self._means[chosen]
        few = np.linspace(0, self.chains - 1, chains).round().astype(int) if many else None
        some, every = _centered(self._read(slice(None, None, step), wanted, few)[..., picked], means), None
        if many:  # R-hat is of all chains, at some draws
            rows = slice(None, None, step * -(-len(range(0, self.rows, step)) // max(32, 2**14 // self.chains)))
            every = _centered(self._read(rows, wanted)[..., picked], means)
        names = [self.columns[i] for i in chosen]
        if categorical:
            names, some, every = indicators(names, some, every)
        found, scale = mixing(some, every, self.walkers), self.chains / chains
        found = found._replace(ess_bulk=scale * found.ess_bulk, ess_tail=scale * found.ess_tail)
        return Figures(names, spread(some if every is None else every), found)

    def _read(self, rows: slice, columns: np.ndarray, chains: np.ndarray | None = None) -> np.ndarray:
        """Some rows, columns and chains of the last chain axis, on the host: (draw, chain, group and column)."""
        draws = self._draws
        if isinstance(draws, StoredDraws):
            part = draws.read(rows, columns.tolist(), chains)
        else:
            part = draws[rows, ...]
            for axis, chosen in ((-1, columns), (-2, chains)):
                if chosen is not None and len(chosen) < part.shape[axis]:
                    index = backend_of(part).from_host(chosen.astype(np.int64), part)
                    part = array_namespace(part).take(part, index, axis=axis)
            part = to_host(part)
        groups = math.prod(self.groups)
        each = math.prod(part.shape[1:-1]) // groups
        part = part.reshape((len(part), groups, each, len(columns))).swapaxes(1, 2)
        return part.reshape((len(part), each, groups * len(columns)))


def _looks(values: np.ndarray) -> np.ndarray:
    """Badness of columns, from some draws (draw, chain, column).

    A column looks bad where the means of half chains, or of pieces of eight draws, differ more than
    for independent draws of its variance: by how many standard errors. Halves see slow drifts, and
    are few; pieces tell a column that mixes badly from the worst of many that mix well. One that is constant or not
    finite looks worst.
    """
    looks = np.full(values.shape[-1], -np.inf)
    with np.errstate(all="ignore"):
        within, half = np.mean(np.var(values, axis=0), axis=0), len(values) // 2
        for length in (half, min(8, half)):
            pieces = values[: len(values) // length * length].reshape((-1, length, *values.shape[1:]))
            means = np.mean(pieces, axis=1).reshape((-1, values.shape[-1]))
            excess = length * np.var(means, axis=0) / within - 1
            looks = np.maximum(looks, excess * math.sqrt(len(means) / 2))
    return np.where(np.isnan(looks), np.inf, looks)


def spread(draws: np.ndarray) -> np.ndarray:
    """Standard deviation of (draw, chain, column), (column,): finite wherever it is a number of the dtype."""
    with np.errstate(all="ignore"):
        largest = np.max(np.abs(draws), axis=(0, 1))
        unit = np.where((largest > 0) & np.isfinite(largest), largest, 1.0)
        return np.std(draws / unit, axis=(0, 1)) * unit


def indicators(
    columns: Sequence[Column], some: np.ndarray, every: np.ndarray | None = None
) -> tuple[list[Column], np.ndarray, np.ndarray | None]:
    """Columns of states as columns of indicators, one for each state that occurs: ``x[0]=2`` is 1 where x[0] is 2.

    From some draws (draw, chain, column), and optionally more of the same columns. One of over 64 states stays as it
    is.
    """
    names: list[Column] = []
    parts = [some] if every is None else [some, every]
    built: list[list[np.ndarray]] = [[] for _ in parts]
    for i, (group, name) in enumerate(columns):
        states = np.unique(np.concatenate([np.unique(part[..., i]) for part in parts]))
        many = len(states) > 64
        for state in [None] if many else states:
            names.append((group, name if many else f"{name}={state:g}"))
            for part, into in zip(parts, built, strict=True):
                into.append(part[..., i] if many else (part[..., i] == state).astype(np.float64))
    first, *more = (np.stack(into, axis=-1) for into in built)
    return names, first, more[0] if more else None


# ---- angles, whose mean and spread do not depend on where the circle is cut -----------------------------------------


def circular_mean(angles: np.ndarray) -> np.ndarray:
    """The direction of the mean of the points of the unit circle, (column,): Mardia & Jupp (2000), Section 2.2."""
    return np.angle(np.mean(np.exp(1j * angles), axis=(0, 1)))


def circular_sd(angles: np.ndarray) -> np.ndarray:
    """``sqrt(-2 log R)``, (column,), with R the length of that mean: Mardia & Jupp (2000), Section 2.3.

    As the standard deviation where angles are close together, and without a bound for angles all around.
    """
    with np.errstate(divide="ignore"):
        return np.sqrt(-2 * np.log(np.minimum(1.0, np.abs(np.mean(np.exp(1j * angles), axis=(0, 1))))))


def centred(angles: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Differences from a mean, in [-pi, pi): the circle is cut on its other side."""
    return (angles - mean + np.pi) % (2 * np.pi) - np.pi


def _centered(values: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Values (draw, chain, column) in float64: angles as differences from their means, which are nan for others."""
    values = values.astype(np.float64)
    return values if np.all(np.isnan(means)) else np.where(np.isnan(means), values, centred(values, means))
