"""Checkpoints: the saved part of a run in a `Folder`, and resuming from it."""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xpsample.core import tree
from xpsample.core.backend import Buffers
from xpsample.core.checks import check_path
from xpsample.core.describe import differences
from xpsample.core.errors import CheckpointError, CheckpointWarning, reading
from xpsample.core.fields import FrozenDataclass, checked, number
from xpsample.core.registry import to_host
from xpsample.core.tree import structure
from xpsample.files.common import check_room
from xpsample.files.folder import ADVICE, INDEX, Folder, Keeper
from xpsample.sampling.callbacks import MOST_STEPS, RunState
from xpsample.sampling.identity import Values, changed, environment, start_values, values_now
from xpsample.sampling.program import Carry, Program, named_rows
from xpsample.sampling.totals import Totals
from xpsample.trace.kernels import packed
from xpsample.trace.recorders import part_of
from xpsample.trace.saving import read_about, stored_rows
from xpsample.trace.stored import StoredRows

if TYPE_CHECKING:
    from xpsample.sampling.store import RowStore
else:
    RowStore = Any  # for typing.get_type_hints

Row = Callable[[], Any]
"""Gives a row of each recorder."""

SHARD = "shard-{}-of-{}"
"""Folder of the checkpoint of a shard."""


class Checkpoint(FrozenDataclass, eq=True):
    """Directory and interval of the saves of a run.

    Parameters
    ----------
    path : path
        A directory, made where missing.
    every : float
        Seconds between saves, at least; saves happen at block boundaries, and at the end.

    See Also
    --------
    load : Reads a checkpoint as a trace.
    Until : Ends a run early.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     checkpoint = xps.Checkpoint(f"{folder}/my-run", every=10.0)  # seconds
    ...     trace = xps.sample(target, xps.MALA(), x0, 1000, seed=1, checkpoint=checkpoint)
    ...     saved = xps.load(f"{folder}/my-run")
    >>> bool(np.all(saved.draws == trace.draws))
    True
    """

    path: str | Path = checked(check_path)
    every: float = number(default=60.0, ge=0, infinite=True)


