"""Single warm-up rules, by hand: each finds what a closed form, or a quadrature, says it should."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

import xpsample as xps
from xpsample.adaptation import ChEES, DiagonalMetric, EnergyVariance, StepRecord, StepSize, unset
from xpsample.adaptation.rule import rounded
from xpsample.core.errors import HyperparameterError
from xpsample.core.registry import backend_named
from xpsample.kernels.kernel import Info
from xpsample.targets import Point

ACCEPTED = {"exponential": lambda eps: np.exp(-eps), "cubic": lambda eps: 1 / (1 + eps**3)}
AT_065 = {"exponential": -math.log(0.65), "cubic": (1 / 0.65 - 1) ** (1 / 3)}


def seen(n, steps, accepted, x, score=None, kernel=None, **others):
    point, no = Point(x, None, score), np.asarray(False)
    info = others.pop("info", Info(accepted, accepted > 0, accepted < 0, None))
    fields = {"beyond": accepted < 0, "following": False, "searching": no, "switched": no, **others}
    made, of = np.asarray(float(n)), np.asarray(float(steps))
    return StepRecord(backend_named("numpy"), numpy_xp, made, of, point, point, info, kernel, True, **fields)


def step_sizes(accepted, x, steps=300, harmonic=True, record=lambda eps, accepted: {}):
    """The step size at each step and at the end, of a rule for 0.65 where a step accepts ``accepted(eps)``."""
    rule, path = StepSize(0.65, harmonic=harmonic), []
    memory = rule.init(numpy_xp, Point(x, None, None), True)
    for n in range(1, steps + 1):
        eps = rule.value(numpy_xp, memory, None)
        rates = np.broadcast_to(accepted(eps), x.shape[:-1])
        memory, _ = rule.update(memory, seen(n, steps, rates, x, **record(eps, rates)))
        path.append(eps)
    return np.asarray(path), rule.final(numpy_xp, memory)


def scales(rule, points, steps=200):
    """The rule's memory after points (positions, scores), the first of which is the start."""
    memory, switches = None, []
    for n, (x, score) in enumerate(points):
        if memory is None:
            memory = rule.init(numpy_xp, Point(x, None, score), True)
            continue
        memory, after = rule.update(memory, seen(n, steps, np.ones(len(x)), x, score))
        switches += [n] if after.switched else []
    return memory, switches


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("curve", ACCEPTED)
def test_a_step_size_finds_its_acceptance(curve, scale):
    """Whatever the scale: the search for the first one goes by factors of 2. Each group has its own."""
    found = step_sizes(lambda eps: ACCEPTED[curve](eps / scale), np.zeros((4, 2)), 200)[1]
    np.testing.assert_allclose(found / scale, AT_065[curve], rtol=0.05)
    scales = np.asarray([[1.0], [50.0]])
    groups = step_sizes(lambda eps: ACCEPTED[curve](eps / scales), np.zeros((2, 4, 2)), 200, harmonic=False)[1]
    np.testing.assert_allclose(groups, AT_065[curve] * scales, rtol=0.05)


def test_chains_that_accept_nothing_are_not_hidden():
    """Of four chains one diverges above a step size of 0.1: the harmonic mean goes below it, an arithmetic one not."""

    def accepted(eps):
        return np.exp(-eps) * np.where(np.arange(4) == 3, eps < 0.1, True)

    assert step_sizes(accepted, np.zeros((4, 2)))[1] < 0.11
    assert step_sizes(accepted, np.zeros((4, 2)), harmonic=False)[1] > 0.11


@pytest.mark.parametrize("scores", [True, False])
def test_a_metric_finds_variances(scores):
    rng, sd, rule = np.random.default_rng(3), np.asarray([1e-3, 1.0, 1e3]), DiagonalMetric(scores=scores)
    draws = [sd * rng.normal(size=(16, 3)) for _ in range(201)]
    memory, _ = scales(rule, [(x, -x / sd**2) for x in draws])
    # 1,000 draws and more: a standard error below 5 % of a variance; the grid is 1.6 %.
    np.testing.assert_allclose(rule.final(numpy_xp, memory)[0] / sd**2, 1.0, rtol=0.25)


