"""State of an experiment's run: its finished rows, and the results of long computations, to resume from."""

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
"""Subfolder in the folder of an experiment's files, and the file of rows in it."""


@final
class Unfinished:
    """Folder of a run that may be stopped and resumed. `unfinished` makes one.

    A resumed run makes the same calls in the same order. A finished row is reused, since its times belong to the run
    that measured it; samplings, trainings and the results of `once` are loaded from their checkpoints.
    """

    def __init__(self, path: Path, rows: RowsFile) -> None:
        self.path: Path = path
        self.goes_on: bool = False
        self._rows, self._calls = rows, 0

    @property
    def rows(self) -> list[Row]:
        """Finished rows."""
        return self._rows.rows

    @property
    def progress(self) -> str:
        """Progress of the run, for messages."""
        return f"{len(self.rows)} row{'' if len(self.rows) == 1 else 's'} of results"

    @property
    def finished(self) -> bool:
        """Return whether the whole run is finished."""
        return self._rows.finished

    def check(self, identity: Mapping[str, Any], resume: bool) -> None:
        """Raise CheckpointError unless the stored run matches the resumed run, or there is nothing to lose."""
        self.goes_on = resume and self._rows.begun
        if self.goes_on:
            self._rows.check(identity)
            if self.finished:
                self._clear()  # it was stopped while it did
        elif self._rows.begun and not self.finished and (self.rows or any(self._pieces())):
            raise CheckpointError(
                f"{self.path.parent} holds a run that was stopped, with {self.progress}: continue with --resume, "
                f"choose another folder with --out, or remove {self.path} to begin again"
            )

    def begin(self, identity: Mapping[str, Any]) -> None:
        """Write the identity of the run, unless it is resumed."""
        if not self.goes_on:
            self._clear()
            self._rows.begin(identity)

    def row(self, number: int, row: Row) -> Row:
        """Store a new row, otherwise return the stored one; CheckpointError if it was another row."""
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
    """Unfinished state in an experiment's folder, locked against other runs inside the block."""
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
    """Texts of a row and the names of its numbers, which identify it."""
    return {key: value if isinstance(value, str) else "a number" for key, value in row.items()}
