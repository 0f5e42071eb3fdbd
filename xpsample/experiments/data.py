"""The data sets of the experiments: where they come from, and how their files become arrays."""

import csv
import io
import re
import zipfile
from collections.abc import Iterable
from functools import partial
from importlib import resources

import numpy as np

from xpsample.core.errors import DataError
from xpsample.zoo import data
from xpsample.zoo.data import Arrays, Converters, Fetch, read_table

# UCI's names of the mushroom's attributes, in the order of its columns.
_MUSHROOM = """
cap-shape cap-surface cap-color bruises odor gill-attachment gill-spacing gill-size gill-color
stalk-shape stalk-root stalk-surface-above-ring stalk-surface-below-ring stalk-color-above-ring stalk-color-below-ring
veil-type veil-color ring-number ring-type spore-print-color population habitat"""
_AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
_COUNTS = ("priors_count", "juv_fel_count", "juv_misd_count", "juv_other_count", "age")
_RACES = ("African-American", "Hispanic", "Asian", "Caucasian", "Native American", "Other")
_SEXES = ("Male", "Female")
_CIFAR = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def _numbers(words: Iterable[str], order: str | tuple[str, ...]) -> np.ndarray:
    """The index of each word in ``order``."""
    return np.array([order.index(word) for word in words], dtype=np.uint8)


def _twenty_splits(rows: int) -> Arrays:
    """The 90/10 splits of the UCI benchmark, drawn as Hernandez-Lobato and Adams (2015) drew them."""
    # The legacy generators of NumPy never change their stream, so these are the same splits.
    draw, train = np.random.RandomState(1), round(0.9 * rows)
    orders = np.array([draw.choice(rows, rows, replace=False) for _ in range(20)], dtype=np.uint16)
    return {"train_index": orders[:, :train], "test_index": orders[:, train:]}


