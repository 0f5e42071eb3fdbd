"""Steps of kernels with one proposal, and of Langevin dynamics, computed anew with NumPy."""

import math

import numpy as np
import pytest

from tests.kernels.support import (
    COVARIANCE,
    assert_metropolis,
    density,
    kinetic,
    leapfrog,
    log_normal,
    noise_of,
    score,
    start,
    walk,
)
from xpsample.core.errors import HyperparameterError
from xpsample.kernels import HMC, MALA, PCN, RWM, ULA, CosineCycles, IndependentMH, PolynomialDecay, UnderdampedLangevin

MEAN, ROOT = np.asarray([0.5, 0.0, -0.5]), np.linalg.cholesky(COVARIANCE)


def reference(z):
    """The log density of N(MEAN, COVARIANCE)."""
    return -0.5 * np.sum((z - MEAN) * np.linalg.solve(COVARIANCE, (z - MEAN).T).T, axis=-1)


def random_walk(x, u):
    return x + 0.7 * u, 0.0


def langevin(x, u):
    y = x + 0.3 * score(x) + np.sqrt(0.6) * u
    return y, log_normal(x, y + 0.3 * score(y), 0.6) - log_normal(y, x + 0.3 * score(x), 0.6)


def crank_nicolson(x, u):
    y = MEAN + np.sqrt(1 - 0.4**2) * (x - MEAN) + 0.4 * u @ ROOT.T
    return y, reference(x) - reference(y)


def independent(x, u):
    y = MEAN + u @ ROOT.T
    return y, reference(x) - reference(y)


def hamiltonian(x, u):
    """With a dense mass: momentum p = M^{1/2} u, velocity M^{-1} p."""
    y, q = leapfrog(x, u @ ROOT.T, 0.6, 5, COVARIANCE)
    return y, kinetic(u @ ROOT.T, COVARIANCE) - kinetic(q, COVARIANCE)


KERNELS = {
    "RWM": (lambda array: RWM(0.7), random_walk),
    "MALA": (lambda array: MALA(0.3), langevin),
    "PCN": (lambda array: PCN(0.4, mean=array(MEAN), covariance=array(COVARIANCE)), crank_nicolson),
    "IndependentMH": (lambda array: IndependentMH(array(MEAN), array(COVARIANCE)), independent),
    "HMC": (lambda array: HMC(0.6, 5, mass=array(COVARIANCE)), hamiltonian),
}
"""Each with its proposal by normal numbers u, and what its log ratio has beside the density's."""


@pytest.mark.parametrize("name", KERNELS)
def test_a_proposal_and_its_ratio(library, name):
    make, propose = KERNELS[name]
    x, kernel = start(50), make(library.array)
    noise = noise_of(kernel, x, 1)
    positions, infos, _ = walk(library, kernel, x, noise)
    u = noise["momentum" if name == "HMC" else "proposal"][0]
    y, correction = propose(x, u)
    assert_metropolis(library, infos[0], positions[0], x, y, density(y) - density(x) + correction, noise)
    if name == "HMC":
        np.testing.assert_allclose(library.host(infos[0].energy), kinetic(u @ ROOT.T, COVARIANCE) - density(x), 1e-5)


SCALES = np.linspace(0.05, 0.3, 5)
STEP_SIZES = {
    "a number": (lambda array: 0.1, lambda n: 0.1),
    "no decay": (lambda array: PolynomialDecay(0.1, 0.0), lambda n: 0.1),
    # Welling & Teh (2011): a (b + n)^-gamma, here with a of its own for each chain.
    "a decay": (
        lambda array: PolynomialDecay(array(SCALES), 0.5, 2.0),
        lambda n: (SCALES * (n + 3.0) ** -0.5)[:, None],
    ),
    # Zhang et al. (2020), Eq. 1, over two cycles of three steps.
    "cycles": (lambda array: CosineCycles(0.2, 3), lambda n: (0.2, 0.15, 0.05)[n % 3]),
}


@pytest.mark.parametrize(("make", "size"), STEP_SIZES.values(), ids=STEP_SIZES)
def test_ula_by_hand(library, make, size):
    x, kernel = start(5), ULA(make(library.array))
    noise = noise_of(kernel, x, 6)
    positions, _, _ = walk(library, kernel, x, noise)
    for n in range(6):
        x = x + size(n) * score(x) + np.sqrt(2 * size(n)) * noise["proposal"][n]
        np.testing.assert_allclose(positions[n], x, rtol=1e-10)


def test_underdamped_langevin_by_hand(library):
    """BAOAB with the mass written out, over three steps from rest."""
    x, h, friction = start(50), 0.2, 1.5
    kernel = UnderdampedLangevin(h, friction, library.array(COVARIANCE))
    noise = noise_of(kernel, x, 3)
    positions, _, _ = walk(library, kernel, x, noise)
    p, decay = np.zeros_like(x), math.exp(-h * friction)
    for t in range(3):
        p = p + h / 2 * score(x)
        x = x + h / 2 * np.linalg.solve(COVARIANCE, p.T).T
        p = decay * p + math.sqrt(1 - decay**2) * noise["momentum"][t] @ ROOT.T
        x = x + h / 2 * np.linalg.solve(COVARIANCE, p.T).T
        p = p + h / 2 * score(x)
        np.testing.assert_allclose(positions[t], x, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PolynomialDecay(0.0), r"scale must be greater than 0; got 0\.0"),
        (lambda: PolynomialDecay(1.0, -0.5), "power must be at least 0; got -0"),
        (lambda: PolynomialDecay(1.0, 0.5, -1.0), "offset must be at least 0; got -1"),
        (lambda: CosineCycles(0.1, 0), "length must be a positive integer; got 0"),
    ],
)
def test_bad_schedules_say_what_would_do(make, message):
    with pytest.raises(HyperparameterError, match=message):
        make()
