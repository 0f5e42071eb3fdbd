"""A warm-up compares the chains: those behind tune a round for themselves, and those that are stuck tune nothing."""

import math
import signal
import warnings

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import Interrupted
from xpsample.core.registry import namespace, to_host
from xpsample.diagnostics import lagging
from xpsample.diagnostics.findings import Finding
from xpsample.kernels.tuning import with_tuning
from xpsample.sampling import warm_up
from xpsample.sampling.transient import begun_again as begun_again_in
from xpsample.sampling.transient import heard_chains, judge_chains
from xpsample.sampling.warm_up import Plan, warm_up_steps
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


def chains_behind(trace):
    return [chain for finding in trace.diagnose() if finding.kind == "behind" for (chain,) in finding.chains]


def begun_again(trace):
    return [chain for finding in trace.diagnose() if finding.kind == "restart" for (chain,) in finding.chains]


def test_a_warm_up_goes_on_while_fewer_chains_are_behind(monkeypatch):
    """Chains leave the lower mode after some hundred steps each; the wrong variant does not look at them.

    A round of theirs comes first, as long as the usual one, and then one of all, twice as long, since one is left.
    """
    usual = warm_up_steps(xps.HMC(), on_two_levels(), None)
    run = lambda: xps.sample(two_levels(15), xps.HMC(), on_two_levels(), 100, seed=1, progress=False)  # noqa: E731
    trace = run()
    assert trace.metadata["warmup"] == 4 * usual
    assert np.max(trace.draws[..., 0]) < 7 and chains_behind(trace) == []
    monkeypatch.setattr(warm_up, "judge_chains", lambda path, pooled: None)
    blind = run()
    assert blind.metadata["warmup"] == usual
    assert np.sum(blind.draws[0, :, 0] > 7) > 0


def test_a_round_of_all_is_no_longer_where_those_that_were_behind_have_come_in():
    theirs = Plan(100, 3, (1, 1), alone=True, before=1)
    moving, late = Finding("warmup", "", 1.0, ""), Finding("behind", "", 40.0, "", chains=((1,),))
    assert theirs.after(None, None, None, (2,)) == Plan(100, 3, before=1)
    for findings in ((moving, None), (None, late)):
        assert theirs.after(*findings, None, (2,)) == Plan(200, 3, before=1)
    assert Plan(100, 3).after(moving, None, None, (2,)) == Plan(200, 2)
    # Where lost chains begin it elsewhere, it is for all, and as long as the one before.
    for plan, left in ((Plan(100, 3), 2), (theirs, 3)):
        assert plan.after(None, late, None, (2,), again=True) == Plan(100, left)


def test_chains_that_stay_behind_end_the_warm_up_and_are_told():
    """A second round of all in which none arrives is the last one."""
    kernel, x0 = xps.MALA(), on_two_levels(20.0)
    trace = xps.sample(two_levels(40, 20.0), kernel, x0, 20, seed=1, progress=False)
    assert trace.metadata["warmup"] == 4 * warm_up_steps(kernel, x0, None)
    (finding,) = [finding for finding in trace.diagnose() if finding.kind == "behind"]
    # The mean of 96 log densities of a Gaussian (2), whose sd is 1, is within 1 of the other's but for one run in 1e9.
    assert finding.value == pytest.approx(40, abs=1.5)
    assert str(finding).startswith("in log density, 3 chains were up to 4") and "(chains 1, 3, 4): not arr" in str(
        finding
    )
    assert all("'behind', above" in f.advice for f in trace.diagnose()[1:] if f.kind in ("rhat", "modes", "ess_bulk"))


def test_a_warm_up_of_a_given_length_names_the_chains_that_are_behind():
    target, x0 = two_levels(40, 20.0), on_two_levels(20.0)
    trace = xps.sample(target, xps.MALA(), x0, 20, seed=1, warmup=100, progress=False)
    assert trace.metadata["warmup"] == 100 and chains_behind(trace) == list(LATE)
    sweep = xps.sample(target, xps.MALA(), np.stack([x0, x0]), 20, seed=1, warmup=100, progress=False)
    (finding,) = [finding for finding in sweep.diagnose() if finding.kind == "behind"]
    assert finding.chains == tuple((group, chain) for group in (0, 1) for chain in LATE)
    alone = xps.sample(target, xps.MALA(), x0[1], 20, seed=1, warmup=100, progress=False)
    assert chains_behind(alone) == []


