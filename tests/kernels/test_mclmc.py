"""MCLMC by hand, the energy that it reports, its bias, what it refuses."""

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

import xpsample as xps
from tests.kernels.support import COVARIANCE, NumPy, density, noise_of, score, start, walk
from tests.kernels.test_mams import kicked
from xpsample.core.errors import CapabilityError, HyperparameterError
from xpsample.kernels import MCLMC
from xpsample.kernels.microcanonical import unit


def test_mclmc_by_hand(library):
    x, mass, step_size, length = start(20), COVARIANCE, 0.5, 2.0
    kernel = MCLMC(step_size, length, library.array(mass))
    noise = noise_of(kernel, x, 3)
    positions, infos, state = walk(library, kernel, x, noise)
    u = np.zeros_like(x)
    root, share = np.linalg.cholesky(mass), 0.1931833275037836
    for n in range(3):
        before = x
        u = noise["velocity"][n] if n == 0 else u + np.sqrt((np.exp(2 * 0.25) - 1) / 3) * noise["velocity"][n]
        u, energy = unit(numpy_xp, u), np.zeros(20)
        for time, moves in ((share, 0.25), (1 - 2 * share, 0.25), (share, 0.0)):
            u, gained = kicked(u, score(x) @ np.linalg.inv(root).T, time * step_size)
            energy += gained
            x = x + moves * np.linalg.solve(root.T, u.T).T
        np.testing.assert_allclose(positions[n], x, rtol=1e-9, atol=1e-11)
        change = energy - density(x) + density(before)
        np.testing.assert_allclose(library.host(infos[n].energy_change), change, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(library.host(state.velocity), u, rtol=1e-9, atol=1e-11)


CHAINS = 40_000


def test_the_mean_of_the_exponential_of_the_energy_change_is_one():
    """From exact draws, whatever the step size, if the kinetic energy is the Jacobian of the step."""
    generator = np.random.default_rng(3)
    x = generator.multivariate_normal(np.zeros(3), COVARIANCE, size=CHAINS)
    precision = np.linalg.inv(COVARIANCE)
    target = xps.Target(lambda x: -0.5 * np.sum(x @ precision * x, axis=-1), score=lambda x: -(x @ precision))
    for step_size in (0.5, 1.5):
        kernel = MCLMC(step_size, 2.0)
        _, infos, _ = walk(NumPy, kernel, x, noise_of(kernel, x, 1), target)
        weights = np.exp(-infos[0].energy_change)
        error = weights.std() / np.sqrt(CHAINS)
        assert abs(weights.mean() - 1) < 5.5 * error  # error probability 4e-8


def test_the_energy_error_of_a_step_is_of_the_third_order():
    x = start(2000)

    def error(step_size):
        kernel = MCLMC(step_size, 1e9)
        _, infos, _ = walk(NumPy, kernel, x, noise_of(kernel, x, 1))
        return np.mean(np.abs(infos[0].energy_change))

    assert error(0.02) / error(0.01) == pytest.approx(8, rel=0.1)


def test_means_and_variances_of_a_gaussian_in_many_dimensions():
    """50 coordinates of sds 0.5 to 2, whose bias at this step size is far below the tolerance."""
    sds = np.linspace(0.5, 2.0, 50)
    target = xps.Target(lambda x: -0.5 * np.sum((x / sds) ** 2, axis=-1), score=lambda x: -x / sds**2)
    x0 = sds * np.random.default_rng(1).normal(size=(200, 50))
    trace = xps.sample(target, MCLMC(1.0, 7.0), x0, 300, burn_in=50, seed=1, progress=False)
    flat = trace.draws.reshape(-1, 50)
    assert np.mean(flat.var(axis=0) / sds**2) == pytest.approx(1.0, abs=0.02)
    np.testing.assert_allclose(flat.var(axis=0) / sds**2, 1.0, atol=0.15)


def test_a_length_far_below_the_step_size_refreshes_all():
    """The velocity is then that of the noise alone, and nothing overflows."""
    x = start(5)
    kernel, far = MCLMC(0.5, 1e-6), MCLMC(0.5, 1e-3)
    noise = noise_of(kernel, x, 3)
    np.testing.assert_array_equal(walk(NumPy, kernel, x, noise)[0], walk(NumPy, far, x, noise)[0])


def test_what_is_refused():
    target = xps.Target(lambda x: -0.5 * (x * x).sum(-1), score=lambda x: -x)
    with pytest.raises(HyperparameterError, match="MCLMC needs positions with at least 2 coordinates"):
        xps.sample(target, MCLMC(0.3, 1.0), np.zeros((2, 1)), 3, seed=1, progress=False)
    with pytest.raises(CapabilityError, match="Minibatch cannot go around MCLMC"):
        xps.Minibatch(MCLMC(0.3, 1.0), 10)
    with pytest.raises(CapabilityError, match="AIS cannot go around MCLMC"):
        xps.AIS(MCLMC(0.3, 1.0), (0.0, 1.0))


def test_a_chain_whose_score_is_not_finite_is_frozen_and_the_others_go_on(library):
    xp = library.xp

    def score(x):
        return xp.where(xp.any(x > 100.0, axis=-1)[..., None], xp.nan, 0.0 - x)

    target = xps.Target(lambda x: -0.5 * xp.sum(x * x, axis=-1), score=score)
    x0 = library.array(np.asarray([[99.999, 0.0], [0.5, 0.5]]))
    kernel = MCLMC(0.5, 1e-3)
    bound = target.prepare(x0, kernel.requires)
    state = kernel.init(bound, x0)
    there = library.array(np.asarray([[1.0, 0.0], [1.0, 0.0]]))
    for n in range(1, 3):
        state, info = kernel.step(bound, state, {"velocity": there})
        np.testing.assert_array_equal(library.host(info.diverged), [True, False])
        np.testing.assert_array_equal(library.host(state.point.x)[0], [99.999, 0.0])
        assert library.host(state.point.x)[1, 0] > 0.5 * n
        assert library.host(info.energy_change)[0] == 0 and abs(library.host(info.energy_change)[1]) > 0
