"""What the tests of bad input share."""

import numpy as np
from array_api_compat import array_namespace

import xpsample as xps
from xpsample.kernels import HMC, MALA, MAMS, MCLMC, NUTS, PCN, RWM, SGNHT, ULA, IndependentMH, UnderdampedLangevin
from xpsample.srmc import SRMC, PowerLaw

NAN = float("nan")
MATRICES = [
    (lambda c: HMC(0.1, 3, mass=c), "mass"),
    (lambda c: NUTS(0.1, mass=c), "mass"),
    (lambda c: MAMS(0.1, 1.0, mass=c), "mass"),
    (lambda c: MCLMC(0.1, 1.0, mass=c), "mass"),
    (lambda c: UnderdampedLangevin(0.1, mass=c), "mass"),
    (lambda c: MALA(0.1, preconditioner=c), "preconditioner"),
    (lambda c: ULA(0.1, preconditioner=c), "preconditioner"),
    (lambda c: RWM(0.1, covariance=c), "covariance"),
    (lambda c: PCN(0.1, covariance=c), "covariance"),
    (lambda c: IndependentMH(covariance=c), "covariance"),
]
PER_CHAIN = [
    (lambda a: RWM(a), "step_size"),
    (lambda a: ULA(a), "step_size"),
    (lambda a: MALA(a), "step_size"),
    (lambda a: HMC(a, 2), "step_size"),
    (lambda a: NUTS(a), "step_size"),
    (lambda a: MAMS(a, 1.0), "step_size"),
    (lambda a: MAMS(0.1, a), "length"),
    (lambda a: MCLMC(a, 1.0), "step_size"),
    (lambda a: MCLMC(0.1, a), "length"),
    (lambda a: UnderdampedLangevin(a), "step_size"),
    (lambda a: UnderdampedLangevin(0.1, friction=a), "friction"),
    (lambda a: SGNHT(a), "step_size"),
    (lambda a: PCN(a), "beta"),
    (lambda a: SRMC(RWM(0.5), alpha=a), "alpha"),
    (lambda a: SRMC(RWM(0.5), alpha=1.0, schedule=PowerLaw(rho=a)), "schedule.rho"),
    (lambda a: SRMC(MALA(a), alpha=1.0), "base.step_size"),
]


def log_density(x):
    return -0.5 * array_namespace(x).sum(x * x, axis=-1)


def score(x):
    return -x


def gaussian(**changes):
    return xps.Target(**{"log_density": log_density, "score": score, "hvp": lambda x, v: -v} | changes)


def run(target=None, kernel=RWM(1.0), x0=None, draws=3, **settings):
    x0 = np.zeros((4, 2)) if x0 is None else x0
    return xps.sample(
        gaussian() if target is None else target, kernel, x0, draws, **{"seed": xps.Portable(0)} | settings
    )