def test_chains_behind_of_shards_keep_their_numbers():
    x0 = on_two_levels(20.0)
    trace = xps.sample(two_levels(40, 20.0), xps.MALA(), x0, 20, seed=1, warmup=100, shards=2, progress=False)
    assert chains_behind(trace) == list(LATE)


# ---- chains that are stuck -------------------------------------------------------------------------------------------


def with_a_hole(depth):
    """A Gaussian, and a place far out where no step of any size is accepted."""
    return xps.Target(
        lambda x: np.where(x[..., 0] > 50, -depth, -0.5 * np.sum(x * x, axis=-1)),
        score=lambda x: np.where(x[..., :1] > 50, 1e30, -x),
    )


def beside_a_hole(depth=140.0):
    """A run of four chains, of which chain 2 begins in it; where it is not so deep that a volume could not make up."""
    x0 = np.random.default_rng(1).normal(size=(4, 3))
    x0[2, 0] = 100.0
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xps.sample(with_a_hole(depth), xps.HMC(), x0, 100, seed=1, progress=False)


def test_a_chain_that_is_stuck_does_not_stop_the_others():
    """Its acceptance pulls the step size of all down, since a harmonic mean meets zeros."""
    trace = beside_a_hole()
    assert trace.metadata["warmup"] == 2000 and chains_behind(trace) == [2] and begun_again(trace) == []
    assert 0.5 < trace.kernel.step_size < 2
    others = np.delete(trace.draws, 2, axis=1)
    # 300 draws that are nearly independent: a standard error of 0.041, of which this is 7.
    np.testing.assert_allclose(np.std(others, axis=(0, 1)), 1.0, atol=0.3)


@pytest.mark.parametrize("depth", [160.0, 2.4e5])
def test_a_chain_that_is_lost_begins_again_where_another_one_is(depth):
    """Three coordinates: 150 is what no volume makes up for."""
    trace = beside_a_hole(depth)
    assert chains_behind(trace) == [] and begun_again(trace) == [2] and trace.metadata["warmup"] < 1000
    # 400 draws that are nearly independent: a standard error of 0.035, of which this is 7.
    np.testing.assert_allclose(np.std(trace.draws, axis=(0, 1)), 1.0, atol=0.25)
    (finding,) = [finding for finding in trace.diagnose() if finding.kind == "restart"]
    assert finding.value == pytest.approx(depth, rel=0.02) and "began again where another one was (ch" in str(finding)


def test_positions_of_lost_chains_are_those_of_others_on_every_library(library):
    x0 = np.random.default_rng(1).normal(size=(2, 4, 3))
    low = np.zeros((60, 2, 4))
    low[:, 0, 2], low[:, 1, 0] = -1e6, -1e5
    target = xps.Target(lambda x: -0.5 * library.xp.sum(x * x, axis=-1)).prepare(
        library.array(x0), Capability.LOG_DENSITY
    )
    x, below = begun_again_in(target, library.array(x0), {"log_density": library.array(low)})
    expected = x0.copy()
    expected[0, 2], expected[1, 0] = x0[0, 0], x0[1, 1]
    np.testing.assert_array_equal(library.host(x), expected)
    assert below[0, 2] == 1e6 and below[1, 0] == 1e5 and np.sum(below > 0) == 2
    few = {"log_density": library.array(low[:30])}
    assert begun_again_in(target, library.array(x0), few)[1] == 0  # too few steps say nothing


def test_lost_chains_of_groups_are_told():
    x0 = np.random.default_rng(1).normal(size=(2, 4, 3))
    x0[[0, 1], [2, 1], 0] = 100.0
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = xps.sample(with_a_hole(1e6), xps.HMC(), x0, 50, seed=1, progress=False)
    assert [f.chains for f in trace.diagnose() if f.kind == "restart"] == [((0, 2), (1, 1))]
    assert np.all(np.abs(trace.draws) < 10)


def test_a_resumed_warm_up_begins_lost_chains_again_alike(tmp_path):
    x0 = np.random.default_rng(1).normal(size=(4, 3))
    x0[2, 0] = 100.0
    call = {"seed": 1, "progress": False}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = xps.sample(with_a_hole(1e6), xps.HMC(), x0, 30, **call)
        xps.sample(with_a_hole(1e6), xps.HMC(), x0, 10, checkpoint=tmp_path, **call)
        resumed = xps.sample(with_a_hole(1e6), xps.HMC(), x0, 30, checkpoint=tmp_path, **call)
    np.testing.assert_array_equal(resumed.draws, whole.draws)
    assert begun_again(resumed) == begun_again(whole) == [2]


