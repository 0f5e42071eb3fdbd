"""The kick of isokinetic dynamics: the flow of its equation, its Jacobian, its limits."""

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

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
