"""Does a kernel leave a law invariant? Start from exact draws, take a few steps, test that they still are.

The draws are mapped back to what should be independent standard normals u, and compared with them through the
characteristic function, E exp(i t.u) = exp(-|t|^2 / 2), at a set of frequencies t. Cosines and sines are bounded, so
the normal approximation of their means holds far into the tails, and their variances under the null are known.
"""

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from xpsample.backend import to_host
from xpsample.conformance.scenarios import Scenario
from xpsample.noise import Native
from xpsample.places import Place
from xpsample.sampling import Carry, Program

ERROR_PROBABILITY = 1e-7
"""Chance that one check of a correct kernel fails, all frequencies together."""


class Invariance(NamedTuple):
    """The largest z-score over the frequencies, and the one that a correct kernel exceeds with ERROR_PROBABILITY."""

    z: float
    limit: float

    @property
    def passed(self) -> bool:
        """Whether the law is left invariant, as far as this test sees."""
        return self.z <= self.limit


def invariance(scenario: Scenario, place: Place, chains: int = 100_000, steps: int = 4, seed: int = 0) -> Invariance:
    """Run a scenario's kernel from exact draws and test that they stay draws of its law.

    Parameters
    ----------
    scenario : Scenario
    place : Place
    chains : int
        Independent chains, each giving one final draw.
    steps : int
        Steps of each.
    seed : int
        Of the exact draws (on the host) and of the library's own noise.

    Returns
    -------
    Invariance
    """
    generator = np.random.default_rng(seed)
    law = scenario.law
    shape = (chains, law.dim)
    x, others = law.draw(generator.standard_normal(shape)), generator.standard_normal(shape)
    offset = np.zeros(shape)
    kernel = scenario.kernel(place.array)
    if scenario.frozen is not None:
        theta = generator.standard_normal(shape)
        offset, kernel = scenario.alpha * theta, scenario.frozen(place.array, theta)
    x0 = place.array(x + offset)
    target = scenario.target(place.array).prepare(x0, kernel.requires)
    program = Program(kernel, target, (), 0, 1, steps)
    state = scenario.dress(program.init(x0).state, others, place.array)
    carry, _, _ = place.backend.drive(program, Carry(state, ()), None, Native(seed), 0, steps)
    final = to_host(carry.state.point.x).astype(np.float64) - offset
    return _compare(law.whiten(final))


def _compare(u: np.ndarray) -> Invariance:
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
    limit = NormalDist().inv_cdf(1 - ERROR_PROBABILITY / (2 * len(scores)))
    return Invariance(float(z.max()) if np.all(np.isfinite(z)) else math.inf, limit)
