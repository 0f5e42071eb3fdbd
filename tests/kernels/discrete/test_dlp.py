"""Discrete Langevin, unadjusted and adjusted, against its transition matrix; and broken ones, which must not fit it."""

import math

import numpy as np
import pytest

from tests.kernels.discrete import discrete_support as exact
from xpsample import DMALA, DULA, GWG, sample
from xpsample.core.errors import HyperparameterError
from xpsample.kernels import ChainState, Kernel, metropolis
from xpsample.kernels.discrete.common import choose, choose_or_stay, log_probability_or_stay, space_of
from xpsample.kernels.discrete.dlp import langevin_moves, langevin_noise
from xpsample.spaces import Binary
from xpsample.targets import Target

STEP = 0.8
BROKEN_STEP = 2.0  # large enough that an uncorrected proposal is far off


@exact.every_problem
def test_the_formula_without_it_is_not(problem):
    """DULA leaves another law invariant, and is off detailed balance."""
    matrix = exact.langevin(problem, STEP)
    pi = exact.stationary(problem.log_pi)
    assert 0.5 * np.sum(np.abs(pi @ matrix - pi)) > 1e-3  # total variation after one step from exact draws
    assert exact.balance_error(matrix, problem.log_pi) > 1e-5


@exact.every_problem
def test_dula_is_its_proposal(problem):
    exact.assert_transitions(problem, DULA(STEP), exact.langevin(problem, STEP))


def test_eq_29_of_srmc_is_half_the_step():
    """exp(-|y - x - eta s|^2 / (4 eta)) is the proposal at step size 2 eta."""
    problem, eta = exact.PROBLEMS["levels"], 0.4
    gap = problem.states[None] - problem.states[:, None] - eta * problem.score[:, None]
    weights = np.exp(-np.sum(gap**2, axis=-1) / (4 * eta))
    np.testing.assert_allclose(
        exact.langevin(problem, 2 * eta), weights / weights.sum(axis=1, keepdims=True), rtol=1e-10
    )


def test_a_chain_whose_score_is_lost_is_frozen():
    problem = exact.PROBLEMS["bits"]
    target = Target(None, score=lambda x: np.where(np.sum(x, -1, keepdims=True) > 3, np.nan, 1 + 0 * x), space=Binary())
    x0 = np.zeros((100, 4), dtype=np.int64)
    with pytest.warns(Warning, match="diverge|froze"):
        trace = sample(target, DULA(2.0), x0, 50, seed=1)
    assert trace.run_statistics.diverged.max() > 10 and np.all(trace.draws.sum(-1) < 4)
    assert problem.dim == 4


@pytest.mark.sampled(2)
@pytest.mark.parametrize("moves", [(1, 1), (1, 3), (2, 1), (3, 2)])
def test_choices_among_staying_and_moves_by_hand(library, moves):
    """For one variable and several, of two values and of more: softmax of (0, moves), and its inverse CDF."""
    rng = np.random.default_rng(7)
    weights = rng.normal(size=(50, *moves)) * np.asarray([0.1, 1.0, 10.0, 300.0, 2.0] * 10)[:, None, None]
    logits = np.concatenate([np.zeros((50, moves[0], 1)), weights], axis=-1)
    top = logits.max(axis=-1, keepdims=True)
    log_p = logits - top - np.log(np.sum(np.exp(logits - top), axis=-1, keepdims=True))
    for k in range(moves[1] + 1):
        choice = library.array(np.full((50, moves[0]), k, dtype=np.int32))
        found = log_probability_or_stay(library.xp, library.array(weights), choice)
        np.testing.assert_allclose(library.host(found), log_p[..., k], rtol=1e-10, atol=1e-12)
    uniform = rng.random((50, moves[0]))
    expected = np.sum(np.cumsum(np.exp(log_p), axis=-1)[..., :-1] < uniform[..., None], axis=-1)
    found = choose_or_stay(library.xp, library.array(weights), library.array(uniform))
    assert found.dtype == library.xp.int32
    np.testing.assert_array_equal(library.host(found), expected)
    assert len(np.unique(expected)) == moves[1] + 1


