"""Densities pushed forward: what a density of the values, times the Jacobian, integrates to over the coordinates.

Each truth is a closed form of the distribution, and knows nothing of the map.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp
from scipy import special, stats

import xpsample as xps

ALPHA = np.asarray([2.0, 3.0, 1.5])


def diagonal(factor):
    return np.diagonal(factor, axis1=-2, axis2=-1)


def log_dirichlet(x, alpha):
    constant = special.gammaln(alpha.sum()) - special.gammaln(alpha).sum()
    return constant + np.sum((alpha - 1) * np.log(x), axis=-1)


def log_flat_lkj(factor):
    """LKJ(1) of a Cholesky factor, unnormalised: the log determinant of the map from L to R."""
    n = factor.shape[-1]
    return np.sum(((n - np.arange(1, n + 1)) * np.log(diagonal(factor)))[..., 1:], axis=-1)


def log_wishart(factor, nu=4):
    """Bartlett: chi distributions on the diagonal, standard normals below it."""
    on = sum(stats.chi(nu - i).logpdf(diagonal(factor)[..., i]) for i in range(factor.shape[-1]))
    return on + stats.norm.logpdf(factor[..., 1, 0])


class Case(NamedTuple):
    """A log density of values, a function of them, the integrals of the density and of their product, and a grid."""

    space: Any
    log_density: Any
    of: Any
    total: float
    mean: float
    reach: float = 40.0
    points: int = 400
    error: float = 2e-5


def square_of_correlation(factor):
    return np.sum(factor[..., -1, :] * factor[..., -2, :], axis=-1) ** 2


def von_mises(kappa, at):
    """The integrals of exp(kappa cos(x)), and of its product with the first of two entries turned by an angle."""
    return 2 * np.pi * special.i0(kappa), 2 * np.pi * special.i1(kappa) * at


def log_order(log_density):
    return lambda x: math.log(2) + np.sum(log_density(x), axis=-1)


def flat(x):
    return np.zeros(x.shape[0])


CASES = [
    Case(xps.Positive(), stats.gamma(2.5).logpdf, lambda x: x, 1.0, 2.5),
    Case(xps.LowerBounded(3.0), stats.expon(3.0).logpdf, lambda x: x, 1.0, 4.0),
    Case(xps.UpperBounded(-1.0), lambda x: stats.gamma(2.5).logpdf(-1.0 - x), lambda x: x, 1.0, -3.5),
    Case(xps.Interval(-1.0, 3.0), flat, lambda x: x**2, 4.0, 28 / 3),
    Case(xps.Interval(0.0, 1.0), stats.beta(2.0, 3.5).logpdf, lambda x: x, 1.0, 2 / 5.5),
    # The integrands have no limit at z = 0, where the rule is less exact.
    Case(xps.Circular(), lambda x: 2.0 * np.cos(x - 3.0), np.sin, *von_mises(2, math.sin(3)), 9.0, 300, 1e-3),
    Case(xps.UnitVector(2), lambda x: x[..., 0], lambda x: x[..., 0], *von_mises(1, 1.0), 9.0, 300, 1e-3),
    Case(xps.UnitVector(3), flat, lambda x: x[..., 1] ** 2, 4 * np.pi, 4 * np.pi / 3, 6.0, 60, 2e-3),
    Case(xps.Ordered(2), log_order(stats.norm.logpdf), lambda x: x[..., 1], 1.0, 1 / math.sqrt(np.pi)),
    Case(xps.PositiveOrdered(2), log_order(stats.expon.logpdf), lambda x: x[..., 1], 1.0, 1.5),
    Case(xps.Simplex(2), flat, lambda x: x[..., 0] ** 2, 1.0, 1 / 3),
    Case(xps.Simplex(3), flat, lambda x: x[..., 2], 0.5, 0.5 / 3),
    Case(xps.Simplex(3), lambda x: log_dirichlet(x, ALPHA), lambda x: x[..., 1], 1.0, 3 / 6.5),
    # For eta = 1 all correlation matrices are equally likely: their volume is 2 for 2 rows, and pi^2 / 2 for 3.
    Case(xps.CorrelationCholesky(2), log_flat_lkj, square_of_correlation, 2.0, 2 / 3),
    Case(xps.CorrelationCholesky(3), log_flat_lkj, square_of_correlation, np.pi**2 / 2, np.pi**2 / 8, 9, 56),
    Case(xps.CovarianceCholesky(2), log_wishart, lambda x: np.sum(x[..., 1, :] ** 2, -1), 1.0, 4.0, 8.0, 64),
]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: repr(case.space))


def integrals(case, log_jacobian=lambda it: it):
    """Of the pushed-forward density and of its product with the function, by the trapezoidal rule."""
    axis = np.linspace(-case.reach, case.reach, case.points)
    z = np.stack(np.meshgrid(*[axis] * case.space.dim, indexing="ij"), axis=-1).reshape(-1, case.space.dim)
    # Where rounding puts a value on its bound, the density may be infinite and the weight is nothing.
    with np.errstate(all="ignore"):
        value, its = case.space.constrain(numpy_xp, z)
        weight = np.exp(case.log_density(value) + log_jacobian(its)) * (axis[1] - axis[0]) ** case.space.dim
        weight = np.where(np.isfinite(weight), weight, 0.0)
        product = np.where(weight > 0, weight * case.of(value), 0.0)
    return np.sum(weight), np.sum(product)


@every_case
def test_a_pushed_forward_density_has_the_known_integrals(case):
    total, mean = integrals(case)
    assert total == pytest.approx(case.total, rel=case.error)
    assert mean == pytest.approx(case.mean, rel=case.error)


@every_case
def test_without_the_jacobian_it_has_others(case):
    for wrong in (lambda it: 0.0 * it, lambda it: -it):
        total, _ = integrals(case, wrong)
        assert abs(total - case.total) > 0.1 * case.total
