"""The bound on gamma, the schedule that keeps below it, and adaptive alpha against App. D.1.4 by hand."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

import xpsample as xps
from xpsample import srmc
from xpsample.core.errors import CapabilityError
from xpsample.srmc import Adaptive, warmup_steps
from xpsample.zoo.gaussian import gaussian

pytestmark = pytest.mark.filterwarnings("ignore::xpsample.core.errors.RepellenceWarning")
"""Some tilts are too strong on purpose."""

COVARIANCE = np.array([[1.0, 0.5, 0.2], [0.5, 1.2, -0.3], [0.2, -0.3, 0.8]])
PRECISION = np.linalg.inv(COVARIANCE)
EIGENVALUES = np.linalg.eigvalsh(PRECISION)


def matrix(gamma, alpha, lam, c):
    """(x, theta) after a step, in the mean."""
    moved = np.array([c, (1 - c) * alpha])
    return np.array([moved, np.array([0.0, 1 - gamma]) - gamma * lam * moved])


def radius(*args):
    return np.abs(np.linalg.eigvals(matrix(*args))).max()


def test_the_bound_is_where_the_spectral_radius_crosses_one():
    generator = np.random.default_rng(0)
    for _ in range(2000):
        alpha, lam, c = 10 ** generator.uniform(-2, 2), 10 ** generator.uniform(-2, 2), generator.uniform(-0.999, 0.999)
        bound = float(srmc.stability_bound(numpy_xp, np.asarray(alpha), np.asarray(lam), np.asarray(c)))
        assert radius(0.999 * bound, alpha, lam, c) < 1
        assert radius(1.001 * bound, alpha, lam, c) > 1


def test_in_resonance_nothing_is_stable():
    assert srmc.stability_bound(numpy_xp, np.asarray(1.0), np.asarray(2.0), np.asarray(-1.0)) == 0
    assert all(radius(gamma, 1.0, 2.0, -1.0) > 1 for gamma in (1e-6, 1e-3, 0.1, 1.0))
    assert srmc.stability_bound(numpy_xp, np.asarray(0.0), np.asarray(2.0), np.asarray(-1.0)) == 2  # without repellence


@pytest.mark.parametrize("kernel", [xps.ULA(0.3), xps.MALA(0.3), xps.HMC(0.3, 4), xps.HMC(0.7, 9)])
def test_autocorrelations_are_those_of_the_kernels(kernel):
    # Without noise and with every proposal accepted a step multiplies x by c.
    lam = np.array([0.2, 1.0, 3.0])
    target = xps.Target(
        lambda x: -0.5 * np.sum(lam * x * x, axis=-1), score=lambda x: -lam * x, hvp=lambda x, v: -lam * v
    ).prepare(np.ones(3), kernel.requires)
    noise = {name: np.zeros(spec.shape) if name != "accept" else np.asarray(1e-300) for name, spec in
             kernel.noise(np.ones(3)).items()}  # fmt: skip
    state, _ = kernel.step(target, kernel.init(target, np.ones(3)), noise)
    np.testing.assert_allclose(srmc.autocorrelation(kernel).at(numpy_xp, lam), state.point.x, atol=1e-13)


def test_where_the_integrator_is_unstable_the_autocorrelation_is_minus_one():
    lam = np.array([0.3, 50.0, 500.0])  # eta lambda and eta^2 lambda / 2 above 2, but for the first
    for values in (
        srmc.LangevinAutocorrelation(0.3),
        srmc.LeapfrogAutocorrelation(0.5, 3),
        srmc.LeapfrogAutocorrelation(0.5, 4),
    ):
        for found in (values.at(numpy_xp, lam), values.least(numpy_xp, lam)):
            assert found[0] > -1
            np.testing.assert_array_equal(found[1:], -1.0)


def test_the_least_autocorrelation_over_a_range():
    grid = np.linspace(1e-4, 1, 5000)
    for values in (
        srmc.LangevinAutocorrelation(0.3),
        srmc.LeapfrogAutocorrelation(0.3, 3),
        srmc.LeapfrogAutocorrelation(0.3, 10),
        srmc.LeapfrogAutocorrelation(0.1, 10),
        srmc.Constant(0.2),
    ):
        for largest in (0.5, 5.0, 40.0, 60.0):
            least = values.least(numpy_xp, np.array([largest]))[0]
            assert least <= np.min(values.at(numpy_xp, grid * largest)) + 1e-12
            assert least >= np.min(values.at(numpy_xp, grid * largest)) - 1e-3
    assert srmc.LeapfrogAutocorrelation(0.3, 4).at(numpy_xp, np.array([50.0]))[0] == -1  # past the leapfrog's own limit
    assert all(
        srmc.autocorrelation(kernel).value == 0 for kernel in (xps.RWM(1.0), xps.PCN(0.5), xps.IndependentMH(0.0))
    )


@dataclass(frozen=True)
class Steady(srmc.Schedule):
    """The same gamma at every step."""

    value: float
    hvps = 0

    def init(self, target, x):
        return None

    def gamma(self, target, n, alpha, point, memory):
        return self.value, None


@pytest.mark.parametrize("base", [xps.ULA(0.5), xps.MALA(0.5), xps.HMC(0.5, 3)])
def test_the_kernel_itself_diverges_above_the_bound_and_not_below(base):
    alpha, lag_one = 3.0, srmc.autocorrelation(base)
    bound = srmc.stability_bound(numpy_xp, np.asarray(alpha), EIGENVALUES, lag_one.at(numpy_xp, EIGENVALUES)).min()
    assert bound < 0.6

    def reach(gamma):  # Metropolis does not protect: every proposal here has probability near one
        kernel = xps.SRMC(base, alpha, Steady(gamma), tilt=xps.Exact())
        x0 = np.ones((200, 3))
        with np.errstate(all="ignore"):
            state = xps.sample(gaussian(COVARIANCE), kernel, x0, 1, burn_in=400, seed=1).state
        return np.abs(state.theta).max()

    assert reach(0.7 * bound) < 20
    assert not reach(1.3 * bound) < 1e3


def test_the_spectrum_of_a_gaussian(typed_library):
    x = typed_library.array(np.random.default_rng(0).standard_normal((4, 2, 3)))
    found = srmc.spectrum(gaussian(COVARIANCE.astype(typed_library.dtype)), x)
    assert found.dtype == x.dtype
    np.testing.assert_allclose(
        typed_library.host(found), EIGENVALUES, rtol=1e-5 if typed_library.dtype == "float32" else 1e-12
    )
    by_differences = xps.Target(None, score=lambda x: -x, gradient=xps.FiniteDifference())
    np.testing.assert_allclose(srmc.spectrum(by_differences, np.ones((2, 3))), np.ones(3), atol=1e-6)


def test_the_spectrum_has_no_negative_eigenvalues():
    saddle = np.array([-0.5, 0.0, 2.0])  # curvatures of a density that is not log-concave
    target = xps.Target(lambda x: -0.5 * np.sum(saddle * x * x, axis=-1), score=lambda x: -saddle * x,
                    hvp=lambda x, v: -saddle * v)  # fmt: skip
    np.testing.assert_array_equal(srmc.spectrum(target, np.ones((2, 3))), [0.0, 0.0, 2.0])


def gammas(schedule, base, alpha, chains=4, steps=30):
    trace = xps.sample(
        gaussian(COVARIANCE),
        xps.SRMC(base, alpha, schedule, tilt=xps.Exact()),
        np.ones((*np.broadcast_shapes(np.shape(alpha), (chains,)), 3)),
        steps,
        seed=1,
        recorders=(xps.Record("gamma", lambda state: state.gamma),),
    )
    return trace.recorded["gamma"], trace


def test_gamma_is_the_smaller_of_the_two():
    alpha, base = np.array([[0.0], [1.0], [20.0]]), xps.MALA(0.3)
    plain = (np.arange(30) + 2.0) ** -0.6
    c = 1 - 0.3 * EIGENVALUES
    bound = np.min(2 * (1 + c) / (1 + c + alpha * EIGENVALUES * (1 - c)), axis=-1)
    expected = np.minimum(plain[:, None], 0.4 * bound)
    for eigenvalues in (EIGENVALUES, float(EIGENVALUES.max())):
        found, _ = gammas(
            srmc.Stable(srmc.autocorrelation(base), eigenvalues, xps.PowerLaw(0.6), kappa=0.4), base, alpha
        )
        np.testing.assert_allclose(found, np.broadcast_to(expected[..., None], found.shape), rtol=1e-12)


def test_power_iteration_finds_the_largest_eigenvalue_and_is_paid_for():
    base, alpha = xps.MALA(0.3), 50.0
    given, cheap = gammas(srmc.Stable(srmc.autocorrelation(base), EIGENVALUES), base, alpha)
    found, dear = gammas(srmc.Stable(srmc.autocorrelation(base)), base, alpha)
    np.testing.assert_allclose(found, given, rtol=1e-3)
    assert dear.run_statistics.evaluations["hvp"] == cheap.run_statistics.evaluations["hvp"] + 1


@pytest.mark.parametrize("shape", [(3,), (2, 1), (2, 3), (2, 1, 3)])
@pytest.mark.parametrize("curvature", [0.0, 0.01, np.inf])
def test_power_iteration_on_flat_and_on_broken_targets(curvature, shape):
    """A small curvature counts; a product that is 0 or not finite finds none, and leaves the direction as it is."""
    x, schedule = np.ones(shape), srmc.Stable(srmc.Constant(0.0))
    target = xps.Target(None, score=lambda x: -x, hvp=lambda x, v: -curvature * v)
    bound = target.prepare(x, xps.SRMC(xps.ULA(0.01), 1.0, schedule).requires)
    found = schedule.init(bound, x).curvature
    np.testing.assert_allclose(found.largest, curvature if curvature < 1 else 0.0)
    direction = np.cos([1.0, 3.0, 6.0][: shape[-1]])  # where every chain starts
    if curvature == 0.01:  # of length 1 after every iteration
        direction = direction / np.linalg.norm(direction)
    np.testing.assert_allclose(np.abs(found.direction), np.broadcast_to(np.abs(direction), shape), rtol=1e-12)


def test_power_iteration_follows_the_curvature_where_each_chain_is():
    """On x^4 / 4 the largest is 3 x^2 of the largest coordinate; chain axes may be folded."""
    quartic = xps.Target(
        lambda x: -0.25 * np.sum(x**4, axis=-1), score=lambda x: -(x**3), hvp=lambda x, v: -3 * x * x * v
    )
    x, schedule = (
        np.array([[[1.0, 0.1], [0.2, 2.0]], [[3.0, 0.1], [0.3, 1.5]], [[0.5, 0.1], [1.2, 0.2]]]),
        srmc.Stable(srmc.Constant(0.0)),
    )
    found = []
    for start in (x, x.reshape(6, 2), x.reshape(6, 1, 2)):
        bound = quartic.prepare(start, xps.SRMC(xps.ULA(0.01), 1.0, schedule).requires)
        memory = schedule.init(bound, start)
        alpha, point = np.full(start.shape[:-1], 50.0), bound.evaluate(2 * start)
        gamma, after = schedule.gamma(bound, np.asarray(1.0), alpha, point, memory)
        curvatures = np.stack([memory.curvature.largest, after.curvature.largest])
        np.testing.assert_allclose(gamma, 1 / (1 + 50 * curvatures[1]), rtol=1e-12)  # half of the bound for c = 0
        found.append(curvatures.reshape(2, 6))
    largest = 3 * np.max(np.abs(x), axis=-1).reshape(6) ** 2
    np.testing.assert_allclose(found[0], [largest, 4 * largest], rtol=1e-6)
    np.testing.assert_allclose(found[1:], [found[0]] * 2, rtol=1e-12)


def test_a_schedule_around_another_one_keeps_its_memory():
    """Two caps: each follows the curvature, and the smaller counts."""
    base, alpha = xps.MALA(0.3), 50.0
    inner = srmc.Stable(srmc.autocorrelation(base), kappa=0.3)
    single, _ = gammas(inner, base, alpha)
    double, trace = gammas(srmc.Stable(srmc.autocorrelation(base), schedule=inner, kappa=0.9), base, alpha)
    np.testing.assert_array_equal(double, single)
    _, cheap = gammas(inner, base, alpha)
    assert trace.run_statistics.evaluations["hvp"] == cheap.run_statistics.evaluations["hvp"] + 1


def test_power_iteration_starts_at_no_symmetry():
    # The top eigenvector of this precision alternates in sign: a start of ones would never see it.
    index = np.arange(10)
    covariance = 0.9 ** np.abs(index[:, None] - index)
    schedule = srmc.Stable(srmc.LangevinAutocorrelation(0.01))
    bound = gaussian(covariance).prepare(np.ones((1, 10)), xps.SRMC(xps.ULA(0.01), 1.0, schedule).requires)
    largest = schedule.init(bound, np.ones((1, 10))).curvature.largest
    assert 0.9 < largest[0] / np.linalg.eigvalsh(np.linalg.inv(covariance)).max() <= 1 + 1e-12


def test_past_the_first_resonance_an_upper_bound_allows_nothing():
    base = xps.HMC(0.5, 20)
    assert np.all(gammas(srmc.Stable(srmc.autocorrelation(base), 3.0), base, 1.0)[0] == 0)
    assert np.all(gammas(srmc.Stable(srmc.autocorrelation(base), EIGENVALUES), base, 1.0)[0] > 0)


def test_following_needs_products(no_lender):
    kernel = xps.SRMC(xps.RWM(0.5), 1.0, srmc.Stable(srmc.Constant(0.0)))
    only_score = xps.Target(lambda x: -0.5 * np.sum(x * x, axis=-1), score=lambda x: -x)
    with pytest.raises(CapabilityError, match="Hessian-vector"):
        xps.sample(only_score, kernel, np.ones((2, 3)), 5, seed=1)
    xps.sample(
        only_score, xps.SRMC(xps.RWM(0.5), 1.0, srmc.Stable(srmc.Constant(0.0), 1.0)), np.ones((2, 3)), 5, seed=1
    )


def drive(strength, tilts):
    """alpha after every step, for given |s . theta|, (steps, chains)."""
    alpha, memory = strength.init(numpy_xp, np.zeros(tilts.shape[1]))
    out = []
    for n, tilt in enumerate(tilts, 1):
        alpha, memory = strength.update(numpy_xp, np.asarray(n), alpha, tilt[:, None], np.ones((len(tilt), 1)), memory)
        out.append(alpha)
    return np.array(out)


def test_alpha_grows_as_in_the_paper_and_is_then_held():
    reference, warmup = np.array([0.0, 0.5, 5.0]), 40
    alphas = drive(Adaptive(reference, warmup), np.zeros((60, 3)))
    k = np.arange(1, 61)
    for i, alpha in enumerate((0.5, 5.0), 1):
        c = warmup / (0.8 * alpha) - warmup / alpha  # alpha at the end is 0.8 of the reference
        grown = k / (c + k / alpha)
        np.testing.assert_allclose(alphas[:40, i], grown[:40], rtol=1e-12)
        np.testing.assert_allclose(alphas[39:, i], 0.8 * alpha, rtol=1e-12)
    assert np.all(alphas[:, 0] == 0)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("warmup", [60, 400])
def test_the_guardrail_freezes_at_the_last_safe_value(warmup):
    strength = Adaptive(4.0, warmup)
    w = strength.window
    assert w == max(10, warmup // 20)
    tilts = np.random.default_rng(0).exponential(0.08, (warmup + 20, 200)) * np.linspace(0.2, 6, 200)
    alphas = drive(strength, tilts)
    grown = drive(Adaptive(4.0, warmup, threshold=math.inf), tilts)
    early = 0
    for chain in range(200):
        scale = grown[:warmup, chain] * tilts[:warmup, chain]
        quantiles = {k: np.quantile(scale[k - w : k], 0.95, method="inverted_cdf") for k in range(w, warmup + 1)}
        stops = [k for k in range(w + 1, warmup + 1) if quantiles[k] > 1 and quantiles[k - 1] > 1]
        stop = stops[0] if stops else None
        expected = grown[:, chain].copy()
        if stop is not None:
            expected[stop - 1 :] = grown[stop - 3, chain]
            early += 1
        np.testing.assert_allclose(alphas[:, chain], expected, rtol=1e-12)
    assert 20 < early < 195  # both cases are seen


def test_alpha_starts_at_0_and_may_grow_in_one_step():
    strength = Adaptive(2.0, 1)
    alpha, memory = strength.init(numpy_xp, np.zeros(3))
    assert np.all(alpha == 0) and not np.any(memory.frozen)
    np.testing.assert_allclose(drive(strength, np.zeros((3, 2))), 1.6, rtol=1e-12)


@pytest.mark.parametrize(("above", "stops"), [(1, False), (2, True)])
def test_five_percent_of_the_window_may_be_above_the_threshold(above, stops):
    """Of a window of 20: one value may be; with two, alpha stops at once."""
    tilts = np.zeros((60, 1))
    tilts[30 : 30 + above] = 1e6
    alphas = drive(Adaptive(1.0, 400), tilts)[:, 0]
    assert (alphas[-1] == alphas[-2]) == stops


def test_nan_counts_as_too_strong():
    alphas = drive(Adaptive(1.0, 50), np.full((50, 1), np.nan))
    assert alphas[-1] == alphas[8]  # the last before a full window


def test_the_papers_warm_up():
    assert warmup_steps(10_000) == 1000
    assert warmup_steps(100_000) == 3000
    assert warmup_steps(100_000, leapfrog_steps=10) == 300
    assert warmup_steps(50, leapfrog_steps=10) == 1
    steps = warmup_steps(1999, leapfrog_steps=10)
    assert steps == 19 and isinstance(steps, int)
    assert warmup_steps(1009) == 100
