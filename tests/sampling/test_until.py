"""Runs that stop when they have drawn enough, and go on where they stopped."""

import sys
import warnings
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import ConvergenceWarning, HyperparameterError
from xpsample.diagnostics.coordinates import worst
from xpsample.sampling import loop, until
from xpsample.sampling.noise import segments
from xpsample.zoo.gaussian import gaussian

TARGET = gaussian(np.eye(2))
STARTS = np.random.default_rng(0).normal(size=(4, 2))
KERNEL = xps.MALA(0.5)


def run(draws=50_000, x0=STARTS, kernel=KERNEL, **settings):
    return xps.sample(TARGET, kernel, x0, draws, **{"seed": 1, "progress": False} | settings)


def test_a_run_stops_when_its_ess_and_rhat_are_enough():
    trace = run(until=xps.Until(ess=2000, rhat=1.01))
    n = trace.draws.shape[0]
    assert 500 < n < 10_000 and trace.run_statistics.steps == n
    summary = trace.summary()
    assert np.min([summary.ess_bulk, summary.ess_tail]) >= 2000 and np.max(summary.rhat) <= 1.01
    np.testing.assert_array_equal(trace.draws, run(n).draws)
    np.testing.assert_array_equal(trace.state.point.x, trace.draws[-1])
    more = run(until=xps.Until(ess=8000)).draws.shape[0]
    assert n < more < 50_000


@pytest.mark.slow
def test_every_group_has_to_have_enough():
    x0 = np.broadcast_to(STARTS, (2, 4, 2)).copy()
    slow = run(x0=x0, kernel=xps.MALA(np.array([[0.1], [0.5]])), until=xps.Until(ess=2000)).draws.shape[0]
    assert slow > 2 * run(until=xps.Until(ess=2000)).draws.shape[0]


def test_a_run_that_never_has_enough_makes_all_draws_and_says_so():
    message = r"ended with 1500 draws before it reached the requested ESS 1e\+06 \(it was \d+"
    with pytest.warns(ConvergenceWarning, match=message):
        trace = run(1500, until=xps.Until(ess=1e6))
    assert trace.draws.shape[0] == 1500


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("seed", [1, xps.Portable(1)], ids=["native", "portable"])
def test_a_stopped_run_goes_on_and_stops_where_it_would_have(library, tmp_path, seed, monkeypatch):
    x0, limits = library.array(STARTS), xps.Until(ess=3000)
    whole = run(x0=x0, seed=seed, until=limits)
    n = whole.draws.shape[0]
    first = run(x0=x0, seed=seed, until=xps.Until(ess=500), checkpoint=tmp_path)
    assert first.draws.shape[0] < n
    monkeypatch.setattr(loop, "SECONDS", 0.01)  # other blocks
    again = run(x0=x0, seed=seed, until=limits, checkpoint=tmp_path)
    assert again.draws.shape[0] == n
    np.testing.assert_array_equal(library.host(again.draws), library.host(whole.draws))
    once_more = run(x0=x0, seed=seed, until=limits, checkpoint=tmp_path)
    assert once_more.draws.shape[0] == n and once_more.run_statistics.steps == n


@pytest.mark.slow
def test_draws_are_looked_at_less_and_less_often(monkeypatch):
    looks = []
    monkeypatch.setattr(until, "worst", lambda draws, *_: looks.append(len(draws)) or (0.0, 2.0))
    run(40_000, until=xps.Until(ess=100), burn_in=7)
    ends = {end - 7 for _, end in segments(KERNEL.noise(STARTS), 7, 40_007)}
    assert looks[:2] == [256, 512]  # a slow target has drawn enough by then
    assert set(looks[2:]) <= ends and len(looks) > 5
    assert np.all(np.diff(looks) >= 0.1 * np.asarray(looks[:-1]))


def test_states_are_looked_at_and_not_their_numbers(monkeypatch):
    """Chains of states {1, 3} and of states {0, 2, 4} agree in the ranks of the numbers, and of their distances."""
    rng = np.random.default_rng(1)
    odd, even = rng.choice([1.0, 3.0], (1000, 2)), rng.choice([0.0, 2.0, 4.0], (1000, 2), p=[0.25, 0.5, 0.25])
    draws = np.concatenate([odd, even], axis=1)[..., None]
    assert worst(draws)[1] < 1.01 and worst(draws, categorical=True)[1] > 1.2

    looks = []
    monkeypatch.setattr(until, "worst", lambda draws, categorical, _: looks.append(categorical) or worst(draws))
    target = xps.Target(lambda x: 0.0 * x[..., 0], space=xps.Categorical([0.0, 1.0, 2.0]))
    shared = {"seed": 1, "until": xps.Until(ess=50)}
    xps.sample(target, xps.Gibbs(), np.ones((4, 1)), 500, **shared)
    assert looks and all(looks)


def test_time_is_up(monkeypatch):
    clock = iter(np.arange(0.0, 1e6, 10.0))

    monkeypatch.setattr(until.time, "perf_counter", lambda: next(clock))
    trace = run(10_000_000, until=xps.Until(seconds=95))
    assert 0 < trace.draws.shape[0] < 10_000_000


def test_until_is_checked():
    with pytest.raises(HyperparameterError, match="would never stop"):
        xps.Until()
    for wrong in ({"ess": 0}, {"rhat": 1.0}, {"seconds": -1}):
        with pytest.raises(HyperparameterError):
            xps.Until(**wrong)
    for given, message in ((xps.Until(ess=100), "no recorder keeps"), (400, "until must be")):
        with pytest.raises(HyperparameterError, match=message):
            run(100, until=given, recorders=[xps.Moments()])
    assert run(100, until=xps.Until(seconds=100), recorders=[xps.Moments()]).draws is None


def test_the_bar_shows_acceptance_and_divergences_of_each_group(capsys):
    pytest.importorskip("tqdm")
    x0 = np.broadcast_to(STARTS, (2, 4, 2)).copy()
    run(400, x0=x0, kernel=xps.MALA(np.array([[0.01], [0.9]])), progress=True)
    shown = capsys.readouterr().err
    assert "accepts 1.00 0.7" in shown and "diverged" not in shown
    wall = xps.Target(lambda x: np.where(x[..., 0] > 2, np.nan, -0.5 * np.sum(x**2, axis=-1)), score=lambda x: -x)
    with pytest.warns(xps.core.errors.DivergenceWarning):
        xps.sample(wall, KERNEL, np.zeros((4, 2)), 400, seed=1, progress=True, burn_in=20)
    assert ", diverged " in capsys.readouterr().err


@pytest.mark.parametrize("shape", [(1,), (3,), (1, 3), (2, 1, 3)])
def test_the_bar_of_any_number_of_chains(shape, capsys):
    pytest.importorskip("tqdm")
    target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1))
    xps.sample(target, xps.RWM(0.5), np.zeros(shape), 20, seed=1, progress=True)
    assert "accepts" in capsys.readouterr().err


def test_a_notebook_without_ipywidgets_has_the_bar_of_terminals(monkeypatch, capsys):
    pytest.importorskip("tqdm")
    for name in [name for name in sys.modules if name.startswith(("tqdm.auto", "tqdm.notebook", "ipywidgets"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    for name in ("ipykernel", "ipykernel.zmqshell"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=object))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(20, progress=None)
    assert "accepts" in capsys.readouterr().err
    assert not [w for w in caught if "IProgress" in str(w.message)]
