"""What a summary warns of."""

import sys

import numpy as np
import pytest

import xpsample as xps
from xpsample.zoo.gaussian import gaussian

TARGET = gaussian(np.eye(2))
STARTS = np.random.default_rng(0).normal(size=(4, 2))


@pytest.fixture(params=["arviz", "no arviz"], autouse=True)
def diagnostics(request, monkeypatch):
    if request.param == "no arviz":
        monkeypatch.setitem(sys.modules, "arviz_stats.base", None)
    else:
        pytest.importorskip("arviz_stats")


def summary(kernel, draws, x0=STARTS):
    return xps.sample(TARGET, kernel, x0, draws, seed=1, progress=False).summary()


def test_a_good_run_has_no_warnings():
    found = summary(xps.HMC(0.3, 4), 1000)
    assert found.warnings == ()
    assert "warning" not in str(found)


def test_hmc_in_resonance_does_not_look_good():
    """Half a turn each step: x is about -x, so means are exact and nothing else is."""
    found = summary(xps.HMC(0.1, 31), 1000)
    assert np.all(found.ess_bulk > 4000)
    assert np.all(found.ess_tail < 100)
    assert any("swing from side to side" in text and "x[0], x[1]" in text for text in found.warnings)
    assert "\nwarning: ess_bulk above the 4000 draws" in str(found)


def test_chains_that_do_not_move():
    found = summary(xps.RWM(1e9), 100)
    assert np.all(np.isnan(found.ess_bulk)) and np.all(np.isnan(found.mcse))
    assert np.all(np.isinf(found.rhat))
    assert found.warnings[0].startswith("no chain moves in x[0], x[1]")


def test_too_few_draws():
    found = summary(xps.RWM(1.0), 9)
    assert np.all(np.isnan(found.ess_bulk))
    assert found.warnings == ("9 draws are too few for an ESS; 10 or more are needed",)


def test_few_effective_draws_and_draws_that_are_not_finite():
    trace = xps.sample(TARGET, xps.RWM(0.3), STARTS, 200, seed=1, progress=False)
    found = trace.summary()
    assert any(text.startswith("ess_bulk below 400") for text in found.warnings)
    trace.draws[3, 0, 1] = np.inf
    assert any(text.startswith("draws that are not finite in x[1]") for text in trace.summary().warnings)
