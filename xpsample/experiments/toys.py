"""Point sets in the plane that generative models are tried on, from NumPy random numbers (Score-MH, Appendix D.1).

Moons, S-curve and Swiss roll follow scikit-learn's generators. The last two lie in three dimensions; the plane of the
curve is kept, the first and the third coordinate.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np


def moons(rows: int, rng: np.random.Generator, noise: float = 0.1) -> np.ndarray:
    """Two interleaving half circles, (rows, 2), the first half of the rows on the upper one."""
    outer = rows // 2
    angle = np.concatenate([np.linspace(0, math.pi, outer), np.linspace(0, math.pi, rows - outer)])
    upper = (np.arange(rows) < outer)[:, None]
    x = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    return np.where(upper, x, [1.0, 0.5] - x) + noise * rng.standard_normal((rows, 2))


def pinwheel(
    rows: int,
    rng: np.random.Generator,
    arms: int = 5,
    radial_sd: float = 0.5,
    tangential_sd: float = 0.05,
    rate: float = 0.25,
) -> np.ndarray:
    """Arms bent by `rate` radians per unit of radius, (rows, 2) (Score-MH, Algorithm 3).

    As there, the "tangential" noise is one number for each row, added to both coordinates. It moves points along the
    diagonal, so that arms differ in width. The radius N(1, radial_sd^2) may be negative.
    """
    arm = rng.integers(arms, size=rows)
    radius = 1.0 + radial_sd * rng.standard_normal(rows)
    shift = tangential_sd * rng.standard_normal(rows)
    angle = 2 * math.pi * arm / arms + rate * radius
    return np.stack([radius * np.cos(angle) + shift, radius * np.sin(angle) + shift], axis=-1)


def s_curve(rows: int, rng: np.random.Generator, noise: float = 0.1) -> np.ndarray:
    """Two arcs of unit radius that make an S, (rows, 2)."""
    t = 3 * math.pi * (rng.uniform(size=rows) - 0.5)
    height = 2.0 * rng.uniform(size=rows)
    x = np.stack([np.sin(t), height, np.sign(t) * (np.cos(t) - 1.0)])
    return _plane(x + noise * rng.standard_normal((3, rows)))


def swiss_roll(rows: int, rng: np.random.Generator, noise: float = 0.5) -> np.ndarray:
    """One and a half turns of a spiral, the radius from 1.5 pi to 4.5 pi, (rows, 2)."""
    t = 1.5 * math.pi * (1.0 + 2.0 * rng.uniform(size=rows))
    depth = 21.0 * rng.uniform(size=rows)
    x = np.stack([t * np.cos(t), depth, t * np.sin(t)])
    return _plane(x + noise * rng.standard_normal((3, rows)))


def _plane(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x[::2].T)


class Toy(NamedTuple):
    """A generator with the settings of Appendix D.1, and the standard deviation of its noise, in units of x."""

    generate: Callable[[int, np.random.Generator], np.ndarray]
    noise: float


TOYS: Mapping[str, Toy] = {
    "moons": Toy(moons, 0.1),
    "pinwheel": Toy(pinwheel, 0.05),
    "s-curve": Toy(s_curve, 0.1),
    "swiss-roll": Toy(swiss_roll, 0.5),
}
