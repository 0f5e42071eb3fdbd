"""What the SRMC paper says of the mean field of theta, and of its targets: by quadrature and by enumeration."""

from itertools import product

import numpy as np
import pytest

from xpsample.srmc import theory
from xpsample.targets.point import Capability
from xpsample.zoo.logistic import logistic_regression

ALPHA = 1.5
WEIGHTS, MEANS, SDS = np.asarray([0.7, 0.3]), np.asarray([-1.0, 1.5]), np.asarray([0.5, 1.0])


class Quadrature:
    """A mixture of two normals on a line, its score, and averages under its tilted densities."""

    x = np.linspace(-100, 100, 16_001)

    def __init__(self):
        parts = np.log(WEIGHTS / SDS) - 0.5 * ((self.x[:, None] - MEANS) / SDS) ** 2
        self.log_density = np.logaddexp(*parts.T)
        share = np.exp(parts - self.log_density[:, None])
        self.s = -np.sum(share * (self.x[:, None] - MEANS) / SDS**2, axis=1)

    def tilted(self, theta):
        """Shares of the points under pi_theta (Eq. 2)."""
        log = self.log_density - ALPHA * theta * self.s
        shares = np.exp(log - log.max())
        return shares / shares.sum()

    def mean(self, values, theta):
        return np.sum(self.tilted(theta) * values)

    def covariance(self, a, b, theta):
        return self.mean(a * b, theta) - self.mean(a, theta) * self.mean(b, theta)


LINE = Quadrature()


@pytest.mark.parametrize("start", [-6.0, 2.0, 8.0])
def test_the_equilibrium_is_unique_and_attracts_as_fast_as_it_should(start):
    """Prop. 4: theta' = S(theta) - theta and mu' = F(theta) - mu, by Heun's steps, from far out."""
    theta, mu, dt, f = start, 3.0, 0.04, LINE.x

    def field(theta, mu):
        return LINE.mean(LINE.s, theta) - theta, LINE.mean(f, theta) - mu

    for k in range(1, 201):
        first = field(theta, mu)
        second = field(theta + dt * first[0], mu + dt * first[1])
        theta, mu = (a + dt * (b + c) / 2 for a, b, c in zip((theta, mu), first, second, strict=True))
        assert abs(theta) <= np.exp(-k * dt) * abs(start) * (1 + 1e-3) + 1e-12
    assert mu == pytest.approx(WEIGHTS @ MEANS, abs=0.03)
    assert LINE.mean(LINE.s, 0.0) == pytest.approx(0.0, abs=1e-10)  # Stein's identity: 0 is the equilibrium


@pytest.mark.parametrize("theta", [0.0, 0.7, -2.0])
def test_derivatives_of_means_and_covariances_under_the_tilt(theta):
    """Eqs. 52 and 53, by differences."""
    f, s, h = np.sin(LINE.x), LINE.s, 1e-4

    def slope(function):
        return (function(theta + h) - function(theta - h)) / (2 * h)

    for g in (f, s):
        assert slope(lambda t, g=g: LINE.mean(g, t)) == pytest.approx(-ALPHA * LINE.covariance(g, s, theta), rel=1e-5)
    expected = LINE.covariance(f * s, s, theta) - LINE.covariance(f, s, theta) * LINE.mean(s, theta)
    expected -= LINE.mean(f, theta) * LINE.covariance(s, s, theta)
    assert slope(lambda t: LINE.covariance(f, s, t)) == pytest.approx(-ALPHA * expected, rel=1e-4, abs=1e-8)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_the_field_far_out_is_linear_and_contracts(side):
    """Lemma 5 and Props. 6 and 7 for p = 2.

    A large theta moves the density far out, where the wider normal is the larger one on both sides. So Cov(s, s) is
    1 / sd^2 of that one, and h(r theta) / r is -(1 + alpha / sd^2) theta, at least as steep as -theta.
    """
    wide = SDS.max()
    for r in (20.0, 40.0):
        assert LINE.covariance(LINE.s, LINE.s, side * r) == pytest.approx(1 / wide**2, rel=1e-6)
    slopes = [(LINE.mean(LINE.s, side * r) - side * r) / (side * r) for r in (20.0, 40.0)]
    limit = -(1 + ALPHA / wide**2)
    np.testing.assert_allclose(slopes, limit, rtol=1e-6)


