"""Targets for all compositions: exact draws, functions of them and their means."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

import xpsample as xps
from tests.compositions.settings import COVARIANCE, ROWS, _rows
from xpsample.score_mh import Learned, RandomWalk
from xpsample.targets import LineIntegral
from xpsample.zoo.gaussian import gaussian
from xpsample.zoo.ising import ising_couplings


class Case(NamedTuple):
    """A target, its kind (which kernels are for it), exact draws (n, dim), functions (n, dim) -> (n, k), their means.

    ``initial`` and ``first`` are what annealing begins with, and ``log_ratio`` the log of the ratio of the normalisers.
    """

    target: Any
    kind: str
    draws: Callable[[np.random.Generator, int], np.ndarray]
    functions: Callable[[np.ndarray], np.ndarray]
    means: np.ndarray
    initial: Any = None
    first: Any = None
    log_ratio: float = 0.0


def _moments(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x, x * x, x[..., :1] * x[..., 1:2]], axis=-1)


def _normal(target: Any, mean: np.ndarray, covariance: np.ndarray, **more: Any) -> Case:
    root = np.linalg.cholesky(covariance)
    square = covariance + np.outer(mean, mean)
    means = np.concatenate([mean, np.diag(square), square[0, 1:2]])
    return Case(target, "real", lambda g, n: mean + g.standard_normal((n, 2)) @ root.T, _moments, means, **more)


def _half_normal() -> Case:
    def log_density(x: np.ndarray, scale: float = 1.0) -> np.ndarray:
        return np.where(np.all(x > 0, axis=-1), -0.5 * np.sum(x * x, axis=-1) / scale**2, -np.inf)

    def target(scale: float) -> xps.Target:
        return xps.Target(
            lambda x: log_density(x, scale),
            score=lambda x: -x / scale**2,
            hvp=lambda x, v: -v / scale**2 + 0 * x,
            constrained=True,
        )

    mean = np.sqrt(2 / np.pi)
    return Case(
        target(1.0),
        "real",
        lambda g, n: np.abs(g.standard_normal((n, 2))),
        _moments,
        np.asarray([mean, mean, 1.0, 1.0, mean**2]),
        target(2.0),
        lambda g, n: np.abs(2 * g.standard_normal((n, 2))),
        -2 * np.log(2.0),
    )


def _finite(space: Any, bias: np.ndarray, forbidden: bool = False) -> Case:
    """log pi = b . x + 0.6 x_0 x_1; where forbidden, without the states whose coordinates are all the first ones.

    With two values it states its couplings.
    """
    states = space.states(3)
    first = states[0]

    def log_density(x: np.ndarray) -> np.ndarray:
        found = x @ bias + 0.6 * x[..., 0] * x[..., 1]
        return np.where(np.all(x == first, axis=-1), -np.inf, found) if forbidden else found

    def score(x: np.ndarray) -> np.ndarray:
        return bias + 0.6 * np.stack([x[..., 1], x[..., 0], 0 * x[..., 0]], axis=-1)

    couplings: dict[str, Any] = {}
    if space.choices == 2 and not forbidden:
        stated = ising_couplings(0.6, bias, [[0, 1]], space)
        couplings = {
            "differences_at": lambda x, i: stated.differences_at(x, i, stated.data),
            "bonds": lambda: stated.bonds(stated.data),
        }
    probabilities = np.exp(log_density(states))
    total = probabilities.sum()
    probabilities = probabilities / total
    inside = states[probabilities > 0]
    return Case(
        xps.Target(
            log_density,
            score=score,
            hvp=lambda x, v: score(v) - bias + 0 * x,
            space=space,
            constrained=forbidden,
            **couplings,
        ),
        "discrete",
        lambda g, n: states[g.choice(len(states), n, p=probabilities)],
        lambda x: np.all(x[..., None, :] == inside, axis=-1).astype(float),
        probabilities[probabilities > 0],
        xps.Target(lambda x: 0.0 * x[..., 0], lambda x: 0.0 * x, space=space),
        lambda g, n: states[g.integers(len(states), size=n)],
        float(np.log(total / len(states))),
    )


def _mixed() -> Case:
    """A bit z, one of three k, and mu normal given them."""
    ks, odds = np.asarray([0.0, 1.0, 2.0]), np.exp(-0.3 * np.arange(3))
    p, q = 1 / (1 + np.exp(-0.7)), odds / odds.sum()

    def log_density(v: Any) -> Any:
        return 0.7 * v.z - 0.3 * v.k - 0.5 * (v.mu - v.z + 0.5 * v.k) ** 2

    def model(density: Callable[[Any], Any]) -> xps.Model:
        spaces = {"z": xps.Binary(()), "k": xps.Categorical((0.0, 1.0, 2.0), ()), "mu": xps.Real()}
        return xps.Model(density, **spaces, gradient=xps.FiniteDifference())

    def draws(g: np.random.Generator, n: int) -> np.ndarray:
        z, k = (g.random(n) < p).astype(float), g.choice(ks, n, p=q)
        return np.stack([z, k, z - 0.5 * k + g.standard_normal(n)], axis=-1)

    def first(g: np.random.Generator, n: int) -> np.ndarray:
        return np.stack([g.integers(2, size=n), g.choice(ks, n), 2.0 * g.standard_normal(n)], axis=-1)

    def functions(x: np.ndarray) -> np.ndarray:
        z, k, mu = np.moveaxis(x, -1, 0)
        return np.stack([z, k == 1, k == 2, mu, mu * mu, z * mu], axis=-1).astype(float)

    m, second = ks @ q, (ks * ks) @ q
    square = p - p * m + 0.25 * second + 1
    means = np.asarray([p, q[1], q[2], p - 0.5 * m, square, p - 0.5 * p * m])
    wide = model(lambda v: -0.125 * v.mu**2 + 0.0 * v.z)
    log_ratio = np.log((1 + np.exp(0.7)) * odds.sum()) - np.log(6 * 2.0)
    return Case(model(log_density), "mixed", draws, functions, means, wide, first, float(log_ratio))


def _simplex() -> Case:
    """Dirichlet(2, 3, 4) from Dirichlet(1, 1, 1), which is uniform."""
    a = np.asarray([2.0, 3.0, 4.0])

    def model(powers: np.ndarray) -> xps.Model:
        return xps.Model(
            lambda v: np.sum((powers - 1) * np.log(v.p), axis=-1), p=xps.Simplex(3), gradient=xps.FiniteDifference()
        )

    target = model(a)

    def drawn(powers: np.ndarray) -> Callable[[np.random.Generator, int], np.ndarray]:
        return lambda g, n: np.asarray(target.position({"p": g.dirichlet(powers, n)}))

    def functions(x: np.ndarray) -> np.ndarray:
        p = target.space.value(array_namespace(x), x, "p")
        return np.concatenate([p, p * p], axis=-1)

    total = a.sum()
    means = np.concatenate([a / total, a * (a + 1) / (total * (total + 1))])
    log_ratio = float(np.log(1 * 2 * 6) - np.log(40320.0) - np.log(1 / 2))
    return Case(target, "real", drawn(a), functions, means, model(np.ones(3)), drawn(np.ones(3)), log_ratio)


def cases() -> dict[str, Case]:
    """By name."""
    normal, wide = gaussian(COVARIANCE), gaussian(4.0 * np.eye(2))
    score = {"score": normal.score, "hvp": normal.hvp, "data": normal.data}
    acceptance = Learned(_walks, np.linalg.inv(COVARIANCE), RandomWalk(0.9), direct=True)
    bridge = {
        "initial": wide,
        "first": lambda g, n: 2 * g.standard_normal((n, 2)),
        "log_ratio": 0.5 * float(np.log(np.linalg.det(COVARIANCE) / 16)),
    }
    zero = np.zeros(2)
    return {
        "normal": _normal(normal, zero, COVARIANCE, **bridge),
        "rows": _normal(_rows(), ROWS.mean(axis=0) / 2, np.eye(2)),
        "score only": _normal(xps.Target(None, **score, acceptance=LineIntegral(1)), zero, COVARIANCE),
        "learned": _normal(xps.Target(None, **score, acceptance=acceptance), zero, COVARIANCE),
        "half-normal": _half_normal(),
        "bits": _finite(xps.Binary(), np.asarray([0.5, -0.4, 0.3])),
        "spins": _finite(xps.Spins(), np.asarray([0.3, -0.2, 0.2])),
        "ragged": _finite(xps.Categorical(((0, 1), (0, 1, 2), (-1.0, 0.5, 2.0))), np.asarray([0.5, -0.4, 0.3])),
        "bits, one forbidden": _finite(xps.Binary(), np.asarray([0.5, -0.4, 0.3]), forbidden=True),
        "mixed": _mixed(),
        "simplex": _simplex(),
    }


def _walks(x_new: np.ndarray, x: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """The logit of Barker's acceptance for a symmetric proposal."""
    return 0.5 * (np.sum(x * (x @ precision), axis=-1) - np.sum(x_new * (x_new @ precision), axis=-1))
