"""A file layer that fails: it counts the calls that reach the files under a folder, and one of them goes wrong.

A run is made once to count its calls, and then once for each of them, which kills the process, cuts the power, or
raises an error. All of it happens within the process: a call that kills raises `Killed`, which nothing catches, and
from then on no call changes a file. A power cut loses what was not put on the disk: bytes that were written and not
synchronised, and names that were made, changed or removed in a folder that was not.
"""

import asyncio
import builtins
import errno
import io
import os
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from unittest import mock

import numpy as np
import zarr.core.sync

CHANGES = frozenset({"create", "write", "truncate", "sync", "replace", "unlink", "mkdir"})
"""Calls that change what is on the disk."""

READS = frozenset({"open", "read", "list", "stat", "space"})


@dataclass(frozen=True)
class Fault:
    """What goes wrong.

    Parameters
    ----------
    calls : frozenset of str
        Calls that it can strike.
    error : int, optional
        Number of the system's error; None kills the process.
    lasting : bool
        Whether all such calls fail from then on.
    power : bool
        Whether the power goes with the process.
    """

    calls: frozenset[str]
    error: int | None = None
    lasting: bool = False
    power: bool = False


SPACE = frozenset({"create", "write", "sync", "replace", "mkdir"})

FAULTS = {
    "killed": Fault(CHANGES),
    "power cut": Fault(CHANGES, power=True),
    "disk full once": Fault(SPACE, errno.ENOSPC),
    "disk full": Fault(SPACE, errno.ENOSPC, lasting=True),
    "input or output error": Fault(CHANGES | READS, errno.EIO),
    "read-only": Fault(CHANGES - {"sync"}, errno.EROFS, lasting=True),
}


class Killed(BaseException):
    """Raised by the call that kills the process."""


@dataclass(eq=False)
class _File:
    """A file or folder, whatever its name.

    ``disk`` is what a power cut leaves of it for sure, and ``last`` what it held when its name was removed.
    """

    disk: bytes | None = b""
    dirty: bool = False
    last: bytes = b""


