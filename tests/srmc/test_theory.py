"""The CLT of SRMC: its solver against SciPy's, its closed forms, and predictions against measured covariances."""

from decimal import Decimal, getcontext
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.linalg import solve_continuous_lyapunov

from xpsample import MALA, PCN, SRMC, Exact, PowerLaw, sample
from xpsample.core.errors import HyperparameterError
from xpsample.gradients.choices import Evaluations
from xpsample.kernels.kernel import ChainState, Info, Kernel, normal_like
from xpsample.srmc import Estimator, Frozen, theory
from xpsample.targets.point import Capability
from xpsample.zoo.gaussian import gaussian

D, M = 3, 2
SCHEDULES = [PowerLaw(1.0), PowerLaw(1.0, scale=2.0), PowerLaw(0.7), PowerLaw(0.6, scale=0.1)]


def positive(generator, n):
    root = generator.standard_normal((n, n + 2))
    return root @ root.T / n


def example(seed=0):
    """A target's covariances of (s, f), and a noise covariance that has nothing to do with them."""
    generator = np.random.default_rng(seed)
    joint = positive(generator, D + M)
    return joint, theory.Linearization(joint[:D, :D], joint[D:, :D], positive(generator, D + M))


def shift(schedule):
    return 0.5 / schedule.scale if schedule.rho == 1 else 0.0


# ---- the equations ---------------------------------------------------------------------------------------------------


