"""Known moments of a target's named quantities."""

import csv
from importlib.resources import files
from typing import NamedTuple

import numpy as np


class KnownMoments(NamedTuple):
    """E y, E y^2 and Var y^2 of each quantity y, all of shape (dim,); nan where nothing is known.

    For a constrained model y is the constrained parameter and not the coordinate that is sampled.
    """

    mean: np.ndarray
    square: np.ndarray
    square_variance: np.ndarray

    @property
    def variance(self) -> np.ndarray:
        """Var y."""
        return self.square - self.mean**2


def normal_moments(mean: np.ndarray, variance: np.ndarray) -> KnownMoments:
    """The moments of normals, dependent or not: Var y^2 = 2 variance^2 + 4 mean^2 variance."""
    return KnownMoments(mean, mean**2 + variance, 2 * variance**2 + 4 * mean**2 * variance)


def long_run_moments(name: str) -> KnownMoments:
    """The rows NAME of ``xpsample/zoo/files/long_runs.csv``, whose head says how they were made.

    Means are within 0.01 standard deviations of y, mean squares within 0.01 standard deviations of y^2; variances of
    squares are within 5 %, of the widest local scales within 20 %.

    Parameters
    ----------
    name : str
        "brownian-motion", "german-credit" or "breast-cancer".
    """
    text = files("xpsample.zoo").joinpath("files/long_runs.csv").read_text(encoding="utf-8")
    rows = csv.reader(line for line in text.splitlines() if not line.startswith("#"))
    found = {row[1]: np.asarray(row[2:], dtype=np.float64) for row in rows if row[0] == name}
    return KnownMoments(found["mean"], found["square"], found["square variance"])
