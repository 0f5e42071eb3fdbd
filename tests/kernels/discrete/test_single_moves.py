"""Single moves against their matrices; balancing functions and choices by hand; states and values without a density."""

import math
from contextlib import nullcontext
from itertools import permutations

import numpy as np
import pytest
from array_api_compat import array_namespace

from tests.kernels.discrete import discrete_support as exact
from tests.kernels.discrete.discrete_support import assert_proposals, every_problem, uniform
from tests.kernels.support import NumPy, noise_of, walk
from xpsample import DMALA, GWG, Gibbs, LocallyBalanced, SingleFlip, Sweep, sample
from xpsample.core.errors import DivergenceWarning
from xpsample.kernels import Barker, Max, SquareRoot
from xpsample.kernels.discrete.common import choose, log_probability
from xpsample.spaces import Binary, Categorical
from xpsample.targets import Target


@exact.every_problem
def test_the_heat_bath_is_its_matrix(problem):
    matrix = exact.heat_bath(problem)
    assert exact.invariance_error(matrix, problem.log_pi) < 1e-12
    assert exact.balance_error(matrix, problem.log_pi) < 1e-12
    exact.assert_transitions(problem, Gibbs(), matrix)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_value_without_a_finite_density_is_never_drawn_and_counts_where_it_is_met(bad):
    """The second variable of (1, x) has no density at 2; that of (0, x) has one everywhere."""

    def log_density(x):
        return np.where((x[..., 0] == 1) & (x[..., 1] == 2), bad, 0.0)

    target, kernel = Target(log_density, space=Categorical((0, 1, 2))), Gibbs()
    x = np.repeat([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], 50, axis=0)
    noise = {"variable": np.full((1, 200), 0.75), "value": np.tile((np.arange(50) + 0.5) / 50, 4)[None]}
    positions, (info,), _ = walk(NumPy, kernel, x, noise, target)
    np.testing.assert_array_equal(info.diverged, x[:, 0] == 1)
    drawn = positions[0][:, 1].reshape(4, 50)
    assert [np.unique(row).tolist() for row in drawn] == [[0, 1, 2], [0, 1, 2], [0, 1], [0, 1]]


@pytest.mark.parametrize("kernel", [Gibbs(), Sweep(), Sweep(heat_bath=True)], ids=str)
def test_states_of_no_probability_are_avoided(kernel):
    def log_density(x):
        xp = array_namespace(x)
        return xp.where(xp.sum(x, axis=-1) > 3, -xp.inf, 0.0)

    x0 = np.zeros((100, 3), dtype=np.int64)
    run = sample(Target(log_density, space=Categorical((0, 1, 2))), kernel, x0, 100, seed=1)
    assert run.draws.sum(-1).max() == 3 and run.run_statistics.diverged.sum() == 0


FUNCTIONS = {"Barker": Barker(), "SquareRoot": SquareRoot(), "Max": Max()}
every_function = pytest.mark.parametrize("name", FUNCTIONS)


@every_problem
def test_the_state_holds_the_point_of_its_position(problem):
    """Densities and differences are those of the proposal where it was taken, and else the old ones."""
    kernel, x = LocallyBalanced(), problem.states[:40]
    _, infos, state = walk(NumPy, kernel, x, noise_of(kernel, x, 5), problem.target)
    expected = problem.target.prepare(x, kernel.requires).evaluate(state.point.x)
    np.testing.assert_allclose(state.point.log_density, expected.log_density, rtol=1e-12)
    np.testing.assert_allclose(state.point.differences, expected.differences, rtol=1e-12)
    assert 0 < np.mean(infos[-1].moved) < 1


@every_function
def test_a_balancing_function_is_balanced(library32, name):
    """log g(t) = log t + log g(1 / t), also where exp(log t) overflows in float32."""
    xp, log_ratio = library32.xp, library32.array(np.asarray([-1e4, -200.0, -1.0, 0.0, 0.5, 300.0, 2e4]))
    there, back = (library32.host(FUNCTIONS[name].log(xp, r)) for r in (log_ratio, -log_ratio))
    assert np.all(np.isfinite(there))
    np.testing.assert_allclose(there - back, library32.host(log_ratio), rtol=1e-5, atol=1e-6)


@every_function
def test_impossible_states_are_never_reached(name):
    """Neighbors of density 0; `Max` proposes them, and counts divergences."""

    def log_density(x):
        xp = array_namespace(x)
        return xp.where(xp.sum(x, axis=-1) > 2, -xp.inf, 0.3 * x[..., 0])

    x0 = np.zeros((200, 4), dtype=np.int64)
    target, kernel = Target(log_density, space=Binary()), LocallyBalanced(FUNCTIONS[name])
    with pytest.warns(DivergenceWarning) if name == "Max" else nullcontext():
        run = sample(target, kernel, x0, 50, seed=1)
    assert run.draws.sum(-1).max() == 2
    assert bool(run.run_statistics.diverged.sum() > 0) is (name == "Max")


@every_problem
def test_at_temperature_zero_all_moves_are_alike(problem):
    """Also where variables have different numbers of values."""
    assert_proposals(problem, GWG(0.0), uniform(problem))


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


KERNELS = {
    "single flip": (SingleFlip(), exact.uniform),
    "GWG": (GWG(), exact.with_gradients),
    "GWG, temperature 1": (GWG(1.0), lambda problem: exact.with_gradients(problem, 1.0)),
    "Barker": (LocallyBalanced(Barker()), lambda problem: exact.balanced(problem, exact.G["Barker"])),
    "SquareRoot": (LocallyBalanced(SquareRoot()), lambda problem: exact.balanced(problem, exact.G["SquareRoot"])),
    "Max": (LocallyBalanced(Max()), lambda problem: exact.balanced(problem, exact.G["Max"])),
    "DMALA": (DMALA(0.8), lambda problem: exact.langevin(problem, 0.8)),
    "DMALA, balance 0.9": (DMALA(0.8, 0.9), lambda problem: exact.langevin(problem, 0.8, 0.9)),
}
"""Each with its proposals, written out for all pairs of states."""


@pytest.mark.sampled(5)
@pytest.mark.first_cases(8)
@exact.every_problem
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_its_matrix(problem, name):
    kernel, proposal = KERNELS[name][0], KERNELS[name][1](problem)
    matrix = exact.metropolis_hastings(proposal, problem.log_pi)
    assert exact.invariance_error(matrix, problem.log_pi) < 1e-12
    assert exact.balance_error(matrix, problem.log_pi) < 1e-12
    exact.assert_proposals(problem, kernel, proposal)
    exact.assert_transitions(problem, kernel, matrix)


@pytest.mark.parametrize(
    ("kernel", "other", "problem"),
    [
        (Gibbs(), "single flip", "levels"),
        (GWG(0.6), "GWG", "ragged"),
        *((KERNELS[one][0], other, "levels") for one, other in permutations(exact.G, 2)),
    ],
)
@pytest.mark.first_cases(2)
def test_kernels_are_told_apart(kernel, other, problem):
    problem = exact.PROBLEMS[problem]
    found, _ = exact.step_from_every_state(problem, kernel, exact.per_state(problem), seed=1)
    assert exact.misfit(found, exact.metropolis_hastings(KERNELS[other][1](problem), problem.log_pi)) < 2 * math.log(
        exact.ERROR
    )
