"""Finite spaces of several values for each variable: as numbers, or as rows of 0 and 1."""

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.backend import Backend
from xpsample.core.checks import check_count, check_numbers
from xpsample.core.errors import PositionError
from xpsample.core.tree import dtype_name
from xpsample.spaces.discrete import Discrete, all_states, as_index, check_kind, check_shape_of_values
from xpsample.spaces.space import Space, as_floating


@dataclass(frozen=True, eq=False)
class Categorical(Discrete):
    """Each variable takes one of a few numbers.

    Parameters
    ----------
    values : sequence of numbers, or sequence of sequences of numbers
        Values of all variables, or one sequence per variable, in the order of the alternatives.
    shape : int or tuple of int, optional
        Shape of the variables of a `Model`'s parameter; a single variable by default.

    See Also
    --------
    OneHot : A coordinate for each value.
    Binary : Two values.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -np.sum(x, axis=-1) / 2, space=xps.Categorical((0, 1, 2)))
    >>> xps.sample(target, xps.Gibbs(), np.zeros((4, 2)), 1000, seed=1).draws.shape
    (1000, 4, 2)
    """

    values: Sequence[Any]
    shape: Any = None
    choices: int = field(init=False)
    _numbers: Any = field(default=None, repr=False, compare=False)
    _rows: tuple[tuple[float, ...], ...] = field(init=False, repr=False)
    _counts: Any = field(default=None, repr=False)  # (variables,) or (1,), where x lives; None where all are equal
    _table: Any = field(default=None, repr=False)  # (variables, choices) or (1, choices), where x lives

    def __post_init__(self) -> None:
        if self.shape is not None:
            object.__setattr__(self, "shape", check_shape_of_values("shape", self.shape))
        values = self.values
        nested = isinstance(values, (list, tuple)) and bool(values) and isinstance(values[0], (list, tuple))
        rows = tuple(check_numbers("values", row) for row in (values if nested else [values]))
        for row in rows:
            if len(set(row)) != len(row) or not row:
                raise PositionError(f"the values of a variable must be distinct, and at least one is needed; got {row}")
        object.__setattr__(self, "_rows", rows)
        object.__setattr__(self, "choices", max(2, *(len(row) for row in rows)))

    def first(self, dim: int) -> np.ndarray:
        return np.asarray([row[0] for row in (self._rows if len(self._rows) > 1 else self._rows * dim)])

    def to_json(self) -> dict[str, Any]:
        rows = [list(row) for row in self._rows]
        return {"space": "Categorical", "values": rows if len(rows) > 1 else rows[0], "shape": self.shape}

    def check(self, xp: Any, x: Array) -> None:
        check_kind(xp, x)
        if len(self._rows) not in (1, x.shape[-1]):
            raise PositionError(
                f"the space has values for {len(self._rows)} variables; the positions {tuple(x.shape)} have "
                f"{x.shape[-1]} coordinates"
            )
        if xp.isdtype(x.dtype, "integral") and any(not v.is_integer() for row in self._rows for v in row):
            raise PositionError(f"the space has values that are no integers; the positions are {dtype_name(x)}")
        rows = self._rows if len(self._rows) > 1 else self._rows * x.shape[-1]
        x = as_floating(xp, x)
        for i, row in enumerate(rows):
            ok = x[..., i] == row[0]
            for value in row[1:]:
                ok = ok | (x[..., i] == value)
            if not bool(xp.all(ok)):
                raise PositionError(
                    f"coordinate {i} of the positions must be one of {', '.join(f'{v:g}' for v in row)}"
                )

    def bind(self, backend: Backend, x: Array) -> Space:
        # Rows are filled up with their first value, which `index` then finds at its first place.
        table = np.asarray([row + (row[0],) * (self.choices - len(row)) for row in self._rows], dtype=dtype_name(x))
        counts = np.asarray([len(row) for row in self._rows], dtype=np.int32)
        even = bool(np.all(counts == self.choices))
        return self._bound(
            backend,
            x,
            _table=backend.from_host(table, x),
            _counts=None if even else backend.from_host(counts, x),
        )

    def variables(self, dim: int) -> int:
        return dim

    def sizes(self, dim: int) -> tuple[int, ...]:
        sizes = tuple(len(row) for row in self._rows)
        return sizes if len(sizes) > 1 else sizes * dim

    def index(self, xp: Any, x: Array) -> Array:
        table = xp.astype(self._table, x.dtype, copy=False)
        return xp.astype(xp.argmax(xp.astype(x[..., None] == table, xp.int8), axis=-1), xp.int32)

    def move(self, xp: Any, x: Array, choice: Array) -> Array:
        return xp.astype(self._take(xp, self._modulo(self.index(xp, x) + choice)), x.dtype)

    def back(self, xp: Any, choice: Array) -> Array:
        return self._modulo(-choice)

    def mirror(self, xp: Any, x: Array) -> Array:
        index = self.index(xp, x)
        return self._modulo(self._last - 2 * index)

    def valid(self, xp: Any, moves: Array) -> Array:
        if self._counts is None:
            return moves
        there = self.numbers(self.choices)[1:] < self._counts[:, None]
        return xp.where(there, moves, -math.inf)

    def changes(self, xp: Any, x: Array, f: Callable[[Array], Array]) -> Array:
        index = self.index(xp, x)[..., None] + self.numbers(self.choices)[1:]
        index = index % (self.choices if self._counts is None else self._counts[:, None])
        others = xp.astype(self._take(xp, index, 1), x.dtype)
        return self.valid(xp, f(others) - f(x[..., None]))

    def _of_variable(self, i: Any) -> Discrete:
        if len(self._rows) == 1:
            return self
        alone = copy(self)
        counts = None if self._counts is None else self._counts[i, ...][None]
        for name, value in (("_rows", self._rows[:1]), ("_table", self._table[i, ...][None, :]), ("_counts", counts)):
            object.__setattr__(alone, name, value)
        return alone

    def states(self, dim: int) -> np.ndarray:
        return all_states(self._rows if len(self._rows) > 1 else self._rows * dim)

    def _modulo(self, index: Array) -> Array:
        return index % (self.choices if self._counts is None else self._counts)

    @property
    def _last(self) -> Any:
        return (self.choices if self._counts is None else self._counts) - 1

    def _take(self, xp: Any, index: Array, after: int = 0) -> Array:
        """Values by index, ``(..., variables)`` with `after` more axes behind."""
        if len(self._rows) > 1:
            first = self.numbers(len(self._rows)) * self.choices
            index = index + xp.reshape(first, (len(self._rows), *(1,) * after))
        flat = xp.take(xp.reshape(self._table, (-1,)), xp.reshape(index, (-1,)))
        return xp.reshape(flat, index.shape)


