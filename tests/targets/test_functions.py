"""Functions that densities need, against SciPy and their derivatives."""

import numpy as np
from scipy.special import expit, gammaln, psi, softmax
from scipy.special import logsumexp as scipy_logsumexp

from xpsample.targets.functions import log_gamma, logsumexp, softplus

AT = np.asarray([[-800.0, -1.5, 0.0, 2.0], [3.0, 800.0, 799.0, -np.inf]])


def test_values(library):
    at = library.array(AT)
    found = library.host(logsumexp(at))
    np.testing.assert_allclose(found, scipy_logsumexp(AT, axis=-1), rtol=1e-14)
    np.testing.assert_allclose(library.host(logsumexp(at, axis=0)), scipy_logsumexp(AT, axis=0), rtol=1e-14)
    np.testing.assert_allclose(library.host(logsumexp(at, axis=(0, 1))), scipy_logsumexp(AT), rtol=1e-14)
    np.testing.assert_allclose(library.host(softplus(at[0, :])), np.logaddexp(0.0, AT[0]), rtol=1e-14)
    counts = np.asarray([0.5, 1.0, 7.0, 1e5])
    np.testing.assert_allclose(library.host(log_gamma(library.array(counts))), gammaln(counts), rtol=1e-12, atol=1e-12)


def test_no_probability_at_all_is_minus_infinity(library):
    with np.errstate(divide="ignore"):  # as in a run
        assert library.host(logsumexp(library.array(np.full((2, 3), -np.inf)))).tolist() == [-np.inf, -np.inf]


def test_derivatives(differentiating):
    xp, value_and_grad = differentiating.xp, differentiating.backend.autodiff.value_and_grad
    for function, derivative in ((logsumexp, softmax), (softplus, expit), (log_gamma, psi)):
        at = np.asarray([0.5, 2.0, 2.0, 30.0])
        _, found = value_and_grad(lambda a, f=function: xp.sum(f(a)))(differentiating.array(at))
        np.testing.assert_allclose(differentiating.host(found), derivative(at), rtol=1e-12, atol=1e-15)
