"""The problems of sosmc-langevin: mixtures with learnable weights, rewards, and what rewards can be reached.

Settings that the paper does not state are taken from its authors' public notebooks.
"""

import math
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.specs import Normal, Uniform
from xpsample.particles.batches import DrawnBatches
from xpsample.targets import Parametric

FLOOR = 1e-9
"""Floor of the density, in the authors' code; the paper's Eq. 26 has none."""
DUAL = np.array([[3.0, 0.0], [-3.0, 0.0]])
HEXAGON = 4.0 * np.stack([np.cos(np.arange(6) * math.pi / 3), np.sin(np.arange(6) * math.pi / 3)], axis=-1)
SPARSE = np.array([1.5, -1.5] * 3)


@dataclass(frozen=True)
class Reward:
    """``gate(x1) exp(-|x - center|^2 / 20) / scale``, gate a step at 0 or a sigmoid of width 0.5 (Eq. 30)."""

    centre: tuple[float, float]
    scale: float
    smooth: bool

    def __call__(self, x: Array) -> Array:
        """Rewards of positions, (..., 2) to (...)."""
        xp = array_namespace(x)
        first, second = x[..., 0], x[..., 1]
        squared = (first - self.centre[0]) ** 2 + (second - self.centre[1]) ** 2
        gate = 1.0 / (1.0 + xp.exp(-2.0 * first)) if self.smooth else xp.astype(first >= 0.0, x.dtype)
        return gate * xp.exp(-squared / 20.0) / self.scale


@dataclass(frozen=True)
class MultiReward:
    """``max_j exp(-|x - c_j|^2 / width)``, with several places that are rewarded (Eq. 31)."""

    centres: tuple[tuple[float, float], ...]
    width: float

    def __call__(self, x: Array) -> Array:
        """Rewards of positions, (..., 2) to (...)."""
        xp = array_namespace(x)
        squared = [(x[..., 0] - a) ** 2 + (x[..., 1] - b) ** 2 for a, b in self.centres]
        return xp.exp(-reduce(xp.minimum, squared) / self.width)


@dataclass(frozen=True, eq=False)
class Problem:
    """A column of Tables 1 and 2: means (components, 2), their variance, theta at the start, and KL strength."""

    name: str
    means: np.ndarray
    variance: float
    start: np.ndarray
    reward: Reward | MultiReward
    beta: float

    @cached_property
    def component_rewards(self) -> np.ndarray:
        """Expected reward of each component, (components,), by quadrature."""
        points, h = np.linspace(-8.0, 8.0, 1601, retstep=True)
        # Half a cell aside, so that no point lies on the step of the hard rewards.
        nodes = points[:-1] + 0.5 * h
        weights = np.exp(-0.5 * nodes**2)
        weights = weights[:, None] * weights / np.sum(weights) ** 2
        grid = math.sqrt(self.variance) * np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1)
        return np.stack([np.sum(weights * self.reward(mean + grid)) for mean in self.means])

    def expected_reward(self, theta: np.ndarray) -> np.ndarray:
        """Expected reward of the mixture (without the floor) at parameters (..., components), (...)."""
        return softmax(theta) @ self.component_rewards


PROBLEMS = (
    Problem("V_dual R_smooth", DUAL, 0.5, np.zeros(2), Reward((4.0, 3.8), 0.7, True), 0.1),
    Problem("V_dual R_hard", DUAL, 0.5, np.zeros(2), Reward((10.0, 3.8), 2.5, False), 0.001),
    Problem("V_sparse R_hard", HEXAGON, 1.0, SPARSE, Reward((10.0, 3.8), 2.5, False), 0.001),
    Problem("V_tight R_tight", HEXAGON, 0.01, np.zeros(6), Reward((4.0, 0.0), 2.5, False), 0.1),
)


def softmax(theta: np.ndarray) -> np.ndarray:
    """Weights of the components, over the last axis."""
    shares = np.exp(theta - np.max(theta, axis=-1, keepdims=True))
    return shares / np.sum(shares, axis=-1, keepdims=True)


def family(problem: Problem, floor: float, runs: int) -> Parametric:
    """``log(sum_i softmax(theta)_i exp(-|x - mu_i|^2 / (2 variance)) + floor)`` for a batch of runs (Eq. 26).

    The parameters are an array (runs, 1, components). Component by component: compilers handle few large arrays better
    than one with short last axes.
    """
    means, variance = problem.means.tolist(), problem.variance

    def parts(x: Array, theta: Array) -> tuple[list[Array], Array]:
        """Logs of the terms of the sum, each (runs, particles), and of the sum."""
        xp = array_namespace(x)
        share = theta - xp.max(theta, axis=-1, keepdims=True)
        share = share - xp.log(xp.sum(xp.exp(share), axis=-1, keepdims=True))
        first, second = x[..., 0], x[..., 1]
        logs = [
            share[..., i] - 0.5 / variance * ((first - a) ** 2 + (second - b) ** 2) for i, (a, b) in enumerate(means)
        ]
        terms = [*logs, xp.full_like(first, math.log(floor))] if floor else logs
        top = reduce(xp.maximum, terms)
        return logs, top + xp.log(sum(xp.exp(term - top) for term in terms))

    def log_density(x: Array, theta: Array) -> Array:
        return parts(x, theta)[1]

    def score(x: Array, theta: Array) -> Array:
        xp = array_namespace(x)
        logs, total = parts(x, theta)
        shares = [xp.exp(term - total) for term in logs]
        pulls = [sum(s * (m[k] - x[..., k]) for s, m in zip(shares, means, strict=True)) for k in (0, 1)]
        return xp.stack(pulls, axis=-1) / variance

    start = np.broadcast_to(problem.start, (runs, 1, len(problem.start)))
    return Parametric(log_density, np.array(start), score=score)


def reference(problem: Problem, size: int) -> DrawnBatches:
    """Fresh batches of the mixture at its start (Eq. 29)."""
    edges = [0.0, *np.cumsum(softmax(problem.start)).tolist()]
    edges[-1] = math.inf  # rounding
    sd = math.sqrt(problem.variance)

    def draw(normal: Array, which: Array) -> Array:
        xp = array_namespace(normal)
        chosen = [xp.astype((which >= a) & (which < b), normal.dtype) for a, b in pairwise(edges)]
        centre = [sum(c * m for c, m in zip(chosen, problem.means[:, k].tolist(), strict=True)) for k in (0, 1)]
        return xp.stack(centre, axis=-1) + sd * normal

    return DrawnBatches({"normal": Normal((size, 2)), "which": Uniform((size,))}, draw)


def start_positions(problem: Problem, runs: int, particles: int, seed: int) -> np.ndarray:
    """Exact draws of the mixture at its start, (runs, particles, 2)."""
    rng = np.random.default_rng(seed)
    which = rng.choice(len(problem.means), (runs, particles), p=softmax(problem.start))
    return problem.means[which] + math.sqrt(problem.variance) * rng.standard_normal((runs, particles, 2))
