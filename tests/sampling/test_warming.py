"""A warm-up compares the chains: it goes on while some lag, and stuck chains continue from the others' positions."""

import signal
import warnings

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import Interrupted
from xpsample.sampling import transient, warm_up
from xpsample.sampling.transient import judge_stage, restarted
from xpsample.sampling.warm_up import warm_up_steps
from xpsample.targets import Capability


def two_levels(level, away=10.0):
    """A Gaussian, and another one whose density is e^level times lower, that far away."""

    def apart(x):
        y = x - away * (np.arange(x.shape[-1]) == 0)
        return y, -0.5 * np.sum(x * x, axis=-1), -level - 0.5 * np.sum(y * y, axis=-1)

    def score(x):
        y, high, low = apart(x)
        share = np.exp(high - np.logaddexp(high, low))[..., None]
        return -share * x - (1 - share) * y

    return xps.Target(lambda x: np.logaddexp(*apart(x)[1:]), score=score)


LATE = (1, 3, 4)


def on_two_levels(away=10.0, chains=8, seed=1):
    x0 = np.random.default_rng(seed).normal(size=(chains, 2))
    x0[list(LATE), 0] += away
    return x0


def run(target, kernel, x0, draws, **settings):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xps.sample(target, kernel, x0, draws, **{"seed": 1, "progress": False} | settings)


def chains_of(trace, kind):
    return [chain for finding in trace.diagnose() if finding.kind == kind for (chain,) in finding.chains]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_warm_up_goes_on_while_chains_lag(seed, monkeypatch):
    """Chains leave the lower mode after some hundred steps each; the wrong variant does not look at them.

    The wrong twin of seed 2 went on only while fewer lagged than before: one stayed.
    """
    usual = warm_up_steps(xps.HMC(), on_two_levels(seed=seed), None)
    trace = run(two_levels(15), xps.HMC(), on_two_levels(seed=seed), 100, seed=seed)
    assert 3 * usual <= trace.metadata["warmup"] <= 10 * usual
    assert np.max(trace.draws[..., 0]) < 7 and chains_of(trace, "behind") == []
    monkeypatch.setattr(transient, "judge_arrival", lambda rows: None)
    blind = run(two_levels(15), xps.HMC(), on_two_levels(seed=seed), 100, seed=seed)
    assert blind.metadata["warmup"] == usual
    assert np.sum(blind.draws[0, :, 0] > 7) > 0


@pytest.mark.slow
def test_chains_that_stay_behind_are_told_when_the_warm_up_ends():
    """After stages of 1, 2 and 4 lengths."""
    kernel, x0 = xps.MALA(), on_two_levels(20.0)
    trace = xps.sample(two_levels(40, 20.0), kernel, x0, 20, seed=1, progress=False)
    assert trace.metadata["warmup"] == 7 * warm_up_steps(kernel, x0, None)
    (finding,) = [finding for finding in trace.diagnose() if finding.kind == "behind"]
    # The mean of 383 log densities of a Gaussian (2), whose sd is 1, is within 1 of the other's but for one run in 1e9.
    assert finding.value == pytest.approx(40, abs=1.5)
    assert str(finding).startswith("3 chains were up to 4") and "(chains 1, 3, 4): not conv" in str(finding)
    assert all("'behind', above" in f.advice for f in trace.diagnose()[1:] if f.kind in ("rhat", "modes", "ess_bulk"))


def test_a_warm_up_of_a_given_length_names_the_chains_that_are_behind():
    """Also of shards and of the settings of a sweep; and none of one chain alone."""

    def behind(x0, **settings):
        trace = run(two_levels(40, 20.0), xps.MALA(), x0, 20, warmup=100, **settings)
        assert trace.metadata["warmup"] == 100
        return [finding.chains for finding in trace.diagnose() if finding.kind == "behind"]

    x0 = on_two_levels(20.0)
    assert behind(x0) == behind(x0, shards=2) == [tuple((chain,) for chain in LATE)]
    assert behind(np.stack([x0, x0])) == [tuple((group, chain) for group in (0, 1) for chain in LATE)]
    assert behind(x0[1]) == []


# ---- chains that are stuck -------------------------------------------------------------------------------------------


def with_a_hole(depth):
    """A Gaussian, and a place far out where no step of any size is accepted."""
    return xps.Target(
        lambda x: np.where(x[..., 0] > 50, -depth, -0.5 * np.sum(x * x, axis=-1)),
        score=lambda x: np.where(x[..., :1] > 50, 1e30, -x),
    )


def beside_it():
    """Of four chains, chain 2 begins in the hole."""
    x0 = np.random.default_rng(1).normal(size=(4, 3))
    x0[2, 0] = 100.0
    return x0


