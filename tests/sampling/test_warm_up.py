"""Warm-ups: what a user leaves out is tuned, the same on every library, in groups, with one chain, and when resumed."""

import itertools
import math
import signal

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

import xpsample as xps
from xpsample.core.errors import HyperparameterError, Interrupted, NoiseError
from xpsample.core.registry import namespace
from xpsample.kernels.adapted import AdaptedKernel, with_tuning
from xpsample.sampling.transient import judge_stage
from xpsample.sampling.warm_up import warm_up_steps

SD = np.asarray([0.1, 1.0, 20.0])
SEED = xps.Portable(5)
TUNED = {"HMC": xps.HMC, "NUTS": xps.NUTS, "MALA": xps.MALA}


def log_density(x, data):
    return -0.5 * namespace(x).sum(x * x * data["precision"], axis=-1)


def score(x, data):
    return -x * data["precision"]


def gaussian(library=None):
    precision = 1 / SD**2
    return xps.Target(log_density, score=score, data={"precision": library.array(precision) if library else precision})


def starts(*chains):
    return np.random.default_rng(0).normal(size=(*chains, 3))


def same_warm_ups(one, other):
    np.testing.assert_array_equal(one.draws, other.draws)
    for name, rows in other.warmup.items():
        np.testing.assert_array_equal(one.warmup[name], rows)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("kernel", TUNED.values(), ids=TUNED)
def test_a_user_gives_nothing(kernel):
    trace = xps.sample(gaussian(), kernel(), starts(32), 400, seed=1)
    summary = trace.summary()
    # Every standard error below 2 % of the sd: 5 of them, so a right run fails at most once in a million.
    assert np.all(np.abs(summary.mean) < 5 * summary.mcse)
    np.testing.assert_allclose(summary.sd, SD, rtol=0.1)
    assert np.max(summary.rhat) < 1.01
    assert not np.any(trace.run_statistics.diverged)


def test_a_metric_left_at_the_identity_is_caught():
    """The twin of the test above: with these scales and no metric, chains of as many steps get nowhere."""
    trace = xps.sample(gaussian(), xps.MALA(preconditioner=1.0), starts(32), 400, seed=1)
    assert trace.summary().sd[-1] < 0.5 * SD[-1]
    assert any("ess" in str(finding) for finding in trace.diagnose())


def test_every_library_tunes_to_the_same_values(library):
    x0 = starts(2, 8)
    there = xps.sample(gaussian(library), xps.HMC(), library.array(x0), 200, seed=SEED, warmup=60)
    here = xps.sample(gaussian(), xps.HMC(), x0, 200, seed=SEED, warmup=60)
    for name in ("step_size", "length", "mass"):
        np.testing.assert_array_equal(library.host(getattr(there.kernel, name)), getattr(here.kernel, name))
    np.testing.assert_allclose(library.host(there.draws), here.draws, rtol=0, atol=1e-8)
    assert there.warmup is not None and here.warmup is not None
    for name, path in here.warmup.items():
        np.testing.assert_allclose(library.host(there.warmup[name]), path, rtol=1e-8, atol=1e-8)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("kernel", TUNED.values(), ids=TUNED)
def test_groups_tune_as_each_would_alone(kernel):
    """Bit for bit, given the same noise."""
    x0, warming = starts(8, 6), with_tuning(kernel(), 40, pooled=True)
    target = gaussian().prepare(x0, warming.requires)
    rng = np.random.default_rng(1)
    together = warming.init(target, x0)
    alone = [warming.init(target, x) for x in x0]
    for _ in range(40):
        noise = {name: rng.uniform(size=spec.shape) for name, spec in warming.noise(x0).items()}
        together, _ = warming.step(target, together, noise)
        for g in range(8):
            alone[g], _ = warming.step(target, alone[g], {name: rows[g] for name, rows in noise.items()})
    for g in range(8):
        own, shared = (warming.path(numpy_xp, state.memory) for state in (alone[g], together))
        for name in own:
            np.testing.assert_array_equal(own[name], shared[name][g])


GIVEN = {
    "a mass and a length": (xps.HMC(mass=2.0, length=3.0), {"mass": 2.0, "length": 3.0, "steps": None}),
    "a step size": (xps.HMC(0.05), {"step_size": 0.05, "mass": None, "steps": None}),
    "steps": (xps.HMC(steps=3), {"steps": 3, "length": None}),
    "MAMS, a length": (xps.MAMS(length=3.0), {"length": 3.0}),
    "MCLMC, a step size": (xps.MCLMC(0.05), {"step_size": 0.05, "mass": None}),
    "NUTS, a mass": (xps.NUTS(mass=2.0), {"mass": 2.0}),
}


