"""Sweeps of single moves: their matrices, a step by hand, the differences of one variable, and what they cost."""

import math
from functools import reduce

import numpy as np
import pytest
from array_api_compat import array_namespace

import xpsample as xps
from tests.kernels.discrete import discrete_support as exact
from tests.kernels.support import NumPy, walk
from xpsample.core.errors import DivergenceWarning, LogDensityError
from xpsample.hiss.smoothed import Conditional, Logistic
from xpsample.targets import Capability, Exact
from xpsample.targets.bridge import annealed
from xpsample.targets.tilted import Tilted
from xpsample.zoo.ising import ising_couplings, ising_lattice, lattice_pairs, potts

KERNELS = [xps.Sweep(), xps.Sweep(heat_bath=True)]


@pytest.mark.parametrize("heat_bath", [False, True])
@exact.every_problem
def test_a_sweep_is_its_matrix(problem, heat_bath):
    n = problem.variables.shape[1]
    matrix = reduce(np.matmul, [exact.one_variable(problem, m, heat_bath) for m in range(n)])
    assert exact.invariance_error(matrix, problem.log_pi) < 1e-12
    exact.assert_transitions(problem, xps.Sweep(heat_bath), matrix)
    if heat_bath:
        np.testing.assert_allclose(matrix, exact.sweep(problem, range(n)), atol=1e-12)


@pytest.mark.parametrize("heat_bath", [False, True])
@pytest.mark.parametrize("low", [-1, 0])
def test_two_steps_by_hand(low, heat_bath, library):
    rng, n = np.random.default_rng(0), 5
    pairs, weights, field = lattice_pairs((n,)), rng.standard_normal(n), rng.standard_normal(n)
    w = np.zeros((n, n))
    w[tuple(pairs.T)] = weights
    w += w.T
    space = xps.Spins() if low else xps.Binary()
    x = rng.integers(0, 2, (3, n)) * (1.0 - low) + low
    noise = {"value": rng.random((2, 3, n))}
    expected, y = [], x.copy()
    for t in range(2):
        for i in range(n):
            for c in range(3):
                other = y[c].copy()
                other[i] = low + 1 - other[i]
                ratio = math.exp(0.5 * other @ w @ other + field @ other - 0.5 * y[c] @ w @ y[c] - field @ y[c])
                u = noise["value"][t, c, i]
                if (u * (1 + ratio) > 1) if heat_bath else (u < ratio):
                    y[c] = other
        expected.append(y.copy())
    for target in (ising_couplings(weights, field, pairs, space), ising_couplings(w, field, space=space)):
        places, infos, _ = walk(library, xps.Sweep(heat_bath), x, noise, target)
        np.testing.assert_array_equal(places, expected)
    assert np.all(library.host(infos[0].moved) == np.any(expected[0] != x, axis=-1))


def test_the_acceptance_probability_is_that_of_all_visits():
    target, x = ising_couplings(np.zeros((3, 3)), [0.5, -1.0, 2.0]), np.ones((1, 3))
    _, (info,), _ = walk(NumPy, xps.Sweep(), x, {"value": np.full((1, 1, 3), 0.5)}, target)
    np.testing.assert_allclose(info.acceptance_probability, [(math.exp(-1) + 1 + math.exp(-4)) / 3])


# ---- the differences of one variable ---------------------------------------------------------------------------------

STATED = {
    "lattice": (ising_lattice((2, 3), 0.4, np.arange(6.0) / 6), 6),
    "levels": (potts((2, 2), 3, 0.5, [0.1, 0.4, -0.2], one_hot=False), 4),
    "one-hot": (potts((2, 2), 3, 0.5, [0.1, 0.4, -0.2]), 12),
    "of densities": (exact.PROBLEMS["ragged"].target, 4),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", STATED)
def test_targets_made_of_others_have_the_differences_of_one_variable(name, library):
    target, dim = STATED[name]
    x = library.array(target.space.states(dim)[::5])
    beta = library.array(np.linspace(0.2, 1.5, x.shape[0]))
    asked = xps.Sweep().requires | Capability.DIFFERENCES | Capability.SCORE | Capability.HVP
    flat = xps.Target(lambda x: 0.3 * array_namespace(x).sum(x, axis=-1), space=target.space)
    scored = target.score is not None and name != "levels"
    requires = asked if scored else asked & ~(Capability.SCORE | Capability.HVP)
    bound = target.prepare(x, requires)
    bridge = xps.Bridge(flat, target).prepare(x, requires & ~(Capability.SCORE | Capability.HVP))
    made = [bound, annealed(bound, beta), annealed(bridge, beta)]
    if scored:
        theta = library.array(np.random.default_rng(1).standard_normal(x.shape))
        made += [Tilted(bound, theta, 0.3, Exact(), requires), Conditional(bound, x + 0.3, 0.8, Logistic(), requires)]
    for derived in made:
        every = library.host(derived.evaluate(x).differences)
        for i in range(every.shape[-2]):
            found = library.host(derived.differences_at(x, i))
            np.testing.assert_allclose(found, every[..., i, :], rtol=1e-9, atol=1e-9)


def test_differences_that_are_not_those_of_the_density_are_refused(library):
    def log_density(x):
        return 0.3 * array_namespace(x).sum(x, axis=-1)

    def run(differences_at):
        target = xps.Target(log_density, differences_at=differences_at, space=xps.Spins())
        xps.sample(target, xps.Sweep(), library.array(np.ones((2, 3))), 2, seed=1)

    run(lambda x, i: (-0.6 * x[..., i])[..., None])
    for wrong in range(3):
        message = rf"differences_at\(x, {wrong}\) is 0.6 at index \(0, 0\).*changes by -0.6"
        with pytest.raises(LogDensityError, match=message):
            run(lambda x, i, wrong=wrong: ((-0.6 + 1.2 * (i == wrong)) * x[..., i])[..., None])
    with pytest.raises(LogDensityError, match="differences_at must have shape"):
        run(lambda x, i: -0.6 * x[..., i])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_value_without_a_finite_density_is_never_taken_and_counts(bad):
    def log_density(x):
        return np.where(x[..., 1] == 2, bad, 0.0)

    target = xps.Target(log_density, space=xps.Categorical((0, 1, 2)))
    x0 = np.zeros((50, 2))
    for kernel in KERNELS:
        with pytest.warns(DivergenceWarning):
            run = xps.sample(target, kernel, x0, 20, seed=1)
        assert np.unique(run.draws[..., 1]).tolist() == [0, 1] and np.unique(run.draws[..., 0]).tolist() == [0, 1, 2]
        assert np.all(run.run_statistics.diverged > 0)


@pytest.mark.parametrize("dtype", ["int32", None])
def test_positions_that_are_given_stay_as_they_are_and_integers_stay_integers(library, dtype):
    x0 = library.array(np.ones((4, 6)), dtype)
    trace = xps.sample(STATED["lattice"][0], xps.Sweep(), x0, 5, seed=1)
    assert np.all(library.host(x0) == 1.0) and trace.draws.dtype == x0.dtype
    assert len(np.unique(library.host(trace.draws).reshape(5, -1), axis=0)) > 1
