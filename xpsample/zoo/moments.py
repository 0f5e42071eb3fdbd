"""What is known of a target: the moments of the quantities that its model names."""

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
