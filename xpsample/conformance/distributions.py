"""Distributions with exact draws, and tests whether draws come from them; all on the host."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

ERROR_PROBABILITY = 1e-7  # The probability that a check of a correct kernel fails


class Invariance(NamedTuple):
    """A z-score, and the limit that a correct kernel exceeds with `ERROR_PROBABILITY`."""

    z: float
    limit: float

    @property
    def passed(self) -> bool:
        """Return whether the distribution is left invariant, as far as this test can see."""
        return self.z <= self.limit


class Distribution(ABC):
    """A distribution on positions (chains, dim).

    Attributes
    ----------
    dim : int
    finite : bool
        Whether the positions are on a discrete space.
    """

    @property
    @abstractmethod
    def dim(self) -> int:
        """Coordinates of a position."""

    @property
    @abstractmethod
    def finite(self) -> bool:
        """A class attribute."""

    @abstractmethod
    def draw(self, generator: np.random.Generator, chains: int) -> np.ndarray:
        """Exact draws (chains, dim), independent of each other."""

    @abstractmethod
    def compare(self, x: np.ndarray) -> Invariance:
        """Test whether x (chains, dim), float64, are such draws."""


@dataclass(frozen=True)
class Pushforward(Distribution):
    """The distribution of a function of standard normals.

    Draws are mapped back to u, which should be independent standard normals, and tested by their characteristic
    function, E exp(i t.u) = exp(-|t|^2 / 2), at a set of frequencies t. Cosines and sines are bounded, so the normal
    approximation of their means holds far into the tails; their variances for normal u are known.

    Parameters
    ----------
    normals : int
        Behind a draw, as many as it has coordinates.
    push : callable
        Normals (chains, normals) -> exact draws (chains, dim).
    whiten : callable
        Its inverse.
    """

    normals: int
    push: Callable[[np.ndarray], np.ndarray]
    whiten: Callable[[np.ndarray], np.ndarray]
    finite = False

    @property
    def dim(self) -> int:
        """Number of normals."""
        return self.normals

    def draw(self, generator: np.random.Generator, chains: int) -> np.ndarray:
        return self.push(generator.standard_normal((chains, self.normals)))

    def compare(self, x: np.ndarray) -> Invariance:
        u = self.whiten(x)
        n, dim = u.shape
        unit = np.eye(dim)
        frequencies = [scale * unit[i] for i in range(dim) for scale in (0.5, 1.0, 2.0)]
        pairs = [(i, j) for i in range(dim) for j in range(i)]
        frequencies += [s * (unit[i] + sign * unit[j]) for i, j in pairs for sign in (1, -1) for s in (0.6, 1.2)]
        scores = []
        for t in frequencies:
            phase, square = u @ t, float(t @ t)
            cosine = np.cos(phase).mean() - math.exp(-square / 2)
            scores.append(cosine / math.sqrt((0.5 * (1 + math.exp(-2 * square)) - math.exp(-square)) / n))
            scores.append(np.sin(phase).mean() / math.sqrt(0.5 * (1 - math.exp(-2 * square)) / n))
        z = np.abs(scores)
        limit = -NormalDist().inv_cdf(ERROR_PROBABILITY / (2 * len(scores)))
        return Invariance(float(z.max()) if np.all(np.isfinite(z)) else math.inf, limit)


@dataclass(frozen=True, eq=False)
class Shifted(Distribution):
    """Another distribution, with each chain's draws shifted by its row of `offset`, (chains, dim)."""

    stationary: Distribution
    offset: np.ndarray

    @property
    def dim(self) -> int:
        """Dimension of the other distribution."""
        return self.stationary.dim

    @property
    def finite(self) -> bool:
        """Return whether the other distribution is finite."""
        return self.stationary.finite

    def draw(self, generator: np.random.Generator, chains: int) -> np.ndarray:
        return self.stationary.draw(generator, chains) + self.offset

    def compare(self, x: np.ndarray) -> Invariance:
        return self.stationary.compare(x - self.offset)


@dataclass(frozen=True, eq=False)
class Enumerated(Distribution):
    """A distribution on a list of states. Pearson's chi-square test compares the frequencies of draws.

    Parameters
    ----------
    states : array, shape (number, dim)
        In the dtype of the draws.
    log_weights : array, shape (number,)
        Log probabilities, up to a constant.
    """

    states: np.ndarray
    log_weights: np.ndarray
    finite = True

    @property
    def dim(self) -> int:
        """Coordinates of a state."""
        return self.states.shape[1]

    @property
    def probabilities(self) -> np.ndarray:
        """Probabilities of the states."""
        weights = np.exp(self.log_weights - np.max(self.log_weights))
        return weights / np.sum(weights)

    def draw(self, generator: np.random.Generator, chains: int) -> np.ndarray:
        cdf = np.cumsum(self.probabilities)
        return self.states[np.searchsorted(cdf / cdf[-1], generator.random(chains), side="right")]

    def compare(self, x: np.ndarray) -> Invariance:
        limit = -NormalDist().inv_cdf(ERROR_PROBABILITY)
        counts = np.stack([np.sum(np.all(np.abs(x - state) < 1e-6, axis=1)) for state in self.states])
        expected = len(x) * self.probabilities
        if np.sum(counts) < len(x) or np.any(counts[expected == 0] > 0):  # a draw that is impossible
            return Invariance(math.inf, limit)
        rare = expected < 10  # pooled in one cell
        if np.any(rare):
            counts, expected = (np.append(a[~rare], np.sum(a[rare])) for a in (counts, expected))
        seen = expected > 0
        statistic = np.sum((counts[seen] - expected[seen]) ** 2 / expected[seen])
        p = chi_square_tail(float(statistic), int(np.sum(seen)) - 1)
        return Invariance(-NormalDist().inv_cdf(min(p, 1 - 1e-16)) if p > 0 else math.inf, limit)


def chi_square_tail(x: float, freedom: int) -> float:
    """P(chi-square with `freedom` degrees of freedom > x), by its finite sum (Abramowitz & Stegun 26.4.4-5)."""
    half = 0.5 * x
    if freedom % 2:
        start, powers = math.erfc(math.sqrt(half)), [k + 0.5 for k in range((freedom - 1) // 2)]
    else:
        start, powers = 0.0, [float(k) for k in range(freedom // 2)]
    return start + sum(math.exp(-half + a * math.log(half) - math.lgamma(a + 1)) for a in powers if half > 0)


def gaussian_distribution(covariance: np.ndarray) -> Pushforward:
    """N(0, covariance)."""
    lower = np.linalg.cholesky(covariance)
    inverse = np.linalg.inv(lower)
    return Pushforward(len(covariance), lambda z: z @ lower.T, lambda x: x @ inverse.T)
