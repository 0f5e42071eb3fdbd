"""Smooth activations in the array API: no overflow, and right derivatives of all orders, at 0 too."""

import math

from array_api_compat import array_namespace

from xpsample.core.arrays import Array

FLAT = 10.0
"""Beyond it, up and down, GELU is linear or 0 in float64."""


def softplus(a: Array) -> Array:
    """``log(1 + exp(a))``."""
    xp = array_namespace(a)
    # Both branches are smooth functions, so that derivatives at 0 are those of one of them; abs has none there.
    small = xp.exp(xp.where(a < 0.0, a, -a))
    return xp.where(a < 0.0, 0.0, a) + xp.log1p(small)


def log_sigmoid(a: Array) -> Array:
    """``log(1 / (1 + exp(-a)))``, and ``log(1 - sigmoid(a))`` at -a: never the logarithm of a rounded sigmoid."""
    return -softplus(-a)


def gelu(a: Array) -> Array:
    """``a / 2 (1 + tanh(sqrt(2 / pi) (a + 0.044715 a^3)))`` (Hendrycks & Gimpel 2016).

    Within 5e-4 of ``a Phi(a)``, Phi the normal distribution function, which needs an error function; the array API has
    none.
    """
    xp = array_namespace(a)
    b = xp.clip(a, -FLAT, FLAT)  # the cube overflows
    slope = math.sqrt(2.0 / math.pi)
    return 0.5 * a * (1.0 + xp.tanh(b * (slope + (0.044715 * slope) * b * b)))
