"""The force and the bandwidth rules against sums written out, and Stein's identity."""

import math

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

from xpsample import SRLD, SVGD, ULA, StochasticSVGD
from xpsample.core.errors import GradientError, HyperparameterError
from xpsample.metrics import squared_ksd, squared_mmd
from xpsample.metrics.stein import RBF, InverseMultiquadric, Median, MedianFromPoint, stein_force

CHAINS, M, DIM = 4, 7, 3
GENERATOR = np.random.default_rng(0)
X, POINTS, SCORES = (GENERATOR.normal(size=s) for s in ((CHAINS, DIM), (CHAINS, M, DIM), (CHAINS, M, DIM)))

KERNELS = {
    "rbf": (RBF, lambda a, b, h: math.exp(-np.sum((a - b) ** 2) / h)),
    "imq": (InverseMultiquadric, lambda a, b, h: (1 + np.sum((a - b) ** 2) / h) ** -0.5),
}


def pairwise(points, _):
    distances = [np.linalg.norm(a - b) for i, a in enumerate(points) for b in points[:i]]
    return np.median(distances) ** 2 / math.log(len(points))


def from_point(points, x):
    return np.median(np.sum((points - x) ** 2, axis=-1)) / math.log(len(points))


def by_hand(k, h, x, points, scores, eps=1e-5):
    """Eq. 1 with the gradient of K in its first argument by central differences."""
    total = np.zeros(DIM)
    for a, s in zip(points, scores, strict=True):
        slope = [(k(a + eps * e, x, h) - k(a - eps * e, x, h)) / (2 * eps) for e in np.eye(DIM)]
        total += k(a, x, h) * s + np.array(slope)
    return total / len(points)


RULES = {"fixed": (1.7, lambda p, x: 1.7), "pairs": (Median(), pairwise), "point": (MedianFromPoint(), from_point)}


@pytest.mark.parametrize(("m", "apart"), [(45, 1e-12), (46, 0.15), (400, 0.15)])
def test_the_median_of_many_points_is_that_of_some_pairs(m, apart):
    """A median of 1,000 pairs: the sd of its square is about 0.04 of it."""
    points = np.random.default_rng(m).normal(size=(CHAINS, m, DIM))
    found = Median().at(numpy_xp, None, points)
    np.testing.assert_allclose(found, [pairwise(p, None) for p in points], rtol=apart)
    assert m == 45 or np.all(found != [pairwise(p, None) for p in points])
    np.testing.assert_array_equal(found, Median().at(numpy_xp, None, points))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("m", [M, M - 1])
def test_the_force_is_the_sum_written_out(name, rule, m, library):
    make, k = KERNELS[name]
    bandwidth, sigma = RULES[rule]
    arrays = [library.array(a) for a in (X, POINTS[:, :m], SCORES[:, :m])]
    force = library.host(stein_force(library.xp, make(bandwidth), *arrays))
    expected = [by_hand(k, sigma(p, x), x, p, s) for x, p, s in zip(X, POINTS[:, :m], SCORES[:, :m], strict=True)]
    np.testing.assert_allclose(force, expected, rtol=1e-7, atol=1e-9)


def test_bandwidths_of_their_own_for_each_chain_and_points_that_coincide(library):
    sigma = np.array([0.5, 1.0, 2.0, 8.0])
    force = stein_force(numpy_xp, RBF(sigma), X, POINTS, SCORES)
    alone = [stein_force(numpy_xp, RBF(float(h)), X[i], POINTS[i], SCORES[i]) for i, h in enumerate(sigma)]
    np.testing.assert_allclose(force, alone, rtol=1e-12)
    points = library.array(np.ones((2, 5, DIM)))
    for kernel in (RBF(MedianFromPoint()), InverseMultiquadric(MedianFromPoint())):
        force = stein_force(library.xp, kernel, library.array(np.ones((2, DIM))), points, points)
        assert np.all(library.host(force) == 0)
    apart = stein_force(library.xp, RBF(Median()), library.array(np.zeros((2, DIM))), points, points)
    assert np.all(np.isfinite(library.host(apart)))


@pytest.mark.parametrize("kernel", [RBF(2.0), InverseMultiquadric(2.0, -0.3)])
def test_profiles_are_derivatives(kernel):
    u, eps = np.linspace(0.1, 3, 20), 1e-5
    f, first, second = kernel.profile(numpy_xp, u)
    up, down = kernel.profile(numpy_xp, u + eps), kernel.profile(numpy_xp, u - eps)
    np.testing.assert_allclose(first, (up[0] - down[0]) / (2 * eps), rtol=1e-7)
    np.testing.assert_allclose(second, (up[1] - down[1]) / (2 * eps), rtol=1e-7)
    assert np.all(f > 0)