@pytest.mark.slow
def test_a_lost_chain_that_does_not_begin_again_is_caught(monkeypatch):
    """The twin of the test above: it is drawn from where it is."""
    monkeypatch.setattr(warm_up, "begun_again", lambda target, x, path: (x, 0.0))
    assert np.all(beside_a_hole(2.4e5).draws[:, 2, 0] > 50)


def beside_a_wall():
    """A run of four chains, of which chain 2 begins where no step that suits the others is accepted."""
    x0 = np.random.default_rng(0).normal(size=(4, 2))
    x0[2, 0] = 14.0

    def wall(x):
        return np.exp(3 * (x[..., 0] - 2))

    def score(x):
        return -x - np.stack([3 * wall(x), 0 * x[..., 1]], -1)

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        target = xps.Target(lambda x: -0.5 * np.sum(x * x, -1) - wall(x), score=score)
        return xps.sample(target, xps.HMC(), x0.astype(np.float32), 500, seed=1, progress=False)


def test_a_chain_that_is_stuck_comes_in_by_steps_of_its_own(monkeypatch):
    monkeypatch.setattr(lagging, "NO_VOLUME", math.inf)  # or it would begin again elsewhere
    trace = beside_a_wall()
    assert chains_behind(trace) == []
    # The density is that of a Gaussian cut off at about 1.7; the others' means are within 0.2 of each other.
    np.testing.assert_allclose(np.mean(trace.draws[:, 2], 0), np.mean(trace.draws, axis=(0, 1)), atol=0.3)


@pytest.mark.slow
def test_a_chain_without_steps_of_its_own_stays_out(monkeypatch):
    """The twin of the test above: the round of those that are behind is tuned by the others."""
    monkeypatch.setattr(lagging, "NO_VOLUME", math.inf)
    monkeypatch.setattr(warm_up, "those_behind", lambda late, chains: (0, 1, 0, 3))
    assert chains_behind(beside_a_wall()) == [2]


@pytest.mark.slow
def test_a_chain_that_is_stuck_and_heard_is_caught(monkeypatch):
    """The twin of the test above."""
    monkeypatch.setattr(warm_up, "heard_chains", lambda path, late: None)
    assert beside_a_hole().kernel.step_size < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_chain_that_crawls_does_not_stop_the_others(dtype):
    """Where the score points the wrong way only tiny steps are accepted, and change -1e8 by hundreds at most."""
    target = xps.Target(
        lambda x: np.where(x[..., 0] > 50, -1e4, -0.5).astype(x.dtype) * np.sum(x * x, axis=-1),
        score=lambda x: np.where(x[..., :1] > 50, 100.0, -1.0).astype(x.dtype) * x,
    )
    x0 = np.random.default_rng(1).normal(size=(4, 3)).astype(dtype)
    x0[2, 0] = 100.0
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = xps.sample(target, xps.HMC(), x0, 100, seed=1, progress=False)
    assert 0.5 < trace.kernel.step_size < 2 and begun_again(trace) == [2] and chains_behind(trace) == []
    assert trace.metadata["warmup"] < 2000


@pytest.mark.parametrize("offset", [0.0, -1e8])
def test_changes_that_are_rounding_or_nothing_beside_the_way_do_not_move_a_chain(offset):
    """In float32 the numbers near 1e8 are 8 apart."""
    rng = np.random.default_rng(0)
    rows = offset + np.random.default_rng(1).normal(size=(400, 6)) * (1 if offset == 0 else 40)
    rows[:, 1] = -1e8 - 1000 + 8 * rng.integers(0, 2, 400)  # one number or the next
    rows[:, 2] = -1e10 + rng.normal(size=400) * 1e5  # a hundred times the spacing
    rows[:, 4] -= 2000.0  # in a mode of its own
    rows[:, 5] = -1e10 + np.linspace(0, 1e8, 400)
    path = {"log_density": rows.astype(np.float32)}
    late = judge_chains(path, pooled=True)
    assert late.chains == ((1,), (2,), (4,), (5,))
    assert heard_chains(path, late) == (0, 0, 3, 3, 4, 5)


