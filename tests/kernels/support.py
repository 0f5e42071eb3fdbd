"""What the tests of kernels share: targets with closed forms, and a walk under given noise."""

import numpy as np
import pytest
from array_api_compat import array_namespace

from xpsample.gradients import FiniteDifference
from xpsample.kernels import HMC, MALA, PCN, RWM, ULA, IndependentMH, UnderdampedLangevin
from xpsample.sampling.noise import Portable
from xpsample.srmc import SRMC
from xpsample.targets import Exact, Shift, Target

PRECISION = np.asarray([[2.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 1.5]])
COVARIANCE = np.asarray([[1.0, 0.4, 0.1], [0.4, 0.8, 0.0], [0.1, 0.0, 1.2]])
STEPS = 4

# A step for each kernel, as a function of its hyperparameter of the chain axes and of a covariance.
KERNELS = {
    "RWM": lambda eta, c=None: RWM(eta, covariance=c),
    "ULA": lambda eta, c=None: ULA(eta, preconditioner=c),
    "MALA": lambda eta, c=None: MALA(eta, preconditioner=c),
    "HMC": lambda eta, c=None: HMC(eta, 3, mass=c),
    "PCN": lambda eta, c=None: PCN(eta, covariance=c),
    "UnderdampedLangevin": lambda eta, c=None: UnderdampedLangevin(eta, friction=2.0, mass=c),
    "SR-RWM": lambda eta, c=None: SRMC(RWM(eta, covariance=c), alpha=0.5),
    "SR-MALA": lambda eta, c=None: SRMC(MALA(eta, preconditioner=c), alpha=0.5, tilt=Exact()),
    "SR-HMC": lambda eta, c=None: SRMC(HMC(eta, 3, mass=c), alpha=0.5, tilt=FiniteDifference(1e-3)),
    "SR-ULA": lambda eta, c=None: SRMC(ULA(eta, preconditioner=c), alpha=0.5, tilt=Shift()),
}
ADJUSTED = {
    "RWM": RWM(0.7),
    "MALA": MALA(0.3),
    "HMC": HMC(0.4, 3),
    "PCN": PCN(0.5),
    "IndependentMH": IndependentMH(0.0),
}
UNADJUSTED = {"ULA": ULA(0.1), "UnderdampedLangevin": UnderdampedLangevin(0.2)}
BASES = ADJUSTED | UNADJUSTED
every_kernel = pytest.mark.parametrize("make", KERNELS.values(), ids=KERNELS)
every_base = pytest.mark.parametrize("base", BASES.values(), ids=BASES)


def half_square(x, precision):
    return -0.5 * array_namespace(x).sum(x * (x @ precision), axis=-1)


GAUSSIAN = Target(half_square, score=lambda x, p: -(x @ p), hvp=lambda x, v, p: -(v @ p), data=PRECISION)
QUARTIC = Target(
    lambda x: -0.25 * array_namespace(x).sum((x * x) ** 2, axis=-1),
    score=lambda x: -x * x * x,
    hvp=lambda x, v: -3 * x * x * v,
)


def start(*chains, seed=0):
    return np.random.default_rng(seed).normal(size=(*chains, 3))


def noise_of(kernel, x, steps=STEPS, seed=1):
    """Host noise of `steps` steps for positions x."""
    from xpsample.core.registry import backend_named

    return Portable(seed).block(backend_named("numpy"), kernel.noise(x), 0, steps, np.asarray(x))


def walk(library, kernel, x, noise, target=GAUSSIAN):
    """Positions after every step, the infos, and the last state."""
    x = library.array(x)
    bound = target.prepare(x, kernel.requires)
    state, positions, infos = kernel.init(bound, x), [], []
    for t in range(len(next(iter(noise.values())))):
        state, info = kernel.step(bound, state, {name: library.array(rows[t]) for name, rows in noise.items()})
        positions.append(library.host(state.point.x))
        infos.append(info)
    return np.stack(positions), infos, state


class NumPy:
    """Enough of a Library for host arrays."""

    @staticmethod
    def array(host):
        return np.asarray(host)

    @staticmethod
    def host(array):
        return np.array(array)


def log_normal(x, mean, variance):
    return -0.5 * np.sum((x - mean) ** 2, axis=-1) / variance


def density(x):
    return half_square(x, PRECISION)


def score(x):
    return -(x @ PRECISION)


BOUND = 5.0
"""Standard errors that a mean may be off: error probability 6e-7 a comparison, seeds fixed."""


def leapfrog(x, p, h, steps, mass):
    for _ in range(steps):
        p = p + h / 2 * score(x)
        x = x + h * np.linalg.solve(mass, p.T).T
        p = p + h / 2 * score(x)
    return x, p


def kinetic(p, mass):
    return 0.5 * np.sum(p * np.linalg.solve(mass, p.T).T, axis=-1)


def assert_metropolis(library, info, after, x, y, log_ratio, noise):
    probability = np.exp(np.minimum(log_ratio, 0))
    np.testing.assert_allclose(library.host(info.acceptance_probability), probability, rtol=1e-9)
    accepted = noise["accept"][0] < probability
    assert 0 < accepted.sum() < len(x)
    np.testing.assert_allclose(after, np.where(accepted[:, None], y, x), rtol=1e-10, atol=1e-12)
