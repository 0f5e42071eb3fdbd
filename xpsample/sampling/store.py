"""Draws beyond memory: the rows of a run in a zarr store, which grows chunk by chunk.

The attribute ``xpsample`` of its root says how many rows count. It has a digest of itself and one of the metadata of
each array and group, but for how many rows an array has room for; the numbers have a checksum in each chunk.

zarr works in memory, and what it makes is put in place here, in an order: chunks, the metadata of the arrays, that of
the root. What counts is replaced whole or not at all. Under a checkpoint, rows count when it is saved, and are on the
disk by then; so a run that is killed, or whose power is cut, leaves a store whose rows count as before. What lies
beyond is removed by the run that goes on, and written anew.
"""

import json
import shutil
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.backend import Buffers
from xpsample.core.errors import StoreError
from xpsample.core.registry import backend_of, to_host
from xpsample.files.atomic import LEFT, make_folder, sync_files, write_whole
from xpsample.files.common import check_room, sealed
from xpsample.files.common import locked as held
from xpsample.files.structure import structure
from xpsample.sampling.program import Program, named_rows
from xpsample.sampling.totals import Totals
from xpsample.spaces.named import Named, named
from xpsample.spaces.names import exported
from xpsample.targets.shaped import shape_of
from xpsample.trace.conversions import ARVIZ_NAMES
from xpsample.trace.recorders import part_of
from xpsample.trace.stored import READING, chunk_keys, handling
from xpsample.trace.stores import (
    ABOUT,
    METADATA,
    content_of,
    is_address,
    node_digest,
    put_content,
    read_about,
    stored_rows,
    zarr3,
)
from xpsample.trace.summary import RunStatistics

CHUNK = 2**23
"""Bytes of the rows that are written at once, about."""

EVERY_CHUNK = {"write_empty_chunks": True}
"""So that a chunk that is missing is lost, and not one of zeros."""

WRITING = "mend what is wrong and make the same call again, which goes on where the run has a checkpoint"
ELSE = "use another path, or remove it"


