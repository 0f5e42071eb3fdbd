"""Where the CLT of SRMC ends: on exp(-x^4 / 4), whose score grows as x^3, some chains run away, and a warning says so.

A predicted variance is compared with that of 1,000 chains, whose relative standard error is sqrt(2 / 1000) = 4.5 %; the
bound of 20 % is more than four of them.
"""

import warnings

import numpy as np
import pytest

from xpsample import MALA, SRMC, Draws, Exact, PowerLaw, Record, Target, sample
from xpsample.core.errors import RepellenceWarning
from xpsample.srmc import Repellence, theory

CHAINS, STEPS, BASE = 1000, 1000, MALA(0.3)
TARGET = Target(lambda x: -0.25 * np.sum(x**4, axis=-1), lambda x: -(x**3), lambda x, v: -3.0 * x**2 * v)


def exact_draws():
    generator = np.random.default_rng(0)
    return (4.0 * generator.gamma(0.25, size=(CHAINS, 1))) ** 0.25 * generator.choice([-1.0, 1.0], size=(CHAINS, 1))


@pytest.fixture(scope="module")
def linearization():
    scores = Record("scores", lambda state: state.point.score)
    pilot = sample(TARGET, BASE, exact_draws(), STEPS, seed=2, recorders=(Draws(), scores))
    return theory.estimate(pilot.draws, pilot.recorded["scores"])


def run(alpha, offset):
    """The chains' means, and each chain's acceptance probability."""
    kernel = SRMC(BASE, alpha, PowerLaw(1.0, offset=offset), tilt=Exact())
    trace = sample(TARGET, kernel, exact_draws(), STEPS, seed=1, recorders=(Draws(), Repellence()))
    return trace.draws.mean(axis=0)[:, 0], trace.recorded["repellence"].acceptance_probability


def test_a_weak_tilt_that_begins_gently_is_as_predicted(linearization):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        means, _ = run(0.1, 10.0)
    predicted = theory.compare(linearization, [0.1]).variance[0, 0]
    assert STEPS * np.mean(means**2) == pytest.approx(predicted, rel=0.2)


def test_chains_that_run_away_are_warned_of_and_the_others_are_as_predicted(linearization):
    with pytest.warns(RepellenceWarning):
        means, acceptance = run(0.5, 1.0)
    predicted = theory.compare(linearization, [0.5]).variance[0, 0]
    away = acceptance < 0.5 * np.median(acceptance)
    assert 0.05 < np.mean(away) < 0.3
    assert STEPS * np.mean(means**2) > 100 * predicted
    assert STEPS * np.mean(means[~away] ** 2) == pytest.approx(predicted, rel=0.2)
