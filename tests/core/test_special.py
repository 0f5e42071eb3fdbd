"""Special functions against SciPy, where naive formulas overflow, cancel or turn linear, too."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit, gammaln, psi, softmax
from scipy.special import logsumexp as scipy_logsumexp

from xpsample.core.special import (
    accurate_sigmoid,
    digamma,
    log_gamma,
    logsumexp,
    minimum_with_zero,
    sigmoid,
    softplus,
)

AT = np.asarray([[-800.0, -90.0, -37.0, -1.5, -1e-9, 0.0], [1e-3, 2.0, 20.1, 36.0, 40.1, 800.0]])


def test_values(library):
    a = library.array(AT)
    np.testing.assert_allclose(library.host(sigmoid(a)), expit(AT), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(library.host(accurate_sigmoid(a)), expit(AT), rtol=1e-13, atol=0)
    # To the last digits where it is small: torch's softplus is off by 2e-9 at 20.1, and log(1 + exp) is 0 at -90.
    np.testing.assert_allclose(library.host(softplus(a)), np.logaddexp(0.0, AT), rtol=1e-13, atol=1e-300)
    np.testing.assert_array_equal(library.host(a), AT)
    two = library.array(np.asarray(2.0))  # operations on 0-d arrays give scalars in NumPy
    assert float(sigmoid(two)) == pytest.approx(expit(2.0), rel=1e-14)
    assert float(softplus(two)) == pytest.approx(np.logaddexp(0.0, 2.0), rel=1e-14)


def test_derivatives_of_softplus(differentiating):
    """By the library, as of a density that is written with it; the second of each number by itself.

    And at 0, where chains often start: the second derivative is 1/4, as is the first of the sigmoid.
    """
    xp, autodiff, a = differentiating.xp, differentiating.backend.autodiff, differentiating.array(AT)
    both = autodiff.value_and_grad(lambda a: xp.sum(softplus(a), axis=-1))
    np.testing.assert_allclose(differentiating.host(both(a)[1]), expit(AT), rtol=1e-13, atol=1e-15)
    second = differentiating.host(autodiff.hvp(lambda a: both(a)[1])(a, xp.ones_like(a)))
    np.testing.assert_allclose(second, expit(AT) * expit(-AT), rtol=1e-12, atol=1e-15)
    assert second[0, 5] == 0.25
    for function, slope in ((softplus, 0.5), (sigmoid, 0.25), (accurate_sigmoid, 0.25)):
        _, found = autodiff.value_and_grad(lambda a, f=function: xp.sum(f(a)))(differentiating.array([0.0]))
        assert float(found[0]) == slope


def test_minimum_with_zero(library):
    given = np.asarray([[0.0, -1e300], [np.inf, -np.inf], [np.nan, 1e300]])
    array = library.array(given)
    found = library.host(minimum_with_zero(library.xp, array))
    np.testing.assert_array_equal(found, [[0.0, -1e300], [0.0, -math.inf], [np.nan, 0.0]])
    np.testing.assert_array_equal(library.host(array), given)


def test_a_namespaces_own_function_is_taken():
    assert minimum_with_zero(SimpleNamespace(minimum_with_zero=lambda a: "own"), AT) == "own"


def test_log_gamma_and_its_derivative(library):
    at = np.concatenate([np.logspace(-6, 5, 40), [0.5, 1.0, 2.0]])
    found = library.host(log_gamma(library.array(at)))
    np.testing.assert_allclose(found, gammaln(at), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(library.host(digamma(library.array(at))), psi(at), rtol=1e-12, atol=1e-12)


SUMMED = np.asarray([[-800.0, -1.5, 0.0, 2.0], [3.0, 800.0, 799.0, -np.inf]])


def test_logsumexp(library):
    at = library.array(SUMMED)
    for axis in (-1, 0, (0, 1)):
        np.testing.assert_allclose(library.host(logsumexp(at, axis=axis)), scipy_logsumexp(SUMMED, axis=axis), 1e-14)
    with np.errstate(divide="ignore"):  # no probability at all, as in a run
        assert library.host(logsumexp(library.array(np.full((2, 3), -np.inf)))).tolist() == [-np.inf, -np.inf]


def test_derivatives(differentiating):
    xp, value_and_grad = differentiating.xp, differentiating.backend.autodiff.value_and_grad
    for function, derivative in ((logsumexp, softmax), (softplus, expit), (log_gamma, psi)):
        at = np.asarray([0.5, 2.0, 2.0, 30.0])
        _, found = value_and_grad(lambda a, f=function: xp.sum(f(a)))(differentiating.array(at))
        np.testing.assert_allclose(differentiating.host(found), derivative(at), rtol=1e-12, atol=1e-15)
