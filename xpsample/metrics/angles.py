"""Angles, whose mean and spread do not depend on where the circle is cut; host arrays (draw, chain, column)."""

import numpy as np


def circular_mean(angles: np.ndarray) -> np.ndarray:
    """The direction of the mean of the points of the unit circle, (column,): Mardia & Jupp (2000), Section 2.2."""
    return np.angle(np.mean(np.exp(1j * angles), axis=(0, 1)))


def circular_sd(angles: np.ndarray) -> np.ndarray:
    """``sqrt(-2 log R)``, (column,), with R the length of that mean: Mardia & Jupp (2000), Section 2.3.

    As the standard deviation where angles are close together, and without a bound for angles all around.
    """
    with np.errstate(divide="ignore"):
        return np.sqrt(-2 * np.log(np.minimum(1.0, np.abs(np.mean(np.exp(1j * angles), axis=(0, 1))))))


def centred(angles: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Differences from a mean, in [-pi, pi): the circle is cut on its other side."""
    return (angles - mean + np.pi) % (2 * np.pi) - np.pi
