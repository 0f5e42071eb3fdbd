"""Locally balanced proposals against their transition matrices."""

from contextlib import nullcontext

import numpy as np
import pytest
from array_api_compat import array_namespace

from tests.kernels.discrete.discrete_support import every_problem
from tests.kernels.support import NumPy, noise_of, walk
from xpsample import LocallyBalanced, sample
from xpsample.core.errors import DivergenceWarning
from xpsample.kernels import Barker, Max, SquareRoot
from xpsample.spaces import Binary
from xpsample.targets import Target

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
