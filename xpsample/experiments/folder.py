"""The folder of an experiment's files, and the list in it of the files that the experiment made."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, final

from xpsample.core.errors import XpsampleError
from xpsample.files.atomic import write_whole
from xpsample.files.common import file_digest

LIST = "made-by-xpsample.json"
"""Name of the list: the experiment's name, and the SHA-256 of every file (null as long as a run may change it)."""


@final
class OwnFolder:
    """A folder in which all files are of one experiment, made if it is not there; hidden ones do not count.

    XpsampleError if it cannot be written to, or if it holds a file that this experiment did not make or that was
    changed since. Such a file might be overwritten.
    """

    def __init__(self, path: Path, experiment: str) -> None:
        self.path: Path = path
        self.experiment: str = experiment
        with clear_errors(path):
            path.mkdir(parents=True, exist_ok=True)
            made = self._made()
            strange = list(islice((name for name in self._names() if not self._is_own(name, made)), 4))
            if strange:
                shown = ", ".join(strange[:3]) + (", ..." if len(strange) > 3 else "")
                raise XpsampleError(
                    f"{path} holds files that {experiment} did not make, or that were changed since: {shown}. Nothing "
                    "was written. Use another --out, or move the files."
                )
            self._write(dict.fromkeys(made))

    def file(self, name: str) -> Path:
        """The path of a file that is to be written, put down as made by the experiment before it is there."""
        if name not in self._known:
            with clear_errors(self.path):
                self._write(dict.fromkeys([*self._known, name]))
        return self.path / name

    def close(self) -> None:
        """Put down what is in the folder as made by the experiment, with digests."""
        with clear_errors(self.path):
            self._write({name: file_digest(self.path / name) for name in self._names()})

    def _write(self, made: Mapping[str, Any]) -> None:
        self._known = set(made)
        files = {name: digest for name, digest in made.items() if name != LIST}
        text = json.dumps({"experiment": self.experiment, "files": files}, indent=1)
        write_whole(self.path / LIST, (text + "\n").encode())

    def _made(self) -> dict[str, Any]:
        """Entries of the list for each file; empty if the list belongs to another experiment, or is not ours."""
        try:
            found = json.loads((self.path / LIST).read_text(encoding="utf-8"))
            return {LIST: None} | found["files"] if found["experiment"] == self.experiment else {}
        except (FileNotFoundError, ValueError, LookupError, TypeError):
            return {}

    def _names(self) -> Iterator[str]:
        for path in self.path.rglob("*"):
            name = path.relative_to(self.path)
            hidden = any(part.startswith(".") for part in name.parts)
            if not hidden and (path.is_symlink() or not path.is_dir()):
                yield name.as_posix()

    def _is_own(self, name: str, made: Mapping[str, Any]) -> bool:
        path = self.path / name
        return name in made and not path.is_symlink() and made[name] in (None, file_digest(path))


@contextmanager
def clear_errors(path: Path) -> Iterator[None]:
    """Raise a single XpsampleError for a folder that cannot be written to."""
    try:
        yield
    except OSError as error:
        raise XpsampleError(
            f"cannot write to {path}: {error.strerror}; --out names the folder where the files go"
        ) from error
