"""What a summary shows: rows that are bad, states of discrete spaces, and the findings below the table."""

import numpy as np
import pytest

import xpsample as xps
from xpsample.trace import stored
from xpsample.zoo.gaussian import gaussian

TARGET = gaussian(np.eye(2))
STARTS = np.random.default_rng(0).normal(size=(4, 2))


def summary(kernel, draws, x0=STARTS, target=TARGET):
    return xps.sample(target, kernel, x0, draws, seed=1, progress=False).summary()


def row(found, name):
    return next(line for line in str(found).splitlines() if line.startswith(name))


def test_a_good_run_has_no_warnings():
    found = summary(xps.HMC(0.3, 4), 1000)
    assert found.findings == () and found.warnings == ()
    assert "warning" not in str(found) and "!" not in str(found)


def test_hmc_in_resonance_does_not_look_good():
    """Half a turn each step: x is about -x, so means are exact and nothing else is."""
    found = summary(xps.HMC(0.1, 31), 1000)
    assert np.all(found.ess_bulk > 4000)
    assert np.all(found.ess_tail < 100)
    assert any("swing from side to side" in text and "x[0]" in text and "x[1]" in text for text in found.warnings)
    assert "\nwarning: ess_bulk above the 4000 draws" in str(found)
    assert row(found, "x[0]").endswith("! rhat, ess_tail")


def test_chains_that_do_not_move():
    found = summary(xps.RWM(1e9), 100)
    assert np.all(np.isnan(found.ess_bulk)) and np.all(np.isnan(found.mcse))
    assert np.all(np.isinf(found.rhat))
    assert [f.kind for f in found.findings] == ["stuck"]
    assert row(found, "x[0]").split()[4:6] == ["-", "-"] and row(found, "x[0]").endswith("! constant, rhat")


def test_too_few_draws():
    found = summary(xps.RWM(1.0), 9)
    assert np.all(np.isnan(found.ess_bulk))
    assert found.warnings == ("9 draws are too few for an ESS: 10 or more are needed",)
    assert row(found, "x[0]").count("too few") == 2


def test_few_effective_draws_and_draws_that_are_not_finite():
    trace = xps.sample(TARGET, xps.RWM(0.3), STARTS, 200, seed=1, progress=False)
    found = trace.summary()
    assert any(text.startswith("ess_bulk below 400, ") for text in found.warnings)
    trace.draws[7, 0, 1] = np.inf
    found = trace.summary()
    assert any(text.startswith("draws that are not finite in x[1]") for text in found.warnings)
    assert row(found, "x[1]").endswith("! not finite")


def test_states_are_states_and_not_numbers():
    """Two chains that stay in states 0 and 2, and two in state 1: all have mean 1, and no state's frequency agrees."""
    rng = np.random.default_rng(0)
    space = xps.Categorical([0.0, 1.0, 2.0])
    target = xps.Target(lambda x: 0.0 * x[..., 0], space=space)
    trace = xps.sample(target, xps.Gibbs(), np.zeros((4, 1)), 400, seed=1, progress=False)
    assert trace.summary().names == ("x[0]=0", "x[0]=1", "x[0]=2")
    np.testing.assert_allclose(trace.summary().mean, 1 / 3, atol=0.1)
    assert not any(f.kind == "rhat" for f in trace.diagnose())
    trace.draws[:, :2, 0] = 2.0 * (rng.random((400, 2)) < 0.5)
    trace.draws[:, 2:, 0] = 1.0
    for found in (trace.summary().findings, trace.diagnose()):
        (rhat,) = (f for f in found if f.kind == "rhat")
        assert rhat.value == np.inf and rhat.coordinates[0] == "x[0]=1"


@pytest.mark.parametrize(
    ("space", "kernel"), [(xps.Real(), xps.RWM(0.5)), (xps.Categorical([0.0, 1.0, 2.0]), xps.Gibbs())]
)
def test_columns_that_are_worked_on_one_by_one_keep_their_names(space, kernel, monkeypatch):
    trace = xps.sample(xps.Target(lambda x: 0.0 * x[..., 0], space=space), kernel, np.zeros((4, 3)), 40, seed=1)
    whole = trace.summary()
    monkeypatch.setattr(stored, "WORKED", 1)
    cut = trace.summary()
    assert cut.names == whole.names
    np.testing.assert_allclose(cut.mean, whole.mean, rtol=1e-12)


def test_a_data_frame_has_the_table():
    pytest.importorskip("pandas")
    found = summary(xps.MALA(0.5), 200, np.stack([STARTS, STARTS + 1]))
    frame = found.to_dataframe()
    assert list(frame.columns) == ["mean", "sd", "mcse", "ess_bulk", "ess_tail", "rhat"]
    assert frame.loc[(1, "x[0]"), "sd"] == found.sd[1, 0]
    alone = summary(xps.MALA(0.5), 200)
    assert list(alone.to_dataframe().index) == ["x[0]", "x[1]"]


def test_notebooks_show_bad_rows_in_bold():
    html = summary(xps.MALA(1e-6), 200)._repr_html_()
    assert html.count("font-weight: bold") == 2
    assert "<td>rhat, ess_bulk, ess_tail</td>" in html
    assert "<li>acceptance probability 1" in html
    assert "bold" not in summary(xps.HMC(0.3, 4), 1000)._repr_html_()