def test_the_lyapunov_solver_equals_scipys(library):
    generator = np.random.default_rng(1)
    drift = generator.standard_normal((4, 5, 5)) - 6 * np.eye(5)
    noise = positive(generator, 5)
    found = library.host(theory.solve_lyapunov(library.array(drift), library.array(noise)))
    for solution, matrix in zip(found, drift, strict=True):
        np.testing.assert_allclose(solution, solve_continuous_lyapunov(matrix, -noise), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_the_iterates_covariance_solves_equation_13(schedule, library):
    _, linear = example()
    alpha = np.array([0.0, 0.3, 5.0])
    arrays = theory.Linearization(*(library.array(a) for a in linear[:3]))
    drift = library.host(theory.drift_matrix(arrays, library.array(alpha)))
    found = library.host(theory.iterate_covariance(arrays, library.array(alpha), schedule))
    for a, matrix, solution in zip(alpha, drift, found, strict=True):
        s, c = linear.score_covariance, linear.cross_covariance
        by_hand = np.block([[-np.eye(D) - a * s, np.zeros((D, M))], [-a * c, -np.eye(M)]])
        np.testing.assert_allclose(matrix, by_hand, atol=1e-14)
        shifted = by_hand + shift(schedule) * np.eye(D + M)
        np.testing.assert_allclose(solution, solve_continuous_lyapunov(shifted, -linear.noise), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_closed_forms_equal_the_lyapunov_solution(schedule, library):
    joint, _ = example()
    alpha, parts = np.array([[0.0, 0.3], [1.0, 5.0]]), (joint[:D, :D], joint[D:, :D], joint[D:, D:])
    closed = theory.independent_covariance(*map(library.array, parts), library.array(alpha), schedule)
    np.testing.assert_allclose(
        library.host(closed),
        theory.iterate_covariance(theory.independent(*parts), alpha, schedule)[..., D:, D:],
        rtol=1e-10,
    )
    # Eq. 15 as the paper writes it, with R of Eq. 70.
    s, c, v = parts
    two_b = 2 - 2 * shift(schedule)
    for a, value in zip(alpha.flat, library.host(closed).reshape(-1, M, M), strict=True):
        residual = (v - c @ np.linalg.inv(s) @ c.T) / two_b
        paper = c @ np.linalg.inv(s @ (2 * a * s + two_b * np.eye(D))) @ c.T + residual
        np.testing.assert_allclose(value, paper, rtol=1e-9)

    # Eq. 16: f(x) = x under a Gaussian, any base kernel: S = P, C = -I, and (s, f) = (s, -V s) along the chain.
    precision = np.linalg.inv(s)
    u = positive(np.random.default_rng(2), D)
    through = np.concatenate([np.eye(D), -s])
    linear = theory.Linearization(precision, -np.eye(D), through @ u @ through.T)
    closed = theory.gaussian_covariance(library.array(s), library.array(u), library.array(alpha), schedule)
    general = theory.iterate_covariance(linear, alpha, schedule)
    np.testing.assert_allclose(library.host(closed), general[..., D:, D:], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(library.host(closed), s @ general[..., :D, :D] @ s, rtol=1e-9, atol=1e-12)


def test_a_score_that_spans_less_than_its_dimension_is_allowed():
    # Eq. 15 inverts Cov(s, s); the limit of a vanishing second score is what the closed form gives.
    thin = [np.array([[2.0, 0], [0, eps]]) for eps in (0.0, 1e-9)]
    cross = [np.array([[1.0, eps**0.5]]) for eps in (0.0, 1e-9)]
    exact, near = (theory.independent_covariance(s, c, np.eye(1), 1.5) for s, c in zip(thin, cross, strict=True))
    np.testing.assert_allclose(exact, near, rtol=1e-8)
    np.testing.assert_allclose(exact, 1 / (2 * (2 * 1.5 * 2 + 1)) + (1 - 1 / 2), rtol=1e-12)  # first score: Eq. 15


def test_the_averages_covariance():
    _, linear = example()
    alpha = np.array([0.0, 0.3, 5.0])
    s, c, u, _ = linear
    # rho = 1, c = 1: the average is mu_n.
    iterate = theory.iterate_covariance(linear, alpha)[:, D:, D:]
    np.testing.assert_allclose(theory.average_covariance(linear, alpha), iterate, rtol=1e-10)
    # rho = 1, another c: the recursion of (theta, average) in units of 1 / n, by SciPy.
    for a, found in zip(alpha, theory.average_covariance(linear, alpha, PowerLaw(1.0, 3.0)), strict=True):
        drift = np.block([[-3 * (np.eye(D) + a * s), np.zeros((D, M))], [-a * c, -np.eye(M)]]) + 0.5 * np.eye(D + M)
        scale = np.diag([3.0] * D + [1.0] * M)
        np.testing.assert_allclose(found, solve_continuous_lyapunov(drift, -scale @ u @ scale)[D:, D:], rtol=1e-9)
    # rho < 1, any c: Polyak and Juditsky.
    for a, found in zip(alpha, theory.average_covariance(linear, alpha, PowerLaw(0.6, 0.1)), strict=True):
        inverse = np.linalg.inv(theory.drift_matrix(linear, a))
        np.testing.assert_allclose(found, (inverse @ u @ inverse.T)[D:, D:], rtol=1e-9)


def test_predictions_after_n_steps_by_hand():
    """Sums over the noise of each step, carried on to the end by products of matrices."""
    _, linear = example()
    s, c, u, _ = linear
    schedule, n, alpha = PowerLaw(0.6, scale=0.5, offset=3.0), 40, 1.5
    drift, carried, covariance, left = theory.drift_matrix(linear, alpha), np.eye(D + M), 0.0, 1.0
    for j in range(n, 0, -1):
        gamma = 0.5 * (j + 3.0) ** -0.6
        covariance = covariance + gamma**2 * carried @ u @ carried.T
        carried, left = carried @ (np.eye(D + M) + gamma * drift), left * (1 - gamma)
    own = np.diag([1.0] * D + [1 / (1 - left)] * M)  # the start has no weight in mu
    expected = own @ covariance @ own / (0.5 * 43.0**-0.6)
    np.testing.assert_allclose(theory.iterate_covariance(linear, alpha, schedule, n), expected, rtol=1e-9)
    # The average: noise of every step, carried on by matrices.
    weights, eye, noise = np.zeros((D, D)), np.eye(D), np.zeros((M, M))
    for j in range(n, 0, -1):
        gamma = 0.5 * (j + 3.0) ** -0.6
        both = np.concatenate([-alpha * c @ weights * gamma, np.eye(M)], axis=1)  # of (s, f) at step j
        noise += both @ u @ both.T / n
        weights = eye + weights @ (eye - gamma * (eye + alpha * s))
    np.testing.assert_allclose(theory.average_covariance(linear, alpha, schedule, n), noise, rtol=1e-9)


def test_theta_shrinks_with_alpha_and_the_estimate_need_not():
    # Prop. 3.4 for a noise that has nothing to do with the target; no such order holds for mu, outside Eq. 15.
    _, linear = example()
    alpha = np.array([0.0, 0.01, 0.1, 1.0, 10.0, 1e3, 1e4])
    for schedule in SCHEDULES:
        sigma = theory.iterate_covariance(linear, alpha, schedule)
        norms = np.linalg.norm(sigma[:, :D, :D], axis=(1, 2))
        assert np.all(np.diff(norms) < 0)
        assert norms[-1] / norms[-2] == pytest.approx(0.1, rel=0.01)  # O(1 / alpha)
    assert np.all(theory.compare(linear, [0.1, 1.0]).per_step > 1)
    joint, _ = example()
    steps = theory.compare(theory.independent(joint[:D, :D], joint[D:, :D], joint[D:, D:]), alpha).per_step
    assert np.all(np.diff(steps, axis=0) < 0)


def test_the_same_numbers_on_every_library(library):
    _, linear = example()
    arrays = theory.Linearization(*(library.array(a) for a in linear[:3]))
    for schedule in SCHEDULES:
        for function in (theory.iterate_covariance, theory.average_covariance):
            if function is theory.average_covariance and schedule.rho == 1 and schedule.scale <= 0.5:
                continue
            for n in (None, 30):
                found = library.host(function(arrays, 0.7, schedule, n))
                np.testing.assert_allclose(found, function(linear, 0.7, schedule, n), rtol=1e-10)
    generator = np.random.default_rng(3)
    values, scores = generator.standard_normal((100, 2, 5, M)), generator.standard_normal((100, 2, 5, D))
    here, there = theory.estimate(values, scores, 7), theory.estimate(library.array(values), library.array(scores), 7)
    for a, b in zip(here[:3], there[:3], strict=True):
        np.testing.assert_allclose(library.host(b), a, rtol=1e-10, atol=1e-13)
    assert here.batches == there.batches == 14 * 10
    ours, theirs = theory.compare(here, [0.1, 1.0]), theory.compare(there, [0.1, 1.0])
    np.testing.assert_allclose(library.host(theirs.per_cost), ours.per_cost, rtol=1e-10)
    assert str(theirs) == str(ours)
    assert theirs.alpha.device == there.noise.device
    for a, b in zip(
        theory.measured_covariance(values, 0.1), theory.measured_covariance(library.array(values), 0.1), strict=True
    ):
        np.testing.assert_allclose(library.host(b), a, rtol=1e-10, atol=1e-13)


def test_a_comparison_is_of_the_chosen_estimator_after_n_steps():
    _, linear = example()
    alpha, schedule = np.array([0.3, 5.0]), PowerLaw(0.7)
    for n in (None, 50):
        average = theory.compare(linear, alpha.tolist(), schedule=schedule, n=n).variance
        weighted = theory.compare(linear, alpha, schedule=schedule, estimator="weighted", n=n)
        covariance = theory.average_covariance(linear, alpha, schedule, n)
        np.testing.assert_array_equal(average, np.diagonal(covariance, axis1=1, axis2=2))
        covariance = theory.iterate_covariance(linear, alpha, schedule, n)[:, D:, D:]
        np.testing.assert_array_equal(weighted.variance, np.diagonal(covariance, axis1=1, axis2=2))
        base = np.diagonal(theory.iterate_covariance(linear, 0.0, schedule, n)[D:, D:])
        np.testing.assert_allclose(weighted.per_step, weighted.variance / base, rtol=1e-12)


def test_an_estimate_by_hand():
    """Covariances over all draws; the noise from the means of the batches that fit, times their size."""
    generator = np.random.default_rng(9)
    values, scores = 3 + generator.standard_normal((23, 3, 2, M)), 1 + generator.standard_normal((23, 3, 2, D))
    found = theory.estimate(values, scores, 5)
    both = np.concatenate([scores, values], axis=-1).reshape(23, 6, D + M)
    covariance = np.cov(both.reshape(-1, D + M).T, bias=True)
    means = both[:20].reshape(4, 5, 6, D + M).mean(axis=1).reshape(24, D + M)
    assert found.batches == 24
    np.testing.assert_allclose(found.score_covariance, covariance[:D, :D], rtol=1e-10)
    np.testing.assert_allclose(found.cross_covariance, covariance[D:, :D], rtol=1e-10)
    np.testing.assert_allclose(found.noise, 5 * np.cov(means.T), rtol=1e-10)
    assert theory.estimate(values[:2, 0, :1], scores[:2, 0, :1], 1).batches == 2  # the least


def test_a_comparison_as_text():
    comparison = theory.Comparison(np.array([0.5]), np.array([[2.0, 3.0]]), np.array([[0.25, 1.5]]),
                                   np.array([[0.75, 4.5]]), 3.0, 200)  # fmt: skip
    assert str(comparison).split("\n") == [
        "   alpha   f   variance   per step   per cost",
        "     0.5   0          2       0.25       0.75",
        "     0.5   1          3        1.5        4.5",
        "a step costs 3 times the base kernel's",
        "from 200 batches: each variance to about 10%",
    ]


@pytest.mark.parametrize(("draws", "chains", "size"), [(50, 3, 1), (400, 2, 4), (400, 400, 400)])
def test_batches_are_two_hundred_or_whole_chains(draws, chains, size):
    values = np.random.default_rng(4).standard_normal((draws, chains, 1))
    found = theory.estimate(values, values)
    assert found.batches == draws // size * chains
    np.testing.assert_array_equal(found.noise, theory.estimate(values, values, size).noise)


def test_a_measured_covariance_by_hand():
    """Along the chains of every run of a sweep; the error is that of the mean of the products."""
    estimates, gamma = 2 + np.random.default_rng(5).standard_normal((3, 7, M)), 0.1
    found = theory.measured_covariance(estimates, gamma)
    for run, covariance, error in zip(estimates, *found, strict=True):
        np.testing.assert_allclose(covariance, np.cov(run.T) / gamma, rtol=1e-12)
        away = run - run.mean(axis=0)
        products = [np.outer(a, a) * 7 / 6 / gamma for a in away]
        np.testing.assert_allclose(error, np.std(products, axis=0, ddof=1) / np.sqrt(7), rtol=1e-12)


def test_two_chains_have_a_covariance():
    found = theory.measured_covariance(np.array([[1.0, 0.0], [3.0, 4.0]]), 0.5)
    np.testing.assert_allclose(found.covariance, np.array([[2.0, 4.0], [4.0, 8.0]]) / 0.5)
    np.testing.assert_allclose(found.error, 0.0, atol=1e-14)  # both products are the same


def test_float32_stays_float32(library32):
    """And rho may be an array of one number."""
    _, linear = example()
    arrays = theory.Linearization(*(library32.array(a) for a in linear[:3]))
    schedule = PowerLaw(library32.array(np.asarray([0.7])))
    found = theory.compare(arrays, [0.1, 1.0], schedule=schedule)
    for array in (found.alpha, found.variance, found.per_cost, theory.drift_matrix(arrays, 0.5)):
        assert array.dtype == arrays.noise.dtype
    expected = theory.compare(linear, [0.1, 1.0], schedule=PowerLaw(0.7))
    np.testing.assert_allclose(library32.host(found.per_cost), expected.per_cost, rtol=1e-4)


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_what_has_no_clt_is_refused():
    joint, linear = example()
    s, c, v = joint[:D, :D], joint[D:, :D], joint[D:, D:]
    slow = PowerLaw(1.0, scale=0.5)
    for call in (
        lambda: theory.iterate_covariance(linear, 1.0, slow),
        lambda: theory.independent_covariance(s, c, v, 1.0, slow),
        lambda: theory.gaussian_covariance(s, s, 1.0, slow),
    ):
        with pytest.raises(HyperparameterError, match="scale above 1/2"):
            call()
    least = np.linalg.eigvalsh(s)[0]
    theory.average_covariance(linear, 1.01 / least, slow)  # the average has one where alpha speeds the history up
    with pytest.raises(HyperparameterError, match="the history decays too slowly"):
        theory.average_covariance(linear, 0.0, slow)
    with pytest.raises(HyperparameterError, match="not stable"):
        theory.solve_lyapunov(theory.drift_matrix(linear, 1.0) + np.eye(D + M), linear.noise)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda linear: theory.iterate_covariance(linear, -1.0), "alpha must be at least 0"),
        (lambda linear: theory.iterate_covariance(linear, 1.0, Frozen()), "a PowerLaw with one rho"),
        (lambda linear: theory.average_covariance(linear, 1.0, PowerLaw(np.array([0.6, 1.0]))), "one rho"),
        (lambda linear: theory.compare(linear, 1.0), "a sequence of strengths"),
        (lambda linear: theory.compare(linear, [1.0], base_cost=0.0), "base_cost"),
        (lambda linear: theory.compare(linear, [1.0], estimator="median"), "'average' or 'weighted'"),
        (lambda linear: theory.estimate(np.ones((9, 2)), np.ones((8, 2))), "agree up to the last axis"),
        (lambda linear: theory.estimate(np.ones((9, 2)), np.ones((9, 2)), 5), "no two batches of 5"),
        (lambda linear: theory.measured_covariance(np.ones((1, 2)), 1.0), "need two chains"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(HyperparameterError, match=message):
        call(example()[1])


# ---- cost ------------------------------------------------------------------------------------------------------------


def test_costs_count_as_budgets_do():
    joint, _ = example()
    linear = theory.independent(joint[:D, :D], joint[D:, :D], joint[D:, D:])
    per_step = theory.compare(linear, [0.0, 2.0]).per_step
    np.testing.assert_allclose(per_step[0], 1.0)
    unpriced = theory.compare(linear._replace(batches=7), [0.0, 2.0])  # 1 and 3, as in the paper
    np.testing.assert_allclose(unpriced.per_cost, 3 * per_step)
    assert (unpriced.cost_ratio, unpriced.batches) == (3.0, 7)
    average = theory.compare(linear, [0.0, 2.0], base_cost=2.0, srmc_cost=5.0)
    np.testing.assert_allclose(average.per_cost, 2.5 * per_step)
    weighted = theory.compare(
        linear, [0.0, 2.0], base_cost=2.0, srmc_cost=5.0, schedule=PowerLaw(0.7), estimator="weighted"
    )
    # A budget B makes n = B / cost steps, after which Cov(mu_n) = n^-0.7 Sigma: the costs' ratio to the power 0.7.
    sigma = theory.iterate_covariance(linear, np.array([0.0, 2.0]), PowerLaw(0.7))[:, D:, D:]
    budget = 1e6
    spent = sigma[1] * (budget / 5.0) ** -0.7 / (sigma[0] * (budget / 2.0) ** -0.7)
    np.testing.assert_allclose(weighted.per_cost[1], np.diagonal(spent))


def test_a_step_is_priced_by_what_it_evaluates():
    target, x0 = gaussian(np.eye(2)), np.zeros((4, 2))
    base = sample(target, MALA(0.3), x0, 5, seed=1).run_statistics.evaluations
    repelled = sample(target, SRMC(MALA(0.3), 1.0, tilt=Exact()), x0, 5, seed=1).run_statistics.evaluations
    # The paper's 3 to 1, though by another way: two tilts a step, at the current point and at the proposal.
    assert (theory.cost_per_step(base), theory.cost_per_step(repelled)) == (1.0, 3.0)
    assert theory.cost_per_step(repelled, Evaluations(0.5, 1.0, 2.0)) == 5.5
    assert theory.cost_per_step({"score": 2.0}) == 2.0  # what is not named was not evaluated


# ---- predicted and measured ------------------------------------------------------------------------------------------

VARIANCE = np.array([[2.0, 0.6], [0.6, 1.0]])
ROOT, PRECISION, TARGET = np.linalg.cholesky(VARIANCE), np.linalg.inv(VARIANCE), gaussian(VARIANCE)
ALPHA = np.array([[0.0], [1.0], [5.0]])


def three(x):
    """f(x) = (x1, x2, max(x1, 0)): two functions that are linear in the score, and one that is not."""
    return np.concatenate([x, np.maximum(x[..., :1], 0)], axis=-1)


def covariances():
    """Cov(s, s), Cov(f, s) = -E[grad f] and Cov(f, f) for `three`, by hand."""
    v = VARIANCE[0, 0]
    cross = -np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.0]])
    with_x = 0.5 * VARIANCE[:, 0]  # Cov(x, max(x1, 0)) = V E[grad]
    own = v / 2 - v / (2 * np.pi)
    return PRECISION, cross, np.block([[VARIANCE, with_x[:, None]], [with_x[None, :], np.array([[own]])]])


