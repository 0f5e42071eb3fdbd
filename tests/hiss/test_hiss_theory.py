"""Theorems of the HiSS paper against exact matrices and quadrature: those that hold, and what holds of the others."""

import math

import numpy as np
import pytest
from scipy.stats import kstest

from tests.hiss.hiss_support import Setting, cube, quadratic_cube, refinement, sweep
from xpsample import sample
from xpsample.core.errors import HyperparameterError
from xpsample.experiments.hiss.joint_bernoulli import isolated_modes, joint_bernoulli
from xpsample.hiss import Gaussian, HiSS, Logistic
from xpsample.hiss.convergence import minorization
from xpsample.hiss.smoothed import Conditional, smoothed_log_density
from xpsample.kernels.discrete.dlp import DMALA
from xpsample.spaces import Binary
from xpsample.targets import Target
from xpsample.zoo.ising import cross_diagonal

SHARP = {"alpha": 1.0, "eta": 0.3, "nodes": 80}
"""Where the refinements depend on theta_a much."""


def violation(pi, matrix):
    """The largest difference of two opposite flows, as a share of the larger one."""
    flow = pi[:, None] * matrix
    return np.max(np.abs(flow - flow.T) / np.maximum(flow, flow.T))


def test_a_sweep_leaves_the_target_invariant_and_violates_detailed_balance():
    """Prop. 5.4 says that it has it. On {0, 1}^2 opposite flows differ by up to a fifth."""
    settings = [quadratic_cube((1.0, 2.0), seed, refinements=1, **SHARP) for seed in range(6)]
    matrices = [sweep(setting) for setting in settings]
    for setting, matrix in zip(settings, matrices, strict=True):
        np.testing.assert_allclose(setting.pi @ matrix, setting.pi, atol=3e-5)
    assert 0.18 < max(violation(s.pi, m) for s, m in zip(settings, matrices, strict=True)) < 0.23


def test_without_refinements_there_is_detailed_balance():
    """As Section 6.5 says of L = 0."""
    setting = quadratic_cube((1.0, 2.0), refinements=0, **SHARP)
    assert violation(setting.pi, sweep(setting)) < 1e-6


def test_every_state_is_reached_from_every_other_in_one_sweep():
    """Prop. 5.3: irreducible, and so positive recurrent."""
    for eta in (0.3, 4.0):
        assert np.min(sweep(quadratic_cube((1.0, 2.0, 1.5), eta=eta, refinements=1, nodes=10))) > 1e-5


def chain_target(setting, a, b):
    """The target of `quadratic_cube` for the library."""
    return Target(
        lambda x, d: x @ d["b"] - 0.5 * np.sum(x @ d["a"] * x, axis=-1),
        score=lambda x, d: d["b"] - x @ d["a"],
        data={"a": a, "b": b},
        space=Binary(),
    )


def printed_epsilon(lipschitz, concavity, alpha, sweeps, refinements, dim, gradient, eta, diameter, sign):
    """Theorem 5.5 as printed with sign 1; the term in 1 / eta of its proof's last line but two with sign -1."""
    inner = refinements * sweeps
    noise = 3 * inner * math.sqrt(dim) + inner - sign * 2 * sweeps * math.sqrt(dim)
    square = -lipschitz * (inner / 2 + sweeps) - inner / alpha + concavity * inner / 4
    return math.exp(square * diameter**2 + (sign * noise / eta - (inner / 2 + sweeps) * gradient) * diameter)


def test_the_printed_epsilon_of_theorem_5_5_is_no_probability():
    values = {"lipschitz": 1, "concavity": 1, "alpha": 1.9, "sweeps": 1, "refinements": 2, "dim": 4}
    values |= {"gradient": 0.0, "eta": 1.0, "diameter": 2.0}
    assert printed_epsilon(**values, sign=1) == pytest.approx(17_845, abs=1)
    assert printed_epsilon(**values, sign=-1) < minorization(1.0, 1.0, 2.0, 4.0, 0.0, 1.9, 1.0) < 1


