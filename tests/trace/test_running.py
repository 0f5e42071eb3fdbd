"""Figures of running moments and batch means, for runs that keep no draws."""

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import ConvergenceWarning, HyperparameterError, TraceError
from xpsample.trace.running import running
from xpsample.zoo.gaussian import gaussian

TARGET = gaussian(np.diag([1.0, 4.0]))
STARTS = np.random.default_rng(0).normal(size=(4, 2))
RECORDERS = (xps.Moments(), xps.BatchMeans(100))


def run(draws=20_000, x0=STARTS, kernel=None, recorders=RECORDERS, **settings):
    settings = {"seed": 1, "progress": False} | settings
    return xps.sample(TARGET, kernel or xps.RWM(1.5), x0, draws, recorders=recorders, **settings)


@pytest.mark.slow
def test_figures_are_those_of_the_draws(library):
    draws = 5_000 if library.name == "array_api_strict" else 20_000
    trace = run(draws, x0=library.array(STARTS), recorders=(*RECORDERS, xps.Draws()))
    summary, found = trace.summary(), running(trace.recorded.values())
    assert (found.draws, found.chains) == (draws, 4) and found.batch is not None
    _, sd, mixing = found.figures
    np.testing.assert_allclose(sd, summary.sd, rtol=0.02)
    # An ESS of b batches in all has a standard error of sqrt(2 / b): five of them.
    np.testing.assert_allclose(mixing.ess_bulk, summary.ess_bulk, rtol=5 * np.sqrt(2 * 100 / (4 * draws)))
    means, variances = trace.draws.mean(0) if library.backend.name == "numpy" else None, None
    if means is not None:
        variances = trace.draws.var(0, ddof=1)
        expected = np.sqrt(19_999 / 20_000 + means.var(0, ddof=1) / variances.mean(0))
        np.testing.assert_allclose(mixing.rhat, expected, rtol=1e-9)
    assert trace.diagnose() == ()


def test_a_bad_run_without_draws_says_so():
    kernel = xps.RWM(np.array([[1.5], [0.02]]))  # a group that mixes and one that does not
    with pytest.warns(ConvergenceWarning, match=r"R-hat is .* \(limit 1\.01\) in x\[\d\].*, group 1"):
        trace = run(3000, x0=np.stack([STARTS, 3 * STARTS]), kernel=kernel)
    kinds = {finding.kind: finding for finding in trace.diagnose()}
    assert kinds["ess_bulk"].groups == kinds["rhat"].groups == ((1,),) and "ess_tail" not in kinds
    assert {finding.kind for finding in run(3000, recorders=[xps.BatchMeans(100)]).diagnose()} == set()
    few = run(500, recorders=(xps.Moments(), xps.BatchMeans(100)))  # five batches tell no ESS
    assert not {finding.kind for finding in few.diagnose()} & {"ess_bulk", "constant"}


@pytest.mark.slow
@pytest.mark.first_cases(1)
@pytest.mark.parametrize("x0", [STARTS, STARTS[0]], ids=["chains", "one chain"])
def test_batches_that_are_too_short_say_so(x0):
    """Their standard error is 15 times too small, or more, and R-hat may be good, or there may be none."""
    recorders = (xps.Moments(), xps.BatchMeans(2))
    with pytest.warns(ConvergenceWarning, match=r"batches of about 2 draws are too short"):
        trace = run(20_000, x0, xps.RWM(0.2), recorders, until=xps.Until(ess=400))
    kinds = {finding.kind: finding for finding in trace.diagnose()}
    assert kinds["batches"].value > 1.9 and kinds["batches"].coordinates
    assert "ESS 400 (not known)" in kinds["until"].what
    assert any("set the size of BatchMeans to 2" in text for text in trace.summary().warnings)
    assert "batches" not in {f.kind for f in run(20_000, x0, recorders=(xps.Moments(), xps.BatchMeans(100))).diagnose()}


