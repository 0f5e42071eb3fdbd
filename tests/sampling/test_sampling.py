"""Runs: one chain whichever way it is driven, the same from the same seed, and nothing of the user's touched."""

import itertools
import re
import sys

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import XpsampleError
from xpsample.kernels import HMC, MALA, RWM, Info
from xpsample.sampling import loop
from xpsample.sampling import progress as progress_bars
from xpsample.sampling import totals as totals_module
from xpsample.sampling.callbacks import RunState
from xpsample.srmc import SRMC
from xpsample.targets import Exact, Target, Tempered

X0 = np.random.default_rng(0).normal(size=(2, 3, 2))


def log_density(x, data):
    return -0.5 * (x[..., 0] ** 2 + (x[..., 1] - x[..., 0]) ** 2 * data["precision"])


def score(x, data):
    return -x @ data["matrix"]


def hvp(x, v, data):
    return -v @ data["matrix"]


DATA = {"precision": np.asarray(2.0), "matrix": np.asarray([[3.0, -2.0], [-2.0, 2.0]])}
TARGET = Target(log_density, score=score, hvp=hvp, data=DATA)
KERNELS = {
    "RWM": RWM(0.8),
    "HMC": HMC(0.3, 3),
    "SR-MALA": SRMC(MALA(0.2), alpha=0.5, tilt=Exact()),
}
WALK = KERNELS["RWM"]
SEED = xps.Portable(3)
"""JAX compiles its own generator for seconds, so tests that are not about seeds take this one."""


def draws(library, kernel, n=30, target=TARGET, **settings):
    return library.host(xps.sample(target, kernel, library.array(X0), n, **{"seed": SEED} | settings).draws)


# ---- one chain -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "seed"), [(WALK, 3), *((kernel, SEED) for kernel in KERNELS.values())], ids=["native", *KERNELS]
)
def test_steps_and_sample_give_one_chain(library, kernel, seed):
    iterator = xps.steps(TARGET, kernel, library.array(X0), seed=seed)
    trace = xps.sample(TARGET, kernel, library.array(X0), 30, seed=seed)
    kept = library.host(trace.draws)
    for i in range(30):
        state, info = next(iterator)
        # Compiled whole or step by step, a library may round differently.
        np.testing.assert_allclose(library.host(state.point.x), kept[i], rtol=1e-9, atol=1e-12)
        moved = library.host(trace.statistics["moved"])[i]
        np.testing.assert_array_equal(library.host(info.moved), moved)


@pytest.mark.parametrize("seed", [3, SEED], ids=["native", "portable"])
def test_large_steps_give_the_chain_of_single_ones(library, seed, monkeypatch):
    """A chunk of noise of one step, so that blocks have many chunks, with a burn-in and an end in the middle of one."""
    monkeypatch.setattr("xpsample.sampling.noise.CHUNK_ELEMENTS", 1)
    driven = xps.sample(TARGET, WALK, library.array(X0), 20, seed=seed, burn_in=5, thinning=2, progress=False)
    single = itertools.islice(xps.steps(TARGET, WALK, library.array(X0), seed=seed), 45)
    walk = [(library.host(state.point.x), library.host(info.moved)) for state, info in single]
    np.testing.assert_allclose(library.host(driven.draws), [x for x, _ in walk[6::2]], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        driven.run_statistics.moved, np.mean([moved for _, moved in walk[5:]], axis=0), rtol=1e-5
    )


def test_states_of_steps_stay_what_they_were(library):
    """A state that the user keeps is not overwritten by later steps."""
    iterator = xps.steps(TARGET, KERNELS["HMC"], library.array(X0), seed=SEED)
    states = [next(iterator)[0] for _ in range(5)]
    copies = [library.host(state.point.x) for state in states]
    list(itertools.islice(iterator, 5))
    for state, copy in zip(states, copies, strict=True):
        np.testing.assert_array_equal(library.host(state.point.x), copy)


