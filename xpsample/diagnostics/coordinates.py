"""Coordinates that the diagnosis uses: all of them in a coarse pass, then the worst ones closely."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.registry import backend_of, to_host
from xpsample.diagnostics.chains import (
    judge_correlation,
    judge_crossings,
    judge_growth,
    judge_modes,
    judge_settling,
    judge_start,
    judge_walk,
    region_of,
    spread,
    walking,
)
from xpsample.diagnostics.convergence import FEWEST_DRAWS, MANY_CHAINS, Mixing, mixing
from xpsample.diagnostics.findings import Column, Finding
from xpsample.diagnostics.target import judge_position_precision, judge_underflow


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


SCREENED, FEWEST_ROWS, FIRST_ROWS = 2**18, 32, 64
"""Values at which all coordinates are looked at, to find the worst ones; of how many draws, and how many first ones.

Where 32 draws of all coordinates are more values than that, some coordinates are looked at: half of them evenly spread,
and half those that look worst in a few chains.
"""

FEWEST_CHAINS = 4
"""Of a group, in which all coordinates are looked at even so."""

MEASURED = 2**17
"""Values of which ESS and R-hat are computed, of the worst coordinates; four of these at least."""

LONGEST, MOST_CHAINS = 2**13, 32
"""Draws of a chain, and chains, that the ESS of one coordinate is taken from; the ESS of the chains is added up."""

MOST_STATES = 64
"""Of a variable, up to which each has an indicator of its own."""

MOST_SPLIT = 4
"""Of the columns that have mixed the least, those that are looked at for two places."""

COPIED = 2**23
"""Values up to which draws are copied to the host as a whole."""


@runtime_checkable
class StoredDraws(Protocol):
    """Draws (draw, *chains, column) that are read in parts, such as those of a store."""

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
    """The least ESS (bulk or tail) of the columns that look worst, and the largest R-hat; nan if there is none.

    Of draws (draw, *chains, dim). The columns of names of states (`categorical`) are indicators, one for each state.
    Chains are `ensembles` as in `Screen`.
    """
    screen = Screen(draws, [""] * draws.shape[-1], ensembles=ensembles)
    if screen.rows < FEWEST_DRAWS:
        return math.nan, math.nan
    found = screen.figures(categorical, longest=screen.rows).mixing
    with np.errstate(all="ignore"):
        least = np.fmin(found.ess_bulk, found.ess_tail)
    return (
        float(np.min(least)) if least.size and not np.any(np.isnan(least)) else math.nan,
        float(np.max(found.rhat)) if found.rhat.size else math.nan,
    )


class Screen:
    """All columns of a run at some draws, from which those are chosen that are looked at closely.

    Draws are (draw, *chains, dim). Coordinates that are angles are taken as differences from their mean, which no cut
    of the circle is near. In `ensembles` the chains of the last axis depend on one another: they are walkers, and an
    ensemble counts as one chain beside those of the axis before it.
    """

    rows: int
    shape: tuple[int, ...]
    groups: list[int]
    chains: int
    walkers: int
    step: int
    coordinates: Sequence[int]
    values: np.ndarray
    first: np.ndarray

    def __init__(
        self,
        draws: Array | StoredDraws,
        names: Sequence[str],
        angles: Sequence[int] = (),
        ensembles: bool = False,
    ) -> None:
        size = math.prod(draws.shape)
        self._draws = draws if size > COPIED else _part(draws, slice(None), slice(None))
        self._names, self.rows, self.shape = names, draws.shape[0], draws.shape[1:-1]
        axes = list(draws.shape[1:-1]) or [1]
        self.walkers, pooled = (axes[-1], 2) if ensembles else (1, 1)
        self.groups, self.chains = axes[:-pooled], math.prod(axes[-pooled:])
        row = size // self.rows
        most_rows = max(FEWEST_ROWS, SCREENED // row)
        self.step = -(-self.rows // most_rows)
        shown = -(-self.rows // self.step)
        some = max(2, draws.shape[-1] * SCREENED // (row * shown))
        self.coordinates = range(draws.shape[-1]) if some >= draws.shape[-1] else self._spread_and_worst(some)
        self._shown = self._at_coordinates(slice(None, None, self.step))
        self.values = self._columns(self._shown.astype(np.float64))
        first = min(self.rows // 4, FIRST_ROWS, most_rows)
        self.first = self._columns(self._at_coordinates(slice(first)).astype(np.float64))
        around = np.tile(np.isin(np.asarray(self.coordinates), angles), math.prod(self.groups))
        self._angles = np.flatnonzero(around)
        self._means = np.zeros(len(around))
        if self._angles.size:
            self._means[around] = circular_mean(self.values[..., around])
            for part in (self.values, self.first):
                part[..., around] = centred(part[..., around], self._means[around])

    def _spread_and_worst(self, some: int) -> list[int]:
        """About so many coordinates: half of them evenly spread, and half those that look worst in a few chains."""
        dim, groups = self._draws.shape[-1], math.prod(self.groups)
        if self.rows < FEWEST_DRAWS:  # which do not tell how they mix
            return [*range(0, dim, -(-dim // some))]
        rows, last = slice(None, None, self.step), (self.shape or (1,))[-1]
        seen = max(FEWEST_CHAINS, SCREENED // (len(range(0, self.rows, self.step)) * groups * dim))
        few = slice(None, None, max(1, last // seen))
        if isinstance(self._draws, StoredDraws):
            part = self._draws.read(rows, slice(None), np.arange(last)[few] if self.shape else None)
        else:
            part = to_host(self._draws[rows, ..., few, :] if self.shape else self._draws[rows, ...])
        host = np.reshape(part.astype(np.float64), (part.shape[0], groups, -1, dim))
        with np.errstate(all="ignore"):
            looks = np.max([_looks(host[:, group]) for group in range(groups)], axis=0)
        spread_out = range(0, dim, -(-dim // max(1, some // 2)))
        worst = [int(i) for i in np.argsort(-looks, kind="stable")[:some] if i % spread_out.step]
        return [*spread_out, *worst[: some // 2]]

    def _at_coordinates(self, rows: slice) -> np.ndarray:
        """Some rows of the coordinates that are looked at, on the host."""
        if isinstance(self.coordinates, range):
            return _part(self._draws, rows, slice(None))
        return _part(self._draws, rows, self.coordinates)

    @property
    def columns(self) -> list[Column]:
        """Of `values`."""
        return self._named(self._names[i] for i in self.coordinates)

    def region(self, diverged: Array) -> str:
        """Where divergent steps, (draw, *chains), are; see `region_of`."""
        names = [self._names[i] for i in self.coordinates]
        return region_of(names, self._shown.astype(np.float64), to_host(diverged[:: self.step, ...]).astype(bool))

    def groups_of(self, mask: np.ndarray) -> np.ndarray:
        """Whether a mask (*chains) holds for all chains of a group, (*groups)."""
        return np.all(np.reshape(mask, (*self.groups, self.chains)), axis=-1)

    def judge_places(
        self, stuck: np.ndarray, unmixed: Mapping[str, Sequence[str]], high: bool, known: Mapping[str, Any]
    ) -> list[Finding | None]:
        """The rules that compare chains and parts of the run, where `about` gave what is known.

        Chains that are `stuck`, (*chains), never moved: they are in no mode, and groups of nothing else are left out.
        `unmixed` has the names of columns whose figures are bad, the worst first, by the kind of finding. `high` says
        that nearly all steps are accepted.
        """
        still, names, tilted = self.groups_of(stuck), self.columns, known.get("tilted", False)
        keep = [i for i, (group, _) in enumerate(names) if not still[group]]
        columns, first, values = [names[i] for i in keep], self.first[..., keep], self.values[..., keep]
        with np.errstate(all="ignore"):
            means, sds = np.mean(values, axis=0), np.std(values, axis=0)
        moving = np.repeat(~np.reshape(stuck, (-1, self.chains)).T, len(self.coordinates), axis=1)[:, keep]
        second = values[len(values) // 2 :]
        bad = [i for name in dict.fromkeys(n for own in unmixed.values() for n in own) for i in _at(columns, name)]
        walks, ratio = walking(second) if bad else (np.zeros(len(columns), dtype=bool), np.zeros(len(columns)))
        walks &= np.isin(np.arange(len(columns)), bad)
        apart = judge_modes(columns, np.where(moving, means, np.nan), sds, walks)
        if apart is None:
            worst = [i for i in bad if not walks[i]][:MOST_SPLIT]
            apart = judge_crossings(columns, values, worst, moving)
        return [
            apart,
            judge_walk(columns, walks, ratio, high),
            judge_correlation(columns, second, np.asarray(bad, dtype=int)),
            None if known.get("adjusted", True) else judge_growth(columns, values),
            judge_start(columns, first, second, tilted, self.step),
            None if tilted or self.walkers > 1 else judge_settling(columns, values),
        ]

    def judge_numbers(self, categorical: bool, diverged: bool) -> list[Finding | None]:
        """Whether the dtype has the digits that the draws need; more is asked for where steps diverged."""
        if categorical:
            return []
        dtype, second = self._shown.dtype, self.values[len(self.values) // 2 :]
        return [
            judge_position_precision(self.columns, second, dtype),
            judge_underflow(self.columns, second, dtype, diverged),
        ]

    def figures(self, categorical: bool = False, longest: int = LONGEST) -> Figures:
        """Figures of the columns that look worst by `_looks`: as many as `MEASURED` values allow, four at least."""
        columns = self.columns
        with np.errstate(all="ignore"):
            order = np.argsort(-_looks(self.values), kind="stable")
        chains = min(self.chains, MOST_CHAINS) if self.walkers == 1 else self.chains
        each = min(self.rows, longest) * chains
        order = np.sort(order[: max(4, MEASURED // each)])
        some, every = self._chosen(order, chains, longest)
        names = [columns[i] for i in order]
        if categorical:
            names, some, every = indicators(names, some, every)
        found = mixing(some, every, self.walkers)
        scale = self.chains / chains
        found = found._replace(ess_bulk=scale * found.ess_bulk, ess_tail=scale * found.ess_tail)
        sd = spread(some if every is None else every)
        return Figures(names, sd, found)

    def _chosen(self, columns: np.ndarray, chains: int, longest: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Draws of some columns, (draw, chain, column): of some chains, and with many also some draws of all chains."""
        groups = math.prod(self.groups)
        at = [divmod(int(i), len(self.coordinates)) for i in columns]
        wanted = sorted({int(self.coordinates[j]) for _, j in at})
        step = -(-self.rows // longest)

        def of(step: int, chosen: np.ndarray | None = None) -> np.ndarray:
            part = _part(self._draws, slice(None, None, step), wanted, chosen)
            host = np.reshape(part, (part.shape[0], groups, -1, len(wanted)))
            picked = [host[:, group, :, wanted.index(int(self.coordinates[j]))] for group, j in at]
            values = np.stack(picked, axis=-1).astype(np.float64)
            around = np.isin(columns, self._angles)
            if np.any(around):
                values[..., around] = centred(values[..., around], self._means[columns[around]])
            return values

        if self.chains < MANY_CHAINS or self.walkers > 1:
            return of(step), None
        few = np.linspace(0, self.chains - 1, chains).round().astype(int)
        most, seen = max(32, 2**14 // self.chains), len(range(0, self.rows, step))
        return of(step, few), of(step * -(-seen // most))

    def _named(self, names: Any) -> list[Column]:
        names = list(names)
        return [(group if self.groups else (), name) for group in np.ndindex(*self.groups) for name in names]

    def _columns(self, host: np.ndarray) -> np.ndarray:
        """Draws as (draw, chain, group and coordinate)."""
        host = np.reshape(host, (host.shape[0], math.prod(self.groups), self.chains, host.shape[-1]))
        return np.reshape(np.swapaxes(host, 1, 2), (host.shape[0], self.chains, host.shape[1] * host.shape[-1]))


def _part(
    draws: Array | StoredDraws, rows: slice, columns: slice | Sequence[int], chains: np.ndarray | None = None
) -> np.ndarray:
    """Some rows of some columns, on the host; of the last chain axis all, or those given."""
    if isinstance(draws, StoredDraws):
        return draws.read(rows, columns, chains)
    if isinstance(columns, slice) or len(columns) == draws.shape[-1]:
        part = to_host(draws[rows, ..., columns if isinstance(columns, slice) else slice(None)])
    elif isinstance(draws, np.ndarray):
        part = draws[rows, ..., columns]
    else:
        index = backend_of(draws).from_host(np.asarray(columns, dtype=np.int64), draws)
        part = to_host(array_namespace(draws).take(draws[rows, ...], index, axis=-1))
    return part if chains is None else part[..., chains, :]


def indicators(
    columns: Sequence[Column], some: np.ndarray, every: np.ndarray | None = None
) -> tuple[list[Column], np.ndarray, np.ndarray | None]:
    """Columns of states as columns of indicators, one for each state that occurs: ``x[0]=2`` is 1 where x[0] is 2.

    Of some draws (draw, chain, column), and perhaps of more of the same columns. One of over 64 states stays as it is.
    """
    names: list[Column] = []
    parts = [some] if every is None else [some, every]
    built: list[list[np.ndarray]] = [[] for _ in parts]
    for i, (group, name) in enumerate(columns):
        states = np.unique(np.concatenate([np.unique(part[..., i]) for part in parts]))
        many = len(states) > MOST_STATES
        for state in [None] if many else states:
            names.append((group, name if many else f"{name}={state:g}"))
            for part, into in zip(parts, built, strict=True):
                into.append(part[..., i] if many else (part[..., i] == state).astype(np.float64))
    first, *more = (np.stack(into, axis=-1) for into in built)
    return names, first, more[0] if more else None


def _at(columns: Sequence[Column], name: str) -> list[int]:
    """Where columns of a name are, one for each group."""
    return [i for i, (_, own) in enumerate(columns) if own == name]


def _looks(values: np.ndarray) -> np.ndarray:
    """How bad columns look, of some draws (draw, chain, column).

    A column looks bad where the means of half chains, or of pieces of eight draws, differ more than those of
    independent draws would, for its variance: by how many of the standard errors of that. Halves see slow drifts, and
    are few; pieces tell a column that mixes badly from the worst of many that mix well. One that is constant or not
    finite looks worst.
    """
    within, n = np.mean(np.var(values, axis=0), axis=0), len(values)
    looks = np.maximum(*(_apart(values, within, length) for length in (n // 2, min(8, n // 2))))
    return np.where(np.isnan(looks), np.inf, looks)


def _apart(values: np.ndarray, within: np.ndarray, length: int) -> np.ndarray:
    """By how many standard errors the means of pieces, of some draws, vary more than those of independent draws."""
    pieces = len(values) // length
    means = np.mean(np.reshape(values[: pieces * length], (pieces, length, *values.shape[1:])), axis=1)
    means = np.reshape(means, (-1, means.shape[-1]))
    return (length * np.var(means, axis=0) / within - 1) * math.sqrt(len(means) / 2)
