"""The srmc-mse experiment in its quick size, through the command line, and its pieces."""

import csv
from types import SimpleNamespace

import numpy as np
import pytest

import xpsample as xps
from xpsample.experiments.srmc.mse import ALPHAS, Curve, RunningMean, equal_work, plot
from xpsample.trace.recorders import Record
from xpsample.zoo.gaussian import gaussian

SWEEPS = [
    ("gaussian", "MALA", 1.0),
    ("gaussian", "HMC", 1.0),
    ("gaussian", "HMC", 0.03),
    ("equicorrelated", "MALA", 1.0),
    ("equicorrelated", "HMC", 1.0),
    ("equicorrelated", "HMC", 0.03),
    ("logistic", "MALA", 1.0),
    ("logistic", "MALA", 0.3),
    ("logistic", "HMC", 1.0),
    ("logistic", "HMC", 0.03),
]


RUN = "srmc-mse"


def of(rows, target, kernel, scale, alpha):
    found = [r for r in rows if (r["target"], r["kernel"], r["scale"], r["alpha"]) == (target, kernel, scale, alpha)]
    assert len(found) == 1
    return found[0]


def test_a_row_for_every_sweep_and_alpha(out, rows):
    found = [(r["target"], r["kernel"].removeprefix("SR-"), r["scale"], r["alpha"]) for r in rows]
    assert found == [(*sweep, alpha) for sweep in SWEEPS for alpha in ALPHAS]
    assert all((r["kernel"][:3] == "SR-") == (r["alpha"] > 0) for r in rows)
    assert {r["place"] for r in rows} == {"numpy-cpu-float64"}
    with open(out / "curves.csv", newline="") as file:
        points = list(csv.DictReader(file))
    assert len(points) == 70 * len(rows)
    assert (points[69]["steps"], float(points[69]["mse"])) == ("420", rows[0]["mse"])


def test_costs_are_those_of_the_documentation(rows):
    expected = {"MALA": 1, "SR-MALA": 3, "HMC": 10, "SR-HMC": 21}
    longer = expected | {"HMC": 20, "SR-HMC": 41}  # L = 20
    for r in rows:
        assert r["evaluations_per_step"] == (longer if r["target"] == "equicorrelated" else expected)[r["kernel"]]


def test_without_repellence_the_scale_does_not_matter(rows):
    for kernel, scale in (("MALA", 0.3), ("HMC", 0.03)):
        other = of(rows, "logistic", kernel, scale, 0.0)
        for key in ("mse", "median", "acceptance"):
            assert of(rows, "logistic", kernel, 1.0, 0.0)[key] == other[key]


def test_stable_repellence_lowers_the_error(rows):
    assert of(rows, "logistic", "SR-MALA", 0.3, 1.0)["ratio_steps_high"] < 0.5
    assert of(rows, "logistic", "SR-HMC", 1.0, 1.0)["ratio_steps_high"] < 0.5


def test_hmc_runs_away_on_the_gaussian_and_is_counted(rows):
    row = of(rows, "gaussian", "SR-HMC", 1.0, 1.0)
    assert row["far"] == 10 and row["median"] > 1e10
    assert of(rows, "gaussian", "HMC", 1.0, 0.0)["far"] == 0


def test_plot_of_what_has_run_away():
    figures = pytest.importorskip("matplotlib.figure")
    steps = np.arange(1, 6)
    mse = np.outer(1.0 / steps, np.ones(len(ALPHAS)))
    mse[:, -1] = 1e100
    mse[-1, -2] = np.inf
    curve = Curve("gaussian", "HMC", 1.0, steps, mse, 0.2 * mse, np.ones(len(ALPHAS)))
    figure = figures.Figure(layout="constrained")
    plot(figure, SimpleNamespace(shown={"curves": [curve, curve._replace(target="logistic")]}), [])
    assert [axes.get_ylim()[1] for axes in figure.axes] == [30.0, 30.0]
    assert "above the frame" in figure.axes[0].texts[0].get_text()


def test_running_mean_is_over_every_step_past_the_burn_in():
    target, x0 = gaussian(np.eye(2)), np.zeros((3, 2))
    draws = xps.sample(target, xps.MALA(0.5), x0, 40, seed=1, progress=False).draws
    trace = xps.sample(
        *(target, RunningMean(xps.MALA(0.5), 12), x0, 4),
        thinning=10,
        seed=1,
        recorders=(xps.Draws(), Record("mean", lambda state: state.mean)),
        progress=False,
    )
    np.testing.assert_array_equal(trace.draws, draws[9::10])
    expected = [np.zeros((3, 2))] + [draws[12:n].mean(axis=0) for n in (20, 30, 40)]
    np.testing.assert_allclose(trace.recorded["mean"], expected, atol=1e-14)


def test_equal_work_charges_the_dearer_kernel():
    steps = np.arange(1, 101)
    mse = np.stack([1.0 / steps, 0.3 / steps], axis=1)
    curve = Curve("t", "k", 1.0, steps, mse, mse, np.asarray([1.0, 3.0]))
    assert equal_work(curve, 0) == pytest.approx(1.0)
    assert equal_work(curve, 1) == pytest.approx(0.9, rel=1e-3)  # 0.3 times as large, at a third of the steps
