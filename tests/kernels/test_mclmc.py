"""MCLMC by hand, its limits, and what MCLMC and MAMS refuse."""

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


def test_a_length_far_below_the_step_size_refreshes_all():
    """The velocity is then that of the noise alone, and nothing overflows."""
    x = start(5)
    kernel, far = MCLMC(0.5, 1e-6), MCLMC(0.5, 1e-3)
    noise = noise_of(kernel, x, 3)
    np.testing.assert_array_equal(walk(NumPy, kernel, x, noise)[0], walk(NumPy, far, x, noise)[0])


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


def test_what_is_refused():
    target = xps.Target(lambda x: -0.5 * (x * x).sum(-1), score=lambda x: -x)
    for kernel in (xps.MAMS(0.3, 1.0), MCLMC(0.3, 1.0)):
        message = f"{type(kernel).__name__} needs positions with at least 2 coordinates, since a velocity"
        with pytest.raises(HyperparameterError, match=message):
            xps.sample(target, kernel, np.zeros((2, 1)), 3, seed=1)
    for owner, around in (("Minibatch", lambda k: xps.Minibatch(k, 10)), ("AIS", lambda k: xps.AIS(k, (0.0, 1.0)))):
        with pytest.raises(CapabilityError, match=f"{owner} cannot go around MCLMC"):
            around(MCLMC(0.3, 1.0))
