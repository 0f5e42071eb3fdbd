"""SRMC: quick runs of its tables, their targets and measures."""

import csv
import json
from argparse import Namespace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binomtest

import xpsample as xps
from xpsample import MALA, ULA, sample
from xpsample.cli import main
from xpsample.core.devices import device_dtypes
from xpsample.experiments.runner import Run, widest
from xpsample.experiments.srmc import problems as problems
from xpsample.experiments.srmc.mse import ALPHAS as MSE_ALPHAS
from xpsample.experiments.srmc.mse import Curve, RunningMean, equal_work, plot
from xpsample.experiments.srmc.strength import EXPERIMENT, METHODS, PAPER_SIZE, REFERENCES, verdicts
from xpsample.experiments.srmc.sweeps import RHO_ALPHAS, RHO_SETTINGS, RHOS, TILT_ALPHAS, TILT_SETTINGS
from xpsample.experiments.srmc.sweeps import TILTS as SWEPT_TILTS
from xpsample.experiments.srmc.tilts import ALPHAS as TILT_STRENGTHS
from xpsample.experiments.srmc.tilts import GUARDS, QUICK, SETTINGS, TILTS, summary
from xpsample.experiments.srmc.wells import ETA, RADIUS, escaped, responsibility, truth, ula_sd, wells, wilson
from xpsample.trace.recorders import Record
from xpsample.zoo.gaussian import gaussian

# ---- problems --------------------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path):
    """A run with seed 4, on NumPy."""
    return Run(None, Namespace(seed=4, out=tmp_path), widest(device_dtypes(["numpy"])))


def test_gaussians_are_those_stated():
    text = problems.decaying_gaussian(4000, 0)
    assert text.trace == pytest.approx(10) and text.start.shape == (4000, 10)
    assert np.linalg.cond(problems.decaying(0.9)) == pytest.approx(135.5, abs=0.05)
    code = problems.equicorrelated_gaussian(4000, 0)
    correlation = np.corrcoef(code.start.T)
    assert code.trace == pytest.approx(20) and correlation.shape == (20, 20)
    # Standard error of a correlation is (1 - 0.9^2) / sqrt(4000) = 0.003; six of them, 190 correlations: 4e-7.
    assert np.max(np.abs(correlation - 0.9 - 0.1 * np.eye(20))) < 0.018
    for problem in (text, code):  # the target is the one that the starts are drawn from
        spectrum = np.linalg.eigvalsh(np.linalg.inv(np.cov(problem.start.T)))
        np.testing.assert_allclose(xps.srmc.spectrum(problem.target, problem.start[:1]), spectrum, rtol=0.25)


def test_logistic_mean_is_that_of_importance_sampling(run):
    problem = problems.logistic(run, 20, 500)
    # Student proposals around the draws' mean: independent of the chain that made the reference.
    rng, nu, n = np.random.default_rng(1), 5, 200_000
    covariance = np.cov(problem.start.T) + 0.05 * np.eye(10)
    root = 1.2 * np.linalg.cholesky(covariance)
    t = rng.standard_normal((n, 10)) / np.sqrt(rng.chisquare(nu, n) / nu)[:, None]
    x = problem.mean + t @ root.T
    bound = problem.target.prepare(x, xps.targets.target.Capability.LOG_DENSITY)
    log_weight = bound.evaluate(x).log_density + 0.5 * (nu + 10) * np.log1p(np.sum(t**2, axis=-1) / nu)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    assert 1 / np.sum(weight**2) > 2000  # effective draws
    mean = weight @ x
    error = np.sqrt(weight**2 @ (x - mean) ** 2)
    # Ten comparisons at five standard errors (those of the reference are smaller by far): 6e-6.
    assert np.all(np.abs(mean - problem.mean) < 5 * error + 0.005)


@pytest.mark.filterwarnings("ignore::xpsample.core.errors.RepellenceWarning")
def test_errors_are_those_of_the_draws(run):
    problem = problems.decaying_gaussian(3, 0)
    kernel = xps.SRMC(xps.MALA(0.05), np.array([[0.0], [1.0]]), tilt=xps.Exact())
    found = problems.errors(run, problem, kernel, run.devices[0], (2,), 50)
    x0 = np.broadcast_to(problem.start, (2, 3, 10)).copy()
    draws = xps.sample(problem.target, kernel, x0, 50, seed=4, progress=False).draws[15:]
    np.testing.assert_allclose(found.squared, np.sum(draws.mean(axis=0) ** 2, axis=-1), rtol=1e-12)
    assert found.cost == 3


