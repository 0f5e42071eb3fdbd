"""The automatic cyclical sampler: its cycle, each step's matrix, and its tuning."""

import math

import numpy as np
import pytest

import xpsample as xps
from tests.kernels.discrete.discrete_support import (
    ERROR,
    PROBLEMS,
    acceptance,
    invariance_error,
    langevin,
    metropolis_hastings,
    misfit,
    per_state,
    step_from_every_state,
)
from tests.kernels.support import NumPy, noise_of, walk
from xpsample.core.errors import HyperparameterError
from xpsample.kernels import ACS, DMALA, Cosine, Table
from xpsample.spaces import Binary
from xpsample.targets import Target

LENGTH, STEP, BALANCE = 4, 0.6, 0.9
ALPHA = [STEP * (math.cos(math.pi * k / LENGTH) + 1) for k in range(LENGTH)]
BETA = [(BALANCE - 0.5) / 2 * math.cos(math.pi * k / LENGTH) + (BALANCE + 0.5) / 2 for k in range(LENGTH)]


def cycles(library):
    return [Cosine(STEP, LENGTH, BALANCE), Table(library.array(np.asarray(ALPHA)), library.array(np.asarray(BETA)))]


def test_the_cycle_is_as_published(library):
    """alpha_k = step_size (cos(pi k / s) + 1), and beta_k between `balance` and 1/2 in the same way."""
    like = library.array(np.zeros(3))
    for cycle in cycles(library):
        for k in range(LENGTH):
            at = cycle.at(library.xp, library.array(np.asarray(k, dtype=np.int32)), like)
            np.testing.assert_allclose([float(value) for value in at], (ALPHA[k], BETA[k]), rtol=1e-12)


def test_steps_of_long_cycles_stay_positive():
    cycle, like = Cosine(0.5, 100_000), np.zeros(1, dtype=np.float32)
    alpha, _ = cycle.at(np, np.asarray(99_999, dtype=np.int32), like)
    assert 0 < alpha < 1e-9


def test_a_step_is_dmala_with_the_numbers_of_its_place_in_the_cycle(library):
    """Over two cycles and a step, on every library."""
    problem = PROBLEMS["levels"]
    x = problem.states[:30]
    for cycle in cycles(library):
        kernel = ACS(cycle)
        noise = noise_of(kernel, x, 2 * LENGTH + 1)
        positions, infos, state = walk(library, kernel, x, noise, problem.target)
        assert int(state.n) == 2 * LENGTH + 1
        at = x
        for n, (y, info) in enumerate(zip(positions, infos, strict=True)):
            single = {name: rows[n : n + 1] for name, rows in noise.items()}
            k = n % LENGTH
            one, (expected,), _ = walk(NumPy, DMALA(ALPHA[k], BETA[k]), at, single, problem.target)
            np.testing.assert_array_equal(y, one[0])
            np.testing.assert_allclose(library.host(info.acceptance_probability), expected.acceptance_probability)
            at = y


@pytest.mark.parametrize("name", ["bits", "ragged", "one-hot"])
def test_the_first_step_is_its_matrix(name):
    """Proposals there and back under the same alpha and beta."""
    problem = PROBLEMS[name]
    matrix = metropolis_hastings(langevin(problem, ALPHA[0], BETA[0]), problem.log_pi)
    assert invariance_error(matrix, problem.log_pi) < 1e-12
    found, _ = step_from_every_state(problem, ACS(Cosine(STEP, LENGTH, BALANCE)), per_state(problem), seed=1)
    assert misfit(found, matrix) > math.log(ERROR)


def test_a_reverse_proposal_under_the_next_step_is_another_matrix():
    """What the exact ratio guards against: not invariant, by far more than rounding."""
    problem = PROBLEMS["bits"]
    there, back = langevin(problem, ALPHA[0], BETA[0]), langevin(problem, ALPHA[1], BETA[1])
    log_pi = problem.log_pi
    with np.errstate(divide="ignore"):
        probability = np.minimum(1, np.exp(log_pi[None] - log_pi[:, None]) * back.T / there)
    matrix = there * probability
    np.fill_diagonal(matrix, 0)
    np.fill_diagonal(matrix, 1 - matrix.sum(1))
    assert invariance_error(matrix, log_pi) > 1e-3
    found, _ = step_from_every_state(problem, ACS(Cosine(STEP, LENGTH, BALANCE)), per_state(problem), seed=1)
    assert misfit(found, matrix) < 2 * math.log(ERROR)
    assert acceptance(there, log_pi).min() < 1


