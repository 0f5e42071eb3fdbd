"""sigmoid and softplus against SciPy, where naive formulas overflow, cancel or turn linear, too."""

import math

import numpy as np
import pytest
from scipy.special import expit

from xpsample.special import add_scaled, finite_or_least, minus_square, sigmoid, softplus

AT = np.asarray([[-800.0, -90.0, -37.0, -1.5, -1e-9, 0.0], [1e-3, 2.0, 20.1, 36.0, 40.1, 800.0]])


class Plain:
    """A namespace with nothing of its own beyond the standard's."""

    def __init__(self, xp):
        self.abs, self.exp, self.log1p, self.tanh = xp.abs, xp.exp, xp.log1p, xp.tanh


@pytest.mark.parametrize("own", [True, False], ids=["own", "standard"])
def test_values(library, own):
    xp, a = library.xp, library.array(AT)
    names = xp if own else Plain(xp)
    np.testing.assert_allclose(library.host(sigmoid(names, a)), expit(AT), rtol=1e-13, atol=1e-15)
    # To the last digits where it is small: torch's softplus is off by 2e-9 at 20.1, and log(1 + exp) is 0 at -90.
    np.testing.assert_allclose(library.host(softplus(names, a)), np.logaddexp(0.0, AT), rtol=1e-13, atol=1e-300)
    np.testing.assert_array_equal(library.host(a), AT)


def test_derivatives_of_softplus(differentiating):
    """By the library, as of a density that is written with it; the second of each number by itself."""
    library, autodiff = differentiating, differentiating.backend.autodiff
    a = library.array(AT)
    both = autodiff.value_and_grad(lambda a: library.xp.sum(softplus(library.xp, a), axis=-1))
    np.testing.assert_allclose(library.host(both(a)[1]), expit(AT), rtol=1e-13, atol=1e-15)
    second = autodiff.hvp(lambda a: both(a)[1])(a, library.xp.ones_like(a))
    np.testing.assert_allclose(library.host(second), expit(AT) * expit(-AT), rtol=1e-12, atol=1e-15)


def test_of_one_number(library):
    """Operations on 0-d arrays give scalars in NumPy."""
    a = library.array(np.asarray(2.0))
    assert float(sigmoid(library.xp, a)) == pytest.approx(expit(2.0), rel=1e-14)
    assert float(softplus(library.xp, a)) == pytest.approx(np.logaddexp(0.0, 2.0), rel=1e-14)


@pytest.mark.parametrize("scale", [-0.3, 2, "an array", "a number of the library"])
def test_add_scaled(library, scale):
    """To rounding: one pass may round once where two round twice. One scale for all, or one for each row."""
    a, b = np.linspace(-1.0, 1.0, 6).reshape(3, 2), np.linspace(2.0, 3.0, 6).reshape(3, 2)
    scales = {"an array": np.asarray([[0.5], [-1.0], [2.0]]), "a number of the library": np.asarray(0.7)}
    host = scales.get(scale, scale)
    theirs = library.array(host) if scale in scales else scale
    first, second = library.array(a), library.array(b)
    np.testing.assert_allclose(library.host(add_scaled(library.xp, first, theirs, second)), a + host * b, rtol=1e-14)
    np.testing.assert_array_equal(library.host(first), a)


def test_minus_square(library):
    a, b = np.linspace(-1.0, 1.0, 6).reshape(3, 2), np.linspace(2.0, 3.0, 6).reshape(3, 2)
    first, second = library.array(a), library.array(b)
    np.testing.assert_allclose(library.host(minus_square(library.xp, first, second)), a - b * b, rtol=1e-14)
    np.testing.assert_array_equal(library.host(first), a)


def test_finite_or_least(library):
    given = np.asarray([[0.0, -1e300], [np.inf, -np.inf], [np.nan, 1e300]])
    array = library.array(given)
    values, lost = finite_or_least(library.xp, array)
    np.testing.assert_array_equal(library.host(values), [[0.0, -1e300], [-math.inf] * 2, [-math.inf, 1e300]])
    np.testing.assert_array_equal(library.host(lost), [[False, False], [True, True], [True, False]])
    np.testing.assert_array_equal(library.host(array), given)