@pytest.mark.parametrize("name", [n if n != "NUTS, a mass" else pytest.param(n, marks=pytest.mark.slow) for n in GIVEN])
def test_given_hyperparameters_are_kept(library, name):
    kernel, given = GIVEN[name]
    tuned = xps.sample(gaussian(library), kernel, library.array(starts(8)), 5, seed=SEED, warmup=20).kernel
    assert {key: getattr(tuned, key) for key in given} == given
    assert tuned.step_size > 0


@pytest.mark.parametrize("shape", [(), (1,), (2, 1)])
def test_one_chain_is_enough(shape):
    trace = xps.sample(gaussian(), xps.HMC(), starts(*shape), 1000, seed=2)
    np.testing.assert_allclose(np.std(trace.draws, axis=0), np.broadcast_to(SD, (*shape, 3)), rtol=0.35)
    assert np.shape(trace.kernel.step_size) == ((2, 1) if shape == (2, 1) else ())


@pytest.mark.parametrize(
    ("kernel", "inside", "shape"),
    [
        (xps.SRMC(xps.HMC(), 0.1, tilt=xps.FiniteDifference(1e-4)), lambda kernel: kernel.base, ()),
        (xps.ParallelTempering(xps.MALA(), (1.0, 0.3)), lambda kernel: kernel.base, (2, 1)),
        (xps.SRMC(xps.ParallelTempering(xps.RWM(), (1.0, 0.3)), 0.1), lambda kernel: kernel.base.base, (2, 1)),
    ],
    ids=["SRMC", "tempering", "both"],
)
def test_what_is_inside_a_wrapper_is_tuned(kernel, inside, shape):
    tuned = xps.sample(gaussian(), kernel, starts(8), 20, seed=1, warmup=40).kernel
    step_size = np.asarray(inside(tuned).step_size)
    assert step_size.shape == shape and np.all(step_size > 0)
    assert xps.sample(gaussian(), tuned, starts(8), 5, seed=1, warmup=0).warmup is None


def test_the_tuned_kernel_is_a_plain_value():
    trace = xps.sample(gaussian(), xps.HMC(), starts(8), 30, seed=3)
    assert not isinstance(trace.kernel, AdaptedKernel)
    assert isinstance(trace.kernel.step_size, float)
    assert trace.kernel.mass.shape == (3,)
    again = xps.sample(gaussian(), trace.kernel, trace.draws[-1], 30, seed=4)
    assert again.warmup is None
    assert again.kernel is trace.kernel


def test_the_path_of_the_warm_up_is_kept_and_saved(tmp_path):
    trace = xps.sample(gaussian(), xps.HMC(), starts(2, 4), 10, seed=3, warmup=50)
    shapes = {name: rows.shape for name, rows in trace.warmup.items()}
    assert shapes == {
        "HMC.step_size": (50, 2, 1),
        "HMC.mass": (50, 2, 1, 3),
        "HMC.length": (50, 2, 1),
        "acceptance_probability": (50, 2, 4),
        "diverged": (50, 2, 4),
        "log_density": (50, 2, 4),
        "scores": (50, 2, 4),
    }
    trace.save(tmp_path / "trace.npz")
    loaded = xps.load(tmp_path / "trace.npz")
    for name, rows in trace.warmup.items():
        np.testing.assert_array_equal(loaded.warmup[name], rows)
    assert loaded.metadata["warmup"] == 50


def test_steps_makes_the_chain_of_sample():
    trace = xps.sample(gaussian(), xps.MALA(), starts(4), 5, seed=SEED, warmup=30)
    single = xps.steps(gaussian(), xps.MALA(), starts(4), seed=SEED, warmup=30)
    np.testing.assert_allclose([next(single)[0].point.x for _ in range(5)], trace.draws, rtol=1e-12)


def interrupted_at(call, f):
    """A function whose call of that number is interrupted."""
    calls = itertools.count(1)

    def interrupted(*arguments):
        if next(calls) == call:
            raise KeyboardInterrupt
        return f(*arguments)

    return interrupted