@pytest.mark.parametrize("depth", [140.0, 2.4e5])
def test_a_stuck_chain_continues_from_the_position_of_another_one(depth):
    """Its acceptance would pull the step size of all down, since a harmonic mean meets zeros."""
    trace = run(with_a_hole(depth), xps.HMC(), beside_it(), 100)
    assert chains_of(trace, "behind") == [] and trace.metadata["warmup"] < 1000
    assert 0.5 < trace.kernel.step_size < 2
    # 400 draws that are nearly independent: a standard error of 0.035, of which this is 7.
    np.testing.assert_allclose(np.std(trace.draws, axis=(0, 1)), 1.0, atol=0.25)
    (finding,) = [finding for finding in trace.diagnose() if finding.kind == "restart"]
    assert finding.chains == ((2,),) and finding.value == pytest.approx(depth, rel=0.02)
    assert "restarted from the position of another one (ch" in str(finding)


def test_a_stuck_chain_is_told_if_the_length_of_the_warm_up_is_given():
    trace = run(with_a_hole(140.0), xps.HMC(), beside_it(), 20, warmup=200)
    assert trace.metadata["warmup"] == 200
    assert chains_of(trace, "behind") == [2] and chains_of(trace, "restart") == []


def test_positions_of_stuck_chains_are_those_of_others_on_every_library(library):
    """Of others that do not lag: chain (0, 3) moves, in a mode of its own."""
    x0, low = np.random.default_rng(1).normal(size=(2, 4, 3)), np.random.default_rng(2).normal(size=(60, 2, 4))
    low[:, 0, 2], low[:, 1, 0] = -1e6, -1e5
    low[:, 0, 3] -= 40.0
    target = xps.Target(lambda x: -0.5 * library.xp.sum(x * x, axis=-1)).prepare(
        library.array(x0), Capability.LOG_DENSITY
    )
    found = judge_stage({"log_density": library.array(low)}, pooled=True)
    expected = x0.copy()
    expected[0, 2], expected[1, 0] = x0[0, 0], x0[1, 1]
    np.testing.assert_array_equal(library.host(restarted(target, library.array(x0), found)), expected)
    np.testing.assert_allclose(found.stuck, [[0, 0, 1e6, 0], [1e5, 0, 0, 0]], rtol=1e-4)
    few = judge_stage({"log_density": library.array(low[:30])}, pooled=True)
    assert not few.transient and not few.goes_on  # too few steps say nothing


def test_stuck_chains_of_groups_are_told():
    x0 = np.random.default_rng(1).normal(size=(2, 4, 3))
    x0[[0, 1], [2, 1], 0] = 100.0
    trace = run(with_a_hole(1e6), xps.HMC(), x0, 50)
    assert [f.chains for f in trace.diagnose() if f.kind == "restart"] == [((0, 2), (1, 1))]
    assert np.all(np.abs(trace.draws) < 10)


@pytest.mark.slow
def test_a_resumed_warm_up_restarts_stuck_chains_alike(tmp_path):
    target, x0 = with_a_hole(1e6), beside_it()
    whole = run(target, xps.HMC(), x0, 30)
    run(target, xps.HMC(), x0, 10, checkpoint=tmp_path)
    resumed = run(target, xps.HMC(), x0, 30, checkpoint=tmp_path)
    np.testing.assert_array_equal(resumed.draws, whole.draws)
    assert chains_of(resumed, "restart") == chains_of(whole, "restart") == [2]


@pytest.mark.slow
@pytest.mark.parametrize("depth", [140.0, 2.4e5])
def test_a_stuck_chain_that_does_not_begin_again_is_caught(depth, monkeypatch):
    """The twin of the tests above: it is drawn from where it is, and tunes the steps of all."""
    monkeypatch.setattr(warm_up, "restarted", lambda target, x, found: x)
    trace = run(with_a_hole(depth), xps.HMC(), beside_it(), 100)
    assert np.all(trace.draws[:, 2, 0] > 50) and trace.kernel.step_size < 1e-6