class Autoregressive(Kernel):
    """X' = m + c (X - m) + sqrt(1 - c^2) root(V) z about m = alpha theta: exact for the tilted Gaussian, N(m, V).

    With c = 0 this is the independent sampler of Eq. 15. IndependentMH is not: its proposal does not move with theta,
    so that it rejects as soon as theta is not 0.
    """

    c: float = 0.0
    requires = Capability.LOG_DENSITY

    def init(self, target, x):
        return ChainState(target.evaluate(x))

    def noise(self, x):
        return {"z": normal_like(x)}

    def step(self, target, state, noise):
        m = target.alpha[..., None] * target.theta
        y = m + self.c * (state.point.x - m) + (1 - self.c**2) ** 0.5 * noise["z"] @ ROOT.T
        yes = np.ones(y.shape[:-1], dtype=bool)
        return ChainState(target.evaluate(y)), Info(yes.astype(float), yes, ~yes, target.costs.evaluate)


def step_size(schedule, n):
    return schedule.scale * (n + schedule.offset) ** -schedule.rho


def measure(base, schedule, steps, chains, seed):
    """Measured covariances of (theta_n, mu_n) and of the plain average, for all of `ALPHA` in one run."""
    x0 = np.random.default_rng(seed).standard_normal((len(ALPHA), chains, 2)) @ ROOT.T
    kernel = SRMC(base, ALPHA, schedule, tilt=Exact())
    trace = sample(TARGET, kernel, x0, steps, seed=seed, recorders=(Estimator(three),))
    weighted, average = trace.recorded["estimate"]
    iterates = np.concatenate([trace.state.theta, weighted], axis=-1)
    return SimpleNamespace(
        iterates=theory.measured_covariance(iterates, step_size(schedule, steps)),
        average=theory.measured_covariance(average, 1 / steps),
    )