@dataclass(frozen=True)
class OneHot(Discrete):
    """Variables written as blocks of `choices` coordinates, of which one is 1 and the others are 0.

    Parameters
    ----------
    choices : int
        Values of a variable, at least 2; dim is a multiple of it.
    shape : int or tuple of int, optional
        Shape of the variables of a `Model`'s parameter; a single variable by default. Its values have one more axis, of
        `choices`.

    See Also
    --------
    Categorical : One coordinate for each variable.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> b = np.array([0.0, 1.0, 2.0])  # one variable of three choices, as a row of 0 and 1
    >>> target = xps.Target(lambda x: x @ b, score=lambda x: b + 0 * x, space=xps.OneHot(3))
    >>> xps.sample(target, xps.GWG(), np.array([[1.0, 0.0, 0.0]] * 4), 1000, seed=1).draws.shape
    (1000, 4, 3)
    """

    choices: int
    shape: Any = None
    _numbers: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "choices", check_count("choices", self.choices, 2))
        if self.shape is not None:
            object.__setattr__(self, "shape", check_shape_of_values("shape", self.shape))

    def _axes(self) -> tuple[int, ...]:
        return (*(self.shape or ()), self.choices)

    def first(self, dim: int) -> np.ndarray:
        return np.tile(np.eye(self.choices)[0], self.variables(dim))

    def to_json(self) -> dict[str, Any]:
        return {"space": "OneHot", "choices": self.choices, "shape": self.shape}

    def check(self, xp: Any, x: Array) -> None:
        check_kind(xp, x)
        if x.shape[-1] % self.choices:
            raise PositionError(f"dim must be a multiple of the {self.choices} choices; got positions {tuple(x.shape)}")
        one = xp.all((x == 0) | (x == 1), axis=-1) & xp.all(xp.sum(self._blocks(xp, x), axis=-1) == 1, axis=-1)
        if not bool(xp.all(one)):
            raise PositionError(f"every block of {self.choices} coordinates must hold one 1 and otherwise 0")

    def bind(self, backend: Backend, x: Array) -> Space:
        return self._bound(backend, x)

    def variables(self, dim: int) -> int:
        return dim // self.choices

    def sizes(self, dim: int) -> tuple[int, ...]:
        return (self.choices,) * self.variables(dim)

    def index(self, xp: Any, x: Array) -> Array:
        return xp.astype(xp.argmax(self._blocks(xp, x), axis=-1), xp.int32)

    def move(self, xp: Any, x: Array, choice: Array) -> Array:
        index = (self.index(xp, x) + choice) % self.choices
        blocks = xp.astype(index[..., None] == self.numbers(self.choices), x.dtype)
        return xp.reshape(blocks, (*blocks.shape[:-2], -1))

    def back(self, xp: Any, choice: Array) -> Array:
        return (-choice) % self.choices

    def mirror(self, xp: Any, x: Array) -> Array:
        return (self.choices - 1 - 2 * self.index(xp, x)) % self.choices

    def valid(self, xp: Any, moves: Array) -> Array:
        return moves

    def changes(self, xp: Any, x: Array, f: Callable[[Array], Array]) -> Array:
        column = x[..., None]
        gain = self._blocks(xp, (f(xp.ones_like(column)) - f(xp.zeros_like(column)))[..., 0])
        index = self.index(xp, x)[..., None] + self.numbers(self.choices)
        gain = xp.take_along_axis(gain, as_index(xp, index % self.choices), axis=-1)
        return gain[..., 1:] - gain[..., :1]

    def states(self, dim: int) -> np.ndarray:
        n = self.variables(dim)
        index = all_states([tuple(range(self.choices))] * n).astype(np.int64)
        return np.eye(self.choices)[index].reshape(-1, dim)

    def _blocks(self, xp: Any, x: Array) -> Array:
        return xp.reshape(x, (*x.shape[:-1], -1, self.choices))