class RowStore:
    """The store of a run's rows, for writing, in a folder or at an address that fsspec opens."""

    def __init__(self, where: str) -> None:
        self._zarr = zarr3()
        self.where, self.rows, self.chunk, self.token = where, 0, 0, ""
        self._root, self._own = Path(where), uuid4().hex[:12]
        self._made: dict[str, Any] = {}
        """What zarr has made, by the names of the files: the metadata, and chunks that are not full."""
        self._group: Any = self._zarr.create_group(self._zarr.storage.MemoryStore(self._made), zarr_format=3)
        self._arrays: dict[str, Any] = {}
        self._remote: Any = None
        """zarr's store of what is at an address."""
        self._saved = False
        """Whether a checkpoint counts the rows."""
        self._new: list[Path] = []
        """Chunks, without any row that counts, that may not be on the disk yet."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs away from its folder by a file beside it."""
        with ExitStack() as stack:
            if not is_address(self.where):
                with handling(self.where, "written to", WRITING):
                    stack.enter_context(held(Path(self.where), StoreError))
            yield

    def begin(
        self,
        program: Program,
        row: tuple[Any, ...],
        x: Array,
        identity: dict[str, Any],
        metadata: dict[str, Any],
        saved: tuple[str, int] | None,
    ) -> Program:
        """Make the store, or go on in it; the program whose buffers hold the rows of two chunks.

        `identity` makes it this run, and is empty without a checkpoint; `saved` is which store that counts the rows of,
        and how many. StoreError if the store there belongs to another run, or something else is there, or the disk is
        too small.
        """
        self._program, self._row, self._chains = program, row, tuple(x.shape[:-1])
        self._space = named({"x": program.target.space}) if shape_of(program.target.space) else program.target.space
        first = self._nodes(tree.map(lambda leaf: to_host(leaf)[None, ...], row))
        self._saved = bool(identity)
        names = [self._node(path) for path, _ in named_rows(program, row)]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise StoreError(f"two results would be stored as {twice[0]!r}: avoid '/' in the names of results")
        there = self._there()
        if saved is not None:
            if there is None or there["token"] != saved[0]:
                raise StoreError(
                    f"{self.where} is not the store whose draws the checkpoint counts: give that one, or new paths for "
                    "both"
                )
            self._go_on(there, saved[1], first)
        elif there is not None and there["counted"]:
            raise StoreError(
                f"{self.where} holds {there['rows']} draws that another checkpoint counts: give that one, {ELSE}"
            )
        elif there is not None and there["rows"] and (not identity or there["identity"] != _plain(identity)):
            raise StoreError(f"{self.where} holds {there['rows']} draws of a run: {ELSE}")
        else:
            self._make(row, first, identity, metadata)
        if not is_address(self.where):
            size = sum(rows.nbytes for rows in first.values())
            check_room(self.where, size * (program.schedule.draws - self.rows), StoreError)
        return replace(program, schedule=replace(program.schedule, window=2 * self.chunk))

    @property
    def counted(self) -> dict[str, Any]:
        """What a checkpoint keeps of the store."""
        return {"where": self.where, "token": self.token, "rows": self.rows}

    def note_counted(self) -> None:
        """Put down that a checkpoint counts the rows, so that no run without it begins anew in their place."""
        if not self._about["counted"]:
            self._about["counted"] = True
            with handling(self.where, "written to", WRITING):
                self._put_about()

    def append(self, buffers: Buffers, rows: int, run_statistics: RunStatistics, whole: bool) -> None:
        """Write rows that are not there yet: up to `rows` if `whole`, else the full chunks among them.

        From then on they count, and under a checkpoint they are on the disk; there, full chunks alone do not count yet.
        """
        stop, counts = rows if whole else rows // self.chunk * self.chunk, whole or not self._saved
        if stop <= (self._about["rows"] if counts else self.rows):
            return
        with handling(self.where, "written to", WRITING):
            self._check_owner()
            while self.rows < stop:
                self._write(buffers, self.rows, min(stop, (self.rows // self.chunk + 1) * self.chunk))
            if counts:
                if self._new:
                    sync_files(self._root, self._new)
                    self._new.clear()
                for node in self._arrays:
                    self._put(f"{node}/{METADATA}")
                self._about |= {"rows": stop, "run_statistics": _packed(run_statistics)}
                self._put_about()

    def trace_rows(self, rows: int, like: Array | None = None) -> tuple[Any, ...]:
        """What the recorders' buffers would hold, read from the store: a tree of `StoredRows` of each recorder."""
        found = stored_rows(self.where, self._about, rows, like)
        return tuple(
            tree.fill(own, found, place)
            for own, place in zip(self._row, map(part_of, self._program.recorders), strict=True)
        )

    # ---- layout ------------------------------------------------------------------------------------------------------

    def _nodes(self, rows: tuple[Any, ...]) -> dict[str, np.ndarray]:
        """Rows of the recorders, on the host, as what is written: by the names of the store's arrays."""
        found: dict[str, np.ndarray] = {}
        for path, values in named_rows(self._program, rows):
            values = self._one_chain_axis(values)
            found[self._node(path)] = values
            if path == "draws" and isinstance(self._space, Named):
                xp = backend_of(values).xp
                found |= {
                    f"posterior/{exported(name)}": to_host(self._space.value(xp, values, name))
                    for name in self._space.names
                }
        return found

    def _node(self, path: str) -> str:
        """Where the store has what a trace has at a path."""
        if path == "draws":
            return f"{'unconstrained_posterior' if self._is_model else 'posterior'}/x"
        part, _, name = path.partition("/")
        return f"sample_stats/{ARVIZ_NAMES.get(name, name)}" if part == "statistics" else path

    @property
    def _is_model(self) -> bool:
        return isinstance(self._program.target.space, Named)

    def _one_chain_axis(self, rows: np.ndarray) -> np.ndarray:
        """(row, *chains, ...) to (row, chain, ...), and what is not of the chains as it is."""
        axes = len(self._chains)
        if rows.shape[1 : 1 + axes] != self._chains:
            return rows
        return np.reshape(rows, (len(rows), prod(self._chains), *rows.shape[1 + axes :]))

    def _dims(self, node: str, shape: tuple[int, ...]) -> tuple[str, ...]:
        """What the axes of an array are called, as ArviZ does."""
        group, _, name = node.rpartition("/")
        chain = ("draw", "chain") if len(shape) > 1 and shape[1] == prod(self._chains) else ("draw",)
        if group == "posterior" and isinstance(self._space, Named):
            own = next(own for own in self._space.names if exported(own) == name)
            return (*chain, *map(exported, self._space.axes(own)))
        rest = len(shape) - len(chain)
        return (*chain, *(("x_dim",) if name == "x" and rest == 1 else (f"{name}_dim_{i}" for i in range(rest))))

    def _label(self, axis: str, labels: tuple[Any, ...]) -> None:
        """What the places along an axis of parameters are called."""
        settings: dict[str, Any] = {"shape": (len(labels),), "dimension_names": (exported(axis),)}
        settings["compressors"] = self._zarr.codecs.Crc32cCodec()
        values = np.asarray(labels)
        if values.dtype.kind not in "if":
            settings["dtype"], values = self._zarr.dtype.VariableLengthUTF8(), np.asarray([*map(str, labels)], object)
        else:
            settings["dtype"] = values.dtype
        self._group.create_array(f"posterior/{exported(axis)}", **settings)[:] = values

    # ---- the store that is there -------------------------------------------------------------------------------------

    def _there(self) -> dict[str, Any] | None:
        """What is there already; None where nothing is."""
        with handling(self.where, "read", READING):
            if not is_address(self.where) and self._root.is_file():
                raise StoreError(f"{self.where} is a file, and a store is a folder: use another path")
        found = read_about(self.where)
        if found is None and not is_address(self.where):
            with handling(self.where, "read", READING):
                there = Path(self.where).iterdir() if Path(self.where).exists() else ()
                others = [path.name for path in there if not path.match(LEFT)]
            if others:
                raise StoreError(f"{self.where} holds other files, such as {others[0]}: use another path")
        return found

    def _make(
        self, row: tuple[Any, ...], first: dict[str, np.ndarray], identity: dict[str, Any], metadata: dict[str, Any]
    ) -> None:
        """Make an empty store, in the place of what is there."""
        space, size = self._space, sum(rows.nbytes for rows in first.values())
        self.chunk, self.token, self.rows = max(2, CHUNK // max(1, size)), uuid4().hex, 0
        kept: dict[str, Any] = {"draws": None, "statistics": {}, "recorded": {}}
        for recorder, own in zip(self._program.recorders, row, strict=True):
            if own is not None:
                (kept if part_of(recorder) in kept else kept["recorded"])[recorder.name] = own
        self._about = {
            "token": self.token,
            "writer": self._own,
            "rows": 0,
            "counted": False,
            "chunk": self.chunk,
            "identity": _plain(identity),
            "metadata": _plain(metadata),
            "structure": structure(kept),
            "arrays": {path: [self._node(path), [*leaf.shape]] for path, leaf in named_rows(self._program, row)},
            "values": {
                name: [f"posterior/{exported(name)}", [*self._chains, *part.shape]]
                for name, part in (zip(space.names, space.parts, strict=True) if isinstance(space, Named) else ())
            },
            "run_statistics": _packed(Totals().run_statistics()),
            "nodes": {},
        }
        with handling(self.where, "written to", WRITING):
            if is_address(self.where):
                self._remote = self._zarr.create_group(self.where, zarr_format=3, overwrite=True).store
            self._put_about()  # from now on it is ours
            for path in () if self._remote is not None else self._root.iterdir():
                if path.name != METADATA:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            for node, rows in first.items():
                self._arrays[node] = self._group.create_array(
                    node,
                    shape=(0, *rows.shape[1:]),
                    chunks=(self.chunk, *(max(1, length) for length in rows.shape[1:])),
                    dtype=rows.dtype,
                    compressors=self._zarr.codecs.Crc32cCodec(),
                    fill_value=np.nan if rows.dtype.kind in "fc" else 0,
                    dimension_names=self._dims(node, rows.shape),
                    config=EVERY_CHUNK,
                )
            for axis, labels in space.coords if isinstance(space, Named) else ():
                self._label(axis, labels)
            nodes = [node for node, _ in self._group.members(max_depth=None)]
            self._about["nodes"] = dict.fromkeys(nodes, "")
            for key in self._made:
                if key != METADATA:
                    self._put(key)
            self._put_about()

    def _go_on(self, there: dict[str, Any], rows: int, first: dict[str, np.ndarray]) -> None:
        """Cut off what lies beyond the rows of the checkpoint."""
        with handling(self.where, "read", f"{READING}, without the checkpoint"):
            if rows > there["rows"]:
                raise ValueError(f"it holds {there['rows']} rows, and the checkpoint counts {rows}")
            for own in stored_rows(self.where, there, rows).values():
                own.check()
            group = self._zarr.open_group(self.where, mode="r+", zarr_format=3)
            for node in ("", *there["nodes"]):
                key = f"{node}/{METADATA}".removeprefix("/")
                self._made[key] = content_of(group, key)
            self._group = self._zarr.open_group(self._group.store, mode="r+", zarr_format=3)
            for node, values in first.items():
                found = self._arrays[node] = self._group[node].with_config(EVERY_CHUNK)
                if found.shape[1:] != values.shape[1:] or found.dtype != values.dtype:
                    raise ValueError(f"{node} has shape {found.shape} and dtype {found.dtype}")
                for key in chunk_keys(found, rows - 1, rows) if rows % there["chunk"] else ():
                    self._made[key] = content_of(group, key)
        self._remote = group.store if is_address(self.where) else None
        self._about = there | {"writer": self._own, "rows": rows}
        self.chunk, self.token, self.rows = there["chunk"], there["token"], rows
        with handling(self.where, "written to", WRITING):
            self._put_about()
            for node, values in first.items():
                self._arrays[node].resize((rows, *values.shape[1:]))
                self._put(f"{node}/{METADATA}")
            if self._remote is None:
                self._clear()

    def _clear(self) -> None:
        """Remove what killed runs left: chunks without any row that counts, and temporary files."""
        kept = {self._root / key for array in self._arrays.values() for key in chunk_keys(array, 0, self.rows)}
        chunks = (path for node in self._arrays for path in (self._root / node / "c").rglob("*"))
        for path in [*self._root.rglob(LEFT), *chunks]:
            if path not in kept and path.is_file():
                path.unlink()

    # ---- what is written ---------------------------------------------------------------------------------------------

    def _write(self, buffers: Buffers, lo: int, hi: int) -> None:
        """Write rows of one chunk."""
        slot, part = lo // self.chunk % 2 * self.chunk, slice(lo % self.chunk, lo % self.chunk + hi - lo)
        block = tree.map(lambda buffer: to_host(buffer[slot : slot + self.chunk, ...])[part], buffers)
        for node, values in self._nodes(block).items():
            array = self._arrays[node]
            array.resize((hi, *values.shape[1:]))
            array[lo:hi] = values
            for key in chunk_keys(array, lo, hi):
                self._put(key, counted=lo - lo % self.chunk < self._about["rows"])
                if hi % self.chunk == 0:
                    del self._made[key]
        self.rows = hi

    def _put_about(self) -> None:
        self._about["nodes"] = {node: node_digest(self._group, node) for node in self._about["nodes"]}
        self._group.update_attributes({ABOUT: json.dumps(sealed(self._about))})
        self._put(METADATA)

    def _put(self, key: str, counted: bool = True) -> None:
        """Put in place what zarr has made: whole or not at all, unless it is a chunk without any row that counts."""
        content, path = self._made[key], self._root / key
        if self._remote is not None:
            put_content(self._remote, key, content)
            return
        make_folder(path.parent, sync=self._saved and counted)
        if counted:
            write_whole(path, content.to_bytes(), self._saved)
        else:
            path.write_bytes(content.to_bytes())
            self._new += [path] if self._saved else []

    def _check_owner(self) -> None:
        """Raise unless nobody else has begun to write here, where no lock keeps them away."""
        there = read_about(self.where)
        if there is None or there["writer"] != self._own:
            raise StoreError(f"{self.where} was removed, or another process writes to it: use another path")


def _plain(value: Any) -> Any:
    """JSON values, as they are when they are read."""
    return json.loads(json.dumps(value, default=lambda v: v.tolist() if hasattr(v, "tolist") else str(v)))


def _packed(statistics: RunStatistics) -> dict[str, Any]:
    """Run statistics as JSON values, arrays as their bytes: there may be many chains, and they are written often."""
    return {
        name: [str(value.dtype), value.shape, b64encode(value.tobytes()).decode()]
        if isinstance(value, np.ndarray | np.generic)
        else value
        for name, value in vars(statistics).items()
    }