class SavedRun:
    """Checkpoint directory of a run, in which it is saved after a block when it is time to.

    `identity` are JSON values that identify the run. Without the `metadata` of the trace `load_folder` refuses the
    checkpoint. The rows of the run go to `store`, if there is one.
    """

    def __init__(
        self,
        settings: Checkpoint,
        program: Program,
        carry: Carry,
        identity: dict[str, Any],
        metadata: dict[str, Any] | None,
        disk: "RowStore | None" = None,
    ) -> None:
        self.path, self.every, self.program = Path(settings.path), settings.every, program
        self.identity, self.environment = identity, environment(program.like(carry))
        self.start, self.metadata, self.disk = start_values(program, carry), metadata, disk
        self.counted: tuple[str, int] | None = None
        """Which store of draws the checkpoint counts the rows of, and how many."""
        self.folder: Folder | None = None
        self.keeper, self.step = Keeper(self.path), -1
        self.last = time.monotonic()
        self.spent = 0.0
        """Seconds spent on earlier steps, minus the time spent saving now."""
        self.began: float | None = None
        """When the first step now began."""
        self.totals, self.longest = Totals(), MOST_STEPS

    @classmethod
    @contextmanager
    def opened(cls, checkpoint: "str | Path | Checkpoint", *args: Any) -> "Iterator[SavedRun]":
        """A block in which no other process uses the directory."""
        settings = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
        saved = cls(settings, *args)
        with saved.keeper.locked():
            yield saved

    @property
    def where(self) -> str:
        """The directory."""
        return str(self.path)

    def seconds(self) -> float:
        """Seconds spent on steps, including those before the run was resumed, without saving."""
        return self.spent + (0.0 if self.began is None else time.monotonic() - self.began)

    def load(self, state: RunState, totals: Totals) -> RunState:
        """Return where the run begins or is resumed, in the library and on the device of the carry of `state`.

        The sums until then go into `totals`, with which it is saved from now on. CheckpointError if what is there
        belongs to another run, or cannot be read.
        """
        self.totals, carry = totals, state.carry
        with reading(self.path / INDEX, CheckpointError, ADVICE):
            try:
                self.folder = Folder(self.path)
            except (FileNotFoundError, NotADirectoryError):
                check_no_shards(self.path, "set the same shards=, or use another path")
                return state
        content, arrays = self.folder.content, self.folder.state()
        lines = differences(content["identity"], self.identity)
        if lines:
            raise CheckpointError(
                f"{self.path} holds the checkpoint of another run ({'; '.join(lines)}); remove it, or use another path"
            )
        self._check_values(content["start"], self.start, "x are the initial positions", carry)
        stored = content.get("store")
        if (stored is None) != (self.disk is None):
            advice = "leave out Draws(store=...)" if stored is None else f"give Draws(store={stored['where']!r})"
            where = "here" if stored is None else f"in {stored['where']}"
            raise CheckpointError(f"{self.path} holds the checkpoint of a run whose draws are {where}: {advice}")
        self.counted = None if stored is None else (stored["token"], stored["rows"])
        backend, paths = self.program.backend, [f"carry/{path}" for path, _ in tree.items(carry)]
        if set(paths) != {key for key in arrays if key.startswith("carry/")}:
            raise CheckpointError(f"{self.path} holds another kind of state; remove it, or use another path")
        leaves = {
            path: backend.from_host(_laid_out(arrays[f"carry/{path}"], arrays.get(f"order/{path}")), leaf)
            for path, leaf in tree.items(carry)
        }
        carry = tree.fill(carry, leaves)
        now = {"at x": values_now(self.program, carry)}
        self._check_values({"at x": content["now"]}, now, "x are the saved positions", carry)
        totals.steps = content["statistics_steps"]
        totals.sums = {k.removeprefix("sums/"): v for k, v in arrays.items() if k.startswith("sums/")}
        self.step = content["step"]
        self.keeper.go_on(self.folder)
        self.spent = (content["metadata"] or {}).get("seconds", 0.0)
        if self.step > self.program.schedule.steps:
            _check_cut(self.program, carry, self.step)
        return replace(state, step=self.step, carry=carry)

    def buffers(self, row: Row) -> Buffers:
        """The rows that are saved, in buffers for all; `row` gives one of each recorder."""
        saved = {} if self.folder is None else self.folder.rows(self.program.schedule.draws)
        return _restore(self.program, row(), saved) if saved else None

    def _check_values(self, there: Values, here: Values, x: str, carry: Carry) -> None:
        what = changed(there, here, tree.dtype_name(self.program.like(carry)))
        if what is not None:
            raise CheckpointError(
                f"{self.path} holds the checkpoint of another run: {what} ({x}). Restore what you changed, remove the "
                "checkpoint, or use another path"
            )

    def keep(self, run: RunState, last: bool) -> None:
        """Save, if it is time to."""
        self.save(run.step, run.carry, self.totals, run.buffers, final=last)

    def save(self, step: int, carry: Carry, totals: Totals, buffers: Buffers, final: bool) -> None:
        """Save after `step` steps, if it is time to. What goes wrong is a warning: the run is worth more."""
        if step == self.step or (not final and 0.0 <= time.monotonic() - self.last < self.every):
            return  # a clock that was set back says nothing
        began, now = time.monotonic(), values_now(self.program, carry)
        try:
            self._save(step, carry, totals, buffers, now)
        except (OSError, MemoryError) as error:
            warnings.warn(
                f"the run could not be saved to {self.path} after {step} steps ({error}). It continues; what was saved "
                "before stays as it is",
                CheckpointWarning,
                stacklevel=4,
            )
        self.last = time.monotonic()
        self.spent -= self.last - began

    def _save(self, step: int, carry: Carry, totals: Totals, buffers: Buffers, now: Any) -> None:
        seconds, rows, new = self.seconds(), self.program.schedule.rows(step), {}
        if self.disk is None:
            lo = self.keeper.count
            new = {key: to_host(array[lo:rows, ...]) for key, array in named_rows(self.program, buffers) if rows > lo}
        else:  # which reach the disk before the state that counts them
            self.disk.append(buffers, rows, totals.run_statistics(), whole=True)
            buffers = self.disk.trace_rows(rows)
        arrays = {f"carry/{path}": to_host(leaf) for path, leaf in tree.items(carry)}
        orders = {key.replace("carry/", "order/", 1): _order(array) for key, array in arrays.items()}
        arrays |= {key: order for key, order in orders.items() if np.any(np.diff(order) < 0)}
        arrays |= {f"sums/{key}": np.asarray(value) for key, value in totals.sums.items()}
        results, described, stored = _results(self.program, carry, totals, buffers, rows)
        content: dict[str, Any] = {
            "identity": self.identity,
            "environment": self.environment,
            "start": self.start,
            "now": now,
            "step": step,
            "statistics_steps": totals.steps,
            **({} if self.disk is None else {"store": self.disk.counted | {"arrays": stored}}),
            "structure": described,
            "metadata": self.metadata and self.metadata | {"seconds": seconds},
        }
        new = {key: np.ascontiguousarray(array) for key, array in new.items()}
        self.keeper.save(step, arrays | results, new, rows, content)
        self.step = step
        if self.disk is not None:
            self.disk.note_counted()

    def check(self, row: Row, carry: Carry) -> None:
        """Raise CheckpointError, before the first step, unless rows such as `row` gives can be saved."""
        self.began = time.monotonic()
        if self.folder is not None:
            lines = differences(self.folder.content["environment"], self.environment)
            if lines:
                raise CheckpointError(
                    f"{self.path} was made on another system ({'; '.join(lines)}), and steps made here could differ. "
                    "Continue there, read what is saved with xpsample.load, or use another path"
                )
        if self.keeper.failure is not None:
            raise CheckpointError(f"{self.path} cannot be written to ({self.keeper.failure}): use another path")
        rows = row()
        try:
            structure(rows)
        except TypeError as error:
            raise CheckpointError(f"what is recorded cannot be saved: {error}") from error
        size, names = 0, set()
        for name, own in named_rows(self.program, rows):
            if name in names:
                raise CheckpointError(f"two results would be saved as {name!r}: avoid '/' in the names of results")
            names.add(name)
            array = to_host(own)
            if array.dtype.kind not in "biufc":
                raise CheckpointError(f"{name} has dtype {array.dtype}, which cannot be saved: record numbers")
            size += array.nbytes if self.disk is None else 0
        left = self.program.schedule.draws - self.program.schedule.rows(max(0, self.step))
        state = sum(to_host(leaf).nbytes for leaf in tree.leaves(carry))  # two, while the old one is replaced
        check_room(self.path, size * left + 2 * state, CheckpointError)