def test_step_sizes_are_swept():
    problem, x = PROBLEMS["bits"], np.broadcast_to(PROBLEMS["bits"].states, (2, 16, 4)).copy()
    sizes = np.asarray([0.3, 1.0])
    sweep = ACS(Cosine(sizes[:, None], LENGTH, BALANCE))
    noise = noise_of(sweep, x, 6)
    together, _, _ = walk(NumPy, sweep, x, noise, problem.target)
    for i, size in enumerate(sizes):
        alone = {name: rows[:, i] for name, rows in noise.items()}
        apart, _, _ = walk(NumPy, ACS(Cosine(float(size), LENGTH, BALANCE)), x[i], alone, problem.target)
        np.testing.assert_array_equal(together[:, i], apart)


def test_a_table_may_have_a_column_for_each_chain(library):
    sizes, balances = np.arange(1.0, 13.0).reshape(4, 3), np.linspace(0.5, 0.9, 4)[:, None]
    cycle = Table(library.array(sizes), library.array(balances))
    for k in range(4):
        at = cycle.at(library.xp, library.array(np.asarray(k, dtype=np.int32)), library.array(np.zeros(3)))
        for found, row in zip(at, (sizes[k], balances[k]), strict=True):
            np.testing.assert_array_equal(library.host(found), row)


# ---- tuning ----------------------------------------------------------------------------------------------------------


def test_on_independent_bits_the_largest_step_is_taken_with_the_largest_balance(library):
    """There balance 1 and an infinite step draw from the target itself: acceptance grows with both, to 1."""
    b = np.linspace(-2, 2, 6)
    target = Target(lambda x, b: (x * b).sum(-1), score=lambda x, b: b + 0 * x, data=b, space=Binary())
    if library.name == "array_api_strict":
        target = Target(
            lambda x, b: library.xp.sum(x * b, axis=-1), score=lambda x, b: b + 0 * x, data=b, space=Binary()
        )
    kernel = xps.tune_acs(target, library.array(np.zeros((20, 6))), 6, seed=1, step_sizes=(0.1, 1.0, 50.0), steps=10)
    sizes, balances = library.host(kernel.cycle.step_sizes), library.host(kernel.cycle.balances)
    assert sizes[0] == 50 and balances[0] == 0.95
    assert np.all(np.diff(sizes) <= 0) and np.all(np.diff(balances) <= 0)


def test_a_tuned_cycle_accepts_as_often_as_asked_for():
    """On a coupled target, at the largest step, with 100 chains."""
    w = np.random.default_rng(0).normal(size=(12, 12))
    w = 0.8 * (w + w.T)
    target = Target(lambda x: 0.5 * np.sum(x * (x @ w), -1), score=lambda x: x @ w, space=Binary())
    kernel = xps.tune_acs(target, np.zeros((100, 12)), 8, seed=1, acceptance=0.6)
    sizes, balances = kernel.cycle.step_sizes, kernel.cycle.balances
    assert np.all(np.diff(sizes) <= 0) and np.all(np.diff(balances) <= 0) and 0.05 < sizes[-1] <= sizes[0] < 50
    rates = [
        xps.sample(
            target, DMALA(size, beta), np.zeros((100, 12)), 100, seed=2, burn_in=100, progress=False
        ).run_statistics.acceptance_probability.mean()
        for size, beta in [(sizes[0], balances[0]), (1.6 * sizes[0], 0.5), (1.6 * sizes[-1], 0.5)]
    ]
    assert rates[0] > 0.57 and rates[1] < 0.63 and rates[2] < 0.63


def test_integer_positions_are_tuned():
    target = Target(lambda x: np.sum(x, -1), score=lambda x: 1 + 0 * x, space=Binary())
    kernel = xps.tune_acs(target, np.zeros((5, 3), dtype=np.int64), 4, seed=1, steps=5)
    assert (
        xps.sample(target, kernel, np.zeros((5, 3), dtype=np.int64), 10, seed=1, progress=False).draws.dtype == np.int64
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: Cosine(0.0, 4),
        lambda: Cosine(1.0, 0),
        lambda: Cosine(1.0, 4, -1.0),
        lambda: Table(np.ones(3), np.ones(4)),
        lambda: Table(np.zeros(3), np.ones(3)),
        lambda: xps.tune_acs(PROBLEMS["bits"].target, np.zeros((2, 4)), 0, seed=1),
        lambda: xps.tune_acs(PROBLEMS["bits"].target, np.zeros((2, 4)), 4, seed=1, balance=0.4),
        lambda: xps.tune_acs(PROBLEMS["bits"].target, np.zeros((2, 4)), 4, seed=1, step_sizes=(0.0, 1.0)),
    ],
)
def test_out_of_range(make):
    with pytest.raises(HyperparameterError):
        make()