@dataclass
class FileLayer:
    """Within its context, calls of this process to files under `root` are counted, and fail as they are told.

    Parameters
    ----------
    root : Path
        A folder that is there.
    fault : Fault
    at : int, optional
        The call that fails, of those that the fault can strike, from 0; none when not given.
    """

    root: Path
    fault: Fault
    at: int | None = None
    calls: list[str] = field(default_factory=list)
    """Those that were counted."""

    def __post_init__(self) -> None:
        self._dead, self._struck = False, False
        self.left_open: list[str] = []
        self._paths: dict[int, Path] = {}
        self._open = io.open
        self._now = {path: _File(None if path.is_dir() else path.read_bytes()) for path in self.root.rglob("*")}
        self._on_disk = dict(self._now)
        self._pending: list[tuple[Path, dict[Path, _File | None]]] = []

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        calls = _Calls(self)
        for module, name in ((builtins, "open"), (io, "open")):
            self._stack.enter_context(mock.patch.object(module, name, calls.io_open))
        for name in calls.PATCHED:
            self._stack.enter_context(mock.patch.object(os, name, getattr(calls, name)))
        return self

    def __exit__(self, *_: Any) -> None:
        zarr.core.sync.sync(_others_end())
        self._stack.close()
        self.left_open = sorted(path.name for path in self._paths.values())
        for file in self._paths:
            os.close(file)

    # ---- faults ------------------------------------------------------------------------------------------------------

    def reach(self, call: str, path: Path) -> bool:
        """Count a call; whether it happens. It raises where it is the one that fails."""
        if self._dead:
            if call in ("create", "open"):
                raise Killed
            return call in READS
        if call not in self.fault.calls:
            return True
        self.calls.append(f"{call} {path.name}")
        if len(self.calls) - 1 == self.at or (self._struck and self.fault.lasting):
            self._struck = True
            if self.fault.error is not None:
                raise OSError(self.fault.error, os.strerror(self.fault.error), str(path))
            self._dead = True
            raise Killed
        return True

    @property
    def struck(self) -> bool:
        """Whether the fault has happened."""
        return self._struck

    def inside(self, path: Any, folder: int | None = None) -> Path | None:
        """A path under the root, in an open folder or by itself; None for another one, or for what is no path."""
        if isinstance(path, int):
            return self._paths.get(path)
        full = Path(os.path.abspath(self._paths.get(folder, Path()) / os.fspath(path)))
        return full if full.is_relative_to(self.root) else None

    def opened(self, file: int, path: Path) -> None:
        self._paths[file] = path

    def closed(self, file: int) -> None:
        self._paths.pop(file, None)

    # ---- what is on the disk -----------------------------------------------------------------------------------------

    def created(self, path: Path, folder: bool = False) -> None:
        if path not in self._now:
            self._change(path.parent, {path: _File(None if folder else b"")})

    def written(self, path: Path) -> None:
        if path in self._now:
            self._now[path].dirty = True

    def synced(self, path: Path) -> None:
        if path in self._now and self._now[path].disk is not None:
            self._now[path].disk, self._now[path].dirty = self._content(path), False
        for folder, changes in self._pending:
            if folder == path:
                _apply(changes, self._on_disk)
        self._pending = [change for change in self._pending if change[0] != path]

    def replaced(self, source: Path, path: Path) -> None:
        self._forget(path)
        self._change(path.parent, {source: None, path: self._now[source]})

    def unlinked(self, path: Path) -> None:
        self._forget(path)
        if path in self._now:
            self._change(path.parent, {path: None})

    def _content(self, path: Path) -> bytes:
        with self._open(path, "rb") as file:
            return file.read()

    def _forget(self, path: Path) -> None:
        if path in self._now and self._now[path].disk is not None:
            self._now[path].last = self._content(path)

    def _change(self, folder: Path, changes: dict[Path, _File | None]) -> None:
        _apply(changes, self._now)
        self._pending.append((folder, changes))

    def cut_power(self, rng: np.random.Generator) -> None:
        """Leave on the disk what a power cut does: any of the names, and any part of the bytes, not put there."""
        left = dict(self._on_disk)
        keep = rng.choice([0.0, 0.5, 1.0])
        for _, changes in self._pending:
            if rng.random() < keep:
                _apply(changes, left)
        contents: dict[Path, bytes | None] = {}
        for path, file in left.items():
            contents[path] = file.disk
            if file.dirty:
                names = [name for name, other in self._now.items() if other is file]
                last = self._content(names[0]) if names else file.last
                length = int(rng.integers(0, len(last) + 1))
                contents[path] = last[:length] + bytes(len(last) - length) * int(rng.integers(2))
        for path in self.root.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for path in sorted(contents):
            content = contents[path]
            if not path.parent.is_dir():
                continue  # in a folder whose name is lost
            path.mkdir() if content is None else path.write_bytes(content)


async def _others_end() -> None:
    """Wait for what zarr still does in other threads, when one of several calls made together has failed."""
    if others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)


def _apply(changes: dict[Path, _File | None], names: dict[Path, _File]) -> None:
    for path, file in changes.items():
        if file is None:
            names.pop(path, None)
        else:
            names[path] = file


class _Raw(io.FileIO):
    """An open file, whose calls the layer counts. What is buffered in front of it dies with the process."""

    def __init__(self, layer: FileLayer, path: Path, mode: str) -> None:
        super().__init__(path, mode)
        self._layer, self._path = layer, path
        layer.opened(self.fileno(), path)

    def write(self, content: Any) -> int:
        half = len(content) // 2
        try:
            happens = self._layer.reach("write", self._path)
        except (OSError, Killed):
            self._layer.written(self._path)
            super().write(memoryview(content)[:half])  # a write that fails has written a part
            raise
        if happens:
            self._layer.written(self._path)
            super().write(content)
        return len(content)

    def readinto(self, buffer: Any) -> int | None:
        self._layer.reach("read", self._path)
        return super().readinto(buffer)

    def readall(self) -> bytes:
        self._layer.reach("read", self._path)
        return super().readall()

    def truncate(self, size: int | None = None) -> int:
        if self._layer.reach("truncate", self._path):
            self._layer.written(self._path)
            return super().truncate(size)
        return 0

    def close(self) -> None:
        if not self.closed:
            self._layer.closed(self.fileno())
        super().close()


