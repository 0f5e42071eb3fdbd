"""The data sets of sosmc-ebm2d, its reward, and what a family of densities on a square is by quadrature."""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.experiments.toys import moons

EDGE = 6.0
"""The square Omega is [-EDGE, EDGE]^2 (Eq. 34)."""
CENTRES = np.array([[-(3.0**0.5), -1.0], [3.0**0.5, -1.0], [0.0, 2.0]])
"""Centers of the blobs; the paper's centers are not known."""


def circles(rows: int, rng: np.random.Generator, noise: float = 0.02, factor: float = 0.8) -> np.ndarray:
    """Two circles about the origin of radii 1 and `factor`, (rows, 2), the first half of the rows on the outer one."""
    outer = rows // 2
    parts = [np.arange(n) * (2 * math.pi / n) for n in (outer, rows - outer)]
    angle, radius = np.concatenate(parts), np.where(np.arange(rows) < outer, 1.0, factor)
    return radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1) + noise * rng.standard_normal((rows, 2))


def blobs(rows: int, rng: np.random.Generator, sd: float = 0.5) -> np.ndarray:
    """Normal draws around the `CENTRES` in turn, (rows, 2)."""
    return CENTRES[np.arange(rows) % len(CENTRES)] + sd * rng.standard_normal((rows, 2))


class PlanarDataset(NamedTuple):
    """A generator, the scale of the standardized data, and how much of the full training the paper gives it."""

    generate: Callable[[int, np.random.Generator], np.ndarray]
    scale: float
    share: float = 1.0

    def draw(self, rows: int, seed: int) -> np.ndarray:
        """Rows with mean 0 and the standard deviation `scale` in each coordinate (App. E.2.1)."""
        x = self.generate(rows, np.random.default_rng(seed))
        return self.scale * (x - np.mean(x, axis=0)) / np.std(x, axis=0)


DATASETS: Mapping[str, PlanarDataset] = {
    "moons": PlanarDataset(lambda rows, rng: moons(rows, rng, 0.08), 2.2),
    "circles": PlanarDataset(circles, 2.5),
    "blobs": PlanarDataset(blobs, 2.0, 0.4),
}


def lower(x: Array) -> Array:
    """R_lower, 1 where the second coordinate is below 0 (Eq. 36); (..., 2) to (...)."""
    return array_namespace(x).astype(x[..., 1] < 0.0, x.dtype)


def upper(x: Array) -> Array:
    """R_upper, 1 where the second coordinate is above 0."""
    return array_namespace(x).astype(x[..., 1] > 0.0, x.dtype)


def left(x: Array) -> Array:
    """R_left, 1 where the first coordinate is below 0."""
    return array_namespace(x).astype(x[..., 0] < 0.0, x.dtype)


def right(x: Array) -> Array:
    """R_right, 1 where the first coordinate is above 0."""
    return array_namespace(x).astype(x[..., 0] > 0.0, x.dtype)


REWARDS = {"lower": lower, "upper": upper, "left": left, "right": right}
"""The half-planes of Eq. 36."""


class Grid(NamedTuple):
    """Midpoints of a grid of the square, (points, 2), and the side of its cells. No midpoint has a coordinate 0."""

    points: np.ndarray
    side: float

    @classmethod
    def of(cls, cells: int) -> "Grid":
        """With an even number of cells along each side."""
        side = 2 * EDGE / cells
        line = (np.arange(cells) + 0.5) * side - EDGE
        return cls(np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2), side)

    def normalised(self, values: np.ndarray) -> np.ndarray:
        """Log probabilities of the cells, (..., points), from log densities up to a constant."""
        values = values - np.max(values, axis=-1, keepdims=True)
        return values - np.log(np.sum(np.exp(values), axis=-1, keepdims=True))

    def draw(self, logs: np.ndarray, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Draws (*shape, 2): cells by their log probabilities (points,), uniform within the cell."""
        cell = rng.choice(len(logs), shape, p=np.exp(logs))
        return self.points[cell] + self.side * (rng.random((*shape, 2)) - 0.5)


class Optimum(NamedTuple):
    """Reward (Eq. 39), KL divergence from pi_0 and loss (Eq. 35) of the best of all distributions."""

    reward: float
    kl: float
    loss: float


def optimum(mass: float, beta: float) -> Optimum:
    """For the reward of a half-plane that has a mass under pi_0."""
    total = mass * math.exp(1 / beta) + 1 - mass
    reward, loss = mass * math.exp(1 / beta) / total, -beta * math.log(total)
    return Optimum(reward, (loss + reward) / beta, loss)
