"""Draws beyond memory: the rows of a run in a zarr store, to which zarr appends them.

The attribute ``xpsample`` of the root, which has a digest, says how many rows count, and describes the arrays. Rows are
written before they count: without a checkpoint the attribute counts them after the block, with one the checkpoint does,
and then the attribute. Rows that do not count are removed when the run is resumed.
"""

import json
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
from xpsample.core.tree import structure
from xpsample.files.atomic import LEFT, make_folder, write_whole
from xpsample.files.common import check_room, locked
from xpsample.sampling.callbacks import RunState
from xpsample.sampling.program import Program, named_rows
from xpsample.sampling.totals import Totals
from xpsample.spaces.named import Named, named
from xpsample.spaces.names import exported
from xpsample.targets.shaped import shape_of
from xpsample.trace.conversions import ARVIZ_NAMES
from xpsample.trace.recorders import part_of
from xpsample.trace.saving import attributes, complete_rows, is_address, read_about, stored_rows, zarr3
from xpsample.trace.stored import READING, handling
from xpsample.trace.summary import RunStatistics

CHUNK = 2**23  # Most bytes of the rows of a chunk, about

SHORT = 2**16  # Bytes of the rows of a chunk of a short run, about: many enough for the run to be extended

WRITING = "fix the cause and make the same call again, which resumes a run that has a checkpoint"


