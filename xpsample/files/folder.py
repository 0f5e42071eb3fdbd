"""A folder of arrays by path: the last state, and append-only rows, with an identity.

One JSON file, the index, lists the files that count with a digest of each. It is replaced atomically and last, so a
process that is killed at any moment leaves what was kept before intact. Nothing is pickled. One process at a time works
on a folder; its files have unique names, and it removes no others, so that where locks do not work the last
process to save wins, whole.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from xpsample.core.errors import CheckpointError, reading
from xpsample.files.archives import members, read_arrays, write_arrays
from xpsample.files.atomic import make_folder, write_whole
from xpsample.files.common import CHANGED, file_digest, locked, sealed, unsealed

INDEX, LOCK = "run.json", "run.lock"
OWN = re.compile(r"(state|rows)-[0-9-]+-[0-9a-f]{12}\.npz")
"""Names of the files of a folder: what is in them, of which step or rows, and a name of the process's own."""

LEFT = re.compile(r"\.((state|rows)-[0-9-]+-[0-9a-f]{12}\.npz|run\.json)\.[0-9a-f]{12}\.tmp")
"""Pattern of the names of their temporary files, which killed processes leave."""

ADVICE = "if it is damaged, put a copy of the whole directory back, or remove the directory and run again"


class Folder:
    """A folder, for reading; FileNotFoundError if nothing is kept there, CheckpointError if it cannot be read.

    ``content`` is what the index holds: the JSON values that were kept, ``state``, the file of the arrays with its
    digest, and ``rows``, for each file of rows its name, the first row, the last one and one more, and its digest.
    ``text`` is the index itself, as bytes, and ``files`` are the valid ones.
    """

    path: Path
    text: bytes
    content: dict[str, Any]
    files: list[Any]

    def __init__(self, path: Path) -> None:
        self.path, self.text = path, (path / INDEX).read_bytes()
        with reading(path / INDEX, CheckpointError, ADVICE):
            self.content = unsealed(path / INDEX, json.loads(self.text), CheckpointError, "another directory")
            self.files = [self.content["state"][0], *(name for name, *_ in self.content["rows"])]
            if not all(map(OWN.fullmatch, self.files)):
                raise ValueError("it names files that no checkpoint has")

    def state(self) -> dict[str, np.ndarray]:
        """The arrays of the last state."""
        name, digest = self.content["state"]
        with self._checked(name, digest):
            return read_arrays(self.path / name)

    def rows(self, count: int | None = None) -> dict[str, np.ndarray]:
        """Arrays of `count` rows (all that are kept when not given), filled as far as rows are kept.

        They are read in place: no part of them is held twice.
        """
        if count is None:
            count = self.content["rows"][-1][2] if self.content["rows"] else 0
        arrays: dict[str, np.ndarray] = {}
        for name, first, stop, digest in self.content["rows"]:
            if first >= count:
                break
            with self._checked(name, digest):
                for member in members(self.path / name):
                    if member.name not in arrays:
                        arrays[member.name] = np.empty((count, *member.shape[1:]), member.dtype)
                    member.read_into(arrays[member.name][first:stop])
        return arrays

    @contextmanager
    def _checked(self, name: str, digest: str) -> Iterator[None]:
        with reading(self.path / name, CheckpointError, ADVICE):
            if file_digest(self.path / name) != digest:
                raise ValueError(CHANGED)
            yield


class Keeper:
    """A folder, for writing. ``failure`` is why it cannot be written to, an OSError, or None."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.failure: OSError | None = None
        self._own = uuid4().hex[:12]
        self._state: str | None = None
        self._rows: list[list[Any]] = []
        self._text: bytes | None = None
        """Contents of the index when it was last read or written here."""

    @property
    def count(self) -> int:
        """Rows that are kept."""
        return self._rows[-1][2] if self._rows else 0

    def go_on(self, folder: Folder) -> None:
        """Continue from a folder's content."""
        self._state, self._rows, self._text = folder.content["state"][0], folder.content["rows"], folder.text

    def save(
        self, step: int, state: Mapping[str, np.ndarray], new: Mapping[str, np.ndarray], stop: int, content: Any
    ) -> None:
        """Keep a state, in the place of the last one, and the new rows `count` to `stop`: all of it, or nothing.

        `content` are JSON values, the identity and what else is to be kept. Raises OSError and MemoryError.
        """
        index, written = self.path / INDEX, []
        if (index.read_bytes() if index.exists() else None) != self._text:
            raise OSError(f"another process has changed or removed {INDEX}")
        make_folder(self.path)

        def write(name: str, arrays: Mapping[str, np.ndarray]) -> list[Any]:
            path = self.path / f"{name}-{self._own}.npz"
            written.append(path)
            return [path.name, write_arrays(path, arrays)]

        try:
            rows = list(self._rows)
            if new and stop > self.count:
                name, digest = write(f"rows-{self.count:012d}-{stop:012d}", new)
                rows.append([name, self.count, stop, digest])
            kept = write(f"state-{step:012d}", state)
            text = json.dumps(sealed(content | {"state": kept, "rows": rows}), indent=1).encode()
            write_whole(index, text)
        except (OSError, MemoryError):
            for path in written:
                with suppress(OSError):
                    path.unlink()
            raise
        old, self._state, self._rows, self._text = self._state, kept[0], rows, text
        if old is not None:
            with suppress(OSError):
                (self.path / old).unlink()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes away. A folder that can only be read is let through, with `failure`."""
        with ExitStack() as stack:
            try:
                if self.path.exists() and not self.path.is_dir():
                    raise CheckpointError(f"{self.path} is a file, and a checkpoint is a directory: use another path")
                if stack.enter_context(locked(self.path, CheckpointError, self.path / LOCK)):
                    self._clear()
            except OSError as error:
                self.failure = error
            yield

    def _clear(self) -> None:
        """Remove what killed processes left: files of a folder's that its index does not name."""
        try:
            kept = Folder(self.path).files
        except FileNotFoundError:
            kept = []
        except CheckpointError:
            return  # the reader reports the error
        for path in self.path.iterdir():
            temporary = LEFT.fullmatch(path.name)
            if temporary or (OWN.fullmatch(path.name) and path.name not in kept):
                path.unlink()
