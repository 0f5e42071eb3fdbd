"""Single-flip Metropolis and the heat bath against their transition matrices."""

import math

import numpy as np
import pytest
from array_api_compat import array_namespace

from tests.kernels.discrete import discrete_support as exact
from tests.kernels.support import NumPy, walk
from xpsample import Gibbs, Sweep, sample
from xpsample.spaces import Categorical
from xpsample.targets import Target


@exact.every_problem
def test_the_heat_bath_is_its_matrix(problem):
    matrix = exact.heat_bath(problem)
    assert exact.invariance_error(matrix, problem.log_pi) < 1e-12
    assert exact.balance_error(matrix, problem.log_pi) < 1e-12
    exact.assert_transitions(problem, Gibbs(), matrix)


@pytest.mark.parametrize("name", ["ragged", "one-hot"])
def test_heat_bath_draws_conditional_laws_on_every_library(library, name):
    """With the variable fixed by its uniform and stratified ones for the value: to one in `chains`, exactly."""
    problem, chains = exact.PROBLEMS[name], 200
    n, pi = problem.variables.shape[1], exact.stationary(problem.log_pi)
    x = np.repeat(problem.states[:, None], chains, axis=1)
    bound = problem.target.prepare(library.array(x), Gibbs().requires)
    init = library.compiled(lambda x: Gibbs().init(bound, x))
    step = library.compiled(lambda state, noise: Gibbs().step(bound, state, noise))
    value = np.broadcast_to((np.arange(chains) + 0.5) / chains, x.shape[:-1])
    noise = {"variable": library.array(np.full(x.shape[:-1], (n - 0.5) / n)), "value": library.array(value.copy())}
    new, info = step(init(library.array(x)), noise)
    y = problem.index(library.host(new.point.x).reshape(-1, problem.dim)).reshape(x.shape[:-1])
    frequencies = np.stack([np.bincount(row, minlength=len(pi)) for row in y]) / chains
    others = problem.variables[:, : n - 1]
    same = np.all(others[:, None] == others[None], axis=(2, 3))
    expected = np.where(same, pi[None], 0.0)
    np.testing.assert_allclose(frequencies, expected / expected.sum(axis=1, keepdims=True), atol=2 / chains)
    np.testing.assert_array_equal(library.host(info.moved), y != np.arange(len(pi))[:, None])
    log_density = library.host(new.point.log_density)
    np.testing.assert_allclose(log_density, problem.log_pi[y], rtol=1e-10)  # the point is that of the new position


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
