"""Batches of points used with the particles: rows of a data set, or new draws of a known distribution."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from xpsample.core.arrays import Array, is_array
from xpsample.core.checks import check_instance, given
from xpsample.core.errors import FunctionError, HyperparameterError
from xpsample.core.fields import FrozenDataclass, count, function, instance
from xpsample.core.hyperparameters import check_range, check_reals
from xpsample.core.specs import Normal, Specs, Uniform
from xpsample.spaces.discrete import as_index


class Batches(ABC):
    """A batch for every iteration. Final subclasses are frozen dataclasses."""

    @abstractmethod
    def noise(self, x: Array) -> Specs:
        """The random numbers of one batch, for particles x, (*runs, particles, dim)."""

    @abstractmethod
    def draw(self, xp: Any, x: Array, noise: Mapping[str, Array]) -> Array:
        """The batch, (*runs, size, dim), from the numbers that `noise` declares."""


PREFIX = "batch_"
"""Prefix of the names of a batch's noise among a kernel's."""


def batch_specs(batches: Batches, x: Array) -> Specs:
    """The random numbers of one batch, by names that begin with `PREFIX`."""
    return {f"{PREFIX}{name}": spec for name, spec in batches.noise(x).items()}


def draw_batch(batches: Batches, xp: Any, x: Array, noise: Mapping[str, Array]) -> Array:
    """Return the batch, (*runs, size, dim), from a kernel's noise, which includes the noise of `batch_specs`."""
    own = {name.removeprefix(PREFIX): numbers for name, numbers in noise.items() if name.startswith(PREFIX)}
    return batches.draw(xp, x, own)


def take_rows(xp: Any, rows: Array, uniforms: Array) -> Array:
    """The rows (n, ...) that uniforms of any shape choose, with replacement: (*shape, ...)."""
    count = rows.shape[0]
    row = xp.floor(uniforms * count)
    row = as_index(xp, xp.where(row < count, row, count - 1.0))  # u n may round up to n
    return xp.reshape(xp.take(rows, xp.reshape(row, (-1,)), axis=0), (*uniforms.shape, *rows.shape[1:]))


class RowBatches(Batches, FrozenDataclass):
    """Rows of an array.

    Parameters
    ----------
    rows : array, shape (rows, dim), or (rows, *shape) such as images
        In the library and dtype of the particles.
    size : int, optional
        Rows of a batch, drawn independently for each run, with replacement. All rows by default.
    """

    rows: Array
    size: int | None = count(default=None)

    def __check_init__(self) -> None:
        check_range("rows", check_reals("rows", self.rows, "an array (rows, dim)"))
        if self.rows.ndim < 2 or 0 in self.rows.shape:
            raise HyperparameterError(f"rows have shape (rows, dim), or (rows, *shape); got {tuple(self.rows.shape)}")

    def noise(self, x: Array) -> Specs:
        return {} if self.size is None else {"row": Uniform((*x.shape[:-2], self.size))}

    def draw(self, xp: Any, x: Array, noise: Mapping[str, Array]) -> Array:
        rows = xp.reshape(self.rows, (self.rows.shape[0], -1))
        if self.size is None:
            return xp.broadcast_to(rows, (*x.shape[:-2], *rows.shape))
        return take_rows(xp, rows, noise["row"])


class DrawnBatches(Batches, FrozenDataclass):
    """New draws at every iteration, by a function of random numbers.

    Parameters
    ----------
    numbers : mapping of str to Normal or Uniform
        The random numbers of one run, such as ``{"normal": Normal((5000, 2)), "which": Uniform((5000,))}``.
    function : callable
        ``function(**arrays)``: from arrays (*runs, *shape) by those names to points (*runs, size, dim); pure.
    """

    numbers: Mapping[str, Normal | Uniform] = instance(Mapping, '{"normal": Normal((100, 2))}')
    function: Callable[..., Array] = function("(**arrays)")

    def __check_init__(self) -> None:
        for name, spec in self.numbers.items():
            check_instance(f"numbers[{name!r}]", spec, (Normal, Uniform), "Normal((100, 2))")

    def noise(self, x: Array) -> Specs:
        return {name: type(spec)((*x.shape[:-2], *spec.shape)) for name, spec in self.numbers.items()}

    def draw(self, xp: Any, x: Array, noise: Mapping[str, Array]) -> Array:
        batch = self.function(**noise)
        if not is_array(batch) or batch.ndim < 2:
            raise FunctionError(f"the function of DrawnBatches must give (*runs, size, dim); got {given(batch)}")
        return batch