def test_only_chains_that_are_behind_and_do_not_move_are_not_heard():
    rows = np.random.default_rng(0).normal(size=(400, 2, 5))
    rows[:, 0, 1] -= 40.0  # moves, in a mode of its own
    rows[:, 1, 3] = -1e6
    rows[:, 1, 4] = -2e6
    path = {"log_density": rows}
    late = judge_chains(path, pooled=True)
    assert late.chains == ((0, 1), (1, 3), (1, 4))
    assert heard_chains(path, late) == ((0, 1, 2, 3, 4), (0, 1, 2, 0, 1))
    assert heard_chains({"log_density": rows[:, 0]}, judge_chains({"log_density": rows[:, 0]}, pooled=True)) is None
    assert heard_chains(path, None) is None


def log_density(x, data):
    return -0.25 * namespace(x).sum((x / data["sd"]) ** 4, axis=-1)


def score(x, data):
    return -(x**3) / data["sd"] ** 4


def test_what_is_tuned_is_that_of_the_chains_that_are_heard(library):
    """As if others stood in the places of the rest: the same numbers, whatever the rest do."""
    x0 = np.random.default_rng(0).normal(size=(2, 4, 3))
    double = np.concatenate([x0[:, :2], x0[:, :2]], axis=1)

    def path(heard, x, lib):
        tuning = with_tuning(xps.MALA(), 20, True, heard)
        target = xps.Target(log_density, score=score, data={"sd": lib(np.asarray([0.5, 1.0, 3.0]))})
        target = target.prepare(lib(x), tuning.requires)
        state, rng = tuning.init(target, lib(x)), np.random.default_rng(1)
        for _ in range(4):
            noise = {name: rng.uniform(size=spec.shape) for name, spec in tuning.noise(lib(x)).items()}
            for rows in noise.values():
                rows[:, 2:4] = rows[:, :2]
            state, _ = tuning.step(target, state, {name: lib(rows) for name, rows in noise.items()})
        return {name: to_host(values) for name, values in tuning.path(target.xp, state.memory).items()}

    heard = ((0, 1, 0, 1), (0, 1, 0, 1))
    expected = path(None, double, np.asarray)
    for name, values in path(heard, x0, library.array).items():
        np.testing.assert_allclose(values, expected[name], rtol=1e-6)
    far = x0 + np.asarray([0.0, 0.0, 1e3, -1e3])[:, None]
    for name, values in path(heard, far, np.asarray).items():
        np.testing.assert_array_equal(values, expected[name])
    assert any(np.any(values != expected[name]) for name, values in path(None, far, np.asarray).items())


SCALE = np.asarray([3e-4, 3e-4, 6e-4, 3e-4, 3e-4, 0.03])


def narrow(interrupt=lambda: None):
    """A Gaussian beside whose scales usual starts are far out, by some thousand."""

    def score(x):
        interrupt()
        return -x / SCALE**2

    return xps.Target(lambda x: -0.5 * np.sum((x / SCALE) ** 2, axis=-1), score=score)


def around_it():
    return np.random.default_rng(1).normal(size=(4, 6))


def test_what_is_tuned_is_not_that_of_chains_that_come_in():
    """At constant speed they take several beginnings. The best trajectories are about two radii long, 2 sqrt(6)."""
    trace = xps.sample(narrow(), xps.MAMS(), around_it(), 100, seed=1, progress=False)
    usual = warm_up_steps(xps.MAMS(), around_it(), None)
    made, cut = trace.metadata["warmup"], usual // 3
    assert made > usual and (made - usual) % cut == 0
    assert trace.kernel.length < 15
    # Scales within a factor of 2: estimates of some hundred draws in all, whose logarithms have sds below 0.1.
    np.testing.assert_allclose(np.log(trace.kernel.mass * SCALE**2), 0.0, atol=np.log(2))


@pytest.mark.slow
def test_a_warm_up_that_does_not_look_tunes_to_the_way():
    """The twin of the test above: a warm-up whose length a user gives is not begun anew."""
    trace = xps.sample(narrow(), xps.MAMS(), around_it(), 1, seed=1, warmup=500, progress=False)
    assert trace.metadata["warmup"] == 500
    assert trace.kernel.length > 30


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