class Tail:
    """U = (1 + x^2)^(p / 2) on a line under its tilt, about the place x* = alpha (p - 1) theta that it moves to."""

    def __init__(self, p, theta):
        self.place = ALPHA * (p - 1) * theta
        u = 1 + (self.place + np.linspace(-12, 12, 20_001) * self.place ** (1 - p / 2)) ** 2
        self.x, self.s = np.sqrt(u - 1), -p * np.sqrt(u - 1) * u ** (p / 2 - 1)
        log = -(u ** (p / 2)) - ALPHA * theta * self.s
        shares = np.exp(log - log.max())
        self.shares = shares / shares.sum()

    def mean(self, values):
        return np.sum(self.shares * values)

    def covariance(self, a, b):
        return self.mean(a * b) - self.mean(a) * self.mean(b)


@pytest.mark.parametrize("p", [1.25, 1.5, 1.75, 2.0])
def test_far_out_the_scores_vary_as_lemma_5_says(p):
    """Its (i), with the constant of Eq. 47: U_t'' is p x*^(p - 2) and the slope of the score -p (p - 1) x*^(p - 2)."""
    for theta in (1e4, 1e5):
        tail = Tail(p, theta)
        expected = p * (p - 1) ** 2 * tail.place ** (p - 2)
        assert tail.covariance(tail.s, tail.s) == pytest.approx(expected, rel=1e-3)
        # h_theta(r theta) / r is this less theta: -theta in the limit for p < 2, as Prop. 6 has it.
        assert tail.mean(tail.s) / theta == pytest.approx(-p * tail.place ** (p - 1) / theta, rel=1e-3)


@pytest.mark.parametrize("p", [1.5, 2.0])
@pytest.mark.parametrize("q", [0.25, 0.5, 1.0, 1.25])
def test_far_out_functions_that_grow_faster_than_x_have_no_limit_field(p, q):
    """Lemma 5 (ii) has t^(p - 2) for all q < p, and Prop. 6 a limit. The slopes say t^(q - 1), for |f| = |x|^q."""
    near, far = (Tail(p, theta) for theta in (1e4, 1e5))
    found = [tail.covariance(tail.x**q, tail.s) for tail in (near, far)]
    np.testing.assert_allclose(found, [-q * (p - 1) * tail.place ** (q - 1) for tail in (near, far)], rtol=2e-3)
    scaled = found[1] / found[0] * 10 ** (2 - p)
    assert (scaled > 1.5) == (q > p - 1)  # what converges in the lemma
    drift = [tail.mean(tail.x**q) / theta for tail, theta in ((near, 1e4), (far, 1e5))]
    assert (drift[1] > 1.5 * drift[0]) == (q > 1)  # h_mu(r theta) / r


def test_blocks_of_the_limit_scale_as_in_appendix_c9():
    generator = np.random.default_rng(0)
    root = generator.standard_normal((5, 8))
    joint = root @ root.T
    noise = np.diag([1.0, 2.0, 3.0, 4.0, 5.0]) + 0.3
    linear = theory.Linearization(joint[:3, :3], joint[3:, :3], noise)
    near, far = theory.iterate_covariance(linear, np.asarray([1e5, 1e6]))
    for block in (np.s_[:3, :3], np.s_[:3, 3:]):
        np.testing.assert_allclose(far[block] / near[block], 0.1, rtol=1e-3)
    np.testing.assert_allclose(far[3:, 3:] / near[3:, 3:], 1.0, rtol=1e-3)


# ---- Table 1 ---------------------------------------------------------------------------------------------------------