def long_run(c):
    """The linearization of a base chain X' = c X + sqrt(1 - c^2) noise, which is `Autoregressive`."""
    s, cross, values = covariances()
    noise = theory.independent(s, cross, values).noise * (1 + c) / (1 - c)  # right for all that is linear in x
    # Cov(max(X, 0), max(Y, 0)) of standard normals with correlation r (Cho and Saul 2009), summed over the lags.
    r = c ** np.arange(1, 400)
    lagged = (np.sqrt(1 - r**2) + r * (np.pi - np.arccos(r)) - 1) / (2 * np.pi)
    noise[4, 4] = values[2, 2] + 2 * VARIANCE[0, 0] * np.sum(lagged)
    return theory.Linearization(s, cross, noise)


AUTOCORRELATION = 0.6
BASES = {
    "independent": (Autoregressive(), theory.independent(*covariances())),
    "autoregressive": (Autoregressive(AUTOCORRELATION), long_run(AUTOCORRELATION)),
}
CASES = [(base, rho) for base in BASES for rho in (1.0, 0.7)]
STEPS, CHAINS = 3000, 4000
FEWER = 2000
"""Chains of the longest tests; `table` has `CHAINS`."""


def scores_of(measured, predicted):
    """How many standard errors apart, every entry once."""
    i, j = np.triu_indices(predicted.shape[-1])
    return ((measured.covariance - predicted) / measured.error)[:, i, j]


