"""Trees of arrays as npz archives, without pickle. Files that are damaged, or larger than they look, are refused."""

import hashlib
import math
import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from xpsample.files.atomic import replacing


class Member(NamedTuple):
    """An array of an archive whose numbers are not read yet."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    column_major: bool
    file: IO[bytes]

    def read(self) -> np.ndarray:
        """All of it."""
        out = np.empty(self.shape[::-1] if self.column_major else self.shape, self.dtype)
        self.read_into(out)
        return out.T if self.column_major else out

    def read_into(self, out: np.ndarray) -> None:
        """Fill an array that lies in one piece with the first numbers, without a copy of them."""
        view = out.reshape(-1).view(np.uint8).data
        while len(view):
            count = self.file.readinto(view[: 2**20])  # type: ignore[attr-defined]
            if not count:
                raise EOFError(f"{self.name} is cut short")
            view = view[count:]


def members(path: Path, most: int | None = None) -> Iterator[Member]:
    """The arrays of an archive, one after the other.

    Compressed contents may have `most` bytes. If not set, they must not be compressed, so they are no larger than the
    file.
    """
    with open(path, "rb") as raw, zipfile.ZipFile(raw) as archive:
        size = os.fstat(raw.fileno()).st_size if most is None else most
        if sum(info.file_size for info in archive.infolist()) > size:
            raise ValueError(f"its contents would exceed {size} bytes")
        for info in archive.infolist():
            if most is None and info.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{info.filename} is compressed")
            with archive.open(info) as file:
                version = np.lib.format.read_magic(file)
                read_header = {
                    (1, 0): np.lib.format.read_array_header_1_0,
                    (2, 0): np.lib.format.read_array_header_2_0,
                }[version]
                shape, column_major, dtype = read_header(file)
                if dtype.hasobject:
                    raise ValueError(f"{info.filename} holds Python objects")
                if math.prod(shape) * dtype.itemsize != info.file_size - file.tell():
                    raise ValueError(f"{info.filename} is not as long as its shape says")
                yield Member(info.filename.removesuffix(".npy"), shape, dtype, column_major, file)


def read_arrays(path: Path, most: int | None = None) -> dict[str, np.ndarray]:
    """All arrays of an archive, by name."""
    return {member.name: member.read() for member in members(path, most)}


class _Digested:
    """A file that is only written to, with a digest of its content."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.digest = file, hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> str:
    """Write an archive, whole or not at all. The digest of the file, which is not read again for it."""
    with replacing(path) as temporary, open(temporary, "wb") as file:
        out: Any = _Digested(file)
        with zipfile.ZipFile(out, "w") as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
    return out.digest.hexdigest()
