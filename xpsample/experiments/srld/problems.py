"""The correlated density of Section 6.1 of the SRLD paper, and what experiments share with their figures."""

from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.metrics.stein import RBF
from xpsample.targets import Target

MMD = RBF(10.0)
"""exp(-0.1 d^2), the kernel of the authors' code."""


def correlated() -> Target:
    """log density -x1^4 / 10 - (4 (x2 + 1.2) - x1^2)^2 / 2."""

    def log_density(x: Array) -> Array:
        z = _residual(x)
        return -(x[..., 0] ** 4) / 10 - 0.5 * z * z

    def score(x: Array) -> Array:
        z = _residual(x)
        return array_namespace(x).stack([-0.4 * x[..., 0] ** 3 + 2 * z * x[..., 0], -4 * z], axis=-1)

    return Target(log_density, score=score)


def _residual(x: Array) -> Array:
    return 4 * (x[..., 1] + 1.2) - x[..., 0] ** 2


def exact_draws(count: int, rng: np.random.Generator) -> np.ndarray:
    """x1^4 / 10 is Gamma(1/4), and 4 (x2 + 1.2) - x1^2 is standard normal whatever x1; (count, 2)."""
    x1 = (10 * rng.gamma(0.25, size=count)) ** 0.25 * rng.choice([-1.0, 1.0], count)
    return np.stack([x1, (x1**2 + rng.standard_normal(count)) / 4 - 1.2], axis=-1)


class Shown(NamedTuple):
    """What the figure shows of a problem: the kept draws of each sampler, (draw, repeat, dim), and exact draws."""

    draws: dict[str, np.ndarray]
    truth: np.ndarray