def test_intervals_cover_as_often_as_they_say():
    rng = np.random.default_rng(2)
    inside = 0
    for _ in range(300):
        base, ours = rng.chisquare(10, 100), 0.5 * rng.chisquare(10, 100)
        made = problems.compared(ours, base, resamples=500)
        inside += made["low"] <= 0.5 <= made["high"]
    assert 270 <= inside <= 297  # 285 expected of 0.95; both ends are beyond three standard deviations
    same = problems.compared(base, base)
    assert same["ratio"] == same["ratio_median"] == 1.0


def test_broken_chains_are_counted():
    squared = np.array([[0.1, 30.0, problems.HUGE, 0.1]])
    found = problems.Errors(squared, np.array([[0.9, 0.9, 0.0, 0.001]]), squared > 1e9, 1.0, 3.0, None)
    counts = problems.counted(found, (0,), 10.0)
    assert [counts[key] for key in ("far", "stuck", "broken", "diverged")] == [2, 2, 3, 1]


# ---- mean squared errors ---------------------------------------------------------------------------------------------

SWEEPS = [
    (target, kernel, scale)
    for target in ("gaussian", "equicorrelated", "logistic")
    for kernel, scale in (
        ("MALA", 1.0),
        *([("MALA", 0.3)] if target == "logistic" else []),
        ("HMC", 1.0),
        ("HMC", 0.03),
    )
]


def of(found, **labels):
    return [r for r in found if all(r[key] == value for key, value in labels.items())]


def test_mean_squared_errors(quick):
    rows, out = quick("srmc-mse")
    found = [(r["target"], r["kernel"].removeprefix("SR-"), r["scale"], r["alpha"]) for r in rows]
    assert found == [(*sweep, alpha) for sweep in SWEEPS for alpha in MSE_ALPHAS]
    assert all((r["kernel"][:3] == "SR-") == (r["alpha"] > 0) for r in rows)
    assert {r["place"] for r in rows} == {"numpy-cpu-float64"}
    with open(out / "curves.csv", newline="") as file:
        points = list(csv.DictReader(file))
    assert len(points) == 70 * len(rows)
    assert (points[69]["steps"], float(points[69]["mse"])) == ("420", rows[0]["mse"])
    costs = {"MALA": 1, "SR-MALA": 3, "HMC": 10, "SR-HMC": 21}
    longer = costs | {"HMC": 20, "SR-HMC": 41}  # L = 20
    for r in rows:
        assert r["evaluations_per_step"] == (longer if r["target"] == "equicorrelated" else costs)[r["kernel"]]
    # Without repellence the scale does not matter; stable repellence lowers the error; HMC runs away on the Gaussian.
    for kernel in ("MALA", "HMC"):
        same = of(rows, target="logistic", kernel=kernel, alpha=0.0)
        assert len(same) == 2 and len({(r["mse"], r["median"], r["acceptance"]) for r in same}) == 1
    for kernel, scale in (("SR-MALA", 0.3), ("SR-HMC", 1.0)):
        (row,) = of(rows, target="logistic", kernel=kernel, scale=scale, alpha=1.0)
        assert row["ratio_steps_high"] < 0.5
    (row,) = of(rows, target="gaussian", kernel="SR-HMC", scale=1.0, alpha=1.0)
    assert row["far"] == 10 and row["median"] > 1e10
    assert of(rows, target="gaussian", kernel="HMC", scale=1.0, alpha=0.0)[0]["far"] == 0


def test_plot_of_what_has_run_away():
    figures = pytest.importorskip("matplotlib.figure")
    steps = np.arange(1, 6)
    mse = np.outer(1.0 / steps, np.ones(len(MSE_ALPHAS)))
    mse[:, -1] = 1e100
    mse[-1, -2] = np.inf
    curve = Curve("gaussian", "HMC", 1.0, steps, mse, 0.2 * mse, np.ones(len(MSE_ALPHAS)))
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


# ---- strengths -------------------------------------------------------------------------------------------------------