def test_scores_give_the_scales_of_a_gaussian_far_from_where_it_is():
    """Chains on their way to the mode, in a narrow cloud: var x would say nothing of the target."""
    rng, sd = np.random.default_rng(4), np.asarray([1e-3, 1.0, 1e3])
    draws = [100 * sd * (20 - n) + 1e-4 * sd * rng.normal(size=(64, 3)) for n in range(20)]
    by_scores, by_draws = (
        rule.value(numpy_xp, scales(rule, [(x, -x / sd**2) for x in draws])[0], None).variance[0] / sd**2
        for rule in (DiagonalMetric(scores=True), DiagonalMetric(scores=False))
    )
    np.testing.assert_allclose(by_scores, 1.0, rtol=0.1)
    assert np.all(np.abs(np.log(by_draws)) > 1)


def test_a_start_with_huge_scores_is_forgotten():
    """One of four chains begins where scores are 1e9 times the target's, as an exponential density has them."""
    rng, rule = np.random.default_rng(6), DiagonalMetric()
    draws = [rng.normal(size=(4, 2)) for _ in range(201)]
    points = [(x, -x * np.asarray([[1e9 if n < 5 else 1], [1], [1], [1]])) for n, x in enumerate(draws)]
    first, _ = scales(rule, points[:1])
    assert np.all(rule.value(numpy_xp, first, None).variance < 1e-3)  # it decides on the first metric
    memory, _ = scales(rule, points)
    # About 200 draws in the last window: a standard error of 10 % of each variance, and of their ratio less.
    np.testing.assert_allclose(rule.final(numpy_xp, memory), 1.0, rtol=0.4)


def test_one_stuck_chain_of_many_counts_at_first():
    """128 chains of which one accepts nothing above a step size of 0.01: in the first third steps go down to it."""

    def accepted(eps):
        return np.where(np.arange(128) == 0, eps < 0.01, np.exp(-0.2 * eps))

    path, _ = step_sizes(accepted, np.zeros((128, 2)))
    assert np.min(path[:100]) < 0.01
    assert path[-1] > 0.1  # later one of 128 that cannot be helped does not hold the others back


@pytest.mark.parametrize("known", [True, False])
def test_rejections_at_a_bound_say_nothing_of_the_step_size(known):
    """A third of the trajectories end beyond it whatever the steps are."""
    rng = np.random.default_rng(7)
    _, found = step_sizes(
        lambda eps: np.where(rng.uniform(size=64) < 1 / 3, 0.0, np.exp(-eps)),
        np.zeros((64, 2)),
        record=lambda eps, rates: {"beyond": known & (rates == 0)},
    )
    if known:
        np.testing.assert_allclose(found, AT_065["exponential"], rtol=0.1)
    else:
        assert found < 0.01


@pytest.mark.parametrize("kept", [True, False])
def test_a_bound_that_long_trajectories_cross_takes_no_step_size_where_their_length_is_kept(kept):
    """Nine in ten of those of 5 steps end beyond it: with a length that is kept smaller steps help none of them."""
    rng = np.random.default_rng(8)

    def record(eps, rates):
        kernel = xps.HMC(eps, length=5 * eps) if kept else xps.HMC(eps, steps=5)
        info = SimpleNamespace(acceptance_probability=rates, moved=rates > 0, diverged=rates < 0, time=5 * eps)
        return {"kernel": kernel, "info": info, "beyond": rates == 0}

    accepted = lambda eps: np.where(rng.uniform(size=64) < 0.9, 0.0, np.exp(-eps))  # noqa: E731
    _, found = step_sizes(accepted, np.zeros((64, 2)), record=record)
    if kept:
        np.testing.assert_allclose(found, AT_065["exponential"], rtol=0.1)
    else:
        assert found < 0.01


def test_early_draws_are_forgotten():
    """The variance of the first third is 100 times the target's."""
    rng, rule = np.random.default_rng(5), DiagonalMetric(scores=False)
    points = [((10 if n < 90 else 1) * rng.normal(size=(32, 2)), None) for n in range(301)]
    memory, switches = scales(rule, points, 300)
    assert len(switches) >= 2
    np.testing.assert_allclose(rule.final(numpy_xp, memory), 1.0, rtol=0.1)


