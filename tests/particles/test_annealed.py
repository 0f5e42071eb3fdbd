"""Annealing over noise levels: recursions in closed form, the law of a smoothed mixture, steps by hand, bad input."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2, norm

from tests.kernels.support import BOUND, NumPy, noise_of, walk
from xpsample import Exact, sample
from xpsample.core.errors import CapabilityError, HyperparameterError
from xpsample.kernels import HMC, MALA, NUTS, RWM, ULA
from xpsample.particles.annealed import Annealed, Level
from xpsample.particles.ladders import geometric_ladder
from xpsample.score_mh import LangevinProposal, Learned
from xpsample.spaces import Binary
from xpsample.srmc import SRMC
from xpsample.targets import Capability, LineIntegral, Parametric, Target
from xpsample.zoo.mixture import gaussian_mixture, smoothed_mixture

MEAN, VARIANCE = 1.5, 0.3
LADDER = (3.0, 1.2, 0.5, 0.2)
CHAINS = 40_000


def scored(mixture, acceptance=None):
    """Its score alone."""
    return Target(None, score=mixture.score, data=mixture.data, acceptance=acceptance or LineIntegral(5))


NORMAL = scored(smoothed_mixture([1.0], [[MEAN]], VARIANCE**0.5, 1.0))


def final_moments(kernel, chains=CHAINS):
    """Mean and variance after ten steps at each level of LADDER from N(0, 9)."""
    x0 = 3.0 * np.random.default_rng(1).standard_normal((chains, 1))
    trace = sample(NORMAL, kernel, x0, 1, seed=2, burn_in=len(kernel.sigmas) - 1)
    x = trace.draws[0, :, 0]
    return np.mean(x), np.var(x)


def recursion(step, steps=10):
    """The same in closed form: a step of ULA is linear."""
    mean, variance = 0.0, 9.0
    for sigma in LADDER:
        eta = step * sigma**2
        a = 1.0 - eta / (VARIANCE + sigma**2)
        for _ in range(steps):
            mean, variance = MEAN + a * (mean - MEAN), a * a * variance + 2.0 * eta
    return mean, variance


def off(found, expected):
    """Standard errors between moments of CHAINS normal draws and what they should be."""
    variance = expected[1]
    errors = math.sqrt(variance / CHAINS), variance * math.sqrt(2 / CHAINS)
    return tuple(abs(f - e) / s for f, e, s in zip(found, expected, errors, strict=True))


def test_the_law_of_ula_is_the_recursion_and_not_the_target():
    """Error probability 6e-7 a comparison (`BOUND`), seeds fixed."""
    found = final_moments(Annealed(ULA(1.0), LADDER, 10))
    assert max(off(found, recursion(1.0))) < BOUND
    assert off(found, (MEAN, VARIANCE + LADDER[-1] ** 2))[1] > 10  # its bias


def reversed_ladder():
    kernel = Annealed(ULA(1.0), LADDER, 10)
    object.__setattr__(kernel, "sigmas", LADDER[::-1])
    return kernel


@pytest.mark.parametrize(
    ("kernel", "step", "least"),
    [
        (reversed_ladder(), 1.0, 50),
        (Annealed(ULA(0.2), LADDER, 10, units=(1.0,) * len(LADDER)), 0.2, 20),
        # The first of the steps at a level with a score that was not refreshed: the level is left out, as it were.
        (Annealed(ULA(1.0), (3.0, *LADDER[:-1]), 10), 1.0, 50),
    ],
    ids=["reversed", "not scaled", "score of the level before"],
)
def test_a_wrong_ladder_is_caught(kernel, step, least):
    assert off(final_moments(kernel), recursion(step))[1] > least


WEIGHTS, MEANS, SD = np.asarray([0.8, 0.2]), np.asarray([[-3.0], [3.0]]), 0.5
SIGMAS = tuple(6.0 * s for s in geometric_ladder(16, 1 / 60))
# In units of the standard deviation of a component with the noise, so that steps are neither too wide nor too short.
UNITS = tuple(math.hypot(SD, s) for s in SIGMAS)
DRAWS, BINS = 6_000, 30


def misfit(base, acceptance=None, sigmas=SIGMAS, units=UNITS):
    """Pearson's statistic of the end of the ladder against the smoothed mixture, 30 bins of equal probability."""
    target = scored(smoothed_mixture(WEIGHTS, MEANS, SD, 1.0), acceptance)
    x0 = 7.0 * np.random.default_rng(3).standard_normal((DRAWS, 1))
    kernel = Annealed(base, sigmas, 10, units)
    x = sample(target, kernel, x0, 1, seed=4, burn_in=len(sigmas) - 1).draws[0, :, 0]
    sd = math.hypot(SD, sigmas[-1])
    u = sum(w * norm.cdf(x, m, sd) for w, m in zip(WEIGHTS, MEANS[:, 0], strict=True))
    counts = np.histogram(u, BINS, (0.0, 1.0))[0]
    return np.sum((counts - DRAWS / BINS) ** 2) / (DRAWS / BINS), np.mean(x < 0)