def check_no_shards(path: Path, advice: str) -> None:
    """Raise CheckpointError if a directory holds the checkpoints of a run in shards."""
    found = sorted(folder.name for folder in path.glob(SHARD.format("*", "*")))
    if found:
        raise CheckpointError(f"{path} holds a run in shards, such as {found[0]}: {advice}")


def inside(checkpoint: "str | Path | Checkpoint", folder: str) -> Checkpoint:
    """Return the checkpoint of a part of a run, in a subfolder of the run's folder."""
    own = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
    return replace(own, path=Path(own.path) / folder)


def check_shards(path: Path, shards: int) -> None:
    """Raise CheckpointError if a directory holds the checkpoint of a run that is not split into as many shards."""
    if (path / INDEX).exists():
        raise CheckpointError(f"{path} holds the checkpoint of a run without shards. Use another path.")
    for other in path.glob(SHARD.format("*", "*")):
        if not other.name.endswith(f"-of-{shards}"):
            raise CheckpointError(
                f"{path} holds another number of shards ({other.name}, and this run has {shards}). Use the same "
                "shards=, or another path."
            )


def load_folder(path: Path) -> tuple[Any, dict[str, np.ndarray], dict[str, Any]]:
    """Return the trace in a checkpoint: the structure of its parts, their arrays by name, and the metadata.

    Another process may work on it.
    """
    check_no_shards(path, "load each of them, or make the call of sample again")
    while True:
        folder = Folder(path)
        try:
            if folder.content["metadata"] is None:
                raise CheckpointError(f"{path} is the checkpoint of a training: make the call of fit again")
            arrays = (
                folder.rows()
                | _stored(path, folder.content.get("store"))
                | {
                    name.removeprefix("trace/"): array
                    for name, array in folder.state().items()
                    if name.startswith("trace/")
                }
            )
            return folder.content["structure"], arrays, folder.content["metadata"]
        except CheckpointError:
            if (path / INDEX).read_bytes() == folder.text:
                raise