BOUNDED = {
    "quadratic": ((0.2, 0.5), 3.0),
    "isotropic": ((1.0, 1.0), 1.5),
    "three": ((0.1, 0.3, 0.6), 3.0),
    "convex": ((-0.6, 0.4), 3.0),
}
"""Eigenvalues of A, and alpha."""


@pytest.mark.parametrize("name", BOUNDED)
def test_every_refinement_and_every_sweep_is_minorised(name):
    """Theorem 5.5 in the form that holds, and its rate in total variation."""
    curvatures, alpha = BOUNDED[name]
    setting = quadratic_cube(
        curvatures, seed=2, alpha=alpha, eta=2.0, refinements=1, nodes=40 if len(curvatures) < 3 else 12
    )
    dim, most = len(curvatures), max(abs(c) for c in curvatures)
    gradient = np.min(np.linalg.norm(setting.gradient, axis=-1))
    epsilon = minorization(most, min(curvatures), math.sqrt(dim), dim, gradient, alpha, 2.0)
    nu = np.exp(0.5 * setting.energy) / np.sum(np.exp(0.5 * setting.energy))
    noisy = 4.0 * np.random.default_rng(1).standard_normal((2_000, dim))
    assert np.all(refinement(setting, noisy) >= epsilon * nu)
    matrix = sweep(setting)
    assert np.all(matrix >= epsilon * nu)
    assert epsilon > 1e-4
    reached = np.eye(len(setting.pi))
    for k in range(1, 6):
        reached = reached @ matrix
        assert np.all(0.5 * np.sum(np.abs(reached - setting.pi), axis=-1) <= (1 - epsilon) ** k)


def test_a_potential_of_varying_curvature_is_minorised():
    """U = -c log cosh(w' x): its Hessian is in [-c |w|^2, 0], and the acceptance depends on how it varies."""
    states, w, c = cube(2), np.array([1.0, -1.5]), 0.3
    slope = -c * np.tanh(states @ w)[:, None] * w
    setting = Setting(states, -c * np.log(np.cosh(states @ w)), slope, alpha=1.5, eta=2.0, refinements=1)
    gradient = np.min(np.linalg.norm(slope, axis=-1))
    epsilon = minorization(c * w @ w, 0.0, math.sqrt(2), 2.0, gradient, 1.5, 2.0)
    nu = np.exp(0.5 * setting.energy) / np.sum(np.exp(0.5 * setting.energy))
    noisy = 4.0 * np.random.default_rng(1).standard_normal((2_000, 2))
    assert epsilon > 1e-4
    assert np.all(refinement(setting, noisy) >= epsilon * nu)


def test_a_minorization_of_five_times_the_size_is_caught():
    """On one coordinate without a slope, with wide noise, the bound is sharp to a factor of 4."""
    setting = quadratic_cube((0.0,), alpha=0.5, eta=1e6)
    setting = type(setting)(setting.states, 0 * setting.energy, 0 * setting.gradient, alpha=0.5, eta=1e6)
    epsilon = minorization(1e-9, 0.0, 1.0, 1.0, 0.0, 0.5, 1e6)
    assert np.all(refinement(setting, np.zeros((1, 1))) >= epsilon * 0.5)
    assert not np.all(refinement(setting, np.zeros((1, 1))) >= 5 * epsilon * 0.5)


