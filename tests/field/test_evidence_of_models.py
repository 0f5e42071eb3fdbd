"""The evidence of a model along a bridge of two models: exact draws of the prior, by name."""

import math

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import PositionError

COUNTS = np.array([3.0, 5.0, 2.0, 8.0])


def log_prior(p):
    return 1.0 * math.log(0.5) * 2 + np.log(p.rate) - 0.5 * p.rate  # Gamma(2, 0.5), normalised


def log_joint(p, y):
    each = y * np.log(p.rate[..., None]) - p.rate[..., None] - np.array([math.lgamma(c + 1) for c in y])
    return log_prior(p) + np.sum(each, axis=-1)


def bridge():
    options = {"gradient": xps.FiniteDifference(), "rate": xps.Positive()}
    return xps.Bridge(xps.Model(log_prior, **options), xps.Model(log_joint, data=COUNTS, **options))


def exact():
    """A Gamma mixture of Poisson counts in closed form."""
    shape, rate, total, n = 2.0, 0.5, COUNTS.sum(), len(COUNTS)
    constants = sum(math.lgamma(c + 1) for c in COUNTS)
    return (
        shape * math.log(rate)
        - math.lgamma(shape)
        + math.lgamma(shape + total)
        - (shape + total) * math.log(rate + n)
        - constants
    )


@pytest.mark.parametrize("smc", [False, True], ids=["ais", "smc"])
def test_draws_of_the_prior_are_given_by_name(smc):
    betas = np.linspace(0.0, 1.0, 25) ** 3
    rates = np.random.default_rng(1).gamma(2.0, 2.0, size=1000)
    kernel = xps.TemperedSMC(xps.RWM(0.5), betas, moves=1) if smc else xps.AIS(xps.RWM(0.5), betas)
    trace = xps.sample(bridge(), kernel, {"rate": rates}, 1, burn_in=len(betas) - 2, seed=2, progress=False)
    log_normalizer = xps.particle_log_normalizer if smc else xps.log_normalizer
    found = log_normalizer(trace.state if smc else trace.state.log_weight)
    assert found.standard_error < 0.1
    assert abs(found.value - exact()) < 4.5 * found.standard_error  # 7e-6
    assert trace["rate"].shape == (1, 1000)


def test_a_tempered_model_takes_names_as_well():
    tempered = xps.Tempered(bridge().target, 0.5)
    trace = xps.sample(tempered, xps.RWM(0.5), {"rate": np.ones(4)}, 3, seed=1, progress=False)
    assert trace["rate"].shape == (3, 4) and np.all(trace["rate"] > 0)


def test_a_value_outside_its_space_is_refused_by_name():
    with pytest.raises(PositionError, match="rate does not lie in"):
        xps.sample(bridge(), xps.AIS(xps.RWM(0.5), (0.0, 1.0)), {"rate": -np.ones(4)}, 1, seed=1)
