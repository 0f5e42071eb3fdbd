"""Gibbs with gradients against its transition matrix."""

import math

import numpy as np
import pytest

from tests.kernels.discrete.discrete_support import (
    ERROR,
    PROBLEMS,
    assert_acceptance_on,
    assert_proposals,
    assert_transitions,
    balance_error,
    every_problem,
    invariance_error,
    metropolis_hastings,
    misfit,
    per_state,
    step_from_every_state,
    uniform,
    with_gradients,
)
from xpsample import GWG
from xpsample.core.errors import HyperparameterError
from xpsample.kernels.discrete.common import choose, log_probability


@every_problem
@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_gwg_is_its_matrix(problem, temperature):
    proposal = with_gradients(problem, temperature)
    matrix = metropolis_hastings(proposal, problem.log_pi)
    assert invariance_error(matrix, problem.log_pi) < 1e-12
    assert balance_error(matrix, problem.log_pi) < 1e-12
    assert_proposals(problem, GWG(temperature), proposal)
    assert_transitions(problem, GWG(temperature), matrix)


@every_problem
def test_at_temperature_zero_all_moves_are_alike(problem):
    """Also where variables have different numbers of values."""
    assert_proposals(problem, GWG(0.0), uniform(problem))


@pytest.mark.parametrize("name", ["ragged", "one-hot"])
def test_acceptance_on_every_library(library, name):
    problem = PROBLEMS[name]
    assert_acceptance_on(library, problem, GWG(), with_gradients(problem))


def test_another_temperature_is_told_apart():
    problem = PROBLEMS["ragged"]
    found, _ = step_from_every_state(problem, GWG(0.6), per_state(problem), seed=1)
    assert misfit(found, metropolis_hastings(with_gradients(problem, 0.5), problem.log_pi)) < 2 * math.log(ERROR)


def test_temperatures_are_swept():
    """One run with a temperature for each row of chains is several runs."""
    problem, temperatures = PROBLEMS["levels"], np.asarray([0.0, 0.5, 2.0])
    x = np.broadcast_to(problem.states[:50], (3, 50, 4)).copy()
    noise = {name: np.random.default_rng(0).random((3, 50)) for name in ("proposal", "accept")}
    bound = problem.target.prepare(x, GWG().requires)
    sweep = GWG(temperatures[:, None])
    together, _ = sweep.step(bound, sweep.init(bound, x), noise)
    for i, temperature in enumerate(temperatures):
        alone = GWG(float(temperature))
        apart, _ = alone.step(bound, alone.init(bound, x[i]), {name: rows[i] for name, rows in noise.items()})
        np.testing.assert_array_equal(together.point.x[i], apart.point.x)


def test_out_of_range():
    with pytest.raises(HyperparameterError, match="temperature must be at least 0"):
        GWG(-0.1)


def test_choices_by_hand_however_far_their_weights_are_from_one(library):
    """Rows of weights from exp(-3000) to exp(3000), each its own softmax."""
    rng = np.random.default_rng(8)
    logits = rng.normal(size=(60, 4)) + np.linspace(-3000, 3000, 60)[:, None]
    away = logits - logits.max(axis=-1, keepdims=True)
    log_p = away - np.log(np.sum(np.exp(away), axis=-1, keepdims=True))
    uniform = rng.random(60)
    expected = np.sum(np.cumsum(np.exp(log_p), axis=-1) < uniform[:, None], axis=-1)
    found = choose(library.xp, library.array(logits), library.array(uniform))
    assert found.dtype == library.xp.int32
    np.testing.assert_array_equal(library.host(found), expected)
    chosen = library.host(log_probability(library.xp, library.array(logits), found))
    np.testing.assert_allclose(chosen, log_p[np.arange(60), expected], rtol=1e-9, atol=1e-9)
