"""What the untuned comparison computes: targets of the zoo in JAX, and what every side gives of a run."""

import time
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from xpsample.diagnostics.convergence import chain_ess
from xpsample.zoo.benchmarks import BENCHMARKS, Benchmark

DTYPE = "float32"
"""JAX's default, on all sides."""

DRAWS = {4: 1000, 128: 200}
"""Of each chain, by the number of chains."""


class Case(NamedTuple):
    """A target by its name in the zoo, and how many chains and draws of each."""

    target: str
    chains: int

    @property
    def benchmark(self) -> Benchmark:
        """The target, its start and its moments."""
        return BENCHMARKS[self.target]

    @property
    def draws(self) -> int:
        """Of each chain."""
        return DRAWS.get(self.chains, 1000)

    @property
    def density(self) -> Callable[[Any], Any]:
        """The log density of one position, for a peer."""
        return density(self.target)

    def start(self, seed: int) -> np.ndarray:
        """(chains, dim), the same for all sides."""
        return self.benchmark.start(np.random.default_rng(seed), self.chains).astype(DTYPE)


class Outcome(NamedTuple):
    """A run: draws (draw, chain, dim); CPU seconds and gradients, of all chains, of its warm-up and of its draws."""

    draws: np.ndarray
    warm_up_seconds: float
    draw_seconds: float
    warm_up_gradients: float
    draw_gradients: float


Run = Callable[[int], Outcome]


class Halves(NamedTuple):
    """``begin(seed)``: where a warm-up ends, and gradients. ``go_on(that)``: where draws end, draws, and gradients."""

    begin: Callable[[int], tuple[Any, Any]]
    go_on: Callable[[Any], tuple[Any, Any, Any]]


def in_turn(halves: Halves) -> Run:
    """A run of both, with their times."""

    def run(seed: int) -> Outcome:
        began = time.process_time()
        carry, adapting = halves.begin(seed)
        middle = time.process_time()
        _, draws, steps = halves.go_on(carry)
        end = time.process_time()
        return Outcome(np.asarray(draws), middle - began, end - middle, float(adapting), float(steps))

    return run


@cache
def density(target: str) -> Callable[[Any], Any]:
    """The log density of one position for a peer; its derivative in JAX is the score that ours is given, too."""
    own: Any = BENCHMARKS[target].target()
    data = () if own.data is None else (jax.tree.map(lambda a: jnp.asarray(a, DTYPE), own.data),)

    @jax.custom_vjp
    def log_density(x: Any) -> Any:
        return own.log_density(x, *data)

    def forward(x: Any) -> tuple[Any, Any]:
        if own.log_density_and_score is not None:
            return own.log_density_and_score(x, *data)
        return own.log_density(x, *data), own.score(x, *data)

    log_density.defvjp(forward, lambda score, weight: (weight * score,))
    return log_density


def worst_ess(draws: np.ndarray) -> float:
    """Of all coordinates and of their squares, the least effective sample size."""
    with_squares = np.concatenate([draws, draws.astype(np.float64) ** 2], axis=-1)
    return float(np.min(np.nan_to_num(chain_ess(with_squares), nan=1.0)))


def worst_error(case: Case, draws: np.ndarray) -> float:
    """Of the pooled mean squares of the parameters, in standard deviations of the square: the largest."""
    moments = case.benchmark.moments()
    y = np.asarray(case.benchmark.parameters(draws.astype(np.float64)))
    error = np.mean(y * y, axis=(0, 1)) - moments.square
    return float(np.max(np.abs(error) / np.sqrt(moments.square_variance)))
