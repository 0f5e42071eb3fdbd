"""Transition matrices on small discrete spaces, written out from the formulas in NumPy, and kernels compared with them.

Nothing here uses the library's moves: states are listed, and which value a variable has is read off them.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from array_api_compat import array_namespace
from scipy import stats

from tests.kernels.support import NumPy
from xpsample.spaces import Binary, Categorical, OneHot, Spins
from xpsample.targets import Target

ERROR = 1e-9
"""Chance that a comparison of frequencies fails for a right kernel; seeds are fixed."""
CHAIN_STEPS = 160_000
TINY = 1e-300


def log_density(x, d):
    xp = array_namespace(x)
    square = x * x  # a power is a function call for each number
    return xp.sum(d["b"] * x - 0.05 * square * square, axis=-1) + 0.5 * xp.sum(x * (x @ d["w"]), axis=-1)


@dataclass(frozen=True, eq=False)
class Problem:
    """A density on a small space, coupled and not quadratic, so that its score is wrong about differences."""

    space: Any
    dim: int
    blocks: int = 1  # coordinates of a variable
    chain: bool = False  # whether each variable is coupled with the one before and the one after it only

    @cached_property
    def target(self):
        rng = np.random.default_rng(self.dim)
        w = rng.normal(size=(self.dim, self.dim)) * 0.4
        variable = np.arange(self.dim) // self.blocks
        w[self.chain & (abs(variable[:, None] - variable) > 1)] = 0.0
        data = {"b": rng.normal(size=self.dim) * 0.4, "w": (w + w.T) / 2}
        return Target(
            log_density,
            score=lambda x, d: d["b"] - 0.2 * x * x * x + x @ d["w"],
            hvp=lambda x, v, d: -0.6 * x * x * v + v @ d["w"],
            data=data,
            space=self.space,
        )

    @cached_property
    def states(self):
        return self.space.states(self.dim)

    @cached_property
    def log_pi(self):
        return log_density(self.states, self.target.data)

    @cached_property
    def score(self):
        return self.target.score(self.states, self.target.data)

    def hvp(self, v):
        return self.target.hvp(self.states, v, self.target.data)

    @cached_property
    def variables(self):
        """Each variable's part of every state, (states, variables, coordinates)."""
        return self.states.reshape(len(self.states), -1, self.blocks)

    @cached_property
    def neighbors(self):
        """Whether two states differ in one variable."""
        different = np.any(self.variables[:, None] != self.variables[None], axis=-1)
        return different.sum(axis=-1) == 1

    def index(self, x):
        """Which state each position is."""
        codes = self.states @ self._code
        order = np.argsort(codes)
        found = order[np.searchsorted(codes[order], x.astype(np.float64) @ self._code - 1e-9)]
        assert np.array_equal(self.states[found], x)
        return found

    @cached_property
    def _code(self):
        return np.random.default_rng(1).normal(size=self.dim)


PROBLEMS = {
    "bits": Problem(Binary(), 4),
    "spins": Problem(Spins(), 9),
    "levels": Problem(Categorical((0, 1, 2)), 4),
    "ragged": Problem(Categorical(((0, 1), (-1.0, 0.5, 2.0), (1,), (0, 1, 2, 3))), 4),
    "one-hot": Problem(OneHot(3), 6, 3),
}
every_problem = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)


def stationary(log_pi):
    weights = np.exp(log_pi - log_pi.max())
    return weights / weights.sum()


# ---- proposals, (states, states) -------------------------------------------------------------------------------------


def rows_to_one(weights):
    return weights / weights.sum(axis=1, keepdims=True)