def test_strengths(quick):
    strength, _ = quick("srmc-strength")
    assert len(strength) == 4 * len(METHODS) * len(REFERENCES)
    for target in ("gaussian", "logistic"):
        for kernel, cost in (("MALA", 3), ("HMC", 21)):
            same = of(strength, target=target, kernel=kernel, reference=0.0)
            assert [r["method"] for r in same] == list(METHODS)
            assert len({r["mse"] for r in same}) == 1 and same[0]["ratio"] == 1.0  # alpha = 0 under the same noise
            followed = cost + (target == "logistic")
            assert [r["cost"] for r in same] == [cost, cost, cost, followed, followed]
    for r in strength:
        alpha = {"fixed": 1.0, "capped": 1.0, "warm-up": 0.8}.get(r["method"])
        if alpha is None:  # the guardrail only lowers what the warm-up reaches
            assert r["alpha"] <= 0.8 * r["reference"] * (1 + 1e-12)
        else:
            assert r["alpha"] == pytest.approx(alpha * r["reference"], rel=1e-12)
    assert of(strength, target="logistic", kernel="MALA", method="guarded", reference=100.0)[0]["alpha"] < 79
    # A large fixed strength breaks all chains, and the cap saves them.
    large = of(strength, target="gaussian", kernel="HMC", reference=10.0)
    (fixed,), (capped,) = (of(large, method=method) for method in ("fixed", "capped"))
    assert fixed["broken"] == 10 and fixed["low"] > 1e6
    assert capped["broken"] == 0 and capped["ratio"] < 3


def test_the_papers_size_has_what_the_paper_has_in_numbers(tmp_path, monkeypatch):
    assert PAPER_SIZE.budget == 100_000
    monkeypatch.setitem(EXPERIMENT.settings, "paper", PAPER_SIZE._replace(chains=4, budget=100, reference=50))
    assert main(["run", "srmc-strength", "--paper", "--out", str(tmp_path)]) == 0
    rows = json.loads((tmp_path / "results.json").read_text())
    assert {(r["target"], r["kernel"]) for r in rows} == {("logistic", "HMC")}
    found = [(r["method"], r["reference"]) for r in rows]
    assert found == list(product(("fixed", "warm-up"), (0.0, 2.0, 5.0)))


def test_verdicts_sort_by_the_interval():
    keys = {"place": "p", "target": "t", "kernel": "k", "method": "m", "broken": 0}
    made = [(0.1, 0.5, 0.9), (1.0, 0.5, 1.1), (5.0, 1.2, 3.0)]
    made = [keys | {"reference": a, "low": low, "high": high} for a, low, high in made]
    made[2]["broken"] = 7
    (row,) = verdicts(made)
    assert (row["below"], row["even"], row["above"], row["broken"]) == ("0.1", "1", "5", "5 (7)")


def test_sweeps(quick):
    """Without repellence all are the base kernel; in float64 a small eps is the exact tilt, and a large one is not."""
    sweeps, _ = quick("srmc-sweeps")
    assert len(of(sweeps, sweep="rho")) == len(RHO_SETTINGS) * len(RHOS) * len(RHO_ALPHAS)
    assert len(of(sweeps, sweep="tilt")) == 2 * len(TILT_SETTINGS) * len(SWEPT_TILTS) * len(TILT_ALPHAS)
    for name, cost in {"Exact": 3, "eps = 0.1": 3, "Shift": 3}.items():
        assert {r["cost"] for r in of(sweeps, sweep="tilt", tilt=name, kernel="MALA")} == {cost}
    for kernel in ("MALA", "HMC"):
        found = of(sweeps, sweep="tilt", place="numpy-cpu-float64", kernel=kernel, scale=1.0)
        assert np.ptp([r["mse"] for r in of(found, alpha=0.0)]) < 1e-12
        one = {r["tilt"]: r["mse"] for r in of(found, alpha=1.0)}
        assert one["eps = 1e-5"] == pytest.approx(one["Exact"], rel=0.05)
        assert one["eps = 1"] > 2 * one["Exact"]


# ---- tilts -----------------------------------------------------------------------------------------------------------