def test_means_of_a_chain_have_the_central_limit_of_the_exact_matrix():
    """Theorem 5.6, with its variance: 20,000 chains of 40 sweeps from the target; each bound fails once in 1e4."""
    curvatures, steps, chains = (1.0, 2.0), 40, 20_000
    setting = quadratic_cube(curvatures, seed=4, alpha=1.0, eta=1.5, refinements=1, nodes=40)
    rng = np.random.default_rng(4)  # as in quadratic_cube
    turn = np.linalg.qr(rng.standard_normal((2, 2)))[0]
    target = chain_target(setting, turn @ np.diag(curvatures) @ turn.T, rng.standard_normal(2))
    np.testing.assert_allclose(target.log_density(setting.states, target.data), setting.energy)
    x0 = setting.states[np.random.default_rng(1).choice(4, chains, p=setting.pi)]
    draws = sample(target, HiSS(DMALA(1.0), 1.5, 1, 1), x0, steps, seed=2).draws
    f = setting.states @ [1.0, 3.0]
    means = math.sqrt(steps) * (np.mean(draws @ [1.0, 3.0], axis=0) - setting.pi @ f)

    matrix, centred = sweep(setting), f - setting.pi @ f
    # The variance of the mean of `steps` draws of the stationary chain, and its limit.
    covariances, power = [], np.eye(4)
    for _ in range(400):
        covariances.append(setting.pi * centred @ power @ centred)
        power = power @ matrix
    lags = np.arange(1, steps)
    exact = covariances[0] + 2 * np.sum((1 - lags / steps) * np.array(covariances)[lags])
    limit = covariances[0] + 2 * sum(covariances[1:])
    assert np.var(means) == pytest.approx(exact, rel=4 * math.sqrt(2 / chains))
    assert limit == pytest.approx(exact, rel=0.1) and limit > 1.2 * covariances[0]
    assert kstest(means / math.sqrt(exact), "norm").statistic < 0.05  # a lattice of sums, not yet a normal


def grid(half=60.0, size=200_001):
    points = np.linspace(-half, half, size)
    return points, points[1] - points[0]


@pytest.mark.parametrize("smoothing", [Logistic(), Gaussian()], ids=["logistic", "gaussian"])
def test_the_smoothed_density_is_normalised_and_is_what_noise_makes(library, smoothing):
    """Eqs. 2 and 3: its integral, its mean and variance, and a histogram of noisy states."""
    states, logs, eta = np.array([[-1.0], [0.5], [3.0]]), np.log([2.0, 5.0, 1.0]), 0.7
    x, h = grid()
    found = smoothed_log_density(
        library.array(x[:, None]), library.array(states), library.array(logs), library.array(np.asarray(eta)), smoothing
    )
    p, shares = np.exp(library.host(found)), np.array([2.0, 5.0, 1.0]) / 8
    noise = math.pi**2 / 3 if isinstance(smoothing, Logistic) else 1.0
    mean = shares @ states[:, 0]
    assert h * np.sum(p) == pytest.approx(1.0, abs=1e-9)
    assert h * np.sum(p * x) == pytest.approx(mean, abs=1e-9)
    variance = shares @ (states[:, 0] - mean) ** 2 + eta**2 * noise
    assert h * np.sum(p * (x - mean) ** 2) == pytest.approx(variance, rel=1e-9)


@pytest.mark.parametrize(
    ("shapes", "scale"), [(((5, 2), (3, 1), (3,)), 1.0), (((5, 1), (3, 1), (1,)), 1.0), (((5, 1), (3, 1), (3,)), 0.0)]
)
def test_shapes_that_would_broadcast_are_refused(shapes, scale):
    with pytest.raises(HyperparameterError, match=r"smoothed_log_density takes|scale must be greater than 0"):
        smoothed_log_density(*(np.zeros(shape) for shape in shapes), scale)


def test_the_smoothed_density_in_more_dimensions_is_a_sum_of_products():
    states, logs = cube(3), np.random.default_rng(0).standard_normal(8)
    noisy, eta = np.random.default_rng(1).standard_normal((4, 5, 3)), np.array([0.5, 1.0, 2.0, 4.0])
    z = (noisy[:, :, None, :] - states) / eta[:, None, None, None]
    each = np.prod(0.25 / np.cosh(0.5 * z) ** 2 / eta[:, None, None, None], axis=-1)
    expected = each @ np.exp(logs) / np.sum(np.exp(logs))
    found = smoothed_log_density(noisy, states, logs, eta[:, None])
    np.testing.assert_allclose(np.exp(found), expected, rtol=1e-12)


def test_a_weak_signal_leaves_the_standard_normal():
    """App. A.3 for Bernoulli(0.7): theta_a = alpha theta + sigma xi with alpha near 0."""
    x, _ = grid(4.0, 81)
    alpha = 1e-6
    found = smoothed_log_density(x[:, None], alpha * cube(1), np.log([0.3, 0.7]), math.sqrt(1 - alpha**2), Gaussian())
    np.testing.assert_allclose(found, -0.5 * x**2 - 0.5 * math.log(2 * math.pi), atol=1e-5)