def langevin(problem, step_size, balance=0.5, score=None):
    """A product over the variables of softmax(balance s (v - x) - |v - x|^2 / (2 step_size)) over all values v."""
    score = problem.score if score is None else score
    x, s = problem.variables, score.reshape(problem.variables.shape)
    result = np.ones((len(x), len(x)))
    for m in range(x.shape[1]):
        values = np.unique(x[:, m], axis=0)  # (values, coordinates)
        change = values[None] - x[:, m][:, None]  # (states, values, coordinates)
        weights = np.exp(balance * np.sum(s[:, m][:, None] * change, -1) - np.sum(change**2, -1) / (2 * step_size))
        place = np.argmax(np.all(x[:, m][:, None] == values[None], axis=-1), axis=1)
        result *= rows_to_one(weights)[:, place]
    return result


def with_gradients(problem, temperature=0.5, score=None):
    """exp(temperature s . (y - x)) over the neighbors y (Eq. 27)."""
    score = problem.score if score is None else score
    change = problem.states[None] - problem.states[:, None]
    return rows_to_one(np.where(problem.neighbors, np.exp(temperature * np.sum(score[:, None] * change, -1)), 0.0))


G = {"Barker": lambda t: t / (1 + t), "SquareRoot": np.sqrt, "Max": lambda t: np.maximum(1.0, t)}


def balanced(problem, g, log_pi=None):
    """g(pi(y) / pi(x)) over the neighbors y (Eq. 24)."""
    log_pi = problem.log_pi if log_pi is None else log_pi
    return rows_to_one(np.where(problem.neighbors, g(np.exp(log_pi[None] - log_pi[:, None])), 0.0))


def uniform(problem):
    return rows_to_one(np.where(problem.neighbors, 1.0, 0.0))


# ---- transition matrices ---------------------------------------------------------------------------------------------