@pytest.mark.slow
@pytest.mark.first_cases(1)
@pytest.mark.parametrize(("base", "rho"), CASES)
def test_predicted_equals_measured(base, rho):
    # 2,000 chains for each alpha in one run: standard errors of 3.2 % of a variance. A bound of 4.5 of them fails
    # 3 * 15 + 3 * 6 entries together with probability 5e-4 for another seed (normal approximation).
    # The bias of 3,000 steps must stay below that. Its terms: rho / (2 n gamma_n), 3 % for rho = 0.7 and alpha = 0,
    # and 29 % for the average with alpha = 5, which `n` puts into the prediction; and gamma_n (1 + alpha lambda) / 2,
    # 1.5 % at the worst, which is left. The offset keeps gamma_1 (1 + alpha lambda) below 2: theta does not grow first.
    kernel, linear = BASES[base]
    schedule, alpha = PowerLaw(rho, offset=10.0), ALPHA[:, 0]
    measured = measure(kernel, schedule, STEPS, FEWER, seed=5)
    far = scores_of(measured.iterates, theory.iterate_covariance(linear, alpha, schedule, STEPS))
    assert np.abs(far).max() < 4.5, far
    far = scores_of(measured.average, theory.average_covariance(linear, alpha, schedule, STEPS))
    assert np.abs(far).max() < 4.5, far


