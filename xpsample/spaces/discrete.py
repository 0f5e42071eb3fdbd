"""Finite spaces: every variable has one of a few values, and kernels refer to *alternatives*.

A position has ``variables`` variables with at most ``choices`` values each, in an order. Alternative j of a variable, j
= 1 .. choices - 1, is the value j places further on, cyclically; choice 0 is to stay. The moves of one variable are
therefore an axis of length ``choices - 1`` on every space (of length 1 where there are two values), the inverse of
alternative j is alternative ``choices - j``, and no kernel depends on the space.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.backend import Backend
from xpsample.core.checks import check_count
from xpsample.core.errors import HyperparameterError, PositionError
from xpsample.core.registry import backend_of
from xpsample.core.tree import dtype_name
from xpsample.spaces.space import Space, as_floating, check_shape

LARGEST_ENUMERATION = 2**22

SLAB = 2**22  # Coordinates of neighbors that are evaluated at once, 32 MiB of float64


class Unmapped(Space):
    """A space whose positions are its values, with no map from real coordinates.

    Attributes
    ----------
    shape : tuple of int, or None
        Shape of the variables, in a `Model`; None for a single variable there, and for all coordinates of a `Target`.
    """

    shape: Any

    @property
    def axes(self) -> tuple[int, ...]:
        """Shape of the values of one chain, in a `Model`."""
        return self._axes()

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The space as plain values of JSON; `space_from_json` reads them."""

    @abstractmethod
    def random(self, normals: np.ndarray) -> np.ndarray:
        """Random positions on the host, ``(*chains, dim)``, from as many standard normals."""

    @abstractmethod
    def transformed(self, xp: Any, x: Array, i: int) -> Array:
        """Other positions of this bound space, by the i-th of four transformations."""

    def _axes(self) -> tuple[int, ...]:
        return self.shape or ()