def _stored(path: Path, counted: dict[str, Any] | None) -> dict[str, Any]:
    """The arrays of a trace that are in a store."""
    if counted is None:
        return {}
    where, about = counted["where"], read_about(counted["where"])
    if about is None or about["token"] != counted["token"]:
        raise CheckpointError(f"the draws that {path} counts are not in {where}: put the store back there")
    found = stored_rows(where, about, counted["rows"])
    return {name: found[own] for name, own in counted["arrays"].items()}


def _results(
    program: Program, carry: Carry, totals: Totals, buffers: Buffers, rows: int
) -> tuple[dict[str, np.ndarray], Any, dict[str, str]]:
    """Content of a trace other than rows, the structure of all, and which parts are in a store, under which names."""
    kept: dict[str, Any] = {"draws": None, "statistics": {}, "recorded": {}, "kernel": packed(program.kernel)}
    kept["run_statistics"] = dict(vars(totals.run_statistics()))
    arrays = {f"trace/{name}": to_host(leaf) for name, leaf in tree.items(kept)}
    owns = buffers if buffers is not None else (None,) * len(program.recorders)
    stored: dict[str, str] = {}
    for recorder, state, own in zip(program.recorders, carry.recorder_states, owns, strict=True):
        result = recorder.result(program.target, state, own)
        leaves = dict(tree.items(result, part_of(recorder)))
        stored |= {name: leaf.name for name, leaf in leaves.items() if isinstance(leaf, StoredRows)}
        if stored:
            arrays |= {f"trace/{name}": to_host(leaf) for name, leaf in leaves.items() if name not in stored}
        elif result is not own:
            part = tree.map(lambda array: array[:rows, ...], own)
            result = recorder.result(program.target, state, part)
            arrays |= {f"trace/{name}": to_host(leaf) for name, leaf in tree.items(result, part_of(recorder))}
        if part_of(recorder) in kept:
            kept[recorder.name] = result if result is not None else kept[recorder.name]
        else:
            kept["recorded"][recorder.name] = result
    return arrays, structure(kept), stored


def _restore(program: Program, row: tuple[Any, ...], saved: dict[str, np.ndarray]) -> tuple[Any, ...]:
    """Buffers filled with the rows of a checkpoint, which are taken out of `saved` one by one."""
    return tuple(
        tree.fill(
            own,
            {path: program.backend.from_host(saved.pop(path), leaf) for path, leaf in tree.items(own, place)},
            place,
        )
        for own, place in zip(row, map(part_of, program.recorders), strict=True)
    )


def _check_cut(program: Program, carry: Carry, start: int) -> None:
    """Raise if results of more steps than those asked for cannot be taken back to the end of these."""
    running = [r.name for r, s in zip(program.recorders, carry.recorder_states, strict=True) if tree.leaves(s)]
    if running:
        raise CheckpointError(
            f"the checkpoint holds {program.schedule.rows(start)} draws, and {', '.join(running)} cannot be cut back "
            f"to {program.schedule.draws}: ask for at least as many, or use another path"
        )


def _order(array: np.ndarray) -> np.ndarray:
    """The axes of an array, from the slowest to the fastest in memory."""
    return np.argsort([-stride for stride in array.strides], kind="stable")


def _laid_out(array: np.ndarray, order: np.ndarray | None) -> np.ndarray:
    """An array with its axes in the given order in memory, on which the rounding of sums depends in some libraries."""
    return array if order is None else np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))
