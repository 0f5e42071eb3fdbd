"""A store of rows, for reading: `StoredRows` gives them part by part, `StoredColumns` columns of several of them."""

import json
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.errors import StoreError
from xpsample.core.registry import backend_of
from xpsample.files.archives import structure, template
from xpsample.files.common import digest_of, reading, unsealed
from xpsample.trace.conversions import installed

READ, WORKED = 2**26, 2**20
"""Values that are read at once, and that figures are computed of at once, where a table needs all draws."""


METADATA = "zarr.json"
"""The file of each array and group."""

ABOUT = "xpsample"
"""The attribute of the root that tells of the run, as JSON."""

READING = "put a copy of it back, or remove it and run again"


def handling(where: str, doing: str, advice: str) -> AbstractContextManager[None]:
    """Make one error of ours, which names the store, of whatever fails while it is used."""
    return reading(where, StoreError, advice, doing)


def chunk_keys(node: Any, first: int, stop: int) -> list[str]:
    """Where the store of a zarr array, which is cut along its first axis alone, has the chunks of some rows."""
    if 0 in node.shape[1:]:
        return []
    chunks, rest = range(first // node.chunks[0], -(-stop // node.chunks[0])), (0,) * (node.ndim - 1)
    return [f"{node.path}/{node.metadata.encode_chunk_key((i, *rest))}" for i in chunks]


def content_of(group: Any, key: str) -> Any:
    """What the store of a group has under a key, as zarr's buffer."""
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync

    found = sync(group.store.get(key, default_buffer_prototype()))
    if found is None:
        raise FileNotFoundError(f"{key} is missing")
    return found


def put_content(store: Any, key: str, content: Any) -> None:
    """Put a buffer of zarr's into one of its stores."""
    from zarr.core.sync import sync

    sync(store.set(key, content))


def node_digest(group: Any, node: str) -> str:
    """A digest of the metadata of an array or a group, but for how many rows an array has room for."""
    content = json.loads(content_of(group, f"{node}/{METADATA}").to_bytes())
    if content["node_type"] == "array":
        content["shape"] = content["shape"][1:]
    return digest_of(content)


class StoredRows:
    """Rows of a run in a zarr store, shape (draw, *shape). Brackets read a part of them, ``rows[-1]``.

    Parameters
    ----------
    where : str
        The store.
    name : str
        Of the rows, such as ``statistics/moved``.
    node : zarr.Array
        Where the rows are, (draw, chain, *rest): all chain axes are one there.
    shape : tuple of int
        (draw, *chains, *rest). Later draws of the store are not looked at.
    like : array, optional
        Of the library and on the device that brackets give arrays of; NumPy when not given.
    values : mapping of str to StoredRows
        Of draws, the values of the parameters, by name.
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

    def check(self, rows: slice = slice(None)) -> None:
        """Raise StoreError if a chunk of some rows is missing, which zarr would read as empty."""
        from zarr.core.sync import sync

        first, stop, _ = rows.indices(len(self))
        with handling(self.where, "read", READING):
            keys = chunk_keys(self._node, first, stop)
            if self._node.shape[0] < stop or not all(sync(self._node.store.exists(key)) for key in keys):
                raise ValueError(f"parts of {self._node.path} are missing")

    def read(
        self, rows: slice = slice(None), pick: Callable[[np.ndarray], np.ndarray] = lambda block: block
    ) -> np.ndarray:
        """Some rows on the host, chunk by chunk: memory holds one chunk and the result.

        ``pick(block)`` is what to take of a block of rows (draw, *shape); it leaves their axis.
        """
        chosen = range(len(self))[rows]
        if chosen.step < 0:
            upwards = chosen[::-1]
            return self.read(slice(max(0, upwards.start), upwards.stop, upwards.step), pick)[::-1]
        with handling(self.where, "read", READING):
            out = np.empty((0,))
            done, lo, chunk = 0, chosen.start, self._node.chunks[0]
            while done < len(chosen):
                hi = min(chosen.stop, (lo // chunk + 1) * chunk)
                self.check(slice(lo, hi))
                part = self._node[lo : hi : chosen.step]
                block = pick(np.reshape(part, (len(part), *self.shape[1:])))
                if not done:
                    out = np.empty((len(chosen), *block.shape[1:]), block.dtype)
                out[done : done + len(block)] = block
                done, lo = done + len(block), lo + len(block) * chosen.step
        return out if done else pick(np.empty((0, *self.shape[1:]), self.dtype))


class StoredColumns:
    """Entries of several `StoredRows` of the same draws and chains, side by side: (draw, *chains, column).

    Of each part these are the entries that are named, counted in order over the axes beyond the chains.
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
                    block = np.reshape(block, (len(block), *self._chains, -1))
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
    """As many columns at a time, (draw, *chains, column), as figures are computed of at once."""
    few = max(1, WORKED // int(np.prod(values.shape[:-1])))
    for i in range(0, values.shape[-1], few):
        yield values[..., i : i + few]


# ---- a whole store -------------------------------------------------------------------------------------------------


def zarr3() -> Any:
    """The zarr package; ImportError if it is not installed."""
    advice = 'a store of draws needs zarr 3: pip install "xpsample[io]"'
    installed("zarr.dtype", advice)
    return installed("zarr", advice)


def is_address(where: str) -> bool:
    """Whether a store is at an address such as ``s3://...`` and not in a folder."""
    return "://" in where


def read_about(where: str) -> dict[str, Any] | None:
    """What a store tells of its run; None where there is none. StoreError if it is not ours, or cannot be read."""
    zarr = zarr3()
    with handling(where, "read", READING):
        try:
            attributes = zarr.open_group(where, mode="r", zarr_format=3).attrs.asdict()
        except FileNotFoundError:  # zarr's word for a group that says to be something else, too
            if not is_address(where) and (Path(where) / METADATA).exists():
                raise
            return None
        if ABOUT not in attributes:
            raise StoreError(f"{where} is a zarr group of something else: use another path")
        return unsealed(where, json.loads(attributes[ABOUT]), StoreError, "another path", METADATA)


def load_store(where: str) -> tuple[Any, dict[str, Any], dict[str, Any]] | None:
    """The trace of what a store holds: the structure of its parts, their arrays by name, and the metadata.

    None where it holds no draws; a run may be making it just now.
    """
    about = read_about(where)
    if about is None or about["rows"] == 0:
        return None
    arrays = stored_rows(where, about, about["rows"])
    kept = tree.fill(template(about["structure"]), arrays) | {"run_statistics": _unpacked(about["run_statistics"])}
    return structure(kept), dict(tree.items(kept)), about["metadata"]


def stored_rows(where: str, about: dict[str, Any], rows: int, like: Array | None = None) -> dict[str, StoredRows]:
    """The arrays of a store, by their names in a trace."""
    with handling(where, "read", READING):
        group = zarr3().open_group(where, mode="r", zarr_format=3)
        for node, digest in about["nodes"].items():
            if node_digest(group, node) != digest:
                raise ValueError(f"{node}/{METADATA} is not as it was written")

        def view(name: str, place: Sequence[Any], values: dict[str, StoredRows] | None = None) -> StoredRows:
            node, shape = place
            return StoredRows(where, name, group[node], (rows, *shape), like, values)

        values = {name: view(name, place) for name, place in about["values"].items()}
        return {name: view(name, place, values if name == "draws" else None) for name, place in about["arrays"].items()}


def open_datatree(where: str, rows: int) -> Any:
    """A store as an ``xarray.DataTree`` for ArviZ, whose numbers are read when they are used."""
    xarray = installed("xarray", 'to_arviz() needs xarray: pip install "xpsample[arviz]"')
    with handling(where, "read", READING):
        about = read_about(where)
        assert about is not None
        for own in stored_rows(where, about, rows).values():
            own.check()
        groups: dict[str, list[str]] = {}
        for node, _ in (*about["arrays"].values(), *about["values"].values()):
            group, _, name = node.rpartition("/")
            groups.setdefault(group, []).append(name)

        def dataset(group: str, names: list[str], kept: list[str]) -> Any:
            """Some of the arrays of a group, and the labels of their axes."""
            left_out = [name for name in names if name not in kept]
            settings: dict[str, Any] = {"consolidated": False, "chunks": None, "drop_variables": left_out}
            return xarray.open_dataset(where, engine="zarr", group=group, **settings).isel(draw=slice(rows))

        def datasets(group: str, names: list[str]) -> Any:
            try:
                return dataset(group, names, names)
            except ValueError:  # some have rows already that do not count, and the others have not
                parts = {name: dataset(group, names, [name]) for name in names}
                return parts[names[0]].assign({name: part[name] for name, part in parts.items()})

        return xarray.DataTree.from_dict({group: datasets(group, names) for group, names in groups.items()})


def _unpacked(packed: dict[str, Any]) -> dict[str, Any]:
    """What `_packed` made JSON values of."""
    return {
        name: np.frombuffer(b64decode(value[2]), value[0]).reshape(value[1]) if isinstance(value, list) else value
        for name, value in packed.items()
    }
