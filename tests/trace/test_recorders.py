"""Recorders: what they keep against NumPy on the draws, and which steps they see."""

import itertools

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import HyperparameterError
from xpsample.kernels import MALA, RWM
from xpsample.srmc import SRMC
from xpsample.targets import Exact, Target, Tempered

X0 = np.random.default_rng(0).normal(size=(2, 3, 2))
KERNEL = RWM(0.8)
NOISE = xps.Portable(4)


def log_density(x):
    return -0.5 * (x[..., 0] ** 2 + (x[..., 1] - x[..., 0]) ** 2)


TARGET = Target(log_density)


def run(library, draws, recorders=None, target=TARGET, kernel=KERNEL, **settings):
    recorders = {} if recorders is None else {"recorders": recorders}
    return xps.sample(target, kernel, library.array(X0), draws, **{"seed": NOISE} | recorders | settings)


def path(library, steps):
    """The position after every step, by the iterator."""
    iterator = xps.steps(TARGET, KERNEL, library.array(X0), seed=NOISE)
    return np.stack([library.host(next(iterator)[0].point.x) for _ in range(steps)])


# ---- which steps -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("burn_in", "thinning"), [(0, 1), (0, 3), (5, 1), (1, 7), (3, 2)])
def test_burn_in_and_thinning_select_steps(burn_in, thinning):
    """Row i is the state after step burn_in + (i + 1) thinning."""
    iterator = xps.steps(TARGET, KERNEL, X0, seed=NOISE)
    steps = np.stack([next(iterator)[0].point.x for _ in range(burn_in + 6 * thinning)])
    trace = xps.sample(TARGET, KERNEL, X0, 6, seed=NOISE, burn_in=burn_in, thinning=thinning)
    np.testing.assert_array_equal(trace.draws, steps[burn_in + thinning - 1 :: thinning])
    assert trace.run_statistics.steps == 6 * thinning
    assert trace.metadata["burn_in"] == burn_in and trace.metadata["thinning"] == thinning


def test_thinned_draws_are_every_kth_of_the_unthinned(library):
    every = run(library, 12)
    thinned = run(library, 4, thinning=3)
    np.testing.assert_array_equal(library.host(thinned.draws), library.host(every.draws)[2::3])
    for name, values in thinned.statistics.items():
        np.testing.assert_array_equal(library.host(values), library.host(every.statistics[name])[2::3])
    np.testing.assert_array_equal(library.host(thinned.state.point.x), library.host(every.state.point.x))


def test_the_tally_counts_all_steps_after_burn_in_thinned_or_not(library):
    every = run(library, 12, burn_in=4)
    thinned = run(library, 4, burn_in=4, thinning=3)
    for name in ("acceptance_probability", "moved", "diverged"):
        tally = getattr(every.run_statistics, name)
        np.testing.assert_allclose(getattr(thinned.run_statistics, name), tally, rtol=1e-14)
        rows = library.host(every.statistics[name]).astype(float)
        np.testing.assert_allclose(tally, rows.sum(axis=0) if name == "diverged" else rows.mean(axis=0), rtol=1e-12)