def test_tilts(quick):
    """A tilt that the accept step alone sees breaks no chain where others break all."""
    rows, out = quick("srmc-tilts")
    count = {
        target: sum(starts * (len(scales) * tilts + len(GUARDS)) for _, scales in SETTINGS[target].values())
        for target, starts, tilts in (("logistic", 2, len(TILTS)), ("gaussian", 1, 2))
    }
    assert len(rows) == sum(count.values()) * len(TILT_STRENGTHS)
    assert {row["draws"] for row in rows} == {QUICK.draws}
    for row in rows:
        assert row["least"] <= row["low"] <= row["ratio"] <= row["high"] <= row["largest"]
    costs = {(row["kernel"], row["tilt"]): row["cost"] for row in rows}
    assert [costs["MALA", tilt] for tilt in ("Exact", "Shift", "Untilted", "capped")] == [3, 3, 1, 4]
    assert [costs["HMC", tilt] for tilt in ("Exact", "Shift", "Untilted", "capped")] == [21, 12, 10, 22]
    strong = of(rows, target="logistic", alpha=30, scale=1)
    broken = {(row["kernel"], row["start"], row["tilt"]): row["broken"] for row in strong}
    for case in product(("MALA", "HMC"), ("target", "prior")):
        assert broken[*case, "Exact"] == 1 and broken[*case, "Untilted"] == 0
    ratios = np.load(out / "ratios.npz")["logistic MALA 1 prior Exact"]
    assert ratios.shape == (QUICK.draws, len(TILT_STRENGTHS))


def test_summary_by_hand():
    broken = np.zeros((4, 5), dtype=bool)
    broken[1, :2] = True
    found = summary(np.asarray([0.5, 0.7, 2.0, 0.1]), broken)
    assert found["ratio"] == pytest.approx(0.6) and (found["least"], found["largest"]) == (0.1, 2.0)
    assert (found["below"], found["draws"], found["draws_broken"]) == (3, 4, 1)
    assert (found["broken"], found["most_broken"]) == (0.1, 0.4)


# ---- wells -----------------------------------------------------------------------------------------------------------


def test_wells(quick):
    rows, _ = quick("srmc-wells")
    assert [row["sampler"] for row in rows] == ["ULA", "SR-ULA Exact", "SR-ULA Shift"]
    for row in rows:
        assert (row["backend"], row["dtype"]) == ("numpy", "float64")
        shares = [row[f"escaped_{n}"] for n in (1000, 2000, 3000, 4000)]
        assert shares == sorted(shares)
        assert row["escaped_4000_low"] <= row["escaped_4000"] <= row["escaped_4000_high"]
        assert row["escaped_4000"] <= row["naive_4000"]
        assert -2.5 < row["mean_x1"] < 3
    assert rows[0]["naive_4000"] < 0.2  # ULA stays for long
    assert max(row["naive_4000"] for row in rows[1:]) > 0.9  # SR-ULA does not


def test_escape_needs_more_than_the_right_side():
    x = np.array([[-2.0, 0], [0.5, 0], [1.0, 0], [2.1, 0], [2.1, 2.0], [2.1, 3.0], [2 + 1.01 * RADIUS, 0]])
    np.testing.assert_array_equal(escaped(x), [False, False, False, True, True, False, False])


def test_responsibility_is_bayes_rule():
    x = np.random.default_rng(0).standard_normal((5, 2)) * 2
    wide = 0.2 * np.exp(-0.5 * np.sum((x - [2, 0]) ** 2, axis=-1)) / (2 * np.pi)
    density = np.exp(wells().prepare(x, MALA(1.0).requires).evaluate(x).log_density)
    np.testing.assert_allclose(responsibility(x), wide / density, rtol=1e-9)
    np.testing.assert_allclose(responsibility(np.array([[1e4, 0.0], [-2.0, 0.0]])), [1.0, 0.0], atol=0.01)


def test_truth_is_the_targets():
    exact = truth()
    assert abs(exact["in_wide"] - 0.2) < 0.005 and abs(exact["near_1"] - 0.24) < 0.02


def test_wilson():
    for count in (0, 5, 50):
        expected = binomtest(count, 50).proportion_ci(method="wilson")
        np.testing.assert_allclose(wilson(count, 50), (expected.low, expected.high), rtol=1e-6, atol=1e-12)
    assert wilson(0, 100)[0] == 0 and wilson(100, 100)[1] == 1


def test_ula_bias():
    sd = 0.18
    trace = sample(gaussian(sd**2 * np.eye(2)), ULA(ETA), np.zeros((500, 2)), 100, seed=0, burn_in=50, progress=False)
    np.testing.assert_allclose(np.std(trace.draws), ula_sd(sd), rtol=0.01)
