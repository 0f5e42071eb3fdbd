"""The densities of the figures on how noise bridges modes, against integrals."""

import numpy as np
import pytest
from scipy.stats import logistic, norm

from xpsample.experiments.hiss.bridging import DEVIATION, STRIP, between, intermediate_mass, tempered
from xpsample.hiss.smoothed import Gaussian, Logistic

MU = np.array([0.0, 1.0, 2.0, 5.0])


@pytest.mark.parametrize(("smoothing", "scale", "known"), [(Logistic(), 0.6, logistic), (Gaussian(), 1.3, norm)])
def test_the_mass_between_two_modes_is_a_difference_of_distribution_functions(smoothing, scale, known):
    expected = known.cdf((MU + STRIP) / scale) - known.cdf((MU - STRIP) / scale)
    np.testing.assert_allclose(intermediate_mass(smoothing, scale, MU), expected, rtol=1e-9)


def test_far_modes_have_more_between_them_under_logistic_noise_of_the_same_variance():
    by_logistic, by_gaussian = intermediate_mass(Logistic(), 1 / DEVIATION, MU), intermediate_mass(Gaussian(), 1.0, MU)
    assert list(by_logistic > by_gaussian) == [True, False, False, True]


def test_a_bit_under_noise():
    x = np.linspace(-30, 30, 6001)
    for smoothing, known in ((Logistic(), logistic), (Gaussian(), norm)):
        expected = 0.3 * known.pdf(x / 0.8) / 0.8 + 0.7 * known.pdf((x - 0.5) / 0.8) / 0.8
        np.testing.assert_allclose(between(smoothing, 0.8, 0.7, x, 0.5), expected, atol=1e-12)


def test_tempering():
    np.testing.assert_allclose(tempered(np.array([0.64, 0.36]), 0.5), [4 / 7, 3 / 7])
