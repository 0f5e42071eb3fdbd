"""The discrete kernels under test, on spaces whose states can be listed."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from xpsample.conformance.distributions import Distribution, Enumerated
from xpsample.conformance.scenario import AsArray, Scenario
from xpsample.core.arrays import Array
from xpsample.hiss.kernel import HiSS
from xpsample.hiss.smoothed import Gaussian
from xpsample.kernels import (
    ACS,
    DMALA,
    DULA,
    GWG,
    RWM,
    Barker,
    ChromaticGibbs,
    Cosine,
    Gibbs,
    Kernel,
    LocallyBalanced,
    Max,
    SingleFlip,
    SquareRoot,
    Swap,
    Sweep,
    SwendsenWang,
    Table,
    TwoOpt,
)
from xpsample.spaces import Categorical, Discrete, Integers, OneHot, Permutations, Spins
from xpsample.srmc import SRMC, Frozen, PowerLaw
from xpsample.targets import Exact, Ratio, Target, Tempered, Tilt, Untilted
from xpsample.zoo.ising import ising_lattice, potts
from xpsample.zoo.tsp import tour_length, tsp

ALPHA = 0.3


@dataclass(frozen=True)
class Finite:
    """A coupled density on a small space. It is not quadratic, so that scores only estimate its differences."""

    space: Discrete
    dim: int
    dtype: str = "float64"

    def target(self, asarray: AsArray) -> Target:
        """The target, with score and Hessian-vector product."""
        generator = np.random.default_rng(self.dim)
        w = 0.25 * generator.standard_normal((self.dim, self.dim))
        data = {"b": 0.4 * generator.standard_normal(self.dim), "w": w + w.T}
        return Target(_log_density, score=_score, hvp=_hvp, data=data, space=self.space)

    def stationary(
        self, weigh: Callable[[np.ndarray, np.ndarray], np.ndarray] = lambda states, log_pi: log_pi
    ) -> Enumerated:
        """The distribution. `weigh` gives other log weights, from states (number, dim) and log densities (number,)."""
        states = self.space.states(self.dim)
        log_weights = weigh(states, np.asarray(_log_density(states, self.target(np.asarray).data)))
        return Enumerated(states.astype(self.dtype), log_weights)

    def feature(self, tilt: Tilt) -> np.ndarray:
        """Score in a tilt, at every state: the discrete score with `Ratio`, otherwise the gradient."""
        states, data = self.space.states(self.dim), self.target(np.asarray).data
        if not isinstance(tilt, Ratio):
            return np.asarray(_score(states, data))
        log_pi = {tuple(state): log for state, log in zip(states, np.asarray(_log_density(states, data)), strict=True)}
        values = [np.unique(column) for column in states.T]  # in order, as in the spaces here
        result = np.empty_like(states)
        for s, state in enumerate(states):
            for i, row in enumerate(values):
                mirrored = state.copy()
                mirrored[i] = row[len(row) - 1 - np.searchsorted(row, state[i])]
                result[s, i] = np.expm1(log_pi[tuple(mirrored)] - log_pi[tuple(state)])
        return result


def _log_density(x: Array, data: Any) -> Array:
    each = x * (data["b"] - 0.05 * x * x * x + 0.5 * (x @ data["w"]))
    return array_namespace(x).sum(each, axis=-1)


def _score(x: Array, data: Any) -> Array:
    return data["b"] - 0.2 * x * x * x + x @ data["w"]


def _hvp(x: Array, v: Array, data: Any) -> Array:
    return -0.6 * x * x * v + v @ data["w"]


RAGGED = Finite(Categorical(((0, 1), (0, 1, 2), (-1.0, 0.5, 2.0))), 3)
SPINS = Finite(Spins(), 4, "int32")
REAL_SPINS = Finite(Spins(), 4)
CITIES = np.array([[0.0, 0.0], [3.0, 0.5], [2.5, 2.0], [1.0, 4.0], [-0.5, 1.5]])
LEVELS = Finite(Categorical(((0, 1, 2, 3, 4), (-1, 0, 1, 2, 3))), 2)
RANKS = np.cos(np.arange(25.0) ** 2).reshape(5, 5)
LATTICE, FIELD = (2, 3), np.linspace(-0.5, 0.8, 6)
THREE = np.linspace(-0.5, 0.4, 12).reshape(4, 3)
CHECKERBOARD = (0, 1, 0, 1, 0, 1)
ONE_HOT = Finite(OneHot(3), 6, "int32")


def finite(
    name: str, kernel: Callable[[AsArray], Kernel], where: Finite = RAGGED, stationary: Distribution | None = None
) -> Scenario:
    """A kernel that leaves the distribution of `where`, or another one, `stationary`, invariant."""
    return Scenario(name, where.target, kernel, stationary or where.stationary())


def finite_repellent(name: str, base: Callable[[AsArray], Kernel], tilt: Tilt, where: Finite = RAGGED) -> Scenario:
    """SRMC over a kernel that leaves its target invariant. When frozen, all chains have the same history."""

    def frozen(asarray: AsArray, generator: np.random.Generator, chains: int) -> tuple[Kernel, Distribution]:
        theta = generator.standard_normal(where.dim)
        stationary = where.stationary(lambda states, log_pi: log_pi - ALPHA * where.feature(tilt) @ theta)
        return SRMC(base(asarray), ALPHA, Frozen(), tilt, asarray(theta)), stationary

    return Scenario(
        name,
        where.target,
        lambda a, alpha=ALPHA: SRMC(base(a), alpha, PowerLaw(0.8), tilt),
        where.stationary(),
        base=base,
        frozen=frozen,
        tilt=tilt,
    )


def _unadjusted_stationary(where: Finite, step_size: float) -> Enumerated:
    """The stationary distribution of unadjusted discrete Langevin steps: the left eigenvector of their matrix."""
    states = where.space.states(where.dim)
    score = _score(states, where.target(np.asarray).data)
    matrix = np.ones((len(states), len(states)))
    for i, column in enumerate(states.T):
        values, which = np.unique(column, return_inverse=True)
        change = values - column[:, None]
        weights = np.exp(0.5 * score[:, i : i + 1] * change - change**2 / (2 * step_size))
        matrix *= (weights / weights.sum(axis=1, keepdims=True))[:, which]
    stationary = np.linalg.matrix_power(matrix, 2**12)[0]
    return where.stationary(lambda states, log_pi: np.log(stationary))


def _tours(temperature: float) -> Enumerated:
    tours = np.array(list(itertools.permutations(range(len(CITIES)))), dtype=np.int32)
    lengths = np.linalg.norm(CITIES[:, None] - CITIES, axis=-1)
    return Enumerated(tours, -tour_length(tours, lengths.ravel()) / temperature)


def _ranking(asarray: AsArray) -> Target:
    """A weight for every item at every place."""
    return Target(_weight, data={"items": np.arange(5.0), "weights": RANKS}, space=Permutations())


def _weight(x: Array, data: Any) -> Array:
    xp = array_namespace(x)
    chosen = xp.astype(x[..., None] == data["items"], x.dtype)
    return xp.sum(chosen * data["weights"], axis=(-2, -1))


def _rankings() -> Enumerated:
    orders = np.array(list(itertools.permutations(range(5))), dtype=np.int32)
    return Enumerated(orders, RANKS[np.arange(5), orders].sum(axis=-1))


def _integers(asarray: AsArray) -> Target:
    return replace(LEVELS.target(asarray), space=Integers((0, -1), (4, 3)))


def _lattice(asarray: AsArray) -> Target:
    return ising_lattice(LATTICE, 0.3, FIELD, periodic=False)


def _of_lattice() -> Enumerated:
    target, states = _lattice(np.asarray), Spins().states(len(FIELD))
    return Enumerated(states, np.asarray(target.log_density(states, target.data)))


def _potts(asarray: AsArray) -> Tempered:
    return Tempered(potts((2, 2), 3, 0.8, THREE, one_hot=False), 0.7)


def _of_potts() -> Enumerated:
    target, states = potts((2, 2), 3, 0.8, THREE, one_hot=False), Categorical((0, 1, 2)).states(4)
    return Enumerated(states, 0.7 * np.asarray(target.log_density(states, target.data)))


def discrete_scenarios() -> list[Scenario]:
    """Every kernel on discrete spaces, plain and score-repellent."""
    bases: dict[str, Callable[[AsArray], Kernel]] = {
        "gwg": lambda a: GWG(),
        "dmala": lambda a: DMALA(0.8),
        "balanced": lambda a: LocallyBalanced(SquareRoot()),
        "acs": lambda a: ACS(Cosine(0.8, 5)),
        "single-flip": lambda a: SingleFlip(),
        "gibbs": lambda a: Gibbs(),
    }
    plain = [
        finite("gwg", bases["gwg"]),
        finite("gwg-one-hot", bases["gwg"], ONE_HOT),
        finite("dula", lambda a: DULA(0.8), RAGGED, _unadjusted_stationary(RAGGED, 0.8)),
        finite("dmala", bases["dmala"]),
        finite("dmala-spins", lambda a: DMALA(2.0, 0.8), SPINS),
        finite("dmala-one-hot", bases["dmala"], ONE_HOT),
        finite("balanced-barker", lambda a: LocallyBalanced(Barker())),
        finite("balanced-square-root", bases["balanced"], SPINS),
        finite("balanced-max", lambda a: LocallyBalanced(Max())),
        finite("single-flip", bases["single-flip"]),
        finite("gibbs", bases["gibbs"]),
        finite("gibbs-one-hot", bases["gibbs"], ONE_HOT),
        Scenario("gibbs-chromatic", _lattice, lambda a: ChromaticGibbs(CHECKERBOARD), _of_lattice()),
        finite("sweep", lambda a: Sweep()),
        finite("sweep-one-hot", lambda a: Sweep(heat_bath=True), ONE_HOT),
        Scenario("sweep-lattice", _lattice, lambda a: Sweep(), _of_lattice()),
        Scenario("sweep-lattice-heat-bath", _lattice, lambda a: Sweep(heat_bath=True), _of_lattice()),
        Scenario("swendsen-wang", _lattice, lambda a: SwendsenWang(), _of_lattice()),
        Scenario("swendsen-wang-potts", _potts, lambda a: SwendsenWang(), _of_potts()),
        finite("acs", bases["acs"], SPINS),
        finite("acs-table", lambda a: ACS(Table(a([2.0, 0.5]), a([0.9, 0.6])))),
        finite("hiss", lambda a: HiSS(DMALA(0.8), 1.0, 2, 2)),
        finite("hiss-gaussian", lambda a: HiSS(GWG(), 1.0, 2, 1, Gaussian()), SPINS),
        Scenario("two-opt", lambda a: tsp(CITIES, 2.0), lambda a: TwoOpt(), _tours(2.0)),
        Scenario("swap", _ranking, lambda a: Swap(), _rankings()),
        Scenario("rwm-integers", _integers, lambda a: RWM(1.2), LEVELS.stationary()),
        Scenario(
            "gwg-tempered",
            lambda a: Tempered(RAGGED.target(a), 0.5),
            bases["gwg"],
            RAGGED.stationary(lambda states, log_pi: 0.5 * log_pi),
        ),
    ]
    repellent = [
        finite_repellent("sr-gwg", bases["gwg"], Exact()),
        finite_repellent("sr-gwg-untilted", bases["gwg"], Untilted()),
        finite_repellent("sr-gwg-ratio", bases["gwg"], Ratio()),
        finite_repellent("sr-dmala", bases["dmala"], Exact()),
        finite_repellent("sr-dmala-untilted", bases["dmala"], Untilted(), Finite(OneHot(3), 6)),
        finite_repellent("sr-balanced", bases["balanced"], Exact()),
        finite_repellent("sr-balanced-untilted", bases["balanced"], Untilted()),
        finite_repellent("sr-balanced-ratio", bases["balanced"], Ratio(), REAL_SPINS),
        finite_repellent("sr-acs-untilted", bases["acs"], Untilted(), REAL_SPINS),
        finite_repellent("sr-single-flip", bases["single-flip"], Untilted()),
        finite_repellent("sr-gibbs", bases["gibbs"], Untilted()),
        finite_repellent("sr-sweep", lambda a: Sweep(heat_bath=True), Untilted()),
        finite_repellent("sr-hiss", lambda a: HiSS(GWG(), 1.0, 1, 1), Untilted()),
    ]
    return plain + repellent
