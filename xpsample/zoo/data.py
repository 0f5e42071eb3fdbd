"""Real data: read from a folder of the user's, or downloaded and converted. The project ships none of it.

If the environment variable ``XPSAMPLE_DATA`` names a folder, nothing is downloaded. Otherwise pooch fetches the sources
from public GitHub repositories at fixed commits, checks their digests and keeps them in the user's cache. They are
converted to arrays, whose digest is checked too.

A converter takes ``fetch``, which gives the bytes of a path in the data set's repository at its commit, and returns the
arrays that its `Dataset` lists. Converters check nothing.
"""

import hashlib
import io
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.errors import DataError, reading, unended
from xpsample.files.archives import read_arrays

VARIABLE = "XPSAMPLE_DATA"

Arrays = dict[str, np.ndarray]
Fetch = Callable[[str], bytes]
Converters = Mapping[str, Callable[[Fetch], Arrays]]


class Dataset(NamedTuple):
    """Description of a file NAME.npz of the data folder: a line on it, its source, and the arrays that are used.

    ``source`` is a public GitHub repository, a commit and paths in it, then what was done with them. ``digest`` is the
    SHA-256 of the arrays that a download must give (`arrays_digest`); empty if the data set cannot be downloaded.
    ``files`` are the downloaded files of the repository: their SHA-256 by path.
    """

    about: str
    source: str
    arrays: tuple[str, ...]
    digest: str
    files: Mapping[str, str]


def listed(path: Any) -> dict[str, Dataset]:
    """Data sets of a file such as ``xpsample/zoo/files/datasets.toml``."""
    return {
        name: Dataset(
            of["about"],
            of["source"],
            tuple(of["arrays"]),
            of.get("digest", ""),
            of.get("files", {}),
        )
        for name, of in tomllib.loads(path.read_text(encoding="utf-8")).items()
    }


DATASETS = listed(files("xpsample.zoo").joinpath("files/datasets.toml"))


def load_dataset(name: str) -> Arrays:
    """Read ``NAME.npz`` of the data folder or, if ``XPSAMPLE_DATA`` is not set, convert it from its sources.

    A download needs ``pip install "xpsample[data]"``. The sources are kept in ``pooch.os_cache("xpsample")``. A file
    there whose digest differs from `DATASETS` is downloaded again.

    Parameters
    ----------
    name : str
        A key of `DATASETS`.

    Returns
    -------
    dict of str to numpy.ndarray
        All arrays of the file, including the arrays that `DATASETS` lists. A download has only these.

    Raises
    ------
    DataError
        If the name is not known. With ``XPSAMPLE_DATA``: if the file is missing, cannot be read or lacks an array.
        Without: if the data set cannot be downloaded, pooch or the network is missing, or a source has changed.
    """
    return loaded(name, DATASETS, CONVERTERS)


def loaded(name: str, known: Mapping[str, Dataset], converters: Converters) -> Arrays:
    """Load as `load_dataset`, from the `known` data sets."""
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
        return _converted(dataset, converters[name])
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
        arrays = read_arrays(path, 2**28)  # bytes, several times what the largest data set takes
    missing = [key for key in dataset.arrays if key not in arrays]
    if missing:
        raise DataError(f"{path} lacks {', '.join(missing)}; it has {', '.join(sorted(arrays))}")
    return arrays


def _converted(dataset: Dataset, convert: Callable[[Fetch], Arrays]) -> Arrays:
    repository = dataset.source.split(",")[0].replace("@", "/")
    try:
        made = convert(
            lambda file: _fetch(f"https://raw.githubusercontent.com/{repository}/{file}", dataset.files[file])
        )
        arrays = {key: made[key] for key in dataset.arrays}
    except DataError:
        raise
    except Exception as error:  # a converter may fail in any way on a source that has changed
        raise DataError(f"{dataset.source} cannot be converted: {type(error).__name__}: {error}") from error
    digest = arrays_digest(arrays)
    if digest != dataset.digest:
        raise DataError(
            f"the arrays converted from {dataset.source} have the SHA-256 digest {digest} instead of {dataset.digest}"
        )
    return arrays


def _fetch(url: str, digest: str) -> bytes:
    """The bytes of a source file, which nothing parses unless they have this SHA-256 digest."""
    try:
        import pooch
    except ImportError as error:
        raise DataError('downloads need pooch: pip install "xpsample[data]"') from error
    try:
        path = pooch.retrieve(
            url, f"sha256:{digest}", path=pooch.os_cache("xpsample"), downloader=pooch.HTTPDownloader(timeout=60)
        )
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:  # of the network, the disk, or another digest
        raise DataError(f"{url} cannot be fetched: {error}") from error


def read_table(content: bytes, delimiter: str | None = None) -> np.ndarray:
    """The numbers of a text table, (rows, columns)."""
    return np.loadtxt(io.BytesIO(content), delimiter=delimiter, ndmin=2)


def _python_arrays(content: bytes) -> Arrays:
    """The arrays of a Python file that has ``NAME = np.array([number, ...])`` and nothing else of use, in float64."""
    found = re.findall(r"^(\w+) = np\.array\(\[([^\]]*)\]\)", content.decode(), re.MULTILINE)
    numbers = {name: re.findall(r"[^\s,]+", listed) for name, listed in found}
    return {
        name: np.array([float(number.removeprefix("np.")) for number in listed]) for name, listed in numbers.items()
    }


_GYM = "spinoffs/inference_gym/inference_gym"


def _brownian_motion(fetch: Fetch) -> Arrays:
    found = _python_arrays(fetch(f"{_GYM}/internal/datasets/brownian_motion_missing_middle_observations.py"))
    return {"observed": found["OBSERVED_LOC"]}


def _item_response(fetch: Fetch) -> Arrays:
    answers = _python_arrays(fetch(f"{_GYM}/internal/datasets/synthetic_item_response_theory.py"))
    known = _python_arrays(fetch(f"{_GYM}/targets/ground_truth/synthetic_item_response_theory.py"))
    arrays: Arrays = {
        "student": answers["STUDENT_IDS"].astype(np.int16),
        "question": answers["QUESTION_IDS"].astype(np.int16),
        "correct": answers["CORRECT"].astype(np.int8),
    }
    for name in ("mean_student_ability", "centered_student_ability", "question_difficulty"):
        for short, long in (("mean", "MEAN"), ("sd", "STANDARD_DEVIATION")):
            arrays[f"{name}_{short}"] = known[f"IDENTITY_{name.upper()}_{long}"]
    return arrays


def _german_credit(fetch: Fetch) -> Arrays:
    table = read_table(fetch("german.data-numeric").replace(b",", b" "))
    return {"features": table[:, :-1], "bad": (table[:, -1] == 2).astype(np.int8)}


def _stochastic_volatility(fetch: Fetch) -> Arrays:
    folder = "sampler-evaluation/sampler_evaluation/models/data"
    returns, moments = (
        np.load(io.BytesIO(fetch(f"{folder}/{name}.npy")), allow_pickle=False)
        for name in ("SP500", "stoch_vol_moments")
    )
    return {"returns": returns, "square_mean": moments[0], "square_variance": moments[1]}


CONVERTERS: Converters = {
    "targets/brownian_motion": _brownian_motion,
    "targets/german_credit": _german_credit,
    "targets/item_response": _item_response,
    "targets/stochastic_volatility": _stochastic_volatility,
}
