"""The laws of the suite: their draws pass their own tests, wrong ones do not, and the p-values are right."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tests.kernels.discrete.test_dlp import GradientAtX, NoCorrection, Swapped
from xpsample.conformance import Distribution, Enumerated, Pushforward, invariance, reference, scenarios
from xpsample.conformance.distributions import ERROR_PROBABILITY, Shifted, chi_square_tail, gaussian_distribution

SCENARIOS = {scenario.name: scenario for scenario in scenarios()}
STATES = np.asarray([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
LAW = Enumerated(STATES, np.log([0.1, 0.2, 0.3, 0.4]))


@pytest.mark.parametrize("freedom", [1, 2, 3, 8, 17, 80])
def test_the_tail_of_chi_square(freedom):
    for x in (0.5 * freedom, freedom, 3 * freedom, 6.0 * freedom + 30):
        np.testing.assert_allclose(chi_square_tail(x, freedom), stats.chi2.sf(x, freedom), rtol=1e-9)


@pytest.mark.parametrize(
    "stationary",
    [LAW, gaussian_distribution(np.eye(2)), Shifted(gaussian_distribution(np.eye(2)), np.ones((20_000, 2)))],
)
def test_a_law_knows_its_own_draws(stationary):
    draws = stationary.draw(np.random.default_rng(0), 20_000)
    assert isinstance(stationary, Distribution) and draws.shape == (20_000, 2)
    assert stationary.compare(draws).passed
    assert stationary.finite is isinstance(stationary, Enumerated)
    limit = stationary.compare(draws).limit
    assert stats.norm.sf(limit) <= ERROR_PROBABILITY * (1 + 1e-6)


def test_wrong_draws_are_told_apart():
    generator = np.random.default_rng(0)
    other = Enumerated(STATES, np.log([0.11, 0.19, 0.29, 0.41]))
    assert not LAW.compare(other.draw(generator, 100_000)).passed
    outside = LAW.draw(generator, 1000)
    outside[0, 0] = 0.5
    assert LAW.compare(outside).z == np.inf
    impossible = Enumerated(STATES, np.asarray([0.0, 0.0, 0.0, -np.inf]))
    assert impossible.compare(LAW.draw(generator, 1000)).z == np.inf
    assert isinstance(gaussian_distribution(np.eye(1)), Pushforward)


def test_rare_states_are_pooled():
    """Expected counts of a hundredth each, together of 1: no cell of its own blows the statistic up."""
    rare = Enumerated(np.arange(102.0)[:, None], np.log([0.5, 0.499] + [1e-5] * 100))
    draws = rare.draw(np.random.default_rng(1), 1000)
    assert rare.compare(draws).passed
    draws[:60] = 5.0
    assert not rare.compare(draws).passed


# ---- broken discrete kernels -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [NoCorrection, Swapped, GradientAtX])
@pytest.mark.parametrize("name", ["dmala", "dmala-spins", "dmala-one-hot"])
@pytest.mark.first_cases(3)
def test_a_wrong_discrete_kernel_is_caught(name, kind):
    result = invariance(replace(SCENARIOS[name], kernel=lambda asarray: kind()), reference())
    assert not result.passed and result.z > 2 * result.limit
