"""MAMS by hand, and its lengths."""

import math

import numpy as np
from array_api_compat import numpy as numpy_xp

from tests.kernels.support import COVARIANCE, NumPy, assert_metropolis, density, noise_of, score, start, walk
from xpsample.kernels import MAMS
from xpsample.kernels.hmc import jitter
from xpsample.kernels.microcanonical import unit


def kicked(u, s, time):
    """The equations of the page, with sinh and cosh."""
    length = np.linalg.norm(s, axis=-1, keepdims=True)
    e, delta = s / length, time * length / (s.shape[-1] - 1)
    along = np.sum(e * u, axis=-1, keepdims=True)
    c = np.cosh(delta) + along * np.sinh(delta)
    return (u + e * (np.sinh(delta) + along * (np.cosh(delta) - 1))) / c, (s.shape[-1] - 1) * np.log(c[..., 0])


def trajectory(x, u, step_size, steps, mass):
    """In the coordinates in which the mass is the identity."""
    root = np.linalg.cholesky(mass)
    z, energy = x @ root, 0.0

    def pulled(z):
        return score(np.linalg.solve(root.T, z.T).T) @ np.linalg.inv(root).T

    for _ in range(steps):
        u, first = kicked(u, pulled(z), step_size / 2)
        z = z + step_size * u
        u, second = kicked(u, pulled(z), step_size / 2)
        energy = energy + first + second
    return np.linalg.solve(root.T, z.T).T, energy


def steps_of(n, length, step_size):
    return max(1, math.ceil(jitter(numpy_xp, np.asarray(n), np.ones(1)) * length / step_size))


def test_mams_by_hand(library):
    """With a dense mass; the number of leapfrog steps is another one at each step."""
    x, mass, step_size, length = start(50), COVARIANCE, 1.6, 9.0
    kernel = MAMS(step_size, length, library.array(mass))
    noise = noise_of(kernel, x, 3)
    positions, infos, state = walk(library, kernel, x, noise)
    counts = [steps_of(n, length, step_size) for n in range(3)]
    assert len(set(counts)) > 1
    for n, steps in enumerate(counts):
        before = x if n == 0 else positions[n - 1]
        y, energy = trajectory(before, unit(numpy_xp, noise["velocity"][n]), step_size, steps, mass)
        log_ratio = density(y) - density(before) - energy
        assert_metropolis(library, infos[n], positions[n], before, y, log_ratio, {"accept": noise["accept"][n : n + 1]})
        np.testing.assert_allclose(library.host(infos[n].energy_change), -log_ratio, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(library.host(infos[n].end), y, rtol=1e-9)
        np.testing.assert_allclose(library.host(infos[n].time), np.full(50, steps * step_size))
        velocity = library.host(infos[n].velocity)  # dx/dt, of length 1 in units of the mass
        np.testing.assert_allclose(np.sum(velocity @ mass * velocity, axis=-1), 1.0, rtol=1e-9)
        assert int(infos[n].evaluations.score) == steps
    assert int(library.host(state.n)) == 3


def test_groups_of_different_lengths_each_make_the_steps_of_their_own_run(library):
    """And so do chains with step sizes of their own."""
    x = start(3, 5)
    lengths, sizes = np.asarray([[1.0], [4.0], [2.5]]), np.asarray([[0.5], [0.4], [0.3]])
    kernel = MAMS(library.array(sizes), library.array(lengths))
    noise = noise_of(kernel, x, 4)
    together, infos, _ = walk(library, kernel, x, noise)
    for i in range(3):
        own = MAMS(float(sizes[i, 0]), float(lengths[i, 0]))
        alone, _, _ = walk(NumPy, own, x[i], {name: rows[:, i] for name, rows in noise.items()})
        np.testing.assert_allclose(together[:, i], alone, rtol=1e-9, atol=1e-12)
        for n in range(4):
            expected = steps_of(n, lengths[i, 0], sizes[i, 0])
            np.testing.assert_array_equal(library.host(infos[n].evaluations.score)[i], np.full(5, expected))


def test_lengths_are_evenly_spread():
    n = np.arange(2**15)
    h = jitter(numpy_xp, n, np.ones(1))
    assert len(set(h)) == len(n) and h.min() > 0 and h.max() < 1
    for many in (10, 100, 1000):  # any stretch of them, better than independent ones would be
        worst = max(np.abs(np.sort(h[i : i + many]) - (np.arange(many) + 0.5) / many).max() for i in range(0, 3000, 77))
        assert worst < 3.0 / many
    np.testing.assert_array_equal(jitter(numpy_xp, n, np.ones(1, dtype=np.float32)), h)