def hessian(target, x):
    """Of U, by products with unit vectors, (dim, dim)."""
    bound = target.prepare(x[None], Capability.SCORE | Capability.HVP)
    return np.stack([-bound.hvp(x[None], unit[None])[0] for unit in np.eye(len(x))])


def test_of_logistic_regression_the_curvature_settles():
    """To 1 / tau^2 on nearly all rays (C.1.3): on one at a right angle to a row of the design that row's 1/4 stays."""
    generator = np.random.default_rng(1)
    design = generator.standard_normal((12, 2))
    target = logistic_regression(design, (generator.uniform(size=12) < 0.5).astype(float))
    largest = np.linalg.eigvalsh(design.T @ design / 4)[-1] + 1
    for x in 3 * generator.standard_normal((20, 2)):
        assert np.linalg.eigvalsh(hessian(target, x))[-1] <= largest * (1 + 1e-9)
    ray = np.asarray([np.cos(0.3), np.sin(0.3)])
    np.testing.assert_allclose(hessian(target, 1e4 * ray), np.eye(2), atol=1e-6)
    row = design[0]
    across = np.asarray([-row[1], row[0]]) / np.linalg.norm(row)
    np.testing.assert_allclose(hessian(target, 1e5 * across), np.eye(2) + np.outer(row, row) / 4, atol=1e-6)


def test_of_mixtures_with_other_covariances_the_score_need_not_be_lipschitz():
    """C.1.2 and Table 1: where two components weigh the same along a whole ray, the curvature grows as r^2.

    The score itself still grows no faster than linearly, which is what Lemma 3.2 takes from the condition.
    """
    same = Ray(np.asarray([[1.0, 4.0], [1.0, 4.0]]))
    other = Ray(np.asarray([[1.0, 4.0], [4.0, 1.0]]))
    for r in (10.0, 100.0):
        assert same.curvature(r) == pytest.approx(1.0, abs=1e-6)
        difference = np.asarray([0.75, -0.75]) * r / np.sqrt(2)
        assert other.curvature(r) == pytest.approx(np.sum(difference**2) / 4, rel=0.1)
        assert np.linalg.norm(other.score(r)) < r


class Ray:
    """The equal mixture of N(0, diag(v)) along the diagonal of the plane."""

    def __init__(self, variances):
        self.v = variances

    def score_at(self, x):
        log = -0.5 * np.sum(x**2 / self.v + np.log(self.v), axis=1)
        share = np.exp(log - np.logaddexp(*log))
        return -share @ (x / self.v)

    def score(self, r):
        return self.score_at(np.asarray([r, r]) / np.sqrt(2))

    def curvature(self, r):
        """The largest entry in size of the spectrum of the Hessian of U, by differences."""
        x, h = np.asarray([r, r]) / np.sqrt(2), 1e-5
        rows = [(self.score_at(x + h * unit) - self.score_at(x - h * unit)) / (2 * h) for unit in np.eye(2)]
        return np.max(np.abs(np.linalg.eigvalsh((np.stack(rows) + np.stack(rows).T) / 2)))


# ---- Prop. 2 ---------------------------------------------------------------------------------------------------------


def test_a_metropolis_kernel_is_lipschitz_in_theta_with_twice_the_constant():
    """Prop. 2 on three bits with single flips, V = 0: |P_theta - P_theta'| over alpha C |theta - theta'|.

    C is the largest mean of |s(y) - s(x)| over proposals (Eq. 35). The ratio is above 1, and never above 2: what is not
    accepted stays at x, and counts a second time, which the last line of the proof leaves out.
    """
    states = np.asarray(list(product([0, 1], repeat=3)))
    log = states @ np.asarray([0.3, -0.2, 0.1]) + 0.4 * states[:, 0] * states[:, 1]
    flips = np.asarray(
        [[np.flatnonzero((states == (x ^ bit)).all(axis=1))[0] for bit in np.eye(3, dtype=int)] for x in states]
    )
    s = np.exp(log[flips] - log[:, None]) - 1  # Eq. 17
    steps = s[flips] - s[:, None]
    constant = np.max(np.mean(np.linalg.norm(steps, axis=-1), axis=1))
    generator, worst = np.random.default_rng(2), 0.0

    def kernel(theta):
        accepted = np.minimum(1, np.exp(log[flips] - log[:, None] - ALPHA * steps @ theta)) / 3
        matrix = np.zeros((8, 8))
        np.put_along_axis(matrix, flips, accepted, axis=1)
        return matrix + np.diag(1 - accepted.sum(axis=1))

    for _ in range(300):
        one = 0.2 * generator.standard_normal(3)
        other = one + 1e-3 * generator.standard_normal(3)
        distance = np.max(np.sum(np.abs(kernel(one) - kernel(other)), axis=1))
        worst = max(worst, distance / (ALPHA * constant * np.linalg.norm(one - other)))
    assert 1.2 < worst <= 2


