"""Logistic regression on the Wisconsin breast-cancer data, which come with the package."""

import csv
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from xpsample.targets.target import Target
from xpsample.zoo.logistic import logistic_regression
from xpsample.zoo.moments import KnownMoments, long_run_moments

SPLIT_SEED = 569
HELD_OUT = 0.2


class BreastCancer(NamedTuple):
    """Wisconsin Diagnostic Breast Cancer data, split into training and held-out rows.

    ``train_features`` and ``test_features`` have shape (rows, 31): a column of ones, then the 30 measurements,
    standardised by mean and standard deviation of the training rows. Labels are 1 for malignant, 0 for benign.
    ``names`` names the 31 coefficients.
    """

    train_features: np.ndarray
    train_labels: np.ndarray
    test_features: np.ndarray
    test_labels: np.ndarray
    names: tuple[str, ...]


def load_breast_cancer() -> BreastCancer:
    """Read the data that come with the package: 569 rows, of which a fixed random fifth (114) is held out.

    Source and licence are in the head of ``xpsample/zoo/files/wdbc.csv`` (Wolberg, Street and Mangasarian,
    doi:10.24432/C5DW2B, CC BY 4.0).
    """
    measured, labels, header = measurements()
    order = np.random.Generator(np.random.PCG64(SPLIT_SEED)).permutation(len(labels))
    cut = round(HELD_OUT * len(labels))
    test, train = np.sort(order[:cut]), np.sort(order[cut:])
    mean, sd = measured[train].mean(axis=0), measured[train].std(axis=0)
    features = np.concatenate([np.ones((len(labels), 1)), (measured - mean) / sd], axis=1)
    names = ("intercept", *header)
    return BreastCancer(features[train], labels[train], features[test], labels[test], names)


def measurements() -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """All 569 rows in the order of the source: the 30 measurements, labels (1 for malignant), names of the columns."""
    text = files("xpsample.zoo").joinpath("files/wdbc.csv").read_text(encoding="utf-8")
    header, *rows = csv.reader(line for line in text.splitlines() if not line.startswith("#"))
    table = np.asarray(rows, dtype=np.float64)
    return table[:, 1:], table[:, 0].astype(np.int64), tuple(name.replace("_", " ") for name in header[1:])


def breast_cancer() -> Target:
    """The posterior of the 31 coefficients given the training rows, under standard normal priors."""
    data = load_breast_cancer()
    return logistic_regression(data.train_features, data.train_labels)


def breast_cancer_moments() -> KnownMoments:
    """Of the coefficients of `breast_cancer` from a long run."""
    return long_run_moments("breast-cancer")
