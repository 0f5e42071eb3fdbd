"""The kick of isokinetic dynamics, MAMS and MCLMC by hand, their lengths and limits, and what they refuse."""

import math

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

import xpsample as xps
from tests.kernels.support import COVARIANCE, NumPy, assert_metropolis, density, noise_of, score, start, walk
from xpsample.core.errors import CapabilityError, HyperparameterError
from xpsample.kernels import MAMS, MCLMC
from xpsample.kernels.hmc import jitter
from xpsample.kernels.microcanonical import kick, unit


def velocities_and_scores(dim, chains=20, seed=0):
    generator = np.random.default_rng(seed)
    return unit(numpy_xp, generator.normal(size=(chains, dim))), 3 * generator.normal(size=(chains, dim))


@pytest.mark.first_cases(4)
@pytest.mark.parametrize("dim", [2, 3, 10])
def test_a_kick_is_the_flow_of_its_equation(library, dim):
    """du/dt = (I - u u^T) s / (d - 1), by many small Euler steps; and dK/dt = u . s."""
    u, s = velocities_and_scores(dim)
    kicked, energy = (library.host(a) for a in kick(library.xp, library.array(u), library.array(s), 0.7))
    n, gained = 20_000, np.zeros(len(u))
    for _ in range(n):
        gained += 0.7 / n * np.sum(u * s, axis=-1)
        u = unit(numpy_xp, u + 0.7 / n * (s - u * np.sum(u * s, axis=-1, keepdims=True)) / (dim - 1))
    np.testing.assert_allclose(kicked, u, atol=2e-3)
    np.testing.assert_allclose(energy, gained, atol=2e-2)


@pytest.mark.parametrize("dim", [2, 3, 6])
def test_the_kinetic_energy_is_minus_the_log_jacobian(dim):
    """On the tangents of the sphere, by central differences."""
    u, s = velocities_and_scores(dim, chains=5)
    after, energy = kick(numpy_xp, u, s, 0.4)

    def tangents(v):
        return np.linalg.svd(v[None])[2][1:]  # rows span what is orthogonal to v

    for i in range(len(u)):
        eps, before = 1e-6, tangents(u[i])
        ahead, behind = (
            kick(numpy_xp, unit(numpy_xp, u[i] + sign * eps * before), s[i][None], 0.4)[0] for sign in (1, -1)
        )
        jacobian = (ahead - behind) / (2 * eps) @ tangents(after[i]).T
        assert np.log(abs(np.linalg.det(jacobian))) == pytest.approx(-energy[i], abs=1e-7)


def test_a_kick_of_any_size_is_finite(library32):
    """Without a score nothing turns; with a huge one the velocity is along it."""
    u, s = velocities_and_scores(3)
    for size in (0.0, 1e-12, 1e3, 1e12):
        after, energy = kick(library32.xp, library32.array(u), library32.array(size * s), 1.0)
        after, energy = library32.host(after), library32.host(energy)
        np.testing.assert_allclose(np.linalg.norm(after, axis=-1), 1.0, rtol=1e-5)
        assert np.all(np.isfinite(energy))
        wanted = u if size < 1 else unit(numpy_xp, s)
        np.testing.assert_allclose(after, wanted, atol=1e-4)


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