def acceptance(proposal, log_pi):
    """min(1, pi(y) q(y, x) / (pi(x) q(x, y))); 1 where nothing is proposed."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.exp(log_pi[None] - log_pi[:, None]) * proposal.T / proposal
    return np.where(proposal > 0, np.minimum(1.0, ratio), 1.0)


def metropolis_hastings(proposal, log_pi):
    matrix = proposal * acceptance(proposal, log_pi)
    np.fill_diagonal(matrix, 0.0)
    np.fill_diagonal(matrix, 1 - matrix.sum(axis=1))
    return matrix


def heat_bath(problem):
    """One variable at random, drawn from its conditional law."""
    n = problem.variables.shape[1]
    return sum(one_variable(problem, m) for m in range(n)) / n


def one_variable(problem, m, heat_bath=True):
    """Variable m from its conditional law, or one of its other values, all alike, by Metropolis."""
    pi, x = stationary(problem.log_pi), problem.variables
    others = np.delete(x, m, axis=1)
    same = np.all(others[:, None] == others[None], axis=(2, 3))
    if heat_bath:
        return rows_to_one(np.where(same, pi[None], 0.0))
    proposal = np.where(same & ~np.eye(len(x), dtype=bool), 1.0 / (problem.space.choices - 1), 0.0)
    return metropolis_hastings(proposal, problem.log_pi)


def sweep(problem, colors):
    """All variables of a color from their conditional laws, each given the rest as it was, color after color."""
    pi, x = stationary(problem.log_pi), problem.variables
    matrix = np.eye(len(x))
    for color in np.unique(colors):
        step = np.ones((len(x), len(x)))
        others = x[:, np.asarray(colors) != color]
        step *= np.all(others[:, None] == others[None], axis=(2, 3))
        for m in np.flatnonzero(np.asarray(colors) == color):
            others, (_, which) = np.delete(x, m, axis=1), np.unique(x[:, m], axis=0, return_inverse=True)
            same = np.all(others[:, None] == others[None], axis=(2, 3))
            law = rows_to_one(np.where(same, pi[None], 0.0)) @ np.eye(which.max() + 1)[which.ravel()]
            step *= law[:, which.ravel()]
        matrix = matrix @ step
    return matrix


def invariance_error(matrix, log_pi):
    pi = stationary(log_pi)
    return np.max(np.abs(pi @ matrix - pi))


def balance_error(matrix, log_pi):
    flow = stationary(log_pi)[:, None] * matrix
    return np.max(np.abs(flow - flow.T))


# ---- a kernel's own --------------------------------------------------------------------------------------------------


def step_from_every_state(problem, kernel, chains, accept=None, seed=0, library=NumPy, stratified=False):
    """One step of `chains` chains from each state: indices of where they are, (states, chains), and the info.

    With ``accept`` a number, all accept uniforms are that number: `TINY` shows every proposal. Stratified uniforms are,
    for each of the other streams and coordinates, the midpoints of `chains` equal intervals in random order.
    """
    x = np.repeat(problem.states[:, None], chains, axis=1)
    rng = np.random.default_rng(seed)
    noise = {name: rng.random(spec.shape) for name, spec in kernel.noise(x).items()}
    if stratified:
        noise = {name: (np.argsort(rows, axis=1) + 0.5) / chains for name, rows in noise.items()}
    if accept is not None:
        noise["accept"] = np.full_like(noise["accept"], accept)
    bound = problem.target.prepare(library.array(x), kernel.requires)
    state = kernel.init(bound, library.array(x))
    new, info = kernel.step(bound, state, {name: library.array(rows) for name, rows in noise.items()})
    y = library.host(new.point.x)
    return problem.index(y.reshape(-1, problem.dim)).reshape(y.shape[:-1]), info


def per_state(problem):
    """Chains from each state."""
    return CHAIN_STEPS // len(problem.states)


def misfit(found, matrix):
    """Log of the p-value of frequencies against a matrix: Pearson's test of all rows at once.

    Cells that expect fewer than 5 are pooled, row by row; a chain where none can be gives -inf.
    """
    states, chains = found.shape
    counts = np.stack([np.bincount(row, minlength=states) for row in found])
    expected = chains * matrix
    if np.any(counts[expected <= 0] > 0):
        return -math.inf
    statistic, freedom = 0.0, 0
    for n, e in zip(counts, expected, strict=True):
        small = e < 5
        n, e = np.append(n[~small], n[small].sum()), np.append(e[~small], e[small].sum())
        n, e = n[e > 0], e[e > 0]
        if e[-1] < 5 and len(e) > 1:  # the pool itself is small: into its neighbor
            n, e = np.append(n[:-2], n[-2] + n[-1]), np.append(e[:-2], e[-2] + e[-1])
        statistic += np.sum((n - e) ** 2 / e)
        freedom += len(e) - 1
    return stats.chi2.logsf(statistic, freedom)


def assert_transitions(problem, kernel, matrix, chains=None):
    found, _ = step_from_every_state(problem, kernel, chains or per_state(problem), seed=1)
    assert misfit(found, matrix) > math.log(ERROR)


def assert_proposals(problem, kernel, proposal, log_pi=None):
    """Under stratified uniforms every variable has each value as often as `proposal` says, to one in `chains`: exactly.

    And each proposal has its exact acceptance probability.
    """
    log_pi, chains = problem.log_pi if log_pi is None else log_pi, max(400, per_state(problem) // 4)
    found, info = step_from_every_state(problem, kernel, chains, TINY, seed=2, stratified=True)
    frequencies = np.stack([np.bincount(row, minlength=len(problem.states)) for row in found]) / chains
    for m in range(problem.variables.shape[1]):
        values, which = np.unique(problem.variables[:, m], axis=0, return_inverse=True)
        has = np.arange(len(values)) == which.reshape(-1, 1)
        # The choice is by an inverse CDF: a value takes an interval of the uniforms, or one for each way to reach it.
        ways = max(1, problem.neighbors[0].sum())
        assert np.max(np.abs((frequencies - proposal) @ has)) < (ways + 1) / chains
    assert_acceptance(problem, found, info.acceptance_probability, proposal, log_pi)


def assert_acceptance(problem, found, probability, proposal, log_pi, tolerance=1e-9):
    expected = acceptance(proposal, log_pi)[np.arange(len(problem.states))[:, None], found]
    np.testing.assert_allclose(probability, expected, rtol=tolerance, atol=tolerance)
