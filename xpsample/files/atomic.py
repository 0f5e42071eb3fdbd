"""Write files whole or not at all, and keep other processes out of a folder."""

import os
import platform
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from glob import escape
from pathlib import Path
from uuid import uuid4

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

ABANDONED = 3600.0  # Seconds without a write after which a temporary file is taken for one that a killed process left


LEFT = ".*.tmp"
"""Pattern of the names of temporary files, which killed processes leave."""


@contextmanager
def replacing(path: Path, sync: bool = True) -> Iterator[Path]:
    """Yield a temporary file next to `path`, and rename it to `path` when complete and, if `sync`, on the disk."""
    for left in path.parent.glob(f".{escape(path.name)}.*.tmp"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > ABANDONED:
                left.unlink()
    temporary = path.with_name(f".{path.name}.{uuid4().hex[:12]}.tmp")
    try:
        yield temporary
        if sync:
            with open(temporary, "rb+") as file:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    if sync:
        sync_folder(path.parent)


def write_whole(path: Path, content: bytes, sync: bool = True) -> None:
    """Write a file whole or not at all."""
    with replacing(path, sync) as temporary:
        temporary.write_bytes(content)


def make_folder(path: Path, sync: bool = True) -> None:
    """Make a folder, with those above it, and put their names on the disk if `sync`."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()] if sync else []
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        sync_folder(folder.parent)


def sync_folder(path: Path) -> None:
    """Put the names in a folder on the disk, where the system can."""
    with suppress(OSError):
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextmanager
def exclusive(path: Path) -> Iterator[bool]:
    """Hold a lock file, which says who holds it. The system frees it when the process ends, in whatever way.

    A system that has no locks lets everybody in, and gives False. BlockingIOError, with the text of the file, if
    another process, or another run of this one, holds it.
    """
    file, alone = _locked(path)
    try:
        os.ftruncate(file, 0)
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        os.write(file, f"process {os.getpid()} on {platform.node()}, since {since}".encode())
        yield alone
    finally:
        with suppress(OSError):
            path.unlink()  # while it is locked, so that nobody else's is removed
        os.close(file)


def _locked(path: Path) -> tuple[int, bool]:
    while True:
        with ExitStack() as closing:
            file, alone = os.open(path, os.O_RDWR | os.O_CREAT, 0o666), False
            closing.callback(os.close, file)
            try:
                if fcntl is not None:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    alone = True
            except BlockingIOError:
                owner = os.read(file, 1000).decode(errors="replace")
                raise BlockingIOError(owner or "another process") from None
            except OSError:
                pass  # no locks here
            # Whoever held the lock until now has removed its file: then this one is no longer there.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file), os.stat(path)):
                    closing.pop_all()
                    return file, alone