def test_the_variance_preserving_kernel_is_the_gaussian_one_of_another_scale():
    """App. A.3: theta_a = alpha theta + sigma xi tells what theta_a / alpha does, whose scale is sigma / alpha.

    All that a sweep reads is the distribution of theta given theta_a, with its score and its changes.
    """
    alpha, sigma, rng = 0.6, 0.8, np.random.default_rng(0)
    a, b, x = np.array([[0.3, 1.0], [1.0, -0.4]]), np.array([0.2, -0.5]), cube(2)
    noisy = alpha * x[::-1] + sigma * rng.standard_normal((4, 2))
    target = chain_target(quadratic_cube((1.0, 2.0)), a, b)
    requires = HiSS(DMALA(), refinements=1).requires
    bound = target.prepare(x, requires)
    given = Conditional(bound, noisy / alpha, sigma / alpha, Gaussian(), requires)

    def log_density(x):
        return x @ b - 0.5 * np.sum(x @ a * x, axis=-1) - 0.5 * np.sum((noisy - alpha * x) ** 2, axis=-1) / sigma**2

    found = given.log_density(x) - log_density(x)
    np.testing.assert_allclose(found, found[0], rtol=1e-6)
    slope = b - x @ a + alpha * (noisy - alpha * x) / sigma**2
    np.testing.assert_allclose(given.score(x), slope, rtol=1e-5, atol=1e-6)
    flips = np.abs(x[:, None, :] - np.eye(2))  # of every state, with one coordinate the other way
    change = -0.5 * ((noisy[:, None, :] - alpha * flips) ** 2 - (noisy - alpha * x)[:, None, :] ** 2) / sigma**2
    moves = given.moves(x)
    np.testing.assert_allclose(moves[..., 0], np.sum(change, axis=-1), rtol=1e-5, atol=1e-6)


def test_the_papers_own_targets_are_not_concave():
    """Assumption 5.2 asks for m > 0: those of Sections 6.1 and 6.2 have Hessians with a trace that is not negative."""
    bernoulli = joint_bernoulli(isolated_modes())
    at = np.full((4, 4), 0.5)
    for hessian in (bernoulli.hvp(at, np.eye(4), bernoulli.data), cross_diagonal(9)):
        assert np.trace(hessian) >= -1e-9 and np.linalg.eigvalsh(hessian)[-1] > 1


def test_the_intermediate_mass_of_two_deltas():
    """App. A.4: the logistic formula, and the Gaussian one with the exponent of its own line before."""
    mu, sigma, eta, strip = 3.0, 0.6, 0.5, 1e-3
    alpha = math.sqrt(1 - sigma**2)
    x, h = grid(strip, 2_001)
    x, h = x[:-1] + 0.5 * h, h
    deltas, logs = np.array([[-mu], [mu]]), np.zeros(2)
    gaussian = h * np.sum(np.exp(smoothed_log_density(x[:, None], alpha * deltas, logs, sigma, Gaussian())))
    logistic = h * np.sum(np.exp(smoothed_log_density(x[:, None], deltas, logs, eta)))
    front = math.sqrt(2 / math.pi) * strip / sigma
    assert gaussian == pytest.approx(front * math.exp(-(mu**2) * (1 - sigma**2) / (2 * sigma**2)), rel=1e-3)
    printed = front * math.exp(-(mu**2) / (1 - sigma**2))
    assert gaussian / printed > 400
    assert logistic == pytest.approx(2 * strip / eta * math.exp(-mu / eta), rel=0.01)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"step_size": 2.0}, "step_size must be below 2 / lipschitz = 2; got 2"),
        ({"concavity": 1.5}, "concavity must be at least -1 and at most 1"),
        ({"spread": 1.0}, "spread must be at least 2"),
        ({"scale": 0.0}, "scale must be greater than 0"),
    ],
)
def test_bad_bounds_are_refused(values, message):
    right = {"lipschitz": 1.0, "concavity": 1.0, "diameter": 2.0, "spread": 4.0, "gradient": 0.0}
    with pytest.raises(HyperparameterError, match=message):
        minorization(**{**right, "step_size": 1.0, "scale": 1.0, **values})