def test_means_over_one_step_are_those_of_the_step():
    trace = xps.sample(xps.Target(lambda x: -0.5 * x[..., 0] ** 2), RWM(1.0), np.zeros((4, 1)), 1, seed=1)
    for name in ("moved", "acceptance_probability"):
        np.testing.assert_allclose(getattr(trace.run_statistics, name), trace.statistics[name][0], atol=1e-7)


# ---- seeds -----------------------------------------------------------------------------------------------------------


def test_the_same_call_gives_the_same_chain(typed_library):
    """With the same target, kernel and positions, and with others made anew."""
    first, second = (draws(typed_library, WALK, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    anew = Target(log_density, data=DATA)
    np.testing.assert_array_equal(first, draws(typed_library, RWM(0.8), target=anew, seed=3))


def test_seeds_and_chains_differ_and_a_longer_run_begins_like_a_shorter_one(library):
    shorter, longer, other = draws(library, WALK), draws(library, WALK, 40), draws(library, WALK, seed=xps.Portable(2))
    np.testing.assert_array_equal(longer[:30], shorter)
    assert np.all(shorter[-1] != other[-1])
    x0 = library.array(np.zeros((50, 2)))
    last = library.host(xps.sample(TARGET, WALK, x0, 20, seed=SEED).draws)[-1]
    assert len(np.unique(last[:, 0])) == 50


# ---- what goes in, what comes out ------------------------------------------------------------------------------------


def test_the_users_arrays_stay(typed_library):
    """Neither written to nor given away (JAX donates buffers), and usable for the next run."""
    own = DATA | {"x0": X0, "theta": np.ones(X0.shape)}
    arrays = {name: typed_library.array(host) for name, host in own.items()}
    data = {name: arrays[name] for name in DATA}
    target, x0 = Target(log_density, score=score, hvp=hvp, data=data), arrays["x0"]
    for kernel in (WALK, SRMC(MALA(0.2), alpha=0.5, theta=arrays["theta"], tilt=Exact())):
        for settings in ({}, {"burn_in": 5}):
            xps.sample(target, kernel, x0, 10, seed=SEED, **settings)
    next(xps.steps(target, WALK, x0, seed=SEED))
    for name, array in arrays.items():
        np.testing.assert_array_equal(typed_library.host(array), own[name].astype(typed_library.dtype))


def test_positions_that_are_a_view_or_read_only_will_do(library):
    turned = library.array(np.ascontiguousarray(np.transpose(X0, (1, 0, 2))))
    viewed = xps.sample(TARGET, WALK, library.xp.permute_dims(turned, (1, 0, 2)), 5, seed=SEED).draws
    expected = draws(library, WALK, 5, seed=SEED)
    np.testing.assert_array_equal(library.host(viewed), expected)
    x0 = X0.copy()
    x0.flags.writeable = False
    np.testing.assert_allclose(xps.sample(TARGET, WALK, x0, 5, seed=SEED).draws, expected, rtol=1e-9)


@pytest.mark.parametrize("chains", [(), (1,), (2, 1, 3)])
def test_any_number_of_chain_axes(library, chains):
    x0 = library.array(np.zeros((*chains, 2)))
    trace = xps.sample(TARGET, KERNELS["SR-MALA"], x0, 4, seed=SEED)
    assert tuple(trace.draws.shape) == (4, *chains, 2)
    assert tuple(trace.statistics["moved"].shape) == (4, *chains)
    assert trace.run_statistics.acceptance_probability.shape == chains


def test_what_comes_out_lives_where_the_positions_do(typed_library):
    x0 = typed_library.array(X0)
    trace = xps.sample(TARGET, WALK, x0, 4, seed=SEED, recorders=(xps.Draws(), xps.Statistics(), xps.Moments()))
    for array in (trace.draws, trace.statistics["log_density"], trace.recorded["moments"].mean, trace.state.point.x):
        assert typed_library.backend.owns(array) and array.dtype == x0.dtype and array.device == x0.device
    assert trace.metadata["backend"] == typed_library.backend.name
    assert trace.metadata["dtype"] == typed_library.dtype
    assert trace.metadata["seed"] == {"source": "Portable", "seed": 3}


def test_torch_tensors_that_require_gradients_come_out_without():
    torch = pytest.importorskip("torch")
    x0 = torch.asarray(X0).requires_grad_(True)
    trace = xps.sample(TARGET, MALA(0.2), x0, 4, seed=SEED)
    assert not trace.draws.requires_grad and not trace.state.point.x.requires_grad
    assert x0.grad is None and x0.requires_grad


def test_a_run_can_be_cut_and_continued_by_hand(library):
    """From the last state's positions, with the noise of the steps to come: kernels remember nothing else."""
    whole = draws(library, WALK, 20, seed=xps.Portable(5))
    first = xps.sample(TARGET, WALK, library.array(X0), 12, seed=xps.Portable(5))
    noise = xps.Portable(5).block(library.backend, WALK.noise(X0), 12, 20, library.array(X0))
    rest = xps.sample(TARGET, WALK, first.state.point.x, 8, seed=xps.Replay(noise)).draws
    np.testing.assert_allclose(library.host(rest), whole[12:], rtol=1e-12)


def test_a_tempered_target_is_sampled(library):
    """beta 0 accepts every proposal; two inverse temperatures are two runs."""
    beta = library.array(np.asarray([[0.0], [1.0]]))
    trace = xps.sample(Tempered(TARGET, beta), WALK, library.array(X0), 30, seed=SEED)
    assert np.all(trace.run_statistics.moved[0] == 1) and np.all(trace.run_statistics.moved[1] < 1)
    np.testing.assert_array_equal(library.host(trace.draws)[:, 1], draws(library, WALK)[:, 1])


# ---- compilation -----------------------------------------------------------------------------------------------------


@pytest.mark.first_cases(2)
@pytest.mark.parametrize("kernel", [MALA(0.2), HMC(0.3, 10)], ids=["MALA", "HMC"])
@pytest.mark.parametrize("settings", [{}, {"burn_in": 2000, "thinning": 3}], ids=str)
def test_jax_traces_a_density_a_few_times_a_run(kernel, settings):
    """Whatever the length of the run, its burn-in and thinning: each run sees the density as it is now."""
    jax = pytest.importorskip("jax")
    traced = []

    def log_density(x):
        if isinstance(x, jax.core.Tracer):
            traced.append(x.shape)
        return -0.5 * (x * x).sum(axis=-1)

    target = Target(log_density)
    x0 = jax.numpy.zeros((4, 2), dtype="float32")
    xps.sample(target, kernel, x0, 20, seed=SEED, **settings)
    # Where the prepared target compiles it for the check at the start, in the kernel's start, and in the loop.
    first = len(traced)
    assert 1 <= first <= 5
    traced.clear()
    xps.sample(target, kernel, x0, 40, seed=2, **settings)
    assert len(traced) <= first


def test_torch_and_numpy_call_a_density_once_a_step():
    """And twice for the checks at the start, and once for the start itself."""
    calls = []

    def log_density(x):
        calls.append(1)
        return -0.5 * (x * x).sum(axis=-1)

    target = Target(log_density)
    for _ in range(2):
        calls.clear()
        xps.sample(target, WALK, X0, 20, seed=1, burn_in=5)
        assert len(calls) == 20 + 5 + 2 + 1


# ---- progress --------------------------------------------------------------------------------------------------------


def test_progress_is_written_to_stderr_and_does_not_change_the_chain(library, capsys):
    pytest.importorskip("tqdm")
    shown = draws(library, WALK, 20, burn_in=5, progress=True)
    out, err = capsys.readouterr()
    assert out == "" and "25/25" in err and "step" in err
    np.testing.assert_array_equal(shown, draws(library, WALK, 20, burn_in=5))


@pytest.mark.parametrize(
    ("progress", "silent", "lines"), [(None, None, 0), (False, None, 0), (None, 0.0, 1), (False, 0.0, 0)]
)
def test_a_long_run_without_a_bar_says_once_how_far_it_is(capsys, monkeypatch, progress, silent, lines):
    """And a short one nothing."""
    if silent is not None:
        monkeypatch.setattr(progress_bars, "SILENT", silent)
    monkeypatch.setattr(loop, "SECONDS", 1e-9)
    xps.sample(TARGET, WALK, X0, 20, seed=SEED, progress=progress)
    out, err = capsys.readouterr()
    expected = r"xpsample: [12] of 20 steps in 0 s, about 0\.\d min to go"
    assert out == "" and len(err.splitlines()) == lines
    assert all(re.match(expected, line) for line in err.splitlines())


@pytest.mark.parametrize(("step", "lines"), [(90, 0), (30, 1)])
def test_a_run_that_is_nearly_done_says_nothing(capsys, monkeypatch, step, lines):
    """After 45 s, where 5 s or 105 are left."""
    monkeypatch.setattr(progress_bars, "SILENT", 30.0)
    now = iter([0.0, 45.0])
    monkeypatch.setattr(progress_bars.time, "monotonic", lambda: next(now))
    bar = progress_bars.Bar(None, 100)
    bar.on_start(RunState(0, 100, None))
    bar.on_block(RunState(step, 100, None, made=step))
    assert len(capsys.readouterr().err.splitlines()) == lines


def test_progress_without_tqdm_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(XpsampleError, match=r'progress=True needs tqdm: pip install "xpsample\[progress\]"'):
        xps.sample(TARGET, WALK, X0, 20, seed=SEED, progress=True)
    assert xps.sample(TARGET, WALK, X0, 20, seed=SEED).draws.shape == (20, 2, 3, 2)


def test_large_batches_are_as_right_as_small_ones(library32):
    rng = np.random.default_rng(0)
    x, slope, scale = rng.normal(size=(20_000, 2, 3)), rng.normal(size=(20_000, 1, 3)), rng.normal(size=(20_000, 1))

    def log_density(x, data):
        xp = library32.xp
        return -xp.sum(x * x, axis=-1) - data["scale"] * xp.sum(data["slope"] * x, axis=-1)

    target = Target(log_density, data={"slope": slope, "scale": scale})
    trace = xps.sample(target, RWM(0.5), library32.array(x), 1, seed=SEED, progress=False)
    final = library32.host(trace.draws)[-1].astype(np.float64)
    wanted = -np.sum(final**2, axis=-1) - scale * np.sum(slope * final, axis=-1)
    np.testing.assert_allclose(library32.host(trace.state.point.log_density), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("seconds", "most"), [(1.0, 1), (0.03, 3), (0.001, 16)])
def test_sums_of_short_segments_are_fetched_some_at_a_time(seconds, most, monkeypatch):
    """A driver that starts its work at once and makes it where it is waited for; slow segments are waited for each."""
    made, clock = [], 0.0

    def wait(value):
        nonlocal clock
        if isinstance(value, int):
            made.append(value)
            clock += seconds
        return np.asarray(value)

    monkeypatch.setattr(totals_module, "to_host", wait)
    monkeypatch.setattr(totals_module.time, "perf_counter", lambda: clock)
    totals, waiting = totals_module.Totals(), []
    for k in range(100):
        totals.add(2, Info(np.asarray(0.5), np.asarray(1.0), np.asarray(0.0), k))
        waiting.append(k + 1 - len(made))
    assert max(waiting) == most - 1 and waiting[0] == 0
    assert totals.sums["evaluations"] == 99 * 50 and made == list(range(100))
    assert totals.run_statistics().moved == 0.5
