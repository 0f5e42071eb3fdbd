"""Where random compositions run: small spaces and Gaussians, whose distributions are known, tempered and tilted too."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from xpsample import Bridge, Parametric, Ratio, Tempered, posterior
from xpsample.conformance.discrete import Finite
from xpsample.conformance.distributions import Distribution, Enumerated, Shifted, gaussian_distribution
from xpsample.core import tree
from xpsample.gradients import FiniteDifference
from xpsample.spaces import Binary, Categorical, OneHot, Spins
from xpsample.targets import AbstractTarget, LineIntegral, Target, Tilt
from xpsample.zoo.gaussian import gaussian
from xpsample.zoo.mixture import smoothed_mixture
from xpsample.zoo.tsp import tsp

COVARIANCE = np.asarray([[1.0, 0.4], [0.4, 0.8]])
CITIES = np.asarray([[0.0, 0.0], [3.0, 0.5], [2.5, 2.0], [1.0, 4.0]])
ROWS = np.asarray([[0.5, -1.0], [1.5, 0.3], [-0.4, 0.9], [0.8, -0.2], [2.0, 1.1], [-0.7, 0.4]])
FINITE = {
    "ragged": Finite(Categorical(((0, 1), (0, 1, 2), (-1.0, 0.5, 2.0))), 3),
    "spins": Finite(Spins(), 3),
    "bits": Finite(Binary(), 3),
    "one-hot": Finite(OneHot(3), 6),
}
REAL, PERMUTATIONS = ("gaussian", "rows", "score only", "density only", "noised"), ("tours",)
KINDS = ("plain", "tempered", "bridge", "family")
"""What a model may be made into; not all of them can."""


def _log_prior(x):
    return -0.25 * array_namespace(x).sum(x * x, axis=-1)


def _log_likelihood(x, rows):
    return -array_namespace(x).sum((rows - x[..., None, :]) ** 2, axis=(-2, -1)) / 24.0


def _rows() -> Target:
    """Precision 1/2 of the prior and 1/12 of each of six rows: N(mean of the rows / 2, I)."""
    xp = array_namespace
    score = (lambda x: -0.5 * x), (lambda x, rows: xp(x).sum(rows - x[..., None, :], axis=-2) / 12.0)
    return posterior(_log_prior, _log_likelihood, ROWS, *score, gradient=FiniteDifference())


@dataclass(frozen=True)
class Setting:
    """A target and start positions.

    Parameters
    ----------
    model : str
        One of `REAL`, `FINITE` or `PERMUTATIONS`.
    kind : str
        One of `KINDS`.
    betas : tuple of float
        Powers that a tempered target is raised to: one, or one for each group.
    groups : int
        0 for chains (n,), else chains (groups, n).
    dtype : str
        Of the positions; integers on finite spaces of integers.
    """

    model: str
    kind: str = "plain"
    betas: tuple[float, ...] = (0.5,)
    groups: int = 0
    dtype: str = "float64"

    @cached_property
    def finite(self) -> Finite | None:
        """The finite model, where it is one."""
        return FINITE.get(self.model)

    def chains(self, n: int) -> tuple[int, ...]:
        """The chain axes, with n chains in each group."""
        return (self.groups, n) if self.groups else (n,)

    def target(self, array: Callable[..., Any]) -> AbstractTarget:
        """The target; `array` puts floating host arrays where the positions are."""
        plain = self._plain(array)
        if self.kind == "tempered":
            beta = self.betas[0] if len(self.betas) == 1 else array(np.asarray(self.betas)[:, None])
            return Tempered(plain, beta)
        if self.kind == "bridge":
            return Bridge(self._initial(plain), plain)
        if self.kind == "family" and self.model in ("gaussian", *FINITE):
            return self._family(plain, array)
        return plain

    def _family(self, plain: Target, array: Callable[..., Any]) -> Parametric:
        """log pi(x) + p . x with p = 0 at the start, (dim,) or (groups, 1, dim)."""
        data, dim = tree.map(array, plain.data), self.dim
        return Parametric(
            lambda x, p: plain.log_density(x, data) + array_namespace(x).sum(p * x, axis=-1),
            np.zeros((self.groups, 1, dim) if self.groups else dim),
            score=lambda x, p: plain.score(x, data) + p,
            gradient=FiniteDifference(1e-3),
            space=plain.space,
        )

    @property
    def dim(self) -> int:
        """Coordinates of a position."""
        return 2 if self.model in REAL else self.finite.dim if self.finite is not None else len(CITIES)

    def moved(self, parameter: float) -> tuple[Distribution, float]:
        """Of the family with all entries of p the same: the distribution, and log Z over that of p = 0."""
        p = np.full(self.dim, parameter)
        if self.model in REAL:
            mean = COVARIANCE @ p
            return Shifted(gaussian_distribution(COVARIANCE), mean[None, :]), 0.5 * float(p @ mean)
        law = self.law()
        new = Enumerated(law.states, law.log_weights + law.states @ p)
        return new, math.log(np.sum(np.exp(new.log_weights)) / np.sum(np.exp(law.log_weights)))

    def _plain(self, array: Callable[..., Any]) -> Target:
        if self.finite is not None:
            return self.finite.target(array)
        if self.model == "tours":
            return tsp(CITIES, 2.0)
        if self.model == "rows":
            return _rows()
        normal = gaussian(COVARIANCE)
        if self.model == "noised":
            return smoothed_mixture([1.0], np.zeros((1, 2)), 0.5, 1.0)  # N(0, 1.25 I), with an entry "sigma" to anneal
        if self.model == "density only":
            return Target(normal.log_density, data=normal.data)  # derivatives by a library with autodiff
        if self.model == "score only":
            return Target(None, score=normal.score, hvp=normal.hvp, data=normal.data, acceptance=LineIntegral(1))
        return normal

    def _initial(self, plain: Target) -> Target:
        if self.model in REAL:
            return gaussian(4.0 * np.eye(2))
        return Target(lambda x: 0.0 * array_namespace(x).sum(x, axis=-1), lambda x: 0.0 * x, space=plain.space)

    def initial_draws(self, generator: np.random.Generator, chains: tuple[int, ...]) -> np.ndarray:
        """Exact draws of what annealing begins with: the bridge's initial target, or uniform ones on finite spaces."""
        count = math.prod(chains)
        if self.model in REAL:
            return (2.0 * generator.standard_normal((count, 2))).reshape(*chains, 2).astype(self.dtype)
        states = self.law().states
        return states[generator.integers(len(states), size=count)].reshape(*chains, -1).astype(self.dtype)

    def log_normalizer(self) -> float:
        """log of the integral of f_1 over that of f_0: of the bridge of Gaussians, or on a finite space, f_0 = 1."""
        if self.model in REAL:
            return 0.5 * math.log(np.linalg.det(COVARIANCE)) - 0.5 * math.log(16.0)
        return math.log(np.mean(np.exp(self.law().log_weights)))

    def draws(self, generator: np.random.Generator, n: int) -> np.ndarray:
        """Exact draws (*chains, dim), group by group."""
        parts = [self.law(g).draw(generator, n) for g in range(max(1, self.groups))]
        x = np.stack(parts) if self.groups else parts[0]
        return x.astype(self.dtype)

    def laws(self) -> list[Distribution]:
        """The distribution of each group."""
        return [self.law(g) for g in range(max(1, self.groups))]

    def tilted_laws(self, alpha: Any, theta: Any, tilt: Tilt | FiniteDifference) -> list[Distribution]:
        """Those of log pi - alpha theta . s, with one theta (dim,), and alpha a number or (groups, 1)."""
        alphas = np.broadcast_to(np.ravel(np.asarray(alpha)), (max(1, self.groups),))
        return [self.law(g, float(a), theta * np.ones(self.dim), tilt) for g, a in enumerate(alphas)]

    def _beta(self, group: int) -> float:
        if self.kind != "tempered":
            return 1.0
        return self.betas[group if len(self.betas) > 1 else 0]

    def law(self, group: int = 0, alpha: float = 0.0, theta: Any = 0.0, tilt: Any = None) -> Any:
        """That of a group's chains, of log pi - alpha theta . s with one theta (dim,) and the score of the tilt."""
        beta = self._beta(group)
        if self.model in REAL:
            covariance = {"rows": np.eye(2), "noised": 1.25 * np.eye(2)}.get(self.model, COVARIANCE)
            mean = ROWS.mean(axis=0) / 2 if self.model == "rows" else np.zeros(2)
            # Tilting N(m, C) by -alpha theta . s moves it by alpha theta.
            return Shifted(gaussian_distribution(covariance / beta), (mean + alpha * theta)[None, :])
        if self.model == "tours":
            states = _tours()
            return Enumerated(states, beta * np.asarray(tsp(CITIES, 2.0).log_density(states, _distances())))
        assert self.finite is not None
        law = self.finite.stationary(lambda states, log_pi: beta * log_pi)
        if alpha == 0.0:
            return law
        if isinstance(tilt, Ratio):
            feature = (self.finite.feature(tilt) + 1.0) ** beta - 1.0
        else:
            feature = beta * self.finite.feature(tilt)
        return Enumerated(law.states, law.log_weights - alpha * feature @ theta)


def _tours() -> np.ndarray:
    return np.asarray(list(permutations(range(len(CITIES)))), dtype=np.int32)


def _distances() -> np.ndarray:
    return np.ravel(np.linalg.norm(CITIES[:, None] - CITIES, axis=-1))
