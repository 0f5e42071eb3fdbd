"""What SRMC's parts refuse: settings out of range, kernels without an autocorrelation, recorders of other kernels."""

import numpy as np
import pytest

from xpsample import HMC, MALA, ULA, sample, srmc
from xpsample.core.errors import CapabilityError, HyperparameterError
from xpsample.kernels import PolynomialDecay, UnderdampedLangevin
from xpsample.zoo.gaussian import gaussian

LANGEVIN = srmc.LangevinAutocorrelation(0.1)


def run(recorder):
    return sample(gaussian(np.eye(3)), MALA(0.3), np.ones((4, 3)), 5, seed=1, recorders=(recorder,))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: srmc.Stable(LANGEVIN, kappa=0.0), "kappa must be greater than 0"),
        (lambda: srmc.Stable(LANGEVIN, kappa=1.1), "kappa must be .*at most 1"),
        (lambda: srmc.Stable(LANGEVIN, -1.0), "eigenvalues"),
        (lambda: srmc.Stable(LANGEVIN, np.ones((2, 2))), "eigenvalues"),
        (lambda: srmc.LangevinAutocorrelation(-0.1), "step_size must be greater than 0"),
        (lambda: srmc.LeapfrogAutocorrelation(0.1, 0), "steps must be a positive integer"),
        (lambda: srmc.Constant(-1.0), "value must be"),
        (lambda: srmc.autocorrelation(HMC(0.3, 4, np.ones(3))), "mass"),
        (lambda: srmc.autocorrelation(ULA(0.3, np.ones(3))), "preconditioner"),
        (lambda: srmc.autocorrelation(ULA(PolynomialDecay(1.0))), "pass LangevinAutocorrelation with its"),
        (lambda: srmc.autocorrelation(UnderdampedLangevin(0.3)), "UnderdampedLangevin"),
        (lambda: srmc.Adaptive(-1.0, 10), "reference must be at least 0"),
        (lambda: srmc.Adaptive(1.0, 0), "warmup must be a positive integer"),
        (lambda: srmc.Adaptive(1.0, 2.5), "warmup must be a positive integer"),
        (lambda: srmc.Adaptive(1.0, 10, fraction=1.0), "fraction must be"),
        (lambda: srmc.Adaptive(1.0, 10, threshold=0.0), "threshold must be greater than 0"),
        (lambda: srmc.Repellence(limit=0.0), "limit must be greater than 0"),
        (lambda: srmc.Repellence(share=1.5), "share must be"),
        (lambda: run(srmc.Repellence()), "SRMC"),
        (lambda: run(srmc.Estimator()), "SRMC"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises((HyperparameterError, CapabilityError), match=message):
        make()