class RowStore:
    """The store of a run's rows, for writing, in a folder or at an address that zarr opens by fsspec."""

    def __init__(self, where: str) -> None:
        self._zarr = zarr3()
        self.where, self.rows, self.chunk = where, 0, 0

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs away from its folder by a lock file next to it. An address has no lock."""
        with ExitStack() as stack:
            if not is_address(self.where):
                with handling(self.where, "written to", WRITING):
                    stack.enter_context(locked(Path(self.where), StoreError))
            yield

    @property
    def longest(self) -> int:
        """Largest number of steps between two calls of `keep`: buffers hold the rows of two chunks."""
        return self.chunk * self._program.schedule.thinning

    def keep(self, run: RunState, last: bool) -> None:
        """Write the full chunks of rows; all rows if no other block follows."""
        rows = self._program.schedule.rows(run.step)
        self.append(run.buffers, rows, self._totals.run_statistics(), whole=last)

    def begin(
        self,
        program: Program,
        row: tuple[Any, ...],
        x: Array,
        metadata: dict[str, Any],
        totals: Totals,
        checkpointed: bool,
        saved: tuple[str, int] | None,
    ) -> Program:
        """Create the store, or resume in it; return the program whose buffers hold the rows of two chunks.

        If the run is `checkpointed`, a checkpoint counts its rows. `saved` is the token of the store and the number of
        rows that it has counted, or None. StoreError if something else is there, or the disk is too small.
        """
        self._program, self._row, self._totals, self._chains = program, row, totals, tuple(x.shape[:-1])
        self._checkpointed, space = checkpointed, program.target.space
        self._space = named({"x": space}) if shape_of(space) else space
        names = [self._node(path) for path, _ in named_rows(program, row)]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise StoreError(f"two results would be stored as {twice[0]!r}: avoid '/' in the names of results")
        first, there = self._nodes(tree.map(lambda leaf: to_host(leaf)[None, ...], row)), self._there()
        size = max(1, sum(rows.nbytes for rows in first.values()))
        if saved is not None:
            if there is None or there["token"] != saved[0]:
                raise StoreError(
                    f"{self.where} is not the store whose draws the checkpoint counts: pass that one, or new paths for "
                    "both"
                )
            complete_rows(self.where, there, saved[1])
            self._about, self.chunk, self.rows = there, there["chunk"], saved[1]
            if self._layout(first) != there["nodes"]:
                raise StoreError(f"{self.where} holds rows whose form differs from this run's rows: use new paths")
        elif there is not None and there["rows"]:
            owner = "another checkpoint counts: pass that one," if there["checkpointed"] else "belong to a run:"
            raise StoreError(f"{self.where} holds {there['rows']} draws that {owner} use another path, or remove it")
        else:
            self.chunk = max(2, min(CHUNK, max(SHORT, size * program.schedule.draws)) // size)
            self._about = self._new(metadata, first)
        self._about |= {"rows": self.rows, "run_statistics": _packed(totals.run_statistics())}
        with handling(self.where, "written to", WRITING):
            self._open(there, first, resumed=saved is not None)
        if not is_address(self.where):
            chunks = -(-program.schedule.draws // self.chunk) - self.rows // self.chunk
            check_room(self.where, size * self.chunk * chunks, StoreError)
        return replace(program, schedule=replace(program.schedule, window=2 * self.chunk))

    @property
    def counted(self) -> dict[str, Any]:
        """State of the store that a checkpoint saves."""
        return {"where": self.where, "token": self._about["token"], "rows": self.rows}

    def note_counted(self) -> None:
        """Write that all rows count, after they are written or, under a checkpoint, after that is saved."""
        with handling(self.where, "written to", WRITING):
            self._group.update_attributes(attributes(self._about))

    def append(self, buffers: Buffers, rows: int, run_statistics: RunStatistics, whole: bool) -> None:
        """Write the rows that are not there yet: up to `rows` if `whole`, otherwise the full chunks among them.

        Without a checkpoint they count from then on; with one they are on the disk when this returns.
        """
        stop = rows if whole else rows // self.chunk * self.chunk
        if stop <= self.rows:
            return
        with handling(self.where, "written to", WRITING):
            for array in self._arrays.values():
                array.resize((stop, *array.shape[1:]))
            while self.rows < stop:
                number, within = divmod(self.rows, self.chunk)
                slot, stop_within = number % 2 * self.chunk, min(self.chunk, stop - number * self.chunk)

                def part(buffer: Array, slot: int = slot, part: slice = slice(within, stop_within)) -> np.ndarray:
                    return to_host(buffer[slot : slot + self.chunk, ...])[part]  # JAX compiles two slices, not many

                for node, values in self._nodes(tree.map(part, buffers)).items():
                    self._arrays[node][self.rows : self.rows + len(values)] = values
                self.rows = number * self.chunk + stop_within
        self._about |= {"rows": self.rows, "run_statistics": _packed(run_statistics)}
        if not self._checkpointed:
            self.note_counted()

    def trace_rows(self, rows: int, like: Array | None = None) -> tuple[Any, ...]:
        """Rows of the recorders, read from the store: a tree of `StoredRows` for each recorder."""
        found = stored_rows(self.where, self._about, rows, like)
        return tuple(
            tree.fill(own, found, place)
            for own, place in zip(self._row, map(part_of, self._program.recorders), strict=True)
        )

    # ---- the store that is there -------------------------------------------------------------------------------------

    def _there(self) -> dict[str, Any] | None:
        """The attribute of the store that is there; None if nothing is."""
        found, root = read_about(self.where), Path(self.where)
        if found is None and not is_address(self.where):
            with handling(self.where, "read", READING):
                if root.is_file():
                    raise StoreError(f"{self.where} is a file, and a store is a folder: use another path")
                others = [path.name for path in (root.iterdir() if root.exists() else ()) if not path.match(LEFT)]
            if others:
                raise StoreError(f"{self.where} holds other files, such as {others[0]}: use another path")
        return found

    def _new(self, metadata: dict[str, Any], first: dict[str, np.ndarray]) -> dict[str, Any]:
        """The attribute of a new store."""
        space, kept = self._space, dict[str, Any](draws=None, statistics={}, recorded={})
        for recorder, own in zip(self._program.recorders, self._row, strict=True):
            if own is not None:
                (kept if part_of(recorder) in kept else kept["recorded"])[recorder.name] = own
        return {
            "token": uuid4().hex,
            "checkpointed": self._checkpointed,
            "chunk": self.chunk,
            "metadata": json.loads(
                json.dumps(metadata, default=lambda v: v.tolist() if hasattr(v, "tolist") else str(v))
            ),
            "structure": structure(kept),
            "arrays": {path: [self._node(path), [*leaf.shape]] for path, leaf in named_rows(self._program, self._row)},
            "values": {
                name: [f"posterior/{exported(name)}", [*self._chains, *part.shape]]
                for name, part in (zip(space.names, space.parts, strict=True) if isinstance(space, Named) else ())
            },
            "nodes": self._layout(first),
        }

    def _open(self, there: dict[str, Any] | None, first: dict[str, np.ndarray], resumed: bool) -> None:
        """Write the attribute; then create the arrays or, if the run is resumed, remove rows that do not count."""
        place: Any = self.where
        if not is_address(self.where):
            place = _whole_files(self.where, self._checkpointed)
            for path in Path(self.where).rglob(LEFT):  # of a run that was killed
                path.unlink()
        if there is None:
            self._group = self._zarr.create_group(place, zarr_format=3, attributes=attributes(self._about))
        else:
            self._group = self._zarr.open_group(place, mode="r+", zarr_format=3)
            for name in () if resumed else {node.partition("/")[0] for node in there["nodes"]}:
                del self._group[name]
            self._group.update_attributes(attributes(self._about))
        labels = {} if resumed else self._labels()
        # Missing chunks are refused, so chunks of zeros must be written, too.
        with self._zarr.config.set({"array.write_empty_chunks": True}):
            for node, settings in () if resumed else self._about["nodes"].items():
                fill = {"fill_value": np.nan} if settings["dtype"].startswith(("float", "complex")) else {}
                self._group.create_array(node, **settings, **fill, compressors=self._zarr.codecs.Crc32cCodec())
            for node, values in labels.items():
                self._group[node][:] = values
            self._arrays = {node: self._group[node] for node in first}
        for array in self._arrays.values():
            if array.shape[0] > self.rows:
                array.resize((self.rows, *array.shape[1:]))

    # ---- layout ------------------------------------------------------------------------------------------------------

    def _nodes(self, rows: tuple[Any, ...]) -> dict[str, np.ndarray]:
        """Rows of the recorders, on the host, as they are written: by the names of the store's arrays."""
        found: dict[str, np.ndarray] = {}
        axes = len(self._chains)
        for path, values in named_rows(self._program, rows):
            if values.shape[1 : 1 + axes] == self._chains:  # one axis for all chains
                values = np.reshape(values, (len(values), prod(self._chains), *values.shape[1 + axes :]))
            found[self._node(path)] = values
            if path == "draws" and isinstance(self._space, Named):
                xp, names = backend_of(values).xp, self._space.names
                found |= {f"posterior/{exported(n)}": to_host(self._space.value(xp, values, n)) for n in names}
        return found

    def _node(self, path: str) -> str:
        """Name of the store's array for a path in a trace."""
        if path == "draws":
            return f"{'unconstrained_posterior' if isinstance(self._program.target.space, Named) else 'posterior'}/x"
        part, _, name = path.partition("/")
        return f"sample_stats/{ARVIZ_NAMES.get(name, name)}" if part == "statistics" else path

    def _labels(self) -> dict[str, np.ndarray]:
        """Labels of the axes of a model's parameters, numbers or text, by the names of the store's arrays."""
        found: dict[str, np.ndarray] = {}
        for axis, labels in self._space.coords if isinstance(self._space, Named) else ():
            values = np.asarray(labels)
            text = values.dtype.kind not in "if"
            found[f"posterior/{exported(axis)}"] = np.asarray([*map(str, labels)], object) if text else values
        return found

    def _layout(self, first: dict[str, np.ndarray]) -> dict[str, Any]:
        """Shape, chunks, dtype and names of the axes, as in ArviZ, of the arrays of rows and labels."""
        labels, arrays = self._labels(), dict[str, Any]()
        for node, rows in (first | labels).items():
            group, _, name = node.rpartition("/")
            shape, chunks = [0, *rows.shape[1:]], [self.chunk, *(max(1, length) for length in rows.shape[1:])]
            dims = ["draw", "chain"] if rows.shape[1:2] == (prod(self._chains),) else ["draw"]
            rest = rows.ndim - len(dims)
            if node in labels:
                shape, chunks, dims = [len(rows)], [len(rows)], [name]
            elif group == "posterior" and isinstance(self._space, Named):
                own = next(own for own in self._space.names if exported(own) == name)
                dims += map(exported, self._space.axes(own))
            else:
                dims += ["x_dim"] if name == "x" and rest == 1 else [f"{name}_dim_{i}" for i in range(rest)]
            dtype = "string" if rows.dtype.kind == "O" else str(rows.dtype)
            arrays[node] = {"shape": shape, "chunks": chunks, "dtype": dtype, "dimension_names": dims}
        return arrays


def _whole_files(where: str, sync: bool) -> Any:
    """zarr's store of a folder, with files that are written whole or not at all and, if `sync`, to the disk."""

    class WholeFiles(zarr3().storage.LocalStore):  # type: ignore[misc]
        def set_sync(self, key: str, value: Any) -> None:
            path = self.root / key
            make_folder(path.parent, sync)
            write_whole(path, value.to_bytes(), sync)

        async def set(self, key: str, value: Any) -> None:
            self.set_sync(key, value)

        async def set_if_not_exists(self, key: str, value: Any) -> None:
            if not (self.root / key).exists():
                self.set_sync(key, value)

    return WholeFiles(where)


def _packed(statistics: RunStatistics) -> dict[str, Any]:
    """Run statistics as JSON values, arrays as their bytes: there may be many chains, and they are written often."""
    return {
        name: [str(value.dtype), value.shape, b64encode(value.tobytes()).decode()]
        if isinstance(value, np.ndarray | np.generic)
        else value
        for name, value in vars(statistics).items()
    }
