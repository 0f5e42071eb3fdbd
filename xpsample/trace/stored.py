"""Rows in a store, for reading: `StoredRows` gives them part by part, `StoredColumns` columns of several of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from math import prod
from typing import Any

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.errors import StoreError, reading
from xpsample.core.registry import backend_of

# Values that are read at once, and that figures are computed of at once, where a table needs all draws.
READ, WORKED = 2**26, 2**20


READING = "put a copy of it back, or remove it and run again"


def handling(where: str, doing: str, advice: str) -> AbstractContextManager[None]:
    """Turn any failure while a store is used into an xpsample error that names it."""
    return reading(where, StoreError, advice, doing)


class StoredRows:
    """Rows of a run in a zarr store, shape (draw, *shape). Brackets read a part of them, ``rows[-1]``.

    Parameters
    ----------
    where : str
        The store.
    name : str
        Name of the rows, such as ``statistics/moved``.
    node : zarr.Array
        Array of the rows, (draw, chain, *rest), with all chain axes as one.
    shape : tuple of int
        (draw, *chains, *rest).
    like : array, optional
        Array with the library and device that brackets return arrays of; NumPy by default.
    values : mapping of str to StoredRows
        For draws, the values of the parameters, by name.
    """

    def __init__(
        self,
        where: str,
        name: str,
        node: Any,
        shape: tuple[int, ...],
        like: Array | None = None,
        values: Mapping[str, "StoredRows"] | None = None,
    ) -> None:
        self.where: str = where
        self.name: str = name
        self.shape: tuple[int, ...] = shape
        self.dtype: np.dtype[Any] = np.dtype(node.dtype)
        self.values: dict[str, StoredRows] = dict(values or {})
        self._node, self._like = node, like

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"StoredRows({self.where!r}, shape={self.shape}, dtype={self.dtype})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All rows, on the host."""
        return self.read().astype(dtype or self.dtype, copy=False)

    def __getitem__(self, key: Any) -> Array:
        """A part, in the library of the run. Numbers, slices and ``...`` choose it.

        Raises
        ------
        StoreError
            If the store cannot be read.
        IndexError
            If the key is none of these, or beyond the shape.
        """
        keys = list(key) if isinstance(key, tuple) else [key]
        if not all(k is Ellipsis or isinstance(k, slice | int | np.integer) for k in keys):
            raise IndexError(f"rows on the disk are chosen by numbers, slices and ...; got {key!r}")
        if Ellipsis not in keys:
            keys.append(Ellipsis)
        at = keys.index(Ellipsis)
        keys[at : at + 1] = [slice(None)] * (self.ndim - len(keys) + 1)
        first, *rest = keys
        np.broadcast_to(0, self.shape)[tuple(keys)]  # raises IndexError
        rows = first if isinstance(first, slice) else slice(first, first + 1 or None)
        part = self.read(rows, lambda block: block[(slice(None), *rest)])
        part = part if isinstance(first, slice) else part[0]
        return part if self._like is None else backend_of(self._like).from_host(np.asarray(part), self._like)

    def on(self, like: Array) -> "StoredRows":
        """The same rows, whose parts are read into the library and onto the device of `like`."""
        values = {name: rows.on(like) for name, rows in self.values.items()}
        return StoredRows(self.where, self.name, self._node, self.shape, like, values)

    def columns(self) -> "StoredColumns":
        """Draws as columns: these themselves."""
        return StoredColumns([(self, range(self.shape[-1]))], self.shape[1:-1])

    def check(self) -> None:
        """Raise StoreError if a chunk is missing, which zarr would read as empty."""
        with handling(self.where, "read", READING):
            if self._node.nchunks_initialized != self._node.nchunks:
                raise ValueError(f"parts of {self._node.path} are missing")

    def read(
        self, rows: slice = slice(None), pick: Callable[[np.ndarray], np.ndarray] = lambda block: block
    ) -> np.ndarray:
        """Some rows on the host, chunk by chunk: memory holds one chunk and the result.

        ``pick(block)`` is the part of a block of rows (draw, *shape) to return; it keeps their axis.
        """
        chosen = range(len(self))[rows]
        if chosen.step < 0:
            upwards = chosen[::-1]
            return self.read(slice(max(0, upwards.start), upwards.stop, upwards.step), pick)[::-1]
        none = pick(np.empty((0, *self.shape[1:]), self.dtype))
        out, done, chunk = np.empty((len(chosen), *none.shape[1:]), none.dtype), 0, self._node.chunks[0]
        with handling(self.where, "read", READING):
            while done < len(chosen):
                lo = chosen[done]
                block = self._node[lo : min(chosen.stop, (lo // chunk + 1) * chunk) : chosen.step]
                out[done : done + len(block)] = pick(np.reshape(block, (len(block), *self.shape[1:])))
                done += len(block)
        self.check()
        return out


class StoredColumns:
    """Entries of several `StoredRows` of the same draws and chains, side by side: (draw, *chains, column).

    Named entries of each part are counted in order over the axes beyond the chains.
    """

    def __init__(self, parts: Sequence[tuple[StoredRows, Sequence[int]]], chains: tuple[int, ...]) -> None:
        self._parts, self._chains = parts, chains
        self.shape: tuple[int, ...] = (len(parts[0][0]), *chains, sum(len(entries) for _, entries in parts))
        self.dtype: np.dtype[Any] = np.result_type(*(stored.dtype for stored, _ in parts))

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def read(
        self,
        rows: slice = slice(None),
        columns: slice | Sequence[int] = slice(None),
        chains: np.ndarray | None = None,
    ) -> np.ndarray:
        """Some draws of some columns, on the host; of the last chain axis all, or those given."""
        every = range(self.shape[-1])
        wanted = np.asarray(every[columns] if isinstance(columns, slice) else columns, dtype=int)
        axes = self._chains if chains is None else (*self._chains[:-1], len(chains))
        out, first = np.empty((len(range(self.shape[0])[rows]), *axes, len(wanted)), self.dtype), 0
        for stored, entries in self._parts:
            places = np.flatnonzero((first <= wanted) & (wanted < first + len(entries)))
            if places.size:
                picked = np.asarray(entries)[wanted[places] - first]

                def pick(block: np.ndarray, picked: np.ndarray = picked) -> np.ndarray:
                    shape = block.shape[: 1 + len(self._chains)]
                    block = np.reshape(block, (*shape, prod(block.shape[len(shape) :])))
                    return (block if chains is None else block[..., chains, :])[..., picked]

                out[..., places] = stored.read(rows, pick)
            first += len(entries)
        return out

    def blocks(self) -> Iterator[np.ndarray]:
        """All draws of all columns, some columns at a time, in order."""
        many = max(1, READ // int(np.prod(self.shape[:-1])))
        for lo in range(0, self.shape[-1], many):
            yield from column_blocks(self.read(columns=slice(lo, lo + many)))


def column_blocks(values: np.ndarray) -> Iterator[np.ndarray]:
    """Blocks of columns, (draw, *chains, column), as many as figures are computed for at once."""
    few = max(1, WORKED // int(np.prod(values.shape[:-1])))
    for i in range(0, values.shape[-1], few):
        yield values[..., i : i + few]