def exact_average(eigenvalues, alpha, schedule, steps):
    """n Var(average of x over n steps) along the eigenvectors of the precision, for independent draws.

    On a Gaussian the recursion is linear, x' = alpha theta + z / sqrt(lambda), so its covariance follows one, too:
    no simulation, no limit.
    """
    theta = both = total = np.zeros_like(alpha * eigenvalues)
    results = {}
    for n in range(1, max(steps) + 1):
        gamma = step_size(schedule, n)
        keep = 1 - gamma * (1 + alpha * eigenvalues)
        theta, both, total = (
            keep**2 * theta + gamma**2 * eigenvalues,
            keep * (both + alpha * theta) - gamma,
            total + alpha**2 * theta + 2 * alpha * both + 1 / eigenvalues,
        )
        if n in steps:
            results[n] = total / n
    return [results[n] for n in steps]


@pytest.mark.parametrize(
    "schedule",
    [PowerLaw(0.9, 0.5), PowerLaw(0.7, 0.1), PowerLaw(1.0, offset=100.0), PowerLaw(1.0, 0.3), PowerLaw(0.6)],
    ids=str,
)
def test_the_average_after_n_steps_is_that_of_the_linear_recursion(schedule):
    """Where the history is slow the limit is as far off as three times; with rho = 1 it may have none."""
    eigenvalues, basis = np.linalg.eigh(PRECISION)
    found = theory.average_covariance(BASES["independent"][1], ALPHA[:, 0], schedule, 1500)[:, :2, :2]
    along = np.diagonal(np.einsum("ji,...jk,kl->...il", basis, found, basis), axis1=1, axis2=2)
    np.testing.assert_allclose(along, exact_average(eigenvalues, ALPHA, schedule, (1500,))[0], rtol=1e-9)


