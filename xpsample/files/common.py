"""Common parts of everything that is kept on a disk: a schema number, digests, one error, a lock, and room."""

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from xpsample.core.errors import XpsampleError
from xpsample.files.atomic import exclusive, make_folder

# Version of all layouts. Raised when files of the new ones could be misread by the old reader.
SCHEMA = 3

CHANGED = "it is not as it was written"


def check_schema(path: Path | str, found: int, error: type[XpsampleError], otherwise: str) -> None:
    """Raise unless files have the schema of this version; `otherwise` says what to do but for using that version."""
    if found != SCHEMA:
        raise error(
            f"{path} has schema version {found} and this version of xpsample reads {SCHEMA}: use the version of "
            f"xpsample that wrote it, or {otherwise}"
        )


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """JSON values with the schema, and a digest of all."""
    content = {"schema": SCHEMA, **json.loads(json.dumps(content, default=str))}
    return content | {"digest": digest_of(content)}


def unsealed(
    path: Path | str, content: dict[str, Any], error: type[XpsampleError], otherwise: str, what: str = "it"
) -> dict[str, Any]:
    """Validate the result of `sealed`; the schema first, since another version may have another digest."""
    check_schema(path, content["schema"], error, otherwise)
    if content.pop("digest") != digest_of(content):
        raise ValueError(f"{what} is not as it was written")
    return content


def digest_of(content: Any) -> str:
    """A digest of JSON values."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """A digest of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def locked(path: Path, error: type[XpsampleError], lock: Path | None = None) -> Iterator[bool]:
    """Keep other runs from a file or a folder; False where the system has no locks.

    The folder of the lock file is created if missing. By default, that file is next to the protected one. The
    error given is raised if another process, or another run of this one, holds it; OSError if there can be no such
    file.
    """
    lock = path.with_name(f"{path.name}.lock") if lock is None else lock
    make_folder(lock.parent)
    with ExitStack() as stack:
        try:
            alone = stack.enter_context(exclusive(lock))
        except BlockingIOError as owner:
            raise error(f"{path} is in use by {owner}: wait until that run ends, or use another path") from None
        yield alone


def check_room(path: Path | str, needed: float, error: Callable[[str], XpsampleError]) -> None:
    """Raise where the disk of a folder has too little room for so many bytes."""
    free = math.inf
    with suppress(OSError):  # a system that does not tell
        free = shutil.disk_usage(path).free
    if needed > free:
        raise error(
            f"the run would write {needed / 1e9:.3g} GB to {path}, and {free / 1e9:.3g} GB are free there: free some, "
            "thin, record less, or use another path"
        )