# ---- broken on purpose -----------------------------------------------------------------------------------------------


class Broken(Kernel):
    """DMALA put together again, with parts that can be spoilt."""

    requires = DMALA.requires

    def init(self, target, x):
        return ChainState(target.evaluate(x))

    def noise(self, x):
        return langevin_noise(x)

    def step(self, target, state, noise):
        xp, current = target.xp, state.point
        moves = self.moves(target, current)
        choice = choose_or_stay(xp, moves, noise["proposal"][..., : moves.shape[-2]])
        y = target.evaluate(space_of(target).move(xp, current.x, choice))
        moves_back = self.moves(target, self.seen_from(y, current))
        back = log_probability_or_stay(xp, moves_back, space_of(target).back(xp, choice))
        ratio = self.ratio(y, current, xp.sum(back - log_probability_or_stay(xp, moves, choice), axis=-1))
        point, info = metropolis(target, ratio, noise["accept"], y, current, target.costs.evaluate)
        return ChainState(point), info

    def moves(self, target, point):
        return langevin_moves(target, point, BROKEN_STEP, 0.5)

    def seen_from(self, proposal, current):
        return proposal

    def ratio(self, y, x, proposals):
        return y.log_density - x.log_density + proposals


class NoCorrection(Broken):
    def ratio(self, y, x, proposals):
        return 0 * proposals


class Swapped(Broken):
    """Forward and reverse proposal exchanged in the ratio."""

    def ratio(self, y, x, proposals):
        return y.log_density - x.log_density - proposals


class GradientAtX(Broken):
    """The reverse proposal made with the score of where the chain comes from."""

    def seen_from(self, proposal, current):
        return proposal._replace(score=current.score)


def test_the_unspoilt_one_fits():
    problem = exact.PROBLEMS["levels"]
    exact.assert_transitions(
        problem, Broken(), exact.metropolis_hastings(exact.langevin(problem, BROKEN_STEP), problem.log_pi)
    )


@pytest.mark.first_cases(3)
@exact.every_problem
@pytest.mark.parametrize("kind", [NoCorrection, Swapped, GradientAtX])
def test_a_broken_one_does_not(problem, kind):
    """By its frequencies, and by its acceptance probabilities; its proposals are right."""
    proposal = exact.langevin(problem, BROKEN_STEP)
    found, _ = exact.step_from_every_state(problem, kind(), exact.per_state(problem), seed=1)
    assert exact.misfit(found, exact.metropolis_hastings(proposal, problem.log_pi)) < 10 * math.log(exact.ERROR)
    found, info = exact.step_from_every_state(problem, kind(), 100, exact.TINY)
    expected = exact.acceptance(proposal, problem.log_pi)[np.arange(len(problem.states))[:, None], found]
    assert np.max(np.abs(info.acceptance_probability - expected)) > 0.05


def test_outcomes_of_weight_zero_are_never_chosen(library):
    """Nor by a uniform of 0, which generators give about once in 2^24 numbers of float32."""
    logits = library.array(np.asarray([-np.inf, 0.0, -np.inf, 1.0, -np.inf]))
    uniforms = library.array(np.asarray([0.0, 0.5, 1.0 - 2.0**-24, 1.0 - 2.0**-53]))
    np.testing.assert_array_equal(library.host(choose(library.xp, logits[None, :], uniforms)), [1, 3, 3, 3])


@pytest.mark.parametrize("make", [lambda: DMALA(0.0), lambda: DULA(-1.0), lambda: DMALA(1.0, -0.5), lambda: GWG(-0.1)])
def test_out_of_range(make):
    with pytest.raises(HyperparameterError, match=r"must be (greater than|at least) 0"):
        make()