def test_a_run_that_ends_in_its_warm_up_goes_on(tmp_path):
    def run(density, draws=50, **settings):
        target = xps.Target(density, score=score, data={"precision": 1 / SD**2})
        return xps.sample(target, xps.MALA(), starts(4), draws, seed=1, warmup=400, **settings)

    density, checkpoint = interrupted_at(300, log_density), xps.Checkpoint(tmp_path / "run", every=0)
    with pytest.raises(KeyboardInterrupt):
        run(density, checkpoint=checkpoint)
    assert (tmp_path / "run" / "warmup" / "run.json").exists()
    assert not (tmp_path / "run" / "run.json").exists()
    resumed, whole = run(density, checkpoint=checkpoint), run(log_density)
    same_warm_ups(resumed, whole)
    np.testing.assert_array_equal(run(density, 80, checkpoint=checkpoint).draws[:50], whole.draws)


REPLAY = xps.Replay({"proposal": np.zeros((10, 4, 3)), "accept": np.zeros((10, 4))})


@pytest.mark.parametrize(
    ("kernel", "settings", "error", "message"),
    [
        (
            xps.HMC(),
            {"warmup": 0},
            HyperparameterError,
            r"HMC\.mass, HMC\.step_size, HMC\.length are not set, and warm",
        ),
        (xps.RWM(1.0), {"warmup": 10}, HyperparameterError, "warmup=10 has nothing to tune"),
        (xps.HMC(), {"warmup": 2.5}, HyperparameterError, "warmup must be an integer of at least 0"),
        (xps.RWM(), {"seed": REPLAY}, NoiseError, "cannot draw its noise from Replay"),
    ],
)
def test_what_cannot_be_tuned_is_refused(kernel, settings, error, message):
    with pytest.raises(error, match=message):
        xps.sample(gaussian(), kernel, starts(4), 10, **{"seed": 1} | settings)


def test_a_target_that_changes_tunes_nothing():
    with pytest.raises(HyperparameterError, match=r"Annealed cannot tune .*, since its target changes"):
        xps.Annealed(xps.MALA(), [1.0, 0.5])


def test_a_run_that_is_interrupted_has_its_warm_up():
    calls = itertools.count(1)

    def signalled(x, data):
        if next(calls) == 2000:
            signal.raise_signal(signal.SIGINT)
        return log_density(x, data)

    target = xps.Target(signalled, score=score, data={"precision": 1 / SD**2})
    with pytest.raises(Interrupted) as stop:
        xps.sample(target, xps.MALA(), starts(4), 100_000, seed=1, warmup=100)
    assert 0 < len(stop.value.trace.draws) < 100_000
    assert stop.value.trace.warmup["MALA.step_size"].shape == (100, 1)


def test_a_constrained_target_is_sampled_from_defaults():
    """Exponentials, whose edge every long trajectory crosses: steps must not vanish for it."""
    target = xps.Target(
        lambda x: np.where(np.all(x > 0, axis=-1), -np.sum(x, axis=-1), -np.inf),
        score=lambda x: -np.ones_like(x),
        constrained=True,
    )
    x0 = np.random.default_rng(0).exponential(size=(64, 2))
    for kernel in (xps.HMC(), xps.NUTS()):
        trace = xps.sample(target, kernel, x0, 400, seed=1)
        summary = trace.summary()
        assert trace.kernel.step_size > 0.01
        # An ESS above 400 in all, and so a standard error below 5 %: 5 of them.
        assert np.min(summary.ess_bulk) > 400
        np.testing.assert_allclose(summary.mean, 1.0, atol=0.25)


def edge(constrained):
    return xps.Target(
        lambda x: np.where(np.any(x <= 0, axis=-1), -np.inf, -0.5 * np.sum(x * x, axis=-1)),
        score=lambda x: -x,
        constrained=constrained,
    )


@pytest.mark.filterwarnings("ignore::xpsample.core.errors.DiagnosisWarning")
@pytest.mark.parametrize("kernel", [xps.HMC(), xps.NUTS(), xps.MAMS(), xps.HMC(steps=3)])
def test_steps_are_as_large_where_nobody_declares_the_bound(kernel):
    """To the bit; they shrank to 1e-3 and less."""
    x0 = np.abs(np.random.default_rng(0).normal(size=(8, 3)))
    told, untold = (xps.sample(edge(c), kernel, x0, 1, warmup=120, seed=1, progress=False) for c in (True, False))
    assert told.kernel.step_size > 0.05
    for name, path in told.warmup.items():
        if name != "diverged":
            np.testing.assert_array_equal(untold.warmup[name], path, err_msg=name)


