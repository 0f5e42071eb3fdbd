"""What a run of an experiment has done so far: its rows, and the results of what took long, to go on from."""

import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, final

import numpy as np

from xpsample.core.errors import CheckpointError, CheckpointWarning
from xpsample.experiments.folder import clear_errors
from xpsample.experiments.table import Row
from xpsample.files.folder import Folder, Keeper
from xpsample.files.lines import RowsFile, opened_rows

NAME, ROWS = ".run", "rows.jsonl"
"""The folder in that of an experiment's files, and the file of rows in it."""


@final
class Unfinished:
    """The folder of a run that may be stopped, and may go on where one was. `unfinished` makes one.

    A resumed run makes the same calls in the same order. A row that was finished is taken as it was, since its times
    are those of the run that measured it; a sampling, a training and what `once` computes are taken from their
    checkpoints.
    """

    def __init__(self, path: Path, rows: RowsFile) -> None:
        self.path: Path = path
        self.goes_on: bool = False
        self._rows, self._calls = rows, 0

    @property
    def rows(self) -> list[Row]:
        """Those that are finished."""
        return self._rows.rows

    @property
    def progress(self) -> str:
        """How far it is, for messages."""
        return f"{len(self.rows)} row{'' if len(self.rows) == 1 else 's'} of results"

    @property
    def finished(self) -> bool:
        """Whether the whole run is finished."""
        return self._rows.finished

    def check(self, identity: Mapping[str, Any], resume: bool) -> None:
        """Raise CheckpointError unless what is there is of the run that is to go on, or there is nothing to lose."""
        self.goes_on = resume and self._rows.begun
        if self.goes_on:
            self._rows.check(identity)
            if self.finished:
                self._clear()  # it was stopped while it did
        elif self._rows.begun and not self.finished and (self.rows or any(self._pieces())):
            raise CheckpointError(
                f"{self.path.parent} holds a run that was stopped, with {self.progress}: go on with --resume, choose "
                f"another folder with --out, or remove {self.path} to begin anew"
            )

    def begin(self, identity: Mapping[str, Any]) -> None:
        """Write down what the run is, unless it goes on."""
        if not self.goes_on:
            self._clear()
            self._rows.begin(identity)

    def row(self, number: int, row: Row) -> Row:
        """A row, put down where it is new, else as it was then; CheckpointError if it was another one."""
        if number == len(self.rows):
            self._rows.add(row)
        found = self.rows[number]
        if _texts(found) != _texts(row):
            raise CheckpointError(
                f"row {number + 1} of {self._rows.path} is {_texts(found)}, and the same run made {_texts(row)} now: "
                f"remove {self.path} and begin anew"
            )
        return found

    def next(self) -> Path:
        """A place for the result of the next thing that takes long."""
        self._calls += 1
        return self.path / f"{self._calls:05d}"

    def once(self, make: Callable[[], Mapping[str, np.ndarray]]) -> Mapping[str, np.ndarray]:
        """Arrays by name, made now or taken from where they were put."""
        path = self.next()
        with suppress(FileNotFoundError):
            return Folder(path).state()
        made = {name: np.asarray(array) for name, array in make().items()}
        try:
            Keeper(path).save(0, made, {}, 0, {"identity": {}})
        except OSError as error:
            warnings.warn(
                f"a result could not be saved to {path} ({error}). The run goes on; a resumed one makes it again",
                CheckpointWarning,
                stacklevel=3,
            )
        return made

    def finish(self) -> None:
        """Remove all but that the run is finished."""
        self._rows.finish()
        self._clear()

    def _clear(self) -> None:
        for piece in list(self._pieces()):
            shutil.rmtree(piece) if piece.is_dir() else piece.unlink()

    def _pieces(self) -> Iterator[Path]:
        return (path for path in self.path.iterdir() if path.name[:5].isdecimal())


@contextmanager
def unfinished(out: Path) -> Iterator[Unfinished]:
    """What is unfinished in an experiment's folder, which no other run has as long as the block lasts."""
    path = out / NAME
    try:
        with ExitStack() as stack:
            with clear_errors(out):
                rows = stack.enter_context(opened_rows(path / ROWS))
            yield Unfinished(path, rows)
    finally:
        with suppress(OSError):
            path.rmdir()  # where nothing was begun


def _texts(row: Row) -> dict[str, Any]:
    """What names a row: its texts, and the names of its numbers."""
    return {key: value if isinstance(value, str) else "a number" for key, value in row.items()}
