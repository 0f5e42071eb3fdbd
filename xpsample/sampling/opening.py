"""What a run is saved to, if to anything: only those that are need what this room imports."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from xpsample.core.arrays import Array
from xpsample.core.backend import Buffers
from xpsample.sampling.loop import Sink, View
from xpsample.sampling.noise import NoiseSource
from xpsample.sampling.program import Carry, Kept, Program
from xpsample.sampling.totals import Totals
from xpsample.targets.target import AbstractTarget

if TYPE_CHECKING:
    from xpsample.sampling.checkpoint import Checkpoint, Row, Store
    from xpsample.sampling.store import RowStore


class Unsaved:
    """The checkpoint of a run that has none."""

    sinks: tuple[Sink, ...] = ()
    identity: ClassVar[dict[str, Any]] = {}
    counted: tuple[str, int] | None = None
    where: str | None = None

    def load(self, carry: Carry, totals: Totals) -> View:
        """Where the run begins."""
        return View(0, carry)

    def check(self, row: "Row") -> None:
        """Nothing will be saved."""

    def buffers(self, row: "Row") -> Buffers:
        """The rows that are saved."""
        return None

    def keep(self, view: View, last: bool) -> None:
        """Nothing is."""

    def seconds(self, here: float) -> float:
        """What the steps took, of which those made now took `here`."""
        return here


def row_store(where: str | None) -> "RowStore | None":
    """The store of a run's rows; None where they stay in memory."""
    if where is None:
        return None
    from xpsample.sampling.store import RowStore

    return RowStore(where)


def identified(
    checkpoint: "str | Path | Checkpoint | None",
    target: AbstractTarget,
    program: Program,
    x: Array,
    source: NoiseSource,
) -> dict[str, Any]:
    """What identifies a run that has a checkpoint, as JSON values; nothing of one that has none."""
    if checkpoint is None:
        return {}
    from xpsample.sampling.identity import identity

    return identity(target, program, x, source)


@contextmanager
def opened(
    checkpoint: "str | Path | Checkpoint | None",
    program: Kept,
    carry: Carry,
    identity: dict[str, Any],
    metadata: dict[str, Any] | None = None,
    disk: "RowStore | None" = None,
) -> "Iterator[Store | Unsaved]":
    """The checkpoint of a run, and the store of its rows, which no other run has as long as the block lasts.

    `identity` are JSON values that make it this run. Without the `metadata` of the trace `load_folder` refuses the
    checkpoint. The rows of the run go to `disk`, if given.
    """
    with ExitStack() as held:
        saved: Any = Unsaved()
        if checkpoint is not None:
            from xpsample.sampling import checkpoint as kept

            settings = checkpoint if isinstance(checkpoint, kept.Checkpoint) else kept.Checkpoint(checkpoint)
            saved = kept.Store(settings, program, carry, identity, metadata, disk)
            held.enter_context(saved.keeper.locked())
        if disk is not None:
            held.enter_context(disk.locked())
        yield saved