def test_unstable_first_steps_cost_no_digits():
    """The history grows by 1e11 and falls again: against the forward recursion with 100 digits, in one dimension."""
    alpha, schedule, n = 60.0, PowerLaw(0.7, 0.4, 3.0), 400
    getcontext().prec = 100
    a, v, m, both, total, mixed, left = (Decimal(x) for x in (alpha, 0, 0, 0, 0, 0, 1))  # Var theta, mu; Cov; sums
    for k in range(1, n + 1):
        g = Decimal(0.4 * (k + 3.0) ** -0.7)
        keep = 1 - g * (1 + a)
        total += 1 + a * a * v - 2 * a * mixed
        mixed = keep * (mixed - a * v) + g
        v, both, m = (
            keep**2 * v + g**2,
            keep * ((1 - g) * both - g * a * v) + g**2,
            (1 - g) ** 2 * m - 2 * (1 - g) * g * a * both + (g * a) ** 2 * v + g**2,
        )
        left *= 1 - g
    linear = theory.independent(*[np.eye(1)] * 3)
    average, iterate = (f(linear, alpha, schedule, n) for f in (theory.average_covariance, theory.iterate_covariance))
    assert average[0, 0] == pytest.approx(float(total / n), rel=1e-5)
    assert iterate[0, 0] == pytest.approx(float(v / g), rel=1e-5)
    assert iterate[1, 1] == pytest.approx(float(m / (1 - left) ** 2 / g), rel=1e-5)


def test_first_steps_that_double_precision_does_not_hold_are_refused():
    linear = theory.independent(*[np.eye(1)] * 3)
    for of in (theory.average_covariance, theory.iterate_covariance):
        with pytest.raises(
            HyperparameterError, match=r"the first steps are unstable: .*growth 10\^\d+\).*larger offset"
        ):
            of(linear, 200.0, PowerLaw(0.7, 0.4, 3.0), 400)


