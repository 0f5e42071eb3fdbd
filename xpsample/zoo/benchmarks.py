"""The targets that samplers are compared on: where chains start, and what is known of each.

Starts and parameters follow the published comparison, github.com/reubenharry/sampler-benchmarks, except that the
funnel's ten coordinates follow the Inference Gym. Breast cancer is not among its targets.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from xpsample.core.arrays import Array
from xpsample.targets.target import Target
from xpsample.zoo.curved import banana, banana_moments, funnel, funnel_moments, rosenbrock, rosenbrock_moments
from xpsample.zoo.gaussian import conditioned_covariance, gaussian
from xpsample.zoo.logistic import (
    breast_cancer,
    breast_cancer_moments,
    german_credit,
    german_credit_moments,
    german_credit_parameters,
    item_response,
    item_response_moments,
)
from xpsample.zoo.moments import KnownMoments, normal_moments
from xpsample.zoo.time_series import (
    SIGMA,
    brownian_moments,
    brownian_motion,
    brownian_parameters,
    stochastic_volatility,
    volatility_moments,
    volatility_parameters,
)

ROTATION = 10  # Seed of the rotated Gaussian's axes

Start = Callable[[np.random.Generator, int], np.ndarray]


class Benchmark(NamedTuple):
    """A target, its dimension, and functions that give what goes with it.

    ``parameters`` maps positions (*chains, dim) to the quantities, (*chains, dim), whose ``moments()`` are known.
    ``start(rng, chains)`` draws positions (chains, dim) on the host. ``target()`` and ``moments()`` may read data.
    """

    dim: int
    target: Callable[[], Target]
    moments: Callable[[], KnownMoments]
    parameters: Callable[[Array], Array]
    start: Start


def _same(x: Array) -> Array:
    return x


def _normal(dim: int, scale: float = 1.0) -> Start:
    return lambda rng, chains: scale * rng.standard_normal((chains, dim))


def _gaussian(condition: float, rotation_seed: int | None = None) -> Benchmark:
    covariance = partial(conditioned_covariance, 100, condition, rotation_seed)
    return Benchmark(
        100,
        lambda: gaussian(covariance()),
        lambda: normal_moments(np.zeros(100), np.diag(covariance())),
        _same,
        _normal(100, math.sqrt(condition) ** 0.5),  # the largest standard deviation
    )


def _start_german_credit(rng: np.random.Generator, chains: int) -> np.ndarray:
    return np.concatenate([np.zeros((chains, 26)), rng.standard_normal((chains, 25))], axis=-1)


def _start_volatility(rng: np.random.Generator, chains: int) -> np.ndarray:
    walk = SIGMA * np.cumsum(rng.standard_normal((chains, 2427)), axis=-1)
    return np.concatenate([walk, np.zeros((chains, 2))], axis=-1)


# By name, in the order in which they are run.
BENCHMARKS: Mapping[str, Benchmark] = {
    "gaussian": _gaussian(1.0),
    "gaussian-scaled": _gaussian(1e4),
    "gaussian-rotated": _gaussian(1e4, ROTATION),
    "banana": Benchmark(2, partial(banana, 0.03, 10.0), partial(banana_moments, 0.03, 10.0), _same, _normal(2)),
    "brownian-motion": Benchmark(32, brownian_motion, brownian_moments, brownian_parameters, _normal(32)),
    "german-credit": Benchmark(
        51, german_credit, german_credit_moments, german_credit_parameters, _start_german_credit
    ),
    "breast-cancer": Benchmark(31, breast_cancer, breast_cancer_moments, _same, _normal(31)),
    "rosenbrock": Benchmark(36, rosenbrock, rosenbrock_moments, _same, _normal(36)),
    "item-response": Benchmark(501, item_response, item_response_moments, _same, _normal(501)),
    "funnel": Benchmark(10, funnel, funnel_moments, _same, _normal(10)),
    "stochastic-volatility": Benchmark(
        2429, stochastic_volatility, volatility_moments, volatility_parameters, _start_volatility
    ),
}