class _Calls:
    """What stands in for the functions of `os` and `io`. Calls for files elsewhere go through."""

    PATCHED = ("open", "read", "write", "ftruncate", "fsync", "close", "replace", "rename", "unlink", "remove", "rmdir")
    PATCHED += ("mkdir", "stat", "listdir", "scandir", "statvfs")

    def __init__(self, layer: FileLayer) -> None:
        self.layer, self.real = layer, {name: getattr(os, name) for name in self.PATCHED} | {"io": io.open}
        self.rename, self.remove = self.replace, self.unlink

    def io_open(self, path: Any, mode: str = "r", buffering: int = -1, *args: Any, **kwargs: Any) -> Any:
        inside = None if isinstance(path, int) else self.layer.inside(path)
        if inside is None:
            return self.real["io"](path, mode, buffering, *args, **kwargs)
        fresh = set(mode) & set("wxa")
        self.layer.reach("create" if fresh else "open", inside)
        raw = _Raw(self.layer, inside, mode.replace("b", "").replace("t", ""))
        if fresh:
            self.layer.created(inside)
            if "w" in mode:
                self.layer.written(inside)
        kind = io.BufferedRandom if "+" in mode else io.BufferedWriter if fresh else io.BufferedReader
        return kind(raw) if "b" in mode else io.TextIOWrapper(kind(raw), *args, **kwargs)

    def open(self, path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        inside = self.layer.inside(path, kwargs.get("dir_fd"))
        if inside is not None:
            self.layer.reach("create" if flags & os.O_CREAT else "open", inside)
        file = self.real["open"](path, flags, *args, **kwargs)
        if inside is not None:
            self.layer.opened(file, inside)
            if flags & os.O_CREAT:
                self.layer.created(inside)
        return file

    def close(self, file: int) -> None:
        self.layer.closed(file)
        self.real["close"](file)

    def read(self, file: int, *args: Any) -> bytes:
        if (inside := self.layer.inside(file)) is not None:
            self.layer.reach("read", inside)
        return self.real["read"](file, *args)

    def write(self, file: int, content: Any) -> int:
        if (inside := self.layer.inside(file)) is not None:
            if not self.layer.reach("write", inside):
                return len(content)
            self.layer.written(inside)
        return self.real["write"](file, content)

    def ftruncate(self, file: int, length: int) -> None:
        if (inside := self.layer.inside(file)) is not None:
            if not self.layer.reach("truncate", inside):
                return
            self.layer.written(inside)
        self.real["ftruncate"](file, length)

    def fsync(self, file: Any) -> None:
        number = file if isinstance(file, int) else file.fileno()
        if (inside := self.layer.inside(number)) is None:
            self.real["fsync"](file)
        elif self.layer.reach("sync", inside):
            self.layer.synced(inside)  # and not truly, which takes long

    def replace(self, source: Any, path: Any) -> None:
        one, other = self.layer.inside(source), self.layer.inside(path)
        if one is not None and other is not None:
            if not self.layer.reach("replace", other):
                return
            self.layer.replaced(one, other)
        self.real["replace"](source, path)

    def unlink(self, path: Any, **kwargs: Any) -> None:
        self._removing("unlink", path, **kwargs)

    def rmdir(self, path: Any, **kwargs: Any) -> None:
        self._removing("rmdir", path, **kwargs)

    def _removing(self, name: str, path: Any, **kwargs: Any) -> None:
        inside = self.layer.inside(path, kwargs.get("dir_fd"))
        if inside is not None:
            if not self.layer.reach("unlink", inside):
                return
            self.layer.unlinked(inside)
        self.real[name](path, **kwargs)

    def mkdir(self, path: Any, *args: Any, **kwargs: Any) -> None:
        inside = self.layer.inside(path)
        if inside is not None and not self.layer.reach("mkdir", inside):
            return
        self.real["mkdir"](path, *args, **kwargs)
        if inside is not None:
            self.layer.created(inside, folder=True)

    def _reading(self, call: str, name: str, path: Any, *args: Any, **kwargs: Any) -> Any:
        if (inside := self.layer.inside(path)) is not None:
            self.layer.reach(call, inside)
        return self.real[name](path, *args, **kwargs)

    def stat(self, path: Any, **kwargs: Any) -> Any:
        return self._reading("stat", "stat", path, **kwargs)

    def listdir(self, path: Any = ".") -> Any:
        return self._reading("list", "listdir", path)

    def scandir(self, path: Any = ".") -> Any:
        return self._reading("list", "scandir", path)

    def statvfs(self, path: Any) -> Any:
        return self._reading("space", "statvfs", path)
