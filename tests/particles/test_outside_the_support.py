"""Log densities of -inf: declared constraints, and starts of weight 0."""

import math
import warnings

import numpy as np
import pytest
from array_api_compat import array_namespace

import xpsample as xps
from xpsample.core.errors import DivergenceWarning, HyperparameterError
from xpsample.particles.ais import log_normalizer
from xpsample.particles.smc import particle_log_normalizer
from xpsample.zoo.gaussian import gaussian

PARTICLES = 4000
BETAS = (0.0, 0.0, 0.1, 0.3, 0.6, 1.0, 1.0)


def half_normal(x):
    """Of integral 1/2 times that of `gaussian`, whose log density has no constant."""
    xp = array_namespace(x)
    inside = xp.all(x > 0, axis=-1)
    return xp.where(inside, -0.5 * xp.sum(x * x, axis=-1), -math.inf)


def truncated(**options):
    return xps.Target(half_normal, score=lambda x: -x, **options)


@pytest.mark.parametrize("kernel", [xps.RWM(1.0), xps.MALA(0.5), xps.HMC(0.5, 3)], ids=lambda k: type(k).__name__)
def test_outside_of_a_declared_constraint_is_no_divergence(kernel, library):
    x0 = library.array(np.full((50, 1), 0.5))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        plain = xps.sample(truncated(), kernel, x0, 40, seed=1)
    assert any(w.category is DivergenceWarning and "constrained=True" in str(w.message) for w in said)
    assert np.sum(plain.run_statistics.diverged) > 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", DivergenceWarning)
        declared = xps.sample(truncated(constrained=True), kernel, x0, 40, seed=1)
    assert np.sum(declared.run_statistics.diverged) == 0
    np.testing.assert_array_equal(library.host(declared.draws), library.host(plain.draws))


def test_not_a_number_is_a_divergence_in_any_case():
    def log_density(x):
        return np.where(np.abs(x[..., 0]) < 1, 0.0, np.nan)

    target = xps.Target(log_density, constrained=True)
    with pytest.warns(DivergenceWarning):
        trace = xps.sample(target, xps.RWM(1.0), np.zeros((20, 1)), 20, seed=1)
    assert np.sum(trace.run_statistics.diverged) > 0


def starts(library, runs=()):
    return library.array(np.random.default_rng(1).normal(size=(*runs, PARTICLES, 1)))


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.filterwarnings("ignore::xpsample.core.errors.DivergenceWarning")
def test_starts_outside_the_support_have_weight_zero(declared, library):
    """The ratio of normalisers is 1/2, within 5 standard errors."""
    target = xps.Bridge(gaussian(np.eye(1)), truncated(constrained=declared))
    state = xps.sample(target, xps.AIS(xps.RWM(1.0), BETAS), starts(library), 6, seed=1).state
    weights = library.host(state.log_weight)
    np.testing.assert_array_equal(weights == -np.inf, library.host(starts(library))[:, 0] <= 0)
    found = log_normalizer(weights)
    assert abs(found.value - math.log(0.5)) < 5 * found.standard_error < 0.2


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("options", [{"betas": BETAS}, {"ess": 0.8}], ids=str)
def test_particles_outside_the_support_are_lost(options, library):
    target = xps.Bridge(gaussian(np.eye(1)), truncated(constrained=True))
    kernel = xps.TemperedSMC(xps.RWM(1.0), **options, moves=1)
    state = xps.sample(target, kernel, starts(library, (1,)), 60, seed=1).state
    found = particle_log_normalizer(state)
    assert abs(found.value[0] - math.log(0.5)) < 5 / math.sqrt(PARTICLES)
    assert np.all(np.isfinite(library.host(state.weights.log_normalizer)))


def test_a_power_of_zero_keeps_the_support():
    """At beta = 0 the density is 1 on the support, and 0 elsewhere: 0 times -inf is no nan."""
    from xpsample.targets import Capability, Tempered

    x = np.asarray([[-1.0], [1.0]])
    bound = Tempered(truncated(), 0.0).prepare(x, Capability.LOG_DENSITY | Capability.ANY_START)
    np.testing.assert_array_equal(bound.evaluate(x).log_density, [-np.inf, 0.0])


def test_no_normaliser_before_the_last_temperature():
    target = xps.Bridge(gaussian(np.eye(1)), gaussian(2.0 * np.eye(1)))
    x0 = np.random.default_rng(1).normal(size=(2, 50, 1))
    kernel = xps.TemperedSMC(xps.RWM(1.0), betas=(0.0, 0.25, 1.0), moves=1)
    state = xps.sample(target, kernel, x0, 1, seed=1).state
    with pytest.raises(HyperparameterError, match=r"2 of 2 runs are at 0\.25"):
        particle_log_normalizer(state)