class Discrete(Unmapped):
    """Finitely many values per variable. Positions ``(*chains, dim)`` are integers or real floating numbers.

    Spaces are bound to positions (`Space.bind`) before moves are made.

    Attributes
    ----------
    choices : int
        The largest number of values of a variable, at least 2.
    """

    choices: int
    _numbers: Any  # 0, 1, 2, ... where the positions live; None until bound

    @abstractmethod
    def first(self, dim: int) -> np.ndarray:
        """The position of dim coordinates, on the host, where every variable has its first value."""

    @abstractmethod
    def variables(self, dim: int) -> int:
        """The number of variables of positions ``(*chains, dim)``."""

    @abstractmethod
    def sizes(self, dim: int) -> tuple[int, ...]:
        """Return the number of values of each variable of positions ``(*chains, dim)``."""

    @abstractmethod
    def index(self, xp: Any, x: Array) -> Array:
        """Return the index of each variable's value, ``(*chains, dim) -> (*chains, variables)`` integers from 0."""

    @abstractmethod
    def move(self, xp: Any, x: Array, choice: Array) -> Array:
        """Positions with every variable moved.

        Parameters
        ----------
        x : array, shape (*chains, dim)
        choice : array of int, shape (..., variables)
            0 to stay, j for alternative j; its leading axes broadcast against the leading axes of x.
        """

    @abstractmethod
    def back(self, xp: Any, choice: Array) -> Array:
        """The choices, ``(..., variables)``, that undo `choice`."""

    @abstractmethod
    def mirror(self, xp: Any, x: Array) -> Array:
        """The choices that lead from the k-th to the k-th last value, ``(*chains, dim) -> (*chains, variables)``."""

    @abstractmethod
    def valid(self, xp: Any, moves: Array) -> Array:
        """`moves`, ``(..., variables, choices - 1)``, with -inf for the alternatives that a variable does not have."""

    @abstractmethod
    def changes(self, xp: Any, x: Array, f: Callable[[Array], Array]) -> Array:
        """Change of ``sum(f(x))``, f acting on each coordinate, for every alternative of every variable.

        Parameters
        ----------
        x : array of floating numbers, shape (*chains, dim)
        f : callable
            ``(*chains, dim, m) -> (*chains, dim, m)``; coordinate i sees values ``[..., i, :]``, elementwise.

        Returns
        -------
        array, shape (*chains, variables, choices - 1)
            -inf for alternatives that a variable does not have.
        """

    @abstractmethod
    def states(self, dim: int) -> np.ndarray:
        """All positions, host array ``(number, dim)`` of float64, the last variable changing fastest.

        Raises
        ------
        PositionError
            If there are more than `LARGEST_ENUMERATION`.
        """

    def random(self, normals: np.ndarray) -> np.ndarray:
        dim = normals.shape[-1]
        first = np.broadcast_to(self.first(dim), normals.shape).astype(normals.dtype)
        backend, sizes = backend_of(first), np.asarray(self.sizes(dim))
        bound: Any = self.bind(backend, first)
        return bound.move(backend.xp, first, uniform_index(normals[..., : self.variables(dim)], sizes))

    def transformed(self, xp: Any, x: Array, i: int) -> Array:
        every, by = ((1, 1), (2, 1), (1, 2), (3, 1))[i]  # every so many variables, by so many values
        numbers = self.numbers(self.variables(x.shape[-1]))
        return self.move(xp, x, by * xp.astype(numbers % every == 0, numbers.dtype))

    def of_variable(self, i: Any) -> "Discrete":
        """The bound space of variable i alone, an integer or a 0-d array."""
        return self._of_variable(i)

    def variable(self, xp: Any, x: Array, i: Any) -> Array:
        """The coordinates of variable i: ``(*chains, dim) -> (*chains, dim / variables)``."""
        width = x.shape[-1] // self.variables(x.shape[-1])
        if width == 1:
            return x[..., i, None]
        return xp.stack([x[..., i * width + k] for k in range(width)], axis=-1)

    def number(self, xp: Any, x: Array) -> Array:
        """Return the row of `states` for each position: ``(*chains, dim) -> (*chains)``, int32."""
        sizes, index = self.sizes(x.shape[-1]), self.index(xp, x)
        check_number_of_states(math.prod(sizes))
        row = index[..., 0]
        for i in range(1, len(sizes)):
            row = row * sizes[i] + index[..., i]
        return row

    def numbers(self, n: int) -> Array:
        """0 .. n - 1 as int32, where the positions live; n is at most the number of variables or of choices."""
        return self._numbers[:n]

    def neighbors(self, xp: Any, x: Array, some: slice = slice(None)) -> Array:
        """All positions one move of a variable, or of `some`, away.

        ``(*chains, dim) -> (variables, choices - 1, *chains, dim)``.
        """
        variable, alternative = self.numbers(self.variables(x.shape[-1])), self.numbers(self.choices)[1:]
        # The axes of the moves lead, so that whatever broadcasts against the chains still does.
        single = xp.astype(variable[some][:, None] == variable[None, :], xp.int32)
        choice = single[:, None, :] * alternative[None, :, None]
        axes = *choice.shape[:2], *(1,) * (x.ndim - 1), choice.shape[2]
        return self.move(xp, x, xp.reshape(choice, axes))

    def around(self, xp: Any, x: Array, f: Callable[[Array], Array]) -> Array:
        """Values of f at all positions one move away: ``(*chains, dim) -> (*chains, variables, choices - 1)``.

        f is given ``(some, choices - 1, *chains, dim)`` and gives ``(some, choices - 1, *chains)``, for as many
        variables at a time as make at most `SLAB` numbers. -inf stands for alternatives that a variable does not have.
        """
        n = self.variables(x.shape[-1])
        width = max(1, SLAB // max(1, (self.choices - 1) * math.prod(x.shape)))
        slabs = [f(self.neighbors(xp, x, slice(begin, min(begin + width, n)))) for begin in range(0, n, width)]
        values = slabs[0] if len(slabs) == 1 else xp.concat(slabs)
        return self.valid(xp, xp.permute_dims(values, (*range(2, values.ndim), 0, 1)))

    def _of_variable(self, i: Any) -> "Discrete":
        return self

    def _bound(self, backend: Backend, x: Array, **tables: Any) -> "Discrete":
        """This space with arrays where `x` lives."""
        count = max(self.variables(x.shape[-1]), self.choices)
        return replace(self, _numbers=backend.from_host(np.arange(count, dtype=np.int32), x), **tables)  # type: ignore[type-var]


@dataclass(frozen=True)
class TwoValues(Discrete):
    """Variables that are one number or another."""

    shape: Any = None
    _numbers: Any = field(default=None, repr=False, compare=False)

    choices = 2

    @property
    @abstractmethod
    def low(self) -> int:
        """The first value; the other one is 1."""

    def __post_init__(self) -> None:
        if self.shape is not None:
            object.__setattr__(self, "shape", check_shape_of_values("shape", self.shape))

    def first(self, dim: int) -> np.ndarray:
        return np.full(dim, float(self.low))

    def to_json(self) -> dict[str, Any]:
        return {"space": type(self).__name__, "shape": self.shape}

    def check(self, xp: Any, x: Array) -> None:
        check_kind(xp, x)
        if not bool(xp.all((x == self.low) | (x == 1))):
            raise PositionError(f"all coordinates of the positions must be {self.low} and 1")

    def bind(self, backend: Backend, x: Array) -> Space:
        return self._bound(backend, x)

    def variables(self, dim: int) -> int:
        return dim

    def sizes(self, dim: int) -> tuple[int, ...]:
        return (2,) * dim

    def index(self, xp: Any, x: Array) -> Array:
        return xp.astype(x > 0, xp.int32)

    def move(self, xp: Any, x: Array, choice: Array) -> Array:
        return xp.where(choice > 0, self._other(x), x)

    def back(self, xp: Any, choice: Array) -> Array:
        return choice

    def mirror(self, xp: Any, x: Array) -> Array:
        return xp.ones_like(x, dtype=xp.int32)

    def valid(self, xp: Any, moves: Array) -> Array:
        return moves

    def changes(self, xp: Any, x: Array, f: Callable[[Array], Array]) -> Array:
        x = x[..., None]
        return f(self._other(x)) - f(x)

    def states(self, dim: int) -> np.ndarray:
        return all_states([(float(self.low), 1.0)] * dim)

    def _other(self, x: Array) -> Array:
        return (self.low + 1) - x


@dataclass(frozen=True)
class Binary(TwoValues):
    """{0, 1}^dim.

    Parameters
    ----------
    shape : int or tuple of int, optional
        Shape of the variables of a `Model`'s parameter; a single variable by default.

    See Also
    --------
    Spins : -1 and 1.
    Categorical : More values.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> b = np.array([1.0, -1.0])
    >>> target = xps.Target(lambda x: x @ b, space=xps.Binary())
    >>> xps.sample(target, xps.Gibbs(), np.zeros((4, 2)), 1000, seed=1).draws.shape
    (1000, 4, 2)
    """

    low = 0


@dataclass(frozen=True)
class Spins(TwoValues):
    """{-1, 1}^dim.

    Parameters
    ----------
    shape : int or tuple of int, optional
        Shape of the variables of a `Model`'s parameter; a single variable by default.

    See Also
    --------
    Binary : 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: 0.5 * np.sum(x[..., 1:] * x[..., :-1], axis=-1), space=xps.Spins())
    >>> xps.sample(target, xps.Gibbs(), np.ones((4, 5)), 3000, seed=1).draws.shape
    (3000, 4, 5)
    """

    low = -1


def uniform_index(normals: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Uniform integers from 0 to sizes - 1, of standard normals: their distribution function, in steps."""
    share = np.vectorize(lambda z: 0.5 * math.erfc(-z / math.sqrt(2)))(normals)
    return np.minimum((share * sizes).astype(int), sizes - 1)


def as_index(xp: Any, index: Array) -> Array:
    """Integers in the dtype that the library indexes with."""
    return xp.astype(index, xp.__array_namespace_info__().default_dtypes()["indexing"])


def pick(xp: Any, values: Array, index: Array) -> Array:
    """One of the values (..., n) of each row, by `index` (...)."""
    return xp.take_along_axis(values, as_index(xp, index)[..., None], axis=-1)[..., 0]


def check_shape_of_values(name: str, value: Any) -> tuple[int, ...]:
    """The shape of the values of one chain: positive integers."""
    sizes = value if isinstance(value, (tuple, list)) else (value,)
    return tuple(check_count(name, size, 1) for size in sizes)


def all_states(rows: Sequence[Sequence[float]]) -> np.ndarray:
    """All states of variables with these values, (number, variables), the last variable changing fastest."""
    check_number_of_states(math.prod(len(row) for row in rows))
    grid = np.meshgrid(*(np.asarray(row, dtype=np.float64) for row in rows), indexing="ij")
    return np.stack(grid, axis=-1).reshape(-1, len(rows))


def check_number_of_states(states: int) -> None:
    """Raise PositionError where they are too many to be enumerated."""
    if states > LARGEST_ENUMERATION:
        raise PositionError(f"the space has {states} states, too many to enumerate ({LARGEST_ENUMERATION} at most)")


def check_kind(xp: Any, x: Array) -> None:
    """Raise PositionError unless positions are numbers, in a shape (*chains, dim)."""
    if not xp.isdtype(x.dtype, ("integral", "real floating")):
        raise PositionError(f"positions must be integers or real floating numbers; got dtype {dtype_name(x)}")
    check_shape(xp, x)


@dataclass(frozen=True)
class Permutations(Unmapped):
    """Positions ``(*chains, n)`` that hold each of 0 .. n - 1 once, as integers or floating numbers.

    Parameters
    ----------
    n : int, optional
        Number of items. Required for a parameter of a `Model`; any number by default.

    Attributes
    ----------
    places : array of int32, shape (n,)
        0 .. n - 1 where the positions live; None until bound.

    See Also
    --------
    TwoOpt : Reverses segments, for tours.
    Swap : Exchanges two items, for rankings and assignments.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -np.sum(np.abs(x - np.arange(5)), axis=-1), space=xps.Permutations())
    >>> x0 = np.array([np.random.default_rng(k).permutation(5) for k in range(4)])
    >>> xps.sample(target, xps.TwoOpt(), x0, 2000, seed=1).draws.shape
    (2000, 4, 5)
    """

    n: int | None = None
    places: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.n is not None:
            object.__setattr__(self, "n", check_count("n", self.n, 1))

    def _axes(self) -> tuple[int, ...]:
        if self.n is None:
            raise HyperparameterError("the permutations of a Model need a number of items, such as Permutations(5)")
        return (self.n,)

    def check(self, xp: Any, x: Array) -> None:
        check_kind(xp, x)
        if self.n not in (None, x.shape[-1]):
            raise PositionError(f"positions on {self!r} have shape (*chains, {self.n}); got {tuple(x.shape)}")
        ordered = xp.sort(as_floating(xp, x), axis=-1)
        count = xp.cumulative_sum(xp.ones_like(ordered), axis=-1) - 1.0
        if not bool(xp.all(ordered == count)):
            raise PositionError(f"positions must hold each of 0 .. {x.shape[-1] - 1} once along the last axis")

    def to_json(self) -> dict[str, Any]:
        return {"space": "Permutations", "n": self.n}

    def random(self, normals: np.ndarray) -> np.ndarray:
        return np.argsort(normals, axis=-1).astype(normals.dtype)

    def transformed(self, xp: Any, x: Array, i: int) -> Array:
        return xp.roll(x, i + 1, axis=-1)

    def bind(self, backend: Backend, x: Array) -> Space:
        return replace(self, places=backend.from_host(np.arange(x.shape[-1], dtype=np.int32), x))