def test_a_chain_beside_a_wall_converges():
    """It begins where no step that suits the others is accepted; it had a stage of its own."""
    x0 = np.random.default_rng(0).normal(size=(4, 2))
    x0[2, 0] = 14.0

    def wall(x):
        return np.exp(3 * (x[..., 0] - 2))

    target = xps.Target(
        lambda x: -0.5 * np.sum(x * x, -1) - wall(x), score=lambda x: -x - np.stack([3 * wall(x), 0 * x[..., 1]], -1)
    )
    trace = run(target, xps.HMC(), x0.astype(np.float32), 500)
    assert chains_of(trace, "behind") == []
    # The density is that of a Gaussian cut off at about 1.7; the others' means are within 0.2 of each other.
    np.testing.assert_allclose(np.mean(trace.draws[:, 2], 0), np.mean(trace.draws, axis=(0, 1)), atol=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_chain_that_crawls_does_not_stop_the_others(dtype):
    """Where the score points the wrong way only tiny steps are accepted, and change -1e8 by hundreds at most."""
    target = xps.Target(
        lambda x: np.where(x[..., 0] > 50, -1e4, -0.5).astype(x.dtype) * np.sum(x * x, axis=-1),
        score=lambda x: np.where(x[..., :1] > 50, 100.0, -1.0).astype(x.dtype) * x,
    )
    trace = run(target, xps.HMC(), beside_it().astype(dtype), 100)
    assert 0.5 < trace.kernel.step_size < 2 and trace.metadata["warmup"] < 2000
    assert chains_of(trace, "restart") == [2] and chains_of(trace, "behind") == []


@pytest.mark.parametrize("offset", [0.0, -1e8])
def test_changes_that_are_rounding_or_nothing_beside_the_way_do_not_move_a_chain(offset):
    """In float32 the numbers near 1e8 are 8 apart."""
    rng = np.random.default_rng(0)
    rows = offset + np.random.default_rng(1).normal(size=(400, 6)) * (1 if offset == 0 else 40)
    rows[:, 1] = -1e8 - 1000 + 8 * rng.integers(0, 2, 400)  # one number or the next
    rows[:, 2] = -1e10 + rng.normal(size=400) * 1e5  # a hundred times the spacing
    rows[:, 4] -= 400.0  # in a mode of its own
    rows[:, 5] = -1e10 + np.linspace(0, 1e8, 400)
    found = judge_stage({"log_density": rows.astype(np.float32)}, pooled=True)
    assert found.lagging.chains == ((1,), (2,), (4,), (5,))
    assert np.flatnonzero(found.stuck).tolist() == [1, 2]


def test_only_chains_that_lag_and_do_not_move_are_stuck():
    rows = np.random.default_rng(0).normal(size=(400, 2, 5))
    rows[:, 0, 0] = 0.0  # does not move, and does not lag
    rows[:, 0, 1] -= 40.0  # moves, in a mode of its own
    rows[:, 1, 3] = -1e6
    rows[:, 1, 4] = -2e6
    found = judge_stage({"log_density": rows}, pooled=True)
    assert found.lagging.chains == ((0, 1), (1, 3), (1, 4))
    np.testing.assert_allclose(found.stuck, [[0] * 5, [0, 0, 0, 1e6, 2e6]], rtol=1e-4)
    mode = judge_stage({"log_density": rows[:, 0]}, pooled=True)
    assert mode.goes_on and not mode.transient and not np.any(mode.stuck)
    assert not judge_stage({"log_density": rows[:, 1, 3]}, pooled=False).goes_on


SCALE = np.asarray([3e-4, 3e-4, 6e-4, 3e-4, 3e-4, 0.03])


def narrow(interrupt=lambda: None):
    """A Gaussian beside whose scales usual starts are far out, by some thousand."""

    def score(x):
        interrupt()
        return -x / SCALE**2

    return xps.Target(lambda x: -0.5 * np.sum((x / SCALE) ** 2, axis=-1), score=score)


def around_it():
    return np.random.default_rng(1).normal(size=(4, 6))


@pytest.mark.slow
def test_what_is_tuned_is_not_that_of_chains_that_come_in():
    """At constant speed they take several beginnings. The best trajectories are about two radii long, 2 sqrt(6).

    The wrong twin: a warm-up whose length a user gives is not begun anew, and tunes to the way.
    """
    trace = xps.sample(narrow(), xps.MAMS(), around_it(), 100, seed=1, progress=False)
    usual = warm_up_steps(xps.MAMS(), around_it(), None)
    made, cut = trace.metadata["warmup"], usual // 3
    assert made > usual and (made - usual) % cut == 0
    assert trace.kernel.length < 15
    # Scales within a factor of 2: estimates of some hundred draws in all, whose logarithms have sds below 0.1.
    np.testing.assert_allclose(np.log(trace.kernel.mass * SCALE**2), 0.0, atol=np.log(2))
    twin = xps.sample(narrow(), xps.MAMS(), around_it(), 1, seed=1, warmup=500, progress=False)
    assert twin.metadata["warmup"] == 500 and twin.kernel.length > 30


@pytest.mark.slow
def test_a_beginning_is_resumed(tmp_path):
    """A run that ends in the second warm-up, after a first one that was cut, gives what it would have given."""
    calls = iter(range(10**9))

    def interrupt():
        if next(calls) == 400:
            signal.raise_signal(signal.SIGINT)

    def run(target, **settings):
        return xps.sample(target, xps.MAMS(), around_it(), 20, seed=1, progress=False, **settings)

    whole = run(narrow())
    checkpoint = xps.Checkpoint(tmp_path / "run", every=50)
    with pytest.raises(Interrupted):
        run(narrow(interrupt), checkpoint=checkpoint)
    assert (tmp_path / "run" / "warmup-2" / "run.json").exists()
    resumed = run(narrow(interrupt), checkpoint=checkpoint)
    np.testing.assert_array_equal(resumed.draws, whole.draws)
    np.testing.assert_array_equal(resumed.warmup["MAMS.length"], whole.warmup["MAMS.length"])