@pytest.mark.filterwarnings("ignore::xpsample.core.errors.DiagnosisWarning")
def test_trajectories_are_short_where_most_would_cross_a_bound():
    """In 20 dimensions: the best is about 0.3, where the slope along those that stay inside asks for 1 and more.

    And of two steps: these shrank below 0.1, though trajectories of more steps end inside no more often.
    """
    x0 = np.abs(np.random.default_rng(0).normal(size=(16, 20)))
    trace = xps.sample(edge(False), xps.HMC(), x0, 1, warmup=300, seed=1, progress=False)
    assert trace.kernel.length < 0.5
    assert trace.kernel.step_size > 0.15


@pytest.mark.parametrize("kernel", [xps.HMC(2.5, steps=30), xps.NUTS(1e200), xps.MAMS(1e200, 1e201)], ids=repr)
def test_an_overflow_is_beyond_no_bound(kernel):
    """The log density is -inf there, too, but smaller steps would not have come there."""
    target = xps.Target(
        lambda x: -np.exp(np.sum(x * x, axis=-1)), score=lambda x: -2 * x * np.exp(np.sum(x * x, axis=-1))[..., None]
    )
    with np.errstate(all="ignore"):
        _, info = next(xps.steps(target, kernel, np.ones((4, 2)), seed=1))
    assert np.all(info.diverged)
    assert not np.any(info.beyond)


def test_a_probability_that_underflows_is_beyond_no_bound():
    """In float32 exp(-104) is 0, and the energy error is far from that of a divergence."""
    target = xps.Target(lambda x: -0.5 * np.sum(x * x, axis=-1), score=lambda x: -x, constrained=True)
    x0 = np.zeros((4, 50), dtype=np.float32)
    _, info = next(xps.steps(target, xps.HMC(2.1, steps=2), x0, seed=1))
    assert np.all(info.acceptance_probability == 0)
    assert not np.any(info.diverged | info.beyond)


@pytest.mark.parametrize("size", [1e-12, 1e12])
def test_float32_holds_the_metric_of_a_scale_whose_fourth_power_it_does_not(size):
    x0 = (size * np.random.default_rng(0).normal(size=(8, 2))).astype(np.float32)
    target = xps.Target(lambda x: -0.5 * np.sum((x / size) ** 2, axis=-1), score=lambda x: -x / size / size)
    trace = xps.sample(target, xps.HMC(), x0, 1, seed=1, warmup=60, progress=False)
    # Shrunk by n / (n + 5) in logarithms.
    np.testing.assert_allclose(np.log(trace.kernel.mass) / math.log(size), -2.0, rtol=0.05)


def test_more_chains_need_fewer_steps():
    counts = [warm_up_steps(xps.HMC(), starts(n), None) for n in (1, 4, 128, 4000)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] <= 1000
    assert 100 <= counts[2] <= 300
    # Steps of the integrator, of which trajectories have several.
    assert warm_up_steps(xps.MCLMC(), starts(128), None) == pytest.approx(5 * counts[2], abs=5)
    assert warm_up_steps(xps.HMC(0.1, 3), starts(4), None) == 0


# ---- chains that have far to go --------------------------------------------------------------------------------------


SHORT = xps.RWM(xps.StepSize(0.234, most=0.1), covariance=1.0)
"""A random walk whose steps are never long."""


def far_out(chains=8):
    """Some thousand of those steps away."""
    return 30.0 + starts(chains)


def wide(x):
    return -0.5 * np.sum(x**2, axis=-1)