@pytest.mark.parametrize("kernel", [RBF(2.0), RBF(0.5), InverseMultiquadric(1.0)])
def test_steins_identity(kernel):
    """With points of the target the mean of g is 0: error probability 6e-7 a coordinate, 24 of them."""
    covariance = np.array([[1.0, 0.5, 0.2], [0.5, 1.2, -0.3], [0.2, -0.3, 0.8]])
    draws = 20_000
    points = np.random.default_rng(1).normal(size=(draws, 5, DIM)) @ np.linalg.cholesky(covariance).T
    scores = -points @ np.linalg.inv(covariance)
    for x in (np.zeros(DIM), np.array([1.0, -0.5, 2.0])):
        force = stein_force(numpy_xp, kernel, np.broadcast_to(x, (draws, DIM)), points, scores)
        error = force.std(axis=0) / math.sqrt(draws)
        assert np.all(np.abs(force.mean(axis=0)) < 5 * error)
    wrong = stein_force(numpy_xp, kernel, np.broadcast_to(x, (draws, DIM)), points, 1.3 * scores)
    assert np.any(np.abs(wrong.mean(axis=0)) > 5 * error)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RBF(0.0), r"bandwidth must be greater than 0; got 0\.0"),
        (lambda: InverseMultiquadric(-1.0), "bandwidth must be greater than 0"),
        (lambda: InverseMultiquadric(1.0, -1.0), "power must be greater than -1 and below 0; got -1"),
        (lambda: stein_force(numpy_xp, RBF(), X, POINTS[:, :1], SCORES[:, :1]), "at least 2 points"),
        (lambda: stein_force(numpy_xp, RBF(MedianFromPoint()), X, POINTS[:, :1], SCORES[:, :1]), "at least 2 points"),
    ],
)
def test_bad_settings_say_what_would_do(make, message):
    with pytest.raises(HyperparameterError, match=message):
        make()


@pytest.mark.parametrize(("factors", "said"), [((-1.0, 1.0), "derivative 1"), ((1.0, 0.5), "derivative 2")])
def test_a_wrong_derivative_is_refused_by_all_that_use_it(factors, said):
    class Wrong(RBF):
        def profile(self, xp, u):
            f, first, second = super().profile(xp, u)
            return f, first * factors[0], second * factors[1]

    x = np.random.default_rng(0).normal(size=(5, 2))
    uses = [
        lambda kernel: SRLD(ULA(0.1), kernel=kernel),
        lambda kernel: SVGD(0.1, kernel=kernel),
        lambda kernel: StochasticSVGD(0.1, kernel=kernel),
        lambda kernel: squared_ksd(x, -x, kernel),
        lambda kernel: squared_mmd(x, x + 1, kernel),
    ]
    for use in uses:
        with pytest.raises(GradientError, match=rf"{said} of Wrong.profile is "):
            use(Wrong(1.0))


class OnlyTorch(RBF):
    """Does not accept NumPy arrays."""

    def profile(self, xp, u):
        if isinstance(u, np.ndarray):
            raise TypeError("exp(): argument 'input' must be Tensor")
        return super().profile(xp, u)


class Compact(RBF):
    """(1 - u)^3 up to u = 1, and 0 from there on."""

    def profile(self, xp, u):
        inside = xp.where(u < 1.0, 1.0 - u, 0.0)
        return inside**3, -3 * inside**2, 6 * inside


class Steep(RBF):
    """exp(-u^4), whose derivatives change by half within 1 % of u."""

    def profile(self, xp, u):
        f = xp.exp(-(u**4))
        return f, -4 * u**3 * f, (16 * u**6 - 12 * u**2) * f


class OfSinglePrecision(RBF):
    """With rounding of float32, as of an array library that has no other."""

    def profile(self, xp, u):
        return tuple(each.astype(np.float32) for each in super().profile(xp, u.astype(np.float32)))


@pytest.mark.parametrize("kind", [RBF, InverseMultiquadric, OnlyTorch, Compact, Steep, OfSinglePrecision])
def test_right_derivatives_and_other_libraries_are_accepted(kind):
    SRLD(ULA(0.1), kernel=kind(1.0))
