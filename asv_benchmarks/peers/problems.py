"""What is computed: two posteriors, two algorithms, the densities in each library, and our side of it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

import xpsample as xps
from xpsample.core.registry import backend_named, to_host
from xpsample.zoo.logistic import load_breast_cancer

LEAPFROGS = 10
LOGISTIC, CANCER = "logistic", "breast_cancer"
STEP_SIZES = {(LOGISTIC, "mala"): 0.03, (LOGISTIC, "hmc"): 0.12, (CANCER, "mala"): 0.01, (CANCER, "hmc"): 0.07}
"""Chosen by acceptance, between 0.6 and 0.95; eta of the library's MALA and HMC."""


@dataclass(frozen=True)
class Work:
    """One run: `kernel` is "mala" or "hmc" (`LEAPFROGS` steps); every draw is kept."""

    problem: str
    kernel: str
    chains: int
    draws: int

    @property
    def step_size(self) -> float:
        """eta."""
        return STEP_SIZES[self.problem, self.kernel]

    @property
    def rows(self) -> np.ndarray:
        """(N, dim): the features, with the sign of the label; the prior is N(0, I)."""
        return signed_features(self.problem)

    @property
    def start(self) -> np.ndarray:
        """(chains, dim): draws of the Laplace approximation, twice as wide."""
        mode, factor = _laplace(self.problem)
        return mode + 2 * np.random.default_rng(2).standard_normal((self.chains, len(mode))) @ factor.T


@cache
def signed_features(problem: str) -> np.ndarray:
    """The data of a problem: 100 made-up rows of 10 features, or the 455 training rows of the breast-cancer data."""
    if problem == LOGISTIC:
        generator = np.random.default_rng(1)
        features = generator.standard_normal((100, 10))
        labels = generator.random(100) < 1 / (1 + np.exp(-features @ generator.standard_normal(10)))
    else:
        data = load_breast_cancer()
        features, labels = data.train_features, data.train_labels
    return features * (2.0 * labels[:, None] - 1.0)


@cache
def _laplace(problem: str) -> tuple[np.ndarray, np.ndarray]:
    rows = signed_features(problem)
    mode = np.zeros(rows.shape[1])
    for _ in range(30):  # Newton
        p = 1 / (1 + np.exp(rows @ mode))
        precision = (rows.T * (p * (1 - p))) @ rows + np.eye(len(mode))
        mode = mode + np.linalg.solve(precision, rows.T @ p - mode)
    return mode, np.linalg.cholesky(np.linalg.inv(precision))


def densities(library: str) -> ModuleType:
    """``log_density(x, rows)``, ``score(x, rows)`` and ``both(x, rows)`` as one writes them for a library.

    Both sides use them, so that what differs is the sampler.
    """
    from importlib import import_module

    return import_module(f"asv_benchmarks.peers.density_{library}")


def ours(work: Work, score: str, library: str, dtype: str) -> Callable[[int], tuple[Any, ...]]:
    """Our side: ``run(seed) -> (draws, acceptance)``, as a peer's `build` gives it, and what peers do not do."""
    density, backend = densities(library), backend_named(library)
    given = {"score": density.score, "log_density_and_score": density.both} if score == "analytic" else {}
    target = xps.Target(density.log_density, data=work.rows, **given)
    kernel = xps.MALA(work.step_size) if work.kernel == "mala" else xps.HMC(work.step_size, LEAPFROGS)
    x0 = backend.xp.asarray(work.start.astype(dtype))

    def run(seed: int) -> tuple[Any, ...]:
        trace = xps.sample(target, kernel, x0, work.draws, seed=seed, recorders=(xps.Draws(),), progress=False)
        return trace.draws, trace.run_statistics.acceptance_probability, trace.diagnose

    return run


def disagreement(one: tuple[Any, ...], other: tuple[Any, ...]) -> float:
    """How far two samplers' distributions are apart, in standard errors of independent chains: the largest difference.

    Compared are the first two moments of every coordinate over the second half of the draws, and the acceptance.
    """

    def per_chain(result: tuple[Any, ...]) -> np.ndarray:
        draws, acceptance = (np.asarray(to_host(a), dtype=np.float64) for a in result[:2])
        late = draws[len(draws) // 2 :]
        return np.concatenate([late.mean(axis=0), (late**2).mean(axis=0), acceptance[:, None]], axis=-1)

    a, b = per_chain(one), per_chain(other)
    error = np.sqrt(a.var(axis=0, ddof=1) / len(a) + b.var(axis=0, ddof=1) / len(b))
    return float(np.max(np.abs(a.mean(axis=0) - b.mean(axis=0)) / error))