NORMAL = xps.Target(lambda x: -0.5 * (x * x).sum(-1), score=lambda x: -x)


def test_a_length_is_the_best_by_a_quadrature():
    """On a standard normal in many dimensions ||x'|^2 - |x|^2| goes as |sin| of the time, which is uniform on (0, T).

    So the rule maximises ``(1 - cos(T)) / T`` over ``T^(1/4)``, whose first maximum a grid gives.
    """
    grid = np.linspace(0.2, 3.0, 100_000)
    best = grid[np.argmax((1 - np.cos(grid)) / grid**1.25)]
    kernel = xps.HMC(0.05, mass=1.0)
    assert set(unset(kernel)) == {"length"}
    for seed in range(3):
        x0 = np.random.default_rng(seed).normal(size=(64, 40))
        found = xps.sample(NORMAL, kernel, x0, 1, seed=seed, warmup=150).kernel.length
        np.testing.assert_allclose(found, best, rtol=0.25)


def test_a_length_does_not_remember_the_way_in():
    """Chains that begin 100 standard deviations away, for which the longest trajectories are the best."""
    x0 = 100.0 + np.random.default_rng(0).normal(size=(32, 20))
    kernel = xps.sample(NORMAL, xps.HMC(0.1, mass=1.0), x0, 1, seed=1, warmup=150).kernel
    assert 1.0 < kernel.length < 4.0


def test_a_length_follows_adam():
    """Two chains from 1 and -1 to 2 and -2 in time 1: the slope is 4 v / 3 less the cost, and the change is divided by
    the root of the running mean of its square.
    """
    rule, kernel, v = ChEES("mass"), xps.HMC(0.05, mass=1.0), np.asarray([1.0, 0.4, -2.0, 0.7])
    x = np.asarray([[1.0], [-1.0]])
    memory, lengths = rule.init(numpy_xp, Point(x, None, None), True), [0.0]
    for n, speed in enumerate(v, 50):
        ones = np.ones(2)
        info = SimpleNamespace(acceptance_probability=ones, end=2 * x, velocity=speed * x, time=ones)
        memory, _ = rule.update(memory, seen(n, 100, np.ones(2), x, kernel=kernel, info=info))
        lengths.append(memory.log_length.item())
    slopes, square = 4 * v / 3 - rule.cost, 0.0
    for i, slope in enumerate(slopes):
        square = slope**2 if i == 0 else 0.9 * square + 0.1 * slope**2
        assert lengths[i + 1] - lengths[i] == pytest.approx(0.13 * slope / np.sqrt(square), rel=1e-6)


def test_a_length_has_a_limit():
    """On a flat target ever longer trajectories are better."""
    target = xps.Target(lambda x: -1e-12 * (x * x).sum(-1), score=lambda x: -2e-12 * x)
    x0 = np.random.default_rng(0).normal(size=(4, 2))
    kernel = xps.sample(target, xps.HMC(0.01, mass=1.0), x0, 1, seed=1, warmup=60).kernel
    assert 0.02 < kernel.length <= 10.01  # 1,000 steps, on the grid that lengths are rounded to


@pytest.mark.parametrize("bits", [64, 1024])
def test_rounded_values_forget_the_last_bits(bits):
    rng = np.random.default_rng(6)
    values = rng.normal(size=1000) * 5
    together = rounded(numpy_xp, values, bits) == rounded(numpy_xp, values * (1 + 4e-16), bits)
    assert np.mean(together) > 0.999
    np.testing.assert_allclose(rounded(numpy_xp, values, bits), np.exp(values), rtol=0.51 / bits + 1e-6)


def test_rules_are_named_in_the_order_in_which_they_depend_on_each_other():
    assert list(unset(xps.HMC())) == ["mass", "step_size", "length"]
    assert isinstance(unset(xps.HMC())["length"], ChEES)
    assert list(unset(xps.HMC(steps=3))) == ["mass", "step_size"]
    assert list(unset(xps.HMC(0.1))) == ["length"]
    assert unset(xps.HMC(0.1, 3)) == {}
    assert list(unset(xps.NUTS())) == ["mass", "step_size", "max_depth"]
    assert list(unset(xps.NUTS(max_depth=8))) == ["mass", "step_size"]
    assert unset(xps.NUTS(0.1)) == {} and xps.NUTS(0.1).deepest == 10