def _one_split(rows: int) -> Arrays:
    """Split as scikit-learn's ``train_test_split(test_size=0.2, random_state=42)`` does."""
    order, test = np.random.RandomState(42).permutation(rows).astype(np.uint16), -(-rows // 5)
    return {"train_index": order[test:], "test_index": order[:test]}


def _uci(fetch: Fetch, folder: str) -> Arrays:
    folder = f"UCI_Datasets/{folder}/data"
    table = read_table(fetch(f"{folder}/data.txt"))
    features = read_table(fetch(f"{folder}/index_features.txt")).astype(int).ravel()
    target = int(read_table(fetch(f"{folder}/index_target.txt"))[0, 0])
    return {"X": table[:, features], "y": table[:, target], **_twenty_splits(len(table))}


def _white_wine(fetch: Fetch) -> Arrays:
    table = read_table(fetch("winequality-white.csv"), ",")
    return {"X": table[:, :-1], "y": table[:, -1], **_twenty_splits(len(table))}


def _mushroom(fetch: Fetch) -> Arrays:
    rows = [line.split(",") for line in fetch("bandits/data/mushroom.data").decode().split()]
    poisonous, *columns = zip(*rows, strict=True)
    letters = ["".join(sorted(set(column))) for column in columns]
    codes = [_numbers(column, order) for column, order in zip(columns, letters, strict=True)]
    return {
        "codes": np.stack(codes, axis=1),
        "y": _numbers(poisonous, "ep"),
        "categories": np.array(letters),
        "attribute_names": np.array(_MUSHROOM.split()),
    }


def _cities(fetch: Fetch) -> Arrays:
    lines = fetch("data/eil51.tsp").decode().split("NODE_COORD_SECTION")[1].split("EOF")[0]
    cities = np.array(lines.split(), dtype=np.int16).reshape(-1, 3)[:, 1:]
    return {f"eil{n}": cities[:n] for n in (51, 10, 14, 16, 20)}


def _octamers(fetch: Fetch) -> Arrays:
    rows = [line.split(",") for line in fetch("BinaryBNN/data/1625.txt").decode().split()]
    codes = np.stack([_numbers(octamer, _AMINO_ACIDS) for octamer, _ in rows])
    cleaved = np.array([int(label) > 0 for _, label in rows], dtype=np.uint8)
    return {"codes": codes, "y": cleaved, **_one_split(len(rows))}


def _compas(fetch: Fetch) -> Arrays:
    lines = csv.reader(io.StringIO(fetch("compas-scores-two-years.csv").decode(), newline=""))
    names = next(lines)
    # The column priors_count occurs twice, with the same numbers: the first is read.
    column = {name: names.index(name) for name in names}

    def kept(row: list[str]) -> bool:
        days = row[column["days_b_screening_arrest"]]
        return (
            days not in ("", "NA")
            and abs(float(days)) <= 30
            and row[column["is_recid"]] != "-1"
            and row[column["c_charge_degree"]] != "O"
            and row[column["score_text"]] not in ("", "N/A")
        )

    rows = [row for row in lines if row and kept(row)]
    order, train = np.arange(len(rows), dtype=np.uint16), int(0.8 * len(rows))
    np.random.RandomState(78712).shuffle(order)
    return {
        "numeric": np.array([[int(row[column[name]]) for name in _COUNTS] for row in rows], dtype=np.uint8),
        "race": _numbers((row[column["race"]] for row in rows), _RACES),
        "sex": _numbers((row[column["sex"]] for row in rows), _SEXES),
        "y": np.array([int(row[column["two_year_recid"]]) for row in rows], dtype=np.uint8),
        "train_index": order[:train],
        "test_index": order[train:],
    }


def _blog_feedback(fetch: Fetch) -> Arrays:
    with zipfile.ZipFile(io.BytesIO(fetch("data/BlogFeedback.zip"))) as archive:

        def joined(part: str) -> np.ndarray:
            pattern = re.compile(rf"(?:^|/)blogData_{part}[^/]*\.csv$")
            names = sorted(name for name in archive.namelist() if pattern.search(name))
            return np.concatenate([read_table(archive.read(name), ",") for name in names])

        train, test = joined("train"), joined("test")
    draw = np.random.RandomState(20240101)
    train_rows, test_rows = (
        np.sort(draw.choice(len(table), kept, replace=False)) for table, kept in ((train, 5000), (test, 1500))
    )
    return {
        "X_train": train[train_rows, :-1].astype(np.float32),
        "y_train": train[train_rows, -1].astype(np.int16),
        "X_test": test[test_rows, :-1].astype(np.float32),
        "y_test": test[test_rows, -1].astype(np.int16),
        "full_min": np.minimum(train.min(axis=0), test.min(axis=0))[:-1].astype(np.float32),
        "full_max": np.maximum(train.max(axis=0), test.max(axis=0))[:-1].astype(np.float32),
    }


def _pixels(content: bytes) -> np.ndarray:
    """A PNG with one image in each of its rows, as (images, pixels, 3)."""
    try:
        from PIL import Image
    except ImportError as error:
        raise DataError('reading images needs pillow: pip install "xpsample[data]"') from error
    with Image.open(io.BytesIO(content)) as image:
        return np.asarray(image.convert("RGB"))


def _labels(content: bytes) -> np.ndarray:
    """The numbers of ``var labels=[5, 0, ...]``."""
    return np.array(re.findall(r"\d+", content.decode().split("[")[1].split("]")[0]), dtype=np.uint8)


def _first_of_each(labels: np.ndarray, count: int) -> np.ndarray:
    """The rows of the first ``count`` labels of each of 10 classes, in order."""
    return np.sort(np.concatenate([np.flatnonzero(labels == label)[:count] for label in range(10)]))


def _mnist(fetch: Fetch) -> Arrays:
    # Each file has 3,000 digits. Files 0 to 19 are the training set, of which 0 to 3 suffice; 20 begins the test set.
    labels, arrays = _labels(fetch("demo/mnist/mnist_labels.js")), {}
    for part, first, files, count in (("train", 0, range(4), 1000), ("test", 60_000, range(20, 21), 200)):
        grey = np.concatenate([_pixels(fetch(f"demo/mnist/mnist_batch_{file}.png"))[..., 0] for file in files])
        its_labels = labels[first : first + len(grey)]
        rows = _first_of_each(its_labels, count)
        arrays[f"{part}_images"] = grey[rows].reshape(-1, 28, 28)
        arrays[f"{part}_labels"] = its_labels[rows]
    return arrays


def _cifar(fetch: Fetch) -> Arrays:
    colours = np.concatenate([_pixels(fetch(f"demo/cifar10/cifar10_batch_{file}.png")) for file in range(2)])
    labels = _labels(fetch("demo/cifar10/cifar10_labels.js"))[: len(colours)]
    rows = _first_of_each(labels, 100)
    return {"images": colours[rows].reshape(-1, 32, 32, 3), "labels": labels[rows], "class_names": np.array(_CIFAR)}


def _breast_cancer_split(fetch: Fetch) -> Arrays:
    """The split alone: the 569 rows come with scikit-learn."""
    return _one_split(569)


CONVERTERS: Converters = {
    **data.CONVERTERS,
    "blogfeedback": _blog_feedback,
    "breast_cancer_split": _breast_cancer_split,
    "cifar10_1000": _cifar,
    "compas": _compas,
    "hiv1_1625": _octamers,
    "mnist_small": _mnist,
    "tsp_eil": _cities,
    "uci_boston": partial(_uci, folder="bostonHousing"),
    "uci_concrete": partial(_uci, folder="concrete"),
    "uci_energy": partial(_uci, folder="energy"),
    "uci_mushroom": _mushroom,
    "uci_naval": partial(_uci, folder="naval-propulsion-plant"),
    "uci_wine_red": partial(_uci, folder="wine-quality-red"),
    "uci_wine_white": _white_wine,
    "uci_yacht": partial(_uci, folder="yacht"),
}

DATASETS = data.DATASETS | data.listed(resources.files("xpsample.experiments").joinpath("datasets.toml"))
"""All data sets that can be loaded, including `xpsample.zoo.data`."""


def load_dataset(name: str) -> Arrays:
    """Version of `xpsample.zoo.data.load_dataset` that includes the data sets of the experiments."""
    return data.loaded(name, DATASETS, CONVERTERS)
