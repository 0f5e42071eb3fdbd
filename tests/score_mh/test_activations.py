"""Activations against SciPy and torch in both precisions, and their derivatives against closed forms."""

import numpy as np
import pytest
from scipy import special

from xpsample.core.registry import backend_of
from xpsample.score_mh import gelu, log_sigmoid, negative_entropy, softplus

PLACES = np.array(
    [-1e30, -1e4, -100.0, -20.0, -9.9, -3.0, -0.5, -1e-3, 0.0, 1e-3, 0.5, 3.0, 9.9, 20.0, 100.0, 1e4, 1e30]
)


def gelu_reference(a):
    torch = pytest.importorskip("torch")
    return torch.nn.functional.gelu(torch.tensor(a, dtype=torch.float64), approximate="tanh").numpy()


def gelu_slope(a):
    c = np.sqrt(2 / np.pi)
    b = np.clip(a, -40, 40)
    t, inner = np.tanh(c * (b + 0.044715 * b**3)), c * (1 + 3 * 0.044715 * b**2)
    return 0.5 * (1 + t) + 0.5 * b * (1 - t**2) * inner


@pytest.mark.parametrize(
    ("function", "reference"),
    [(softplus, lambda a: np.logaddexp(a, 0)), (log_sigmoid, special.log_expit), (gelu, gelu_reference)],
    ids=["softplus", "log-sigmoid", "gelu"],
)
def test_values(function, reference, typed_library):
    a = PLACES.astype(typed_library.dtype)
    found = typed_library.host(function(typed_library.array(a)))
    wide = a.astype(np.float64)
    expected = reference(wide)
    eps = np.finfo(typed_library.dtype).eps
    # GELU's 1 + tanh loses the relative precision of what is nearly 0; the others that of subnormal numbers.
    atol = 10 * eps if function is gelu else np.finfo(typed_library.dtype).tiny
    np.testing.assert_allclose(found, expected, rtol=8 * eps, atol=atol)


def test_gelu_is_near_the_one_with_the_error_function():
    a = np.linspace(-12, 12, 4001)
    gap = np.max(np.abs(gelu(a) - a * special.ndtr(a)))
    assert 4e-4 < gap < 5e-4


@pytest.mark.parametrize(
    ("function", "slope"),
    [(softplus, special.expit), (log_sigmoid, lambda a: special.expit(-a)), (gelu, gelu_slope)],
    ids=["softplus", "log-sigmoid", "gelu"],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_first_and_second_derivatives(function, slope, dtype, differentiating):
    """At 0 too, and finite where exponentials and cubes would overflow."""
    a = differentiating.array(PLACES, dtype)
    autodiff = backend_of(a).autodiff
    first = autodiff.value_and_grad(function)
    second = autodiff.value_and_grad(lambda a: first(a)[1])
    eps = np.finfo(dtype).eps
    at = PLACES.astype(dtype).astype(np.float64)
    np.testing.assert_allclose(differentiating.host(first(a)[1]), slope(at), rtol=20 * eps, atol=100 * eps)
    h = 1e-6
    bent = (slope(np.clip(at, -200, 200) + h) - slope(np.clip(at, -200, 200) - h)) / (2 * h)
    np.testing.assert_allclose(differentiating.host(second(a)[1]), bent, rtol=1e-5, atol=1e-5)


def test_entropy(library):
    logit = np.array([-800.0, -5.0, 0.0, 0.3, 40.0, 800.0])
    a = special.expit(logit)
    expected = special.xlogy(a, a) + special.xlogy(1 - a, 1 - a)
    expected[4] = -40 * np.exp(-40) - np.exp(-40)  # where 1 - a is 0 in floating numbers
    found = library.host(negative_entropy(library.array(logit)))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-300)
