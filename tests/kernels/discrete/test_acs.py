"""The automatic cyclical sampler: its cycle, each step's matrix, and its tuning."""

import itertools
import math

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

import xpsample as xps
from tests.kernels.discrete import discrete_support as exact
from tests.kernels.support import NumPy, noise_of, walk
from xpsample.core.errors import HyperparameterError
from xpsample.kernels import ACS, DMALA, Cosine, CycleSearch, Table
from xpsample.kernels.discrete.cycles import Tried
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
    alpha, _ = cycle.at(numpy_xp, np.asarray(99_999, dtype=np.int32), like)
    assert 0 < alpha < 1e-9


def test_a_step_is_dmala_with_the_numbers_of_its_place_in_the_cycle(library):
    """Over two cycles and a step, on every library."""
    problem = exact.PROBLEMS["levels"]
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
    problem = exact.PROBLEMS[name]
    matrix = exact.metropolis_hastings(exact.langevin(problem, ALPHA[0], BETA[0]), problem.log_pi)
    assert exact.invariance_error(matrix, problem.log_pi) < 1e-12
    found, _ = exact.step_from_every_state(
        problem, ACS(Cosine(STEP, LENGTH, BALANCE)), exact.per_state(problem), seed=1
    )
    assert exact.misfit(found, matrix) > math.log(exact.ERROR)


def test_a_table_may_have_a_column_for_each_chain(library):
    sizes, balances = np.arange(1.0, 13.0).reshape(4, 3), np.linspace(0.5, 0.9, 4)[:, None]
    cycle = Table(library.array(sizes), library.array(balances))
    for k in range(4):
        at = cycle.at(library.xp, library.array(np.asarray(k, dtype=np.int32)), library.array(np.zeros(3)))
        for found, row in zip(at, (sizes[k], balances[k]), strict=True):
            np.testing.assert_array_equal(library.host(found), row)


# ---- tuning ----------------------------------------------------------------------------------------------------------


def tune(target, x0, **settings):
    """The kernel that the warm-up of a short run finds."""
    settings = {"seed": xps.Portable(1), "recorders": ()} | settings
    return xps.sample(target, settings.pop("kernel", ACS()), x0, 1, **settings).kernel


def coupled(dim, strength):
    w = np.random.default_rng(0).normal(size=(dim, dim))
    w = strength * (w + w.T)
    return Target(lambda x: 0.5 * np.sum(x * (x @ w), -1), score=lambda x: x @ w, space=Binary())


@pytest.mark.first_cases(1)
def test_on_independent_bits_the_largest_step_is_taken_with_the_largest_balance(library):
    """There balance 1 and an infinite step draw from the target itself: acceptance grows with both, to 1."""
    b = np.linspace(-2, 2, 6)
    target = Target(
        lambda x, b: library.xp.sum(x * b, axis=-1), score=lambda x, b: b + 0 * x, data=library.array(b), space=Binary()
    )
    kernel = tune(target, library.array(np.zeros((20, 6))), kernel=ACS(CycleSearch(length=6)), warmup=320)
    sizes, balances = library.host(kernel.cycle.step_sizes), library.host(kernel.cycle.balances)
    assert sizes.shape == balances.shape == (6,)
    assert sizes[0] == pytest.approx(50, rel=1e-3) and balances[0] == pytest.approx(0.95, abs=1e-3)
    assert np.all(np.diff(sizes) <= 0) and np.all(np.diff(balances) <= 0)


def test_a_tuned_cycle_accepts_as_often_as_asked_for():
    """On a coupled target, at the largest step and at the smallest, where chains are draws of the target."""
    target = coupled(12, 0.8)
    kernel = tune(target, np.zeros((100, 12)), kernel=ACS(CycleSearch(acceptance=0.7)))
    sizes, balances = kernel.cycle.step_sizes, kernel.cycle.balances
    assert len(sizes) == 20
    assert np.all(np.diff(sizes) <= 0) and np.all(np.diff(balances) <= 0) and 0.05 < sizes[-1] < sizes[0] < 50
    states = np.asarray(list(itertools.product((0.0, 1.0), repeat=12)))
    weights = np.exp(target.log_density(states) - target.log_density(states).max())
    draws = states[np.random.default_rng(1).choice(len(states), 2000, p=weights / weights.sum())]
    # A step size of the grid is 1.6 times the one before it. A rate of 2,000 chains has an error below 0.01.
    for size, balance in ((sizes[0], balances[0]), (sizes[-1], 0.5)):
        rates = [
            xps.sample(
                target, DMALA(factor * size, balance), draws, 10, seed=2
            ).run_statistics.acceptance_probability.mean()
            for factor in (1.0, 1.6)
        ]
        assert rates[0] > 0.67 and rates[1] < 0.73


