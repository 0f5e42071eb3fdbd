"""Real data: read from a folder of the user's, or downloaded and converted. The project ships none of it.

If the environment variable ``XPSAMPLE_DATA`` names a folder, nothing is downloaded. Else the sources are fetched from
public GitHub repositories at fixed commits, checked against the sizes and digests in `DATASETS`, and converted
(`xpsample.zoo.data_sources`); the arrays are checked against a known digest and kept in the user's cache.
"""

import hashlib
import io
import os
import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.errors import DataError, unended
from xpsample.files.archives import read_arrays, write_arrays
from xpsample.files.reading import reading
from xpsample.zoo.data_sources import CONVERTERS, Arrays, Converters, Fetch

VARIABLE = "XPSAMPLE_DATA"

MOST_BYTES = 2**28
"""What the arrays of a file may take, several times the largest one's."""


class SourceFile(NamedTuple):
    """Length in bytes, and SHA-256 digest."""

    size: int
    digest: str


class Dataset(NamedTuple):
    """What a file NAME.npz of the data folder holds: a line on it, where it comes from, and the arrays that are used.

    ``source`` is a public GitHub repository, a commit and paths in it, then what was done with them. ``digest`` is the
    SHA-256 of the arrays that a download must give (`arrays_digest`); empty if the data set cannot be downloaded.
    ``files`` are those of the repository that are downloaded, by path.
    """

    about: str
    source: str
    arrays: tuple[str, ...]
    digest: str
    files: Mapping[str, SourceFile]


def listed(path: Any) -> dict[str, Dataset]:
    """What a file such as ``xpsample/zoo/files/datasets.toml`` says."""
    return {
        name: Dataset(
            of["about"],
            of["source"],
            tuple(of["arrays"]),
            of.get("digest", ""),
            {path: SourceFile(*known) for path, known in of.get("files", {}).items()},
        )
        for name, of in tomllib.loads(path.read_text(encoding="utf-8")).items()
    }


DATASETS = listed(files("xpsample.zoo").joinpath("files/datasets.toml"))


def load_dataset(name: str) -> Arrays:
    """Read ``NAME.npz`` of the data folder or, if ``XPSAMPLE_DATA`` is not set, download it once and keep it.

    A download needs ``pip install "xpsample[data]"``. The converted arrays are kept as ``NAME.npz`` in
    ``pooch.os_cache("xpsample")`` if their digest is that of `DATASETS`. A file there with another digest is made anew.

    Parameters
    ----------
    name : str
        A key of `DATASETS`.

    Returns
    -------
    dict of str to numpy.ndarray
        All arrays of the file, among them those that `DATASETS` lists. A download gives these alone.

    Raises
    ------
    DataError
        If the name is not known. With ``XPSAMPLE_DATA``: if the file is missing, cannot be read or lacks an array.
        Without: if the data set cannot be downloaded, pooch or the network is missing, or a source has changed.
    """
    return loaded(name, DATASETS, CONVERTERS)


def loaded(name: str, known: Mapping[str, Dataset], converters: Converters) -> Arrays:
    """As `load_dataset`, of the data sets that are known."""
    if name not in known:
        raise DataError(f"no data set is called {name!r}; there are: {', '.join(known)}")
    dataset, folder = known[name], os.environ.get(VARIABLE)
    made_from = f"{name}.npz ({dataset.about}) is made from {dataset.source}; its arrays: {', '.join(dataset.arrays)}"
    if folder:
        path = Path(folder) / f"{name}.npz"
        if not path.is_file():
            raise DataError(f"there is no {path} ({VARIABLE} is {folder}). {made_from}")
        return _read(path, dataset)
    by_hand = f"set {VARIABLE} to a folder that holds {name}.npz. {made_from}"
    if name not in converters:
        raise DataError(f"the data set {name} is not shipped, and is not downloaded: {by_hand}")
    try:
        return _cached(name, dataset, converters[name])
    except DataError as error:
        raise DataError(f"the data set {name} could not be downloaded: {unended(error)}. Or {by_hand}") from error


def arrays_digest(arrays: Mapping[str, np.ndarray]) -> str:
    """The SHA-256 of arrays, 64 hexadecimal digits: of name, dtype, shape and bytes (row-major) of each, in order."""
    found = hashlib.sha256()
    for key, array in arrays.items():
        found.update(f"{key} {array.dtype.str} {array.shape} ".encode())
        found.update(array.tobytes())
    return found.hexdigest()


def _read(path: Path, dataset: Dataset) -> Arrays:
    with reading(path, DataError, f"it is damaged: {dataset.source} is what it is made from"):
        arrays = read_arrays(path, MOST_BYTES)
    missing = [key for key in dataset.arrays if key not in arrays]
    if missing:
        raise DataError(f"{path} lacks {', '.join(missing)}; it has {', '.join(sorted(arrays))}")
    return arrays


def _cached(name: str, dataset: Dataset, convert: Callable[[Fetch], Arrays]) -> Arrays:
    """Read the data set from the cache, or make it from its sources and keep it there."""
    folder = _cache_folder()
    path = folder / f"{name}.npz"
    if path.is_file():
        try:
            arrays = _read(path, dataset)
        except DataError:
            arrays = {}  # damaged: made anew
        if arrays_digest(arrays) == dataset.digest:
            return arrays
    repository = dataset.source.split(",")[0].replace("@", "/")
    try:
        made = convert(partial(_checked, dataset.files, f"https://raw.githubusercontent.com/{repository}"))
        arrays = {key: made[key] for key in dataset.arrays}
    except DataError:
        raise
    except Exception as error:  # a converter may fail in any way on a source that has changed
        raise DataError(f"{dataset.source} cannot be converted: {type(error).__name__}: {error}") from error
    digest = arrays_digest(arrays)
    if digest != dataset.digest:
        raise DataError(
            f"the arrays converted from {dataset.source} have the SHA-256 digest {digest} instead of {dataset.digest}, "
            "and were not kept"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_arrays(path, arrays)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error}") from error
    return arrays


def _cache_folder() -> Path:
    try:
        import pooch
    except ImportError as error:
        raise DataError('downloads need pooch: pip install "xpsample[data]"') from error
    return Path(pooch.os_cache("xpsample"))


def _checked(files: Mapping[str, SourceFile], address: str, file: str) -> bytes:
    """The bytes of a source file, which nothing parses before they are known to be the right ones."""
    expected, url = files[file], f"{address}/{file}"
    content = _fetch(url, expected.size)
    digest = hashlib.sha256(content).hexdigest()
    if digest != expected.digest:
        raise DataError(
            f"{url} has {len(content)} bytes with the SHA-256 digest {digest} instead of {expected.size} bytes with "
            f"{expected.digest}, and was not read"
        )
    return content


class _Limited(io.BytesIO):
    """Takes so many bytes and no more."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def write(self, content: Any) -> int:
        if self.tell() + len(content) > self.most:
            raise OSError(f"it is longer than {self.most} bytes")
        return super().write(content)


def _fetch(url: str, most: int) -> bytes:
    import pooch

    content = _Limited(most)
    try:
        pooch.HTTPDownloader(timeout=60)(url, content, None)
    except OSError as error:  # the errors of requests are such
        raise DataError(f"{url} cannot be fetched: {error}") from error
    return content.getvalue()