@pytest.mark.slow
def test_the_average_is_not_equation_16_for_rho_below_1():
    eigenvalues, basis = np.linalg.eigh(PRECISION)
    schedule, steps = PowerLaw(0.7, offset=10.0), (STEPS, 10_000, 100_000)
    averages = exact_average(eigenvalues, ALPHA, schedule, steps)

    # Eq. 16 read with rho < 1 says V Sigma_theta V = 1 / (2 lambda (1 + alpha lambda)): mu_n's covariance, not the
    # average's, which tends to 1 / (lambda (1 + alpha lambda)^2), and which is exact for a given `n`.
    linear = BASES["independent"][1]
    limit = 1 / (eigenvalues * (1 + ALPHA * eigenvalues) ** 2)
    for n, values in [(None, limit), *zip(steps, averages, strict=True)]:
        predicted = theory.average_covariance(linear, ALPHA[:, 0], schedule, n)[:, :2, :2]
        rotated = np.einsum("ji,...jk,kl->...il", basis, predicted, basis)
        along = np.diagonal(rotated, axis1=1, axis2=2)
        np.testing.assert_allclose(along, values, rtol=1e-9)
    errors = [np.abs(values / limit - 1).max() for values in averages]
    assert errors[2] < errors[1] * 10**-0.3 * 1.1  # the limit itself is reached as n^(rho - 1)
    equation_16 = 1 / (2 * eigenvalues * (1 + ALPHA * eigenvalues))
    assert np.all(averages[-1][2] < 0.7 * equation_16[2])  # for alpha = 5

    # The sampler has that covariance at n steps, up to Monte Carlo error: 9 entries, 4.5 standard errors (6e-5).
    measured = measure(Autoregressive(), schedule, STEPS, FEWER, seed=7).average
    exact = np.einsum("ij,aj,kj->aik", basis, averages[0], basis)
    ours = theory.MeasuredCovariance(measured.covariance[:, :2, :2], measured.error[:, :2, :2])
    assert np.abs(scores_of(ours, exact)).max() < 4.5


def test_a_short_run_predicts():
    # 4,000 chains of 300 draws after burn-in, whole chains as batches: standard errors of 2.2 % of a variance, and a
    # bias of 2 c / (1 - c)^2 / 300 = 0.6 % of the long-run variance (1 + c) / (1 - c).
    # pCN under its own reference is the autoregressive chain. The bounds are five standard errors.
    base, exact = PCN((1 - AUTOCORRELATION**2) ** 0.5, covariance=VARIANCE), long_run(AUTOCORRELATION)
    x0 = np.random.default_rng(8).standard_normal((CHAINS, 2)) @ ROOT.T
    trace = sample(TARGET, base, x0, 300, seed=8)
    found = theory.estimate(three(trace.draws), -trace.draws @ PRECISION)
    assert found.batches == CHAINS
    np.testing.assert_allclose(found.score_covariance, exact.score_covariance, atol=0.02)
    np.testing.assert_allclose(found.cross_covariance, exact.cross_covariance, atol=0.02)
    scale = np.sqrt(np.diagonal(exact.noise))
    np.testing.assert_allclose(found.noise / np.outer(scale, scale), exact.noise / np.outer(scale, scale), atol=0.11)
    predicted, truth = (theory.compare(a, [0.1, 1.0, 5.0], schedule=PowerLaw(0.7)).per_step for a in (found, exact))
    np.testing.assert_allclose(predicted, truth, rtol=0.1)


def table():
    """The first tables of docs/measurements/2026-11-srmc-theory.md: ``python tests/srmc/test_theory.py``."""
    print("| base | rho | alpha | of | limit | at n steps | measured | standard error |")
    for base, rho in CASES:
        kernel, linear = BASES[base]
        schedule = PowerLaw(rho, offset=10.0)
        measured = measure(kernel, schedule, STEPS, CHAINS, seed=5)
        limits, predictions = (theory.iterate_covariance(linear, ALPHA[:, 0], schedule, n) for n in (None, STEPS))
        averages = [theory.average_covariance(linear, ALPHA[:, 0], schedule, n) for n in (None, STEPS)]
        for a, alpha in enumerate(ALPHA[:, 0]):
            for name, j in (("theta 1", 0), ("mu, x1", 2), ("mu, max(x1, 0)", 4)):
                m = [block[a, j, j] for block in (limits, predictions, *measured.iterates)]
                print(f"| {base} | {rho} | {alpha:g} | {name} |" + "".join(f" {value:.4f} |" for value in m))
            m = [block[a, 0, 0] for block in (*averages, *measured.average)]
            print(f"| {base} | {rho} | {alpha:g} | average, x1 |" + "".join(f" {value:.4f} |" for value in m))


if __name__ == "__main__":
    table()
