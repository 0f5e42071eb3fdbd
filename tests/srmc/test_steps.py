"""The steps of SRMC: its history, its tilt, and the base kernel that it is at alpha = 0."""

from types import SimpleNamespace

import numpy as np
import pytest

import xpsample as xps
from tests.kernels.support import QUARTIC, NumPy, every_base, log_normal, noise_of, start, walk
from xpsample.gradients import FiniteDifference
from xpsample.kernels import MALA
from xpsample.sampling.noise import Portable
from xpsample.srmc import SRMC, Frozen, PowerLaw
from xpsample.targets import Exact, Shift, Target

TILTS = {
    "exact": Exact(),
    "shift": Shift(),
    "central": FiniteDifference(1e-3),
    "forward": FiniteDifference(1e-3, "forward"),
}


@every_base
@pytest.mark.parametrize("tilt", TILTS.values(), ids=TILTS)
def test_no_repellence_is_the_base_kernel_bit_for_bit(library, base, tilt):
    x = start(5)
    noise = noise_of(base, x)
    plain, plain_infos, _ = walk(library, base, x, noise, QUARTIC)
    tilted, tilted_infos, state = walk(library, SRMC(base, alpha=0.0, tilt=tilt), x, noise, QUARTIC)
    np.testing.assert_array_equal(tilted, plain)
    for mine, theirs in zip(tilted_infos, plain_infos, strict=True):
        np.testing.assert_array_equal(
            library.host(mine.acceptance_probability), library.host(theirs.acceptance_probability)
        )
    assert np.all(library.host(state.theta) != 0)


def test_no_repellence_is_the_base_kernel_in_whole_runs(library):
    base = MALA(0.3)
    x0 = library.array(start(5))
    plain = xps.sample(QUARTIC, base, x0, 40, seed=Portable(3)).draws
    tilted = xps.sample(QUARTIC, SRMC(base, alpha=0.0, tilt=Exact()), x0, 40, seed=Portable(3)).draws
    if library.name.startswith("jax"):  # two programs, and XLA multiplies and adds at once where it fuses
        np.testing.assert_allclose(library.host(tilted), library.host(plain), rtol=1e-12, atol=1e-14)
    else:
        np.testing.assert_array_equal(library.host(tilted), library.host(plain))


def test_repellence_changes_the_chain(library):
    x = start(5)
    noise = noise_of(MALA(0.1), x)
    plain, tilted = (
        walk(library, kernel, x, noise, QUARTIC)[0] for kernel in (MALA(0.1), SRMC(MALA(0.1), alpha=0.5, tilt=Exact()))
    )
    assert np.max(np.abs(plain - tilted)) > 1e-3


@pytest.mark.parametrize(("rho", "scale", "offset"), [(1.0, 1.0, 1.0), (0.7, 0.5, 3.0)])
def test_the_history_is_the_recursion_of_equation_1(library, rho, scale, offset):
    """theta_n = theta_{n-1} + gamma_n (s(x_n) - theta_{n-1}) with the untilted score of the positions drawn."""
    x = start(5)
    kernel = SRMC(MALA(0.1), alpha=0.8, schedule=PowerLaw(rho, scale, offset), tilt=Exact())
    noise = noise_of(kernel, x, 8)
    positions, _, state = walk(library, kernel, x, noise, QUARTIC)
    theta = np.zeros_like(x)
    for n, position in enumerate(positions, start=1):
        theta = theta + scale * (n + offset) ** -rho * (QUARTIC.score(position) - theta)
    np.testing.assert_allclose(library.host(state.theta), theta, rtol=1e-10)
    assert int(state.n) == 8


def test_algorithm_1_by_hand(library):
    """SR-MALA over eight steps, with the surrogate's density and score (Eqs. 2 and 5) written out."""
    x, eta, alpha = start(20), 0.1, 0.8
    kernel = SRMC(MALA(eta), alpha, PowerLaw(), Exact())
    noise = noise_of(kernel, x, 8)
    positions, _, _ = walk(library, kernel, x, noise, QUARTIC)
    theta = np.zeros_like(x)
    for t in range(8):

        def tilted(z, theta=theta):
            return QUARTIC.log_density(z) - alpha * np.sum(theta * QUARTIC.score(z), axis=-1)

        def drift(z, theta=theta):
            return QUARTIC.score(z) - alpha * QUARTIC.hvp(z, theta)

        y = x + eta * drift(x) + np.sqrt(2 * eta) * noise["proposal"][t]
        ratio = tilted(y) - tilted(x)
        ratio += log_normal(x, y + eta * drift(y), 2 * eta) - log_normal(y, x + eta * drift(x), 2 * eta)
        x = np.where((np.log(noise["accept"][t]) < ratio)[:, None], y, x)
        np.testing.assert_allclose(positions[t], x, rtol=1e-9, atol=1e-11)
        theta = theta + (QUARTIC.score(x) - theta) / (t + 2)


def test_a_history_to_start_from(library):
    x, theta = start(5), start(5, seed=9)
    kernel = SRMC(MALA(0.1), alpha=0.8, schedule=Frozen(), theta=library.array(theta), tilt=Exact())
    _, _, state = walk(library, kernel, x, noise_of(kernel, x), QUARTIC)
    np.testing.assert_array_equal(library.host(state.theta), theta)


def test_a_frozen_history_samples_the_tilted_target(library):
    """SRMC with theta fixed is the base kernel on the density that Eq. 2 writes down."""
    x, theta = start(5)[:, None, :], 0.3 * start(5, seed=9)[:, None, :]  # groups of one chain, each with its theta
    there = library.array(theta)
    xp = library.xp
    plain = Target(
        lambda z: QUARTIC.log_density(z) + 0.8 * xp.sum(there * z**3, axis=-1),
        score=lambda z: -(z**3) + 0.8 * 3 * there * z * z,
    )
    kernel = SRMC(MALA(0.1), alpha=0.8, schedule=Frozen(), theta=there, tilt=Exact())
    noise = noise_of(kernel, x)
    tilted, _, _ = walk(library, kernel, x, noise, QUARTIC)
    expected, _, _ = walk(library, MALA(0.1), x, noise, plain)
    np.testing.assert_allclose(tilted, expected, rtol=1e-10, atol=1e-12)


def test_power_law_values(library):
    def gamma(n, **settings):
        target = SimpleNamespace(xp=library.xp)
        return library.host(PowerLaw(**settings).gamma(target, library.array(float(n)), None, None, None)[0])

    assert gamma(1) == 0.5 and gamma(3) == 0.25
    assert gamma(2, offset=0.0) == 0.5
    np.testing.assert_allclose(gamma(3, rho=0.75, scale=2.0), 2 * 4**-0.75, rtol=1e-14)
    rho = np.asarray([[0.6], [1.0]])
    np.testing.assert_allclose(gamma(4, rho=library.array(rho)), 5.0**-rho, rtol=1e-14)


def test_the_point_of_srmc_is_without_the_tilt():
    """So that what wraps or records SRMC sees the target that SRMC was given."""
    x = start(5)
    kernel = SRMC(MALA(0.1), alpha=0.8, tilt=Exact())
    positions, _, state = walk(NumPy, kernel, x, noise_of(kernel, x), QUARTIC)
    np.testing.assert_array_equal(state.point.x, positions[-1])
    np.testing.assert_array_equal(state.point.log_density, QUARTIC.log_density(positions[-1]))
    np.testing.assert_array_equal(state.point.score, QUARTIC.score(positions[-1]))