def test_a_langevin_kernel_is_lipschitz_in_theta():
    """Prop. 3 and Eq. 36 by quadrature, SR-MALA on the mixture with V = x^2 / 10, for |theta| up to 2.

    |P_theta - P_theta'| over |theta - theta'| settles as the two approach, and is largest near the modes: there is a
    constant, of which the paper says that it exists.
    """
    eta, noise = 0.1, np.linspace(-10, 10, 1201)
    x = np.linspace(-25, 25, 51)
    y = x[:, None] + np.sqrt(2 * eta) * noise

    def score(x):
        parts = np.log(WEIGHTS / SDS) - 0.5 * ((x[..., None] - MEANS) / SDS) ** 2
        log = np.logaddexp(parts[..., 0], parts[..., 1])
        share, slopes = np.exp(parts - log[..., None]), -(x[..., None] - MEANS) / SDS**2
        s = np.sum(share * slopes, axis=-1)
        return log, s, np.sum(share * (slopes**2 - 1 / SDS**2), axis=-1) - s**2

    (log_x, s_x, h_x), (log_y, s_y, h_y) = (tuple(a[:, None] for a in score(x)), score(y))

    def densities(theta):
        """Of proposals and of accepted ones, (x, y)."""
        forth = -((y - x[:, None] - eta * (s_x - ALPHA * theta * h_x)) ** 2) / (4 * eta)
        back = -((x[:, None] - y - eta * (s_y - ALPHA * theta * h_y)) ** 2) / (4 * eta)
        ratio = log_y - log_x - ALPHA * theta * (s_y - s_x) + back - forth
        q = np.exp(forth) / np.sqrt(4 * np.pi * eta)
        return q, q * np.exp(np.minimum(ratio, 0))

    def distances(theta, apart, power):
        """Of the proposals in total variation, and of the kernels in the norm of 1 + V^power, at each x."""
        (q, p), (q_other, p_other) = densities(theta), densities(theta + apart)
        dy = y[0, 1] - y[0, 0]
        growth = (1 + (y**2 / 10) ** power) / (1 + (x[:, None] ** 2 / 10) ** power)
        stays = np.abs(np.sum(p - p_other, axis=1))  # what is not accepted
        return 0.5 * dy * np.sum(np.abs(q - q_other), axis=1), dy * (
            np.sum(np.abs(p - p_other) * growth, axis=1) + stays
        )

    lipschitz = np.max(np.abs(h_y))
    for theta in (-2.0, 0.0, 1.9):
        for power in (1, 2):
            found = {apart: distances(theta, apart, power) for apart in (0.1, 1e-2, 1e-3)}
            for apart, (proposals, _) in found.items():
                assert np.max(proposals) <= np.sqrt(eta / 8) * ALPHA * lipschitz * apart  # Eq. 36
            most = {apart: np.max(kernels) / apart for apart, (_, kernels) in found.items()}
            assert most[1e-3] == pytest.approx(most[1e-2], rel=0.05) and most[0.1] < 1.2 * most[1e-3]
            assert np.abs(x[np.argmax(found[1e-3][1])]) < 5
            assert np.max(found[1e-3][1][np.abs(x) > 15]) < 0.8 * np.max(found[1e-3][1])