def test_the_search_is_that_of_the_definition():
    """From rates that are given: the ends, the cosine between them, and the balance of each step."""
    search, growth = CycleSearch(length=5, acceptance=0.5, balance=0.8), (50 / 0.05) ** (1 / 15)

    def found(rates):
        return search.final(numpy_xp, Tried(np.asarray(64.0), rates.reshape(1, 64), np.ones(64))).of_one_group()

    rates = np.full((16, 4), 0.1)
    rates[:4, 0], rates[:8, 2], rates[:4, 1], rates[0, 3] = 0.9, 0.7, 0.95, 1.0
    table = found(rates)
    smallest, largest = 0.05 * growth**3, 0.05 * growth**7
    cosine = [largest * math.cos(math.pi * k / 10) ** 2 for k in range(5)]
    np.testing.assert_allclose(table.step_sizes, np.maximum(cosine, smallest), rtol=1e-3)
    # Balances are 0.5, 0.6, 0.7 and 0.8: the second accepts most up to the fourth size, the third above. That the
    # smallest size accepts most with the fourth raises none.
    place = np.log(table.step_sizes / 0.05) / np.log(growth)
    np.testing.assert_allclose(table.balances, 0.6 + 0.1 * np.clip(place - 3, 0, 1), atol=2e-3)
    none = np.full((16, 4), 0.2)
    none[2, 1] = 0.4
    assert found(none).step_sizes[0] == pytest.approx(0.05 * growth**2, rel=1e-3)  # the one that accepts most
    np.testing.assert_allclose(found(np.ones((16, 4))).step_sizes, 50, rtol=1e-3)  # a cycle is of no use there


def test_groups_have_cycles_of_their_own_and_integers_stay():
    weak, strong = coupled(8, 0.1), coupled(8, 0.8)
    both = Target(
        lambda x: np.concatenate([weak.log_density(x[:1]), strong.log_density(x[1:])]),
        score=lambda x: np.concatenate([weak.score(x[:1]), strong.score(x[1:])]),
        space=Binary(),
    )
    x0, kernel = np.zeros((2, 50, 8), dtype=np.int64), ACS(CycleSearch(acceptance=0.8))
    cycle = tune(both, x0, kernel=kernel, warmup=640).cycle
    assert cycle.step_sizes.shape == cycle.balances.shape == (20, 2, 1)
    assert cycle.step_sizes[0, 0, 0] > 3 * cycle.step_sizes[0, 1, 0]
    assert xps.sample(both, ACS(cycle), x0, 10, seed=1).draws.dtype == np.int64


def test_what_is_tuned_around_it():
    """HiSS and tempering tune the cycle inside them; a sampler whose target changes says that it cannot."""
    target, x0 = coupled(4, 0.5), np.zeros((20, 4))
    assert tune(target, x0, kernel=xps.HiSS(ACS()), warmup=128).base.cycle.length == 20
    tempered = tune(target, x0, kernel=xps.ParallelTempering(ACS(), [1.0, 0.3]), warmup=128)
    assert tempered.base.cycle.step_sizes.shape == (20, 2, 1)
    assert tune(target, x0, warmup=85).cycle.length == 20
    for make, message in (
        (lambda: tune(target, x0, warmup=84), "warm-up was too short for all of the 64 settings"),
        (lambda: xps.AIS(ACS(), [0.0, 1.0]), r"cannot tune ACS\.cycle by CycleSearch.* Set it, such as"),
        (
            lambda: tune(target, x0, kernel=ACS(xps.LowRankMetric())),
            "cycle must be tuned by a rule such as CycleSearch",
        ),
        (lambda: Cosine(0.0, 4), "step_size"),
        (lambda: Cosine(1.0, 0), "length"),
        (lambda: Cosine(1.0, 4, -1.0), "balance"),
        (lambda: Table(np.ones(3), np.ones(4)), "3"),
        (lambda: Table(np.zeros(3), np.ones(3)), "step_sizes"),
        (lambda: CycleSearch(length=0), "length"),
        (lambda: CycleSearch(acceptance=1.0), "acceptance"),
        (lambda: CycleSearch(balance=0.4), "balance"),
    ):
        with pytest.raises(HyperparameterError, match=message):
            make()