@pytest.mark.parametrize("chains", [1, 64])
@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_the_variance_of_the_energy_is_had(chains, scale):
    """Changes N(0, d (step / scale)^6): their mean square over d is 0.0005 where the step is scale 0.0005^(1/6)."""
    rng, x = np.random.default_rng(7), np.zeros((chains, 20))
    rule = EnergyVariance()
    memory = rule.init(numpy_xp, Point(x, None, None), True)
    for n in range(1, 501):
        step = rule.value(numpy_xp, memory, None)
        change = np.sqrt(20) * (step / scale) ** 3 * rng.normal(size=chains)
        change = np.where(step > 2 * scale, np.inf, change)  # and too large a step leaves the finite numbers
        rates, lost = np.ones(1), ~np.isfinite(change)
        info = SimpleNamespace(energy_change=change, diverged=lost, acceptance_probability=rates)
        memory, _ = rule.update(memory, seen(n, 500, np.ones(chains), x, info=info))
    # The mean over 250 steps and 1 chain has a standard error below 10 %, of which the step size has a sixth.
    np.testing.assert_allclose(rule.final(numpy_xp, memory), scale * 5e-4 ** (1 / 6), rtol=0.1)


@pytest.mark.slow
def test_microcanonical_dynamics_tune_to_their_energy():
    """On a normal in 50 coordinates, whose second moments MCLMC then has to 5 % and MAMS to its standard error."""
    sd = np.logspace(-1, 1, 50)
    target = xps.Target(lambda x: -0.5 * (x * x / sd**2).sum(-1), score=lambda x: -x / sd**2)
    x0 = np.random.default_rng(0).normal(size=(32, 50))
    biased = xps.sample(target, xps.MCLMC(), x0, 600, seed=1)
    assert set(biased.warmup) >= {"MCLMC.step_size", "MCLMC.mass", "MCLMC.length"}
    assert biased.kernel.length == pytest.approx(math.sqrt(50), rel=0.1)
    np.testing.assert_allclose(np.mean(np.var(biased.draws, axis=(0, 1)) / sd**2), 1.0, rtol=0.05)
    exact = xps.sample(target, xps.MAMS(), x0, 400, seed=1)
    ratio = np.var(exact.draws, axis=(0, 1)) / sd**2
    # ESS above 1,000 in every coordinate: a standard error below 4.5 %, and 50 coordinates.
    np.testing.assert_allclose(ratio, 1.0, rtol=0.25)
    assert abs(np.mean(ratio) - 1) < 0.02


def test_a_density_that_does_not_fall_off_ends_the_warm_up():
    """Chains run away until sums of squares overflow, and a length of nan must not be counted in leapfrog steps."""
    flat = xps.Target(lambda x: 0.0 * x[..., 0], score=lambda x: 0.0 * x)
    x0 = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    with pytest.raises(HyperparameterError, match="chains ran away"), np.errstate(all="ignore"):
        xps.sample(flat, xps.HMC(), x0, 5, seed=1, warmup=400, progress=False)


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_scores_whose_squares_overflow_leave_the_scale_to_the_positions():
    """In float32, far out; it was infinite, and the warm-up ended with the blame on the density."""
    rng, rule = np.random.default_rng(3), DiagonalMetric()
    draws = [rng.normal(size=(32, 2)).astype(np.float32) for _ in range(21)]
    memory, _ = scales(rule, [(x, np.float32(1e20) * x) for x in draws], 30)
    np.testing.assert_allclose(rule.final(numpy_xp, memory), 1.0, rtol=0.3)


def test_a_step_size_stays_a_positive_number_of_float32():
    """One chain that cannot move at all asks for ever smaller steps, and must not end the warm-up of the others."""
    path, final = step_sizes(lambda eps: np.zeros_like(eps), np.zeros((4, 2), dtype=np.float32), 600)
    assert np.all(path > 0) and np.all(final > 0)