LIMIT = chi2.isf(1e-6, BINS - 1)
"""Error probability 1e-6, seed fixed."""


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("base", [MALA(0.6), HMC(0.8, 2), RWM(1.5)], ids=["MALA", "HMC", "RWM"])
def test_smoothed_mixture_from_its_score(base):
    statistic, share = misfit(base)
    assert statistic < LIMIT
    assert abs(share - 0.8) < BOUND * math.sqrt(0.16 / DRAWS)


class Halved(LineIntegral):
    """Half the log ratio."""

    def acceptance_correction(self, *args):
        return 0.5 * super().acceptance_correction(*args)


@pytest.mark.parametrize(
    ("base", "settings", "least"),
    [
        (ULA(1.0), {}, 5),  # discretisation
        (MALA(0.6), {"sigmas": SIGMAS[-1:], "units": UNITS[-1:]}, 10),  # no ladder
        pytest.param(MALA(0.6), {"acceptance": Halved()}, 3, marks=pytest.mark.slow),
    ],
)
def test_the_check_sees_what_is_wrong(base, settings, least):
    assert misfit(base, **settings)[0] > least * LIMIT


def learned():
    def log_acceptance(x_new, x, parameters):
        return parameters[0] * (np.sum(x_new**2, axis=-1) - np.sum(x**2, axis=-1))

    return Learned(log_acceptance, np.asarray([-0.3]), LangevinProposal(0.5))


@pytest.mark.parametrize("acceptance", [LineIntegral(5), learned()], ids=["line integral", "learned"])
def test_the_level_of_the_data_is_that_of_the_ladder(acceptance):
    """Whatever noise level the target was given with."""
    x0, found = np.random.default_rng(0).normal(size=(50, 1)), []
    for sigma in (1.0, 5.0):
        target = scored(smoothed_mixture(WEIGHTS, MEANS, SD, sigma), acceptance)
        levels = Annealed(MALA(0.5), LADDER)
        found.append(sample(target, levels, x0, 4, seed=1).state)
    np.testing.assert_array_equal(*(state.point.x for state in found))
    np.testing.assert_array_equal(*(state.base.point.score for state in found))


def mala_by_hand(x, noise, eta, sigma):
    """A step in x from the definition, with the exact mixture density."""
    plain = gaussian_mixture(WEIGHTS, MEANS, np.hypot(SD, sigma))
    y = x + eta * plain.score(x, plain.data) + math.sqrt(2 * eta) * noise["base/proposal"]

    def log_q(to, at):
        return -np.sum((to - at - eta * plain.score(at, plain.data)) ** 2, axis=-1) / (4 * eta)

    log_ratio = plain.log_density(y, plain.data) - plain.log_density(x, plain.data) + log_q(x, y) - log_q(y, x)
    probability = np.exp(np.minimum(log_ratio, 0))
    return np.where((noise["base/accept"] < probability)[:, None], y, x), probability


def test_mala_by_hand_on_every_library(library):
    """Two steps at each of two levels, and past the end of the ladder; 32 nodes are exact to the tolerance."""
    sigmas, c = (2.0, 0.7), 0.4
    target = scored(smoothed_mixture(WEIGHTS, MEANS, SD, 1.0), LineIntegral(32))
    x = 2.0 * np.random.default_rng(5).standard_normal((30, 1))
    kernel = Annealed(MALA(c), sigmas, 2)
    noise = noise_of(kernel, x, 3)
    positions, infos, state = walk(library, kernel, x, noise, target)
    for t, sigma in enumerate((2.0, 0.7, 0.7)):
        before, probabilities = x, []
        for i in range(2):
            x, probability = mala_by_hand(x, {k: v[t, i] for k, v in noise.items()}, c * sigma**2, sigma)
            probabilities.append(probability)
        np.testing.assert_allclose(positions[t], x, rtol=1e-7)
        accepted = library.host(infos[t].acceptance_probability)
        np.testing.assert_allclose(accepted, np.mean(probabilities, axis=0), rtol=1e-6)
        np.testing.assert_array_equal(library.host(infos[t].moved), np.any(x != before, axis=-1))
    assert int(library.host(state.n)) == 3
    # At the level's start, and at two proposals, each with its acceptance's 32.
    np.testing.assert_array_equal(library.host(infos[0].evaluations.score), np.full(x.shape[:-1], 1 + 2 * 33))