def test_runs_longer_than_a_segment_are_seamless():
    """2000 steps are two chunks of noise; with what is driven together and fetched later, rows are the iterator's."""
    whole = xps.sample(TARGET, KERNEL, X0, 2000, seed=NOISE)
    states, infos = zip(*itertools.islice(xps.steps(TARGET, KERNEL, X0, seed=NOISE), 2000), strict=True)
    np.testing.assert_allclose(whole.draws, [state.point.x for state in states], rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(whole.run_statistics.moved, np.mean([info.moved for info in infos], axis=0), rtol=1e-12)


# ---- what is kept ----------------------------------------------------------------------------------------------------


def test_draws_and_statistics_are_kept_by_default(library):
    trace = run(library, 5)
    assert library.backend.owns(trace.draws) and tuple(trace.draws.shape) == (5, 2, 3, 2)
    assert set(trace.statistics) == {"acceptance_probability", "moved", "diverged", "log_density"}
    for values in trace.statistics.values():
        assert library.backend.owns(values) and tuple(values.shape) == (5, 2, 3)
        assert values.device == trace.draws.device == library.array(X0).device
    expected = log_density(library.host(trace.draws))
    np.testing.assert_allclose(library.host(trace.statistics["log_density"]), expected, rtol=1e-12, atol=1e-14)
    assert trace.recorded == {}
    without = run(library, 5, target=Target(None, score=lambda x: -x), kernel=xps.ULA(0.1))
    assert "log_density" not in without.statistics


def half_square(x):
    return -0.5 * (x[..., 0] ** 2 + x[..., 1] ** 2)


SMOOTH = Target(half_square, score=lambda x: -x, hvp=lambda x, v: -v)


@pytest.mark.parametrize(
    ("target", "kernel", "power"),
    [
        (SMOOTH, SRMC(MALA(0.3), alpha=1.0, tilt=Exact()), 1),
        (Tempered(SMOOTH, 0.3), KERNEL, 0.3),
        (Tempered(SMOOTH, 0.3), SRMC(MALA(0.3), alpha=1.0, tilt=Exact()), 0.3),
    ],
    ids=["tilted", "tempered", "both"],
)
def test_the_density_kept_is_that_of_the_target_and_not_of_a_tilt(library, target, kernel, power):
    trace = run(library, 5, target=target, kernel=kernel)
    expected = power * half_square(library.host(trace.draws))
    np.testing.assert_allclose(library.host(trace.statistics["log_density"]), expected, rtol=1e-12)


@pytest.mark.parametrize("thinning", [1, 2])
def test_moments_are_those_of_the_draws(typed_library, thinning):
    trace = run(typed_library, 50, (xps.Draws(), xps.Moments()), thinning=thinning, burn_in=3)
    draws = typed_library.host(trace.draws).astype(np.float64)
    moments = trace.recorded["moments"]
    assert int(moments.count) == 50
    assert moments.mean.dtype == trace.draws.dtype and tuple(moments.mean.shape) == X0.shape
    tolerance = {"float32": 1e-4, "float64": 1e-12}[typed_library.dtype]
    np.testing.assert_allclose(typed_library.host(moments.mean), draws.mean(axis=0), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(typed_library.host(moments.variance), draws.var(axis=0, ddof=1), rtol=tolerance)


def test_moments_far_from_zero_lose_no_digits():
    """Sums of squares would lose all digits of a variance of 1e-6 at 1e6 in float64; Welford's recursion does not."""
    target = Target(lambda x: -0.5 * ((x[..., 0] - 1e6) / 1e-3) ** 2)
    trace = xps.sample(target, RWM(1e-3), np.full((3, 1), 1e6), 500, seed=1, recorders=(xps.Draws(), xps.Moments()))
    np.testing.assert_allclose(trace.recorded["moments"].variance, (trace.draws - 1e6).var(axis=0, ddof=1), rtol=1e-4)


@pytest.mark.slow
def test_means_in_float32_keep_their_digits():
    """At 2,000 a step of Welford's recursion is lost in rounding once it is below 1e-4, after some thousand draws."""
    target = Target(lambda x: -0.5 * np.sum((x - 2000.0) ** 2, axis=-1))
    recorders = (xps.Draws(), xps.Moments(), xps.BatchMeans(2_000))
    x0 = np.full((64, 1), 2000.0, dtype="float32")
    trace = xps.sample(target, RWM(2.4), x0, 20_000, seed=1, recorders=recorders)
    exact = trace.draws.astype("float64")
    half_a_digit = 0.6 * np.spacing(np.float32(2000.0))
    np.testing.assert_allclose(trace.recorded["moments"].mean, exact.mean(0), rtol=0, atol=half_a_digit)
    means = exact.reshape(10, 2_000, 64, 1).mean(1)
    np.testing.assert_allclose(trace.recorded["batch_means"].mcse, means.std(0, ddof=1) / np.sqrt(10), rtol=1e-4)


@pytest.mark.parametrize(("draws", "size"), [(40, 8), (43, 8), (40, 1)])
def test_batch_means_by_hand(library, draws, size):
    trace = run(library, draws, (xps.Draws(), xps.BatchMeans(size)))
    kept = library.host(trace.draws)
    batches = draws // size
    means = kept[: batches * size].reshape(batches, size, *X0.shape).mean(axis=1)
    found = trace.recorded["batch_means"]
    assert int(found.batches) == batches
    np.testing.assert_allclose(library.host(found.mean), means.mean(axis=0), rtol=1e-10, atol=1e-12)
    expected = means.std(axis=0, ddof=1) / np.sqrt(batches)
    np.testing.assert_allclose(library.host(found.mcse), expected, rtol=1e-10)


def test_batches_of_nothing_are_refused():
    with pytest.raises(HyperparameterError, match="size must be a positive integer"):
        xps.BatchMeans(-3)


def test_a_function_of_the_state(library):
    """Any tree of arrays: a radius for every chain, and an average over the chains."""

    def function(state):
        radius = library.xp.sum(state.point.x**2, axis=-1)
        return {"radius": radius, "pair": (library.xp.mean(radius), None)}

    trace = run(library, 6, (xps.Draws(), xps.Record("size", function)), burn_in=2, thinning=2)
    radius = np.sum(library.host(trace.draws) ** 2, axis=-1)
    kept = trace.recorded["size"]
    np.testing.assert_allclose(library.host(kept["radius"]), radius, rtol=1e-12)
    np.testing.assert_allclose(library.host(kept["pair"][0]), radius.mean(axis=(1, 2)), rtol=1e-12)
    assert kept["pair"][1] is None


def test_a_run_of_moments_keeps_no_draws_and_a_run_of_nothing_still_tallies(library):
    for draws, recorders, kept in ((20, (xps.Moments(),), {"moments"}), (20, (), set())):
        trace = run(library, draws, recorders)
        assert trace.draws is None and trace.statistics == {} and set(trace.recorded) == kept
        assert trace.run_statistics.steps == 20 and trace.run_statistics.acceptance_probability.shape == (2, 3)
    np.testing.assert_allclose(library.host(trace.state.point.x), path(library, 20)[-1], rtol=1e-10, atol=1e-12)
    one = run(library, 1, (xps.Moments(),)).recorded["moments"]
    assert np.all(np.isnan(library.host(one.variance))) and np.all(np.isfinite(library.host(one.mean)))


def test_recorders_of_one_kind_have_their_names_and_do_not_change_the_chain(library):
    """Also the names that the path of a warm-up has."""
    two = (xps.Record("tuned", lambda s: s.point.x), xps.Record("warmup", lambda s: 2 * s.point.x))
    trace = run(library, 10, (xps.Draws(), xps.Moments(), xps.BatchMeans(2), *two))
    assert trace.warmup is None
    draws = library.host(run(library, 10, (xps.Draws(),)).draws)
    np.testing.assert_array_equal(library.host(trace.draws), draws)
    np.testing.assert_array_equal(library.host(trace.recorded["tuned"]), draws)
    np.testing.assert_array_equal(library.host(trace.recorded["warmup"]), 2 * draws)


def test_recorders_of_means_take_integer_positions(library):
    target = xps.Target(lambda x: 0.3 * library.xp.sum(x, axis=-1), space=xps.Binary())
    x0 = library.array(np.zeros((3, 4), dtype=np.int32))
    recorders = (xps.Draws(), xps.Moments(), xps.BatchMeans(5))
    trace = xps.sample(target, xps.SingleFlip(), x0, 20, seed=3, recorders=recorders, progress=False)
    mean = library.host(trace.draws).astype(float).mean(axis=0)
    np.testing.assert_allclose(library.host(trace.recorded["moments"].mean), mean, rtol=1e-6)
    np.testing.assert_allclose(library.host(trace.recorded["batch_means"].mean), mean, rtol=1e-6)