@pytest.mark.slow
def test_a_warm_up_goes_on_while_chains_are_on_their_way():
    usual = warm_up_steps(SHORT, far_out(), None)
    trace = xps.sample(xps.Target(wide), SHORT, far_out(), 2000, seed=1)
    steps = trace.metadata["warmup"]
    assert steps > usual and any((steps - stages * usual) % (usual // 3) == 0 for stages in (1, 3, 7))
    assert all(len(rows) == steps for rows in trace.warmup.values())
    path = trace.warmup["log_density"]
    assert path[usual].mean() < -100 < -10 < path[-1].mean()
    assert "warmup" not in [finding.kind for finding in trace.diagnose()]
    assert np.all(np.abs(trace.draws) < 6)  # of 48,000 numbers one is beyond in 10,000 runs, if all are independent
    single = next(xps.steps(xps.Target(wide), SHORT, far_out(), seed=1))
    np.testing.assert_array_equal(single[0].point.x, trace.draws[0])


@pytest.mark.slow
def test_chains_that_stay_where_they_are_need_no_second_warm_up():
    for kernel in (xps.RWM(), xps.HMC()):
        trace = xps.sample(gaussian(), kernel, starts(8) * SD, 20, seed=1)
        assert trace.metadata["warmup"] == warm_up_steps(kernel, starts(8), None)


def test_a_warm_up_of_a_given_length_says_that_it_was_too_short():
    trace = xps.sample(xps.Target(wide), SHORT, far_out(), 20, seed=1, warmup=100)
    (finding,) = [finding for finding in trace.diagnose() if finding.kind == "warmup"]
    assert finding.value > 1 and "warmup=400" in str(finding)
    assert trace.metadata["warmup"] == 100


def test_a_warm_up_that_never_arrives_ends_and_says_so():
    target, usual = xps.Target(lambda x: np.sum(x, axis=-1)), warm_up_steps(SHORT, starts(8), None)
    trace = xps.sample(target, SHORT, starts(8), 20, seed=1)
    assert 7 * usual <= trace.metadata["warmup"] <= 10 * usual
    assert "warmup" in [finding.kind for finding in trace.diagnose()]


@pytest.mark.slow
def test_a_second_warm_up_is_resumed(tmp_path):
    target = xps.Target(interrupted_at(2 * warm_up_steps(SHORT, far_out(), None), wide))
    checkpoint = xps.Checkpoint(tmp_path / "run", every=0)
    with pytest.raises(KeyboardInterrupt):
        xps.sample(target, SHORT, far_out(), 50, seed=1, checkpoint=checkpoint)
    assert (tmp_path / "run" / "warmup-2" / "run.json").exists()
    assert not (tmp_path / "run" / "run.json").exists()
    resumed = xps.sample(target, SHORT, far_out(), 50, seed=1, checkpoint=checkpoint)
    same_warm_ups(resumed, xps.sample(target, SHORT, far_out(), 50, seed=1))


def test_the_way_is_judged_by_the_group_that_is_farthest_off():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 3, 8))
    assert judge_stage({"log_density": rows}, pooled=True).moving is None
    rows[300:, 1] += 3.0
    assert judge_stage({"log_density": rows}, pooled=True).moving.value == pytest.approx(3, abs=0.2)
    assert judge_stage({"log_density": rows[:, :, 0]}, pooled=False).moving.value == pytest.approx(3, abs=0.5)
    rows[:, 1] = -np.inf  # beyond a constraint, or frozen: these say nothing
    assert judge_stage({"log_density": rows}, pooled=True).moving is None
    assert judge_stage({"log_density": rows[:8]}, pooled=True).moving is None
    assert judge_stage({}, pooled=True).moving is None


def test_a_short_way_counts_where_chains_agree_on_it():
    """0.85 standard deviations are chance where one chain makes them, or each another way, and not where all do."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 16))
    rows[300:] += 0.85
    assert judge_stage({"log_density": rows}, pooled=True).moving.value == pytest.approx(0.85, abs=0.1)
    assert judge_stage({"log_density": rows[:, 0]}, pooled=False).moving is None
    rows[300:] += 2.5 * rng.normal(size=16)
    rows[300:] += 0.85 + np.mean(rows[200:300] - rows[300:])
    assert judge_stage({"log_density": rows}, pooled=True).moving is None


def test_chains_that_do_not_move_any_more_are_judged_without_a_warning():
    """As on a discrete space, on one state of it; and one change by the spacing of the numbers is no way."""
    rows = np.full((100, 4), -1 / 3)
    assert judge_stage({"log_density": rows}, pooled=True).moving is None
    rows[:60], rows[60:] = np.random.default_rng(0).normal(size=(60, 4)) - 50, 0.0
    assert judge_stage({"log_density": rows}, pooled=True).moving.value > 1
    for dtype in (np.float32, np.float64):
        rows = np.full((100, 1), 1e8, dtype=dtype)
        rows[75:] = np.nextafter(rows[0], dtype(np.inf))
        assert rows[75, 0] > 1e8 and judge_stage({"log_density": rows}, pooled=True).moving is None