def test_a_base_whose_chains_spend_unlike_numbers_of_evaluations(library):
    """On a library that compiles the loop as well."""
    xp = library.xp
    target = Target(
        lambda x, data: -0.5 * xp.sum(x * x, axis=-1) / (1 + data["sigma"] ** 2),
        score=lambda x, data: -x / (1 + data["sigma"] ** 2),
        data={"sigma": np.asarray(1.0)},
    )
    x0 = library.array(np.random.default_rng(1).normal(size=(6, 2)))
    trace = sample(target, Annealed(NUTS(0.3, max_depth=3), (2.0, 1.0), 2), x0, 2, seed=1)
    assert 2 < trace.run_statistics.evaluations["score"] < 2 * 7 + 1


def test_derivatives_in_units_of_the_level():
    """Of log pi(unit y) in y: the score has the unit once, and its derivative twice."""
    precision = np.array([[2.0, 0.5], [0.5, 1.0]])
    target = Target(
        lambda x: -0.5 * np.sum(x * (x @ precision), axis=-1),
        score=lambda x: -(x @ precision),
        hvp=lambda x, v: -(v @ precision),
    )
    y, v, unit, h = np.random.default_rng(0).normal(size=(3, 2)), np.array([[1.0, -2.0]] * 3), np.asarray(0.3), 1e-5
    level = Level(target.prepare(y, Capability.LOG_DENSITY | Capability.SCORE | Capability.HVP), unit)
    np.testing.assert_allclose(level.log_density(y), level.evaluate(y).log_density, rtol=1e-12)
    np.testing.assert_allclose(level.score(y), level.evaluate(y).score, rtol=1e-12)
    along = (level.log_density(y + h * v) - level.log_density(y - h * v)) / (2 * h)
    np.testing.assert_allclose(np.sum(level.score(y) * v, axis=-1), along, rtol=1e-6)
    np.testing.assert_allclose(level.hvp(y, v), (level.score(y + h * v) - level.score(y - h * v)) / (2 * h), rtol=1e-6)


@pytest.mark.parametrize("base", [HMC(0.5, 2), SRMC(MALA(0.4), 0.5, tilt=Exact())], ids=["HMC", "SR-MALA"])
def test_same_chain_everywhere(library, base):
    """Any kernel goes down the ladder, on any library and by any road to a smoothed target."""
    mixture = smoothed_mixture(WEIGHTS, np.asarray([[-1.0, 0.0], [1.0, 0.5]]), SD, 1.0)
    x, kernel = np.random.default_rng(6).standard_normal((4, 2)), Annealed(base, (1.5, 0.6), 2)
    noise = noise_of(kernel, x, 3)
    positions, _, _ = walk(library, kernel, x, noise, mixture)
    np.testing.assert_allclose(walk(NumPy, kernel, x, noise, mixture)[0], positions, rtol=1e-9)
    if not isinstance(base, SRMC):  # that needs an hvp
        family = Parametric(mixture.log_density, mixture.data, score=mixture.score)
        np.testing.assert_allclose(walk(library, kernel, x, noise, family)[0], positions, rtol=1e-9)


def annealed(**change):
    return Annealed(**{"base": ULA(0.1), "sigmas": LADDER, "steps": 2} | change)


def run(target, kernel=Annealed(ULA(0.1), LADDER)):
    return sample(target, kernel, np.zeros((3, 1)), 1, seed=0)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: annealed(sigmas=()), HyperparameterError, "1 at least"),
        (lambda: annealed(sigmas=(1.0, 0.0)), HyperparameterError, "sigmas must be greater than 0"),
        (lambda: annealed(sigmas=(1.0, 2.0)), HyperparameterError, "never increase"),
        (lambda: annealed(sigmas=(math.inf, 2.0)), HyperparameterError, "finite"),
        (lambda: annealed(units=(1.0,)), HyperparameterError, "each of the 4"),
        (lambda: annealed(units=(1.0, -1.0, 1.0, 1.0)), HyperparameterError, "units must be greater than 0"),
        (lambda: annealed(steps=0), HyperparameterError, "positive integer"),
        (lambda: annealed(steps=True), HyperparameterError, "positive integer"),
        (lambda: run(gaussian_mixture(WEIGHTS, MEANS, SD)), CapabilityError, 'the entry "sigma"'),
        (lambda: run(Target(None, score=lambda x: -x)), CapabilityError, 'the entry "sigma"'),
        (lambda: run(replace(NORMAL, space=Binary())), CapabilityError, "real positions"),
        (
            lambda: run(Target(None, score=NORMAL.score, data=NORMAL.data), Annealed(MALA(0.1), LADDER)),
            CapabilityError,
            "only a score",
        ),
    ],
)
def test_bad_settings(make, error, message):
    with pytest.raises(error, match=message):
        make()
