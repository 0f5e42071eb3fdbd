"""What a summary shows: rows that are bad, states of discrete spaces, and the findings below the table."""

from html import escape

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import TraceError
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
    assert "\nwarning: chains swing from side to side: ess_bulk exceeds the 4000 draws" in str(found)
    assert row(found, "x[0]").endswith("! rhat, ess_tail")


def test_chains_that_do_not_move():
    found = summary(xps.RWM(1e9), 100)
    assert np.all(np.isnan(found.ess_bulk)) and np.all(np.isnan(found.mcse))
    assert np.all(np.isinf(found.rhat))
    assert [f.kind for f in found.findings] == ["stuck"]
    assert row(found, "x[0]").split()[6:8] == ["-", "-"] and row(found, "x[0]").endswith("! constant, rhat")


def test_too_few_draws_and_draws_that_are_not_finite():
    found = summary(xps.RWM(1.0), 9)
    assert np.all(np.isnan(found.ess_bulk)) and row(found, "x[0]").count("too few") == 2
    assert found.warnings == ("9 draws are too few for an ESS: use 10 or more",)
    trace = xps.sample(TARGET, xps.RWM(0.3), STARTS, 200, seed=1, progress=False)
    assert any(text.startswith("ess_bulk is ") and "(minimum 400)" in text for text in trace.summary().warnings)
    trace.draws[7, 0, 1] = np.inf
    found = trace.summary()
    assert any(text.startswith("draws are not finite in x[1]") for text in found.warnings)
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


def test_notebooks_show_bad_rows_in_bold():
    html = summary(xps.MALA(1e-6), 200)._repr_html_()
    assert html.count("font-weight: bold") == 2
    assert "<td>rhat, ess_bulk, ess_tail</td>" in html
    assert "<li>acceptance probability 1" in html
    assert "bold" not in summary(xps.HMC(0.3, 4), 1000)._repr_html_()


def test_the_interval_has_the_quantiles_of_the_draws():
    pytest.importorskip("pandas")
    trace = xps.sample(TARGET, xps.HMC(0.3, 4), np.stack([STARTS, STARTS + 1]), 201, seed=1, progress=False)
    found = trace.summary()
    np.testing.assert_allclose([found.low, found.high], np.quantile(trace.draws, [0.05, 0.95], axis=(0, 2)), rtol=1e-12)
    frame = found.to_dataframe()
    assert list(frame.columns) == ["mean", "sd", "5%", "95%", "mcse", "ess_bulk", "ess_tail", "rhat"]
    assert frame.loc[(1, "x[0]"), "sd"] == found.sd[1, 0]
    frame = trace.to_dataframe(interval=(0.025, 0.5))
    assert list(frame.columns)[2:4] == ["2.5%", "50%"]
    assert frame.loc[(1, "x[0]"), "50%"] == pytest.approx(np.median(trace.draws[:, 1, :, 0]), rel=1e-12)
    assert "<th>sd</th><th>0%</th><th>100%</th><th>mcse</th>" in trace.summary(interval=(0, 1))._repr_html_()
    trace.draws[3, 0, 1, 0] = np.nan
    assert np.isnan(trace.summary().low).tolist() == [[True, False], [False, False]]
    assert list(summary(xps.MALA(0.5), 200).to_dataframe().index) == ["x[0]", "x[1]"]


@pytest.mark.parametrize("interval", [(0.9, 0.1), (5, 95), (0.5,), 0.9, "ab"])
def test_an_interval_that_is_none_is_refused(interval):
    trace = xps.sample(TARGET, xps.HMC(0.3, 4), STARTS, 20, seed=1, progress=False)
    with pytest.raises(TraceError, match=r"interval must be two increasing probabilities, such as \(0\.05, 0\.95\)"):
        trace.summary(interval=interval)


def test_the_interval_of_an_angle_goes_around_its_mean():
    """Draws near pi, half of them beyond it: their plain quantiles are -pi and pi."""
    rng = np.random.default_rng(0)
    model = xps.Model(lambda p: 0.0 * p.a, a=xps.Circular())
    x0 = model.start(like=np.zeros(0), chains=4, seed=0)
    trace = xps.sample(model, xps.RWM(0.5), x0, 400, seed=1, progress=False)
    angles = np.pi + 0.1 * rng.normal(size=(400, 4))
    trace.draws[:] = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    found = trace.summary()
    assert found.high[0] - found.low[0] == pytest.approx(2 * 1.645 * 0.1, rel=0.1)
    assert found.low[0] < found.mean[0] < found.high[0]


def test_draws_as_a_data_frame():
    """A row for each draw of each chain, with the names of a model's values."""
    pytest.importorskip("pandas")
    model = xps.Model(lambda p: -0.5 * np.sum(p.b**2, axis=-1) - p.s, s=xps.Positive(), b=xps.Real(2))
    trace = xps.sample(model, xps.RWM(0.5), model.start(like=np.zeros(0), chains=3, seed=0), 50, seed=1)
    frame = trace.to_dataframe(draws=True)
    assert list(frame.columns) == ["chain", "draw", "s", "b[0]", "b[1]"] and len(frame) == 150
    at = frame[(frame.chain == 2) & (frame.draw == 17)]
    assert at["s"].item() == trace["s"][17, 2] and at["b[1]"].item() == trace["b"][17, 2, 1]
    groups = xps.sample(TARGET, xps.MALA(0.5), np.stack([STARTS, STARTS + 1]), 20, seed=1).to_dataframe(draws=True)
    assert list(groups.columns) == ["chain_0", "chain_1", "draw", "x[0]", "x[1]"] and len(groups) == 160


def test_a_report_is_one_file_without_a_network(tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    trace = xps.sample(TARGET, xps.MALA(), STARTS, 50, seed=1, progress=False)
    trace.report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert text.count("data:image/png;base64,") == 3 and "http" not in text
    assert all(escape(str(finding)) in text for finding in trace.diagnose())
    assert "<th>5%</th>" in text and "MALA" in text and f"<td>{xps.__version__}</td>" in text
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