def test_an_r_hat_of_one_chain_is_not_waited_for():
    recorders = (xps.Moments(), xps.BatchMeans(100))
    for x0 in (STARTS[0], STARTS[:1], STARTS[:, None]):
        with pytest.raises(HyperparameterError, match=r"R-hat of Moments\(\), which needs several chains"):
            run(100, x0, recorders=recorders, until=xps.Until(rhat=1.01))


def test_names_of_a_model_and_checkpoints(tmp_path):
    model = xps.Model(lambda p: -0.5 * p.mu**2 - p.tau, mu=xps.Real(), tau=xps.Positive())
    settings = {"seed": 1, "progress": False, "recorders": RECORDERS, "checkpoint": tmp_path}
    x0 = model.start(np.zeros(1), 4, seed=0, scale=3.0)
    trace = xps.sample(model, xps.RWM(0.05), x0, 2000, **settings)
    assert {c for f in trace.diagnose() for c in f.coordinates} == {"mu", "tau"}
    assert xps.load(tmp_path).diagnose() == trace.diagnose()


@pytest.mark.slow
def test_until_looks_at_running_figures(tmp_path):
    until = xps.Until(ess=2000, rhat=1.01)
    trace = run(200_000, until=until)
    steps = trace.run_statistics.steps
    found = running(trace.recorded.values())
    assert 5_000 < steps < 100_000 and found.worst()[0] >= 2000 and found.worst()[1] <= 1.01
    part = run(200_000, until=xps.Until(ess=500), checkpoint=tmp_path).run_statistics.steps
    assert part < steps == run(200_000, until=until, checkpoint=tmp_path).run_statistics.steps
    assert run(200_000, until=xps.Until(rhat=1.05), recorders=[xps.Moments()]).run_statistics.steps < 50_000
    for limits, recorders in ((until, [xps.Moments()]), (xps.Until(rhat=1.1), [xps.BatchMeans(10)])):
        with pytest.raises(HyperparameterError, match=r"Add Draws\(\).* or Moments\(\) for R-hat and BatchMeans"):
            run(until=limits, recorders=recorders)


@pytest.mark.slow
def test_the_summary_of_a_run_without_draws():
    with_draws = run(recorders=(*RECORDERS, xps.Draws())).summary()
    trace = run()
    summary = trace.summary()
    np.testing.assert_allclose(summary.mean, with_draws.mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(summary.sd, with_draws.sd, rtol=1e-9)
    # The variance of 200 batches of each of 4 chains has a relative standard error of sqrt(2 / 800): five of them.
    np.testing.assert_allclose(summary.mcse, with_draws.mcse, rtol=5 * 0.5 * np.sqrt(2 / 800))
    np.testing.assert_allclose(summary.ess_bulk, 4 * trace.recorded["moments"].variance.mean(0) / (4 * summary.mcse**2))
    assert np.all(np.isnan(summary.ess_tail)) and summary.findings == trace.diagnose()
    assert "20000 draws of 4 chains" in str(summary) and "batch means" in str(summary) and "!" not in str(summary)
    with pytest.raises(TraceError, match="omit by"):
        trace.summary(by=())


def test_a_summary_without_batches_and_of_stuck_chains():
    without = run(500, recorders=[xps.Moments()]).summary()
    assert np.all(np.isnan(without.ess_bulk)) and np.all(np.isnan(without.mcse)) and "constant" not in str(without)
    with pytest.warns(ConvergenceWarning):
        stuck = run(2000, kernel=xps.RWM(1e9)).summary()
    assert str(stuck).count("! constant, rhat") == 2 and np.all(np.isnan(stuck.mcse))
    with pytest.warns(ConvergenceWarning):
        groups = run(3000, x0=np.stack([STARTS, 3 * STARTS]), kernel=xps.RWM(np.array([[1.5], [0.02]]))).summary()
    assert groups.mean.shape == (2, 2) and np.all(groups.rhat[1] > 1.1) and np.all(groups.rhat[0] < 1.05)


def test_one_chain_has_no_rhat():
    trace = run(3000, x0=STARTS[0])
    assert np.all(np.isnan(running(trace.recorded.values()).figures.mixing.rhat))
    assert trace.diagnose() == ()
