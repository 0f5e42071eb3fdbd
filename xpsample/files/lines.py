"""Rows of results that a long command has finished, as lines of JSON: each is on the disk before the next is begun."""

import hashlib
import json
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from xpsample.core.describe import differences
from xpsample.core.errors import CheckpointError, CheckpointWarning, reading
from xpsample.files import common
from xpsample.files.atomic import sync_folder
from xpsample.files.common import check_schema, locked

HEAD = b'{"schema": '
"""Beginning of every file of rows."""

ADVICE = "if it is damaged, put a copy of it back, or remove it and begin anew"


@final
class RowsFile:
    """A file of rows. Its first line identifies their source; each line has a digest of all up to it.

    A last line without an end was being written when its process was killed: it is dropped, and its row made again. One
    process at a time may use a file: see `opened_rows`. ``rows`` are those in the file; no more will come where it is
    ``finished``. CheckpointError if it is damaged, is no file of rows, or has another schema version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[dict[str, Any]] = []
        self.finished: bool = False
        self._identity: Any = None
        self._end, self._digest, self._pending = 0, "", b""
        with reading(path, CheckpointError, ADVICE):
            self._read(path.read_bytes() if path.exists() else b"")

    def _read(self, content: bytes) -> None:
        self._end = content.rfind(b"\n") + 1
        if not content.startswith(HEAD[: len(content)]):
            raise ValueError("it holds no rows of results")
        for number, line in enumerate(content[: self._end].split(b"\n")[:-1]):
            entry = json.loads(line)
            if number == 0:
                check_schema(self.path, entry["schema"], CheckpointError, "remove it and begin anew")
            digest = entry.pop("digest")
            if digest != self._next_digest(entry):
                raise ValueError(f"line {number + 1} is not as it was written")
            self._digest = digest
            if number == 0:
                self._identity = entry["identity"]
            elif "row" in entry:
                self.rows.append(entry["row"])
            else:
                self.finished = True

    @property
    def begun(self) -> bool:
        """Return whether the file exists and has its first line."""
        return self._end > 0

    def check(self, identity: Mapping[str, Any]) -> None:
        """Raise CheckpointError if the rows are of another run."""
        lines = differences(self._identity, _json(identity))
        if lines:
            raise CheckpointError(
                f"{self.path} holds the rows of another run ({'; '.join(lines)}); remove it, or use another path"
            )

    def begin(self, identity: Mapping[str, Any]) -> None:
        """Begin anew, without rows."""
        self.rows, self.finished, self._identity = [], False, _json(identity)
        self._end, self._digest, self._pending = 0, "", b""
        self._append({"schema": common.SCHEMA, "identity": self._identity})

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row of JSON values. One that cannot be written waits for the next call, with a CheckpointWarning."""
        self.rows.append(_json(row))
        self._append({"row": self.rows[-1]})

    def finish(self) -> None:
        """Put down that no more rows will come."""
        self.finished = True
        self._append({"finished": True})

    def _append(self, entry: dict[str, Any]) -> None:
        self._digest = self._next_digest(entry)
        self._pending += json.dumps(entry | {"digest": self._digest}).encode() + b"\n"
        new = not self.path.exists()
        try:
            with open(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666), "r+b") as file:
                if file.seek(0, os.SEEK_END) < self._end:
                    raise OSError("another process has changed or removed it")
                file.truncate(self._end)
                file.seek(self._end)
                file.write(self._pending)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            warnings.warn(
                f"a row could not be saved to {self.path} ({error}). The run continues and tries again with the next",
                CheckpointWarning,
                stacklevel=3,
            )
            return
        if new:
            sync_folder(self.path.parent)
        self._end, self._pending = self._end + len(self._pending), b""

    def _next_digest(self, entry: dict[str, Any]) -> str:
        return hashlib.sha256((self._digest + json.dumps(entry, sort_keys=True)).encode()).hexdigest()[:16]


@contextmanager
def opened_rows(path: Path) -> Iterator[RowsFile]:
    """A file of rows, which no other process has as long as the block lasts. Its folder is made where it is missing.

    CheckpointError if another process has it or it cannot be read, OSError if its folder cannot be written to.
    """
    with locked(path, CheckpointError):
        yield RowsFile(path)


def _json(value: Any) -> Any:
    """Value as read back from a file."""
    return json.loads(json.dumps(value))
