"""The srmc-strength and srmc-sweeps experiments in their quick sizes, through the command line."""

import json

import numpy as np
import pytest

from xpsample.cli import main
from xpsample.experiments.srmc.strength import EXPERIMENT, METHODS, PAPER_SIZE, REFERENCES, verdicts
from xpsample.experiments.srmc.sweeps import RHO_ALPHAS, RHO_SETTINGS, RHOS, TILT_ALPHAS, TILT_SETTINGS, TILTS


@pytest.fixture(scope="module")
def strength(quick_run):
    return json.loads((quick_run("srmc-strength") / "results.json").read_text())


@pytest.fixture(scope="module")
def sweeps(quick_run):
    return json.loads((quick_run("srmc-sweeps") / "results.json").read_text())


def of(found, **labels):
    return [r for r in found if all(r[key] == value for key, value in labels.items())]


def test_a_row_for_every_strength(strength):
    assert len(strength) == 4 * len(METHODS) * len(REFERENCES)
    for target in ("gaussian", "logistic"):
        for kernel, cost in (("MALA", 3), ("HMC", 21)):
            same = of(strength, target=target, kernel=kernel, reference=0.0)
            assert [r["method"] for r in same] == list(METHODS)
            assert len({r["mse"] for r in same}) == 1 and same[0]["ratio"] == 1.0  # alpha = 0 under the same noise
            followed = cost + (target == "logistic")
            assert [r["cost"] for r in same] == [cost, cost, cost, followed, followed]


def test_the_papers_size_has_what_the_paper_has_in_numbers(tmp_path, monkeypatch):
    assert PAPER_SIZE.budget == 100_000
    monkeypatch.setitem(EXPERIMENT.settings, "paper", PAPER_SIZE._replace(chains=4, budget=100, reference=50))
    assert main(["run", "srmc-strength", "--paper", "--out", str(tmp_path)]) == 0
    rows = json.loads((tmp_path / "results.json").read_text())
    found = [(r["target"], r["kernel"], r["method"], r["reference"]) for r in rows]
    assert found == [("logistic", "HMC", method, alpha) for method in ("fixed", "warm-up") for alpha in (0.0, 2.0, 5.0)]


def test_strengths_are_those_of_the_rules(strength):
    for r in strength:
        alpha = {"fixed": 1.0, "capped": 1.0, "warm-up": 0.8}.get(r["method"])
        if alpha is None:  # the guardrail only lowers what the warm-up reaches
            assert r["alpha"] <= 0.8 * r["reference"] * (1 + 1e-12)
        else:
            assert r["alpha"] == pytest.approx(alpha * r["reference"], rel=1e-12)
    guarded = of(strength, target="logistic", kernel="MALA", method="guarded", reference=100.0)[0]
    assert guarded["alpha"] < 79


def test_a_large_fixed_strength_breaks_and_the_cap_saves_it(strength):
    fixed, capped = (
        of(strength, target="gaussian", kernel="HMC", method=method, reference=10.0)[0]
        for method in ("fixed", "capped")
    )
    assert fixed["broken"] == 10 and fixed["low"] > 1e6
    assert capped["broken"] == 0 and capped["ratio"] < 3


def test_verdicts_sort_by_the_interval():
    keys = {"place": "p", "target": "t", "kernel": "k", "method": "m", "broken": 0}
    made = [(0.1, 0.5, 0.9), (1.0, 0.5, 1.1), (5.0, 1.2, 3.0)]
    made = [keys | {"reference": a, "low": low, "high": high} for a, low, high in made]
    made[2]["broken"] = 7
    (row,) = verdicts(made)
    assert (row["below"], row["even"], row["above"], row["broken"]) == ("0.1", "1", "5", "5 (7)")


def test_a_row_for_every_sweep(sweeps):
    assert len(of(sweeps, sweep="rho")) == len(RHO_SETTINGS) * len(RHOS) * len(RHO_ALPHAS)
    assert len(of(sweeps, sweep="tilt")) == 2 * len(TILT_SETTINGS) * len(TILTS) * len(TILT_ALPHAS)
    for name, cost in {"Exact": 3, "eps = 0.1": 3, "Shift": 3}.items():
        assert {r["cost"] for r in of(sweeps, sweep="tilt", tilt=name, kernel="MALA")} == {cost}


def test_tilts_agree_where_they_must(sweeps):
    """Without repellence all are the base kernel; in float64 a small eps is the exact tilt, and a large one is not."""
    for kernel in ("MALA", "HMC"):
        found = of(sweeps, sweep="tilt", place="numpy-cpu-float64", kernel=kernel, scale=1.0)
        assert np.ptp([r["mse"] for r in of(found, alpha=0.0)]) < 1e-12
        one = {r["tilt"]: r["mse"] for r in of(found, alpha=1.0)}
        assert one["eps = 1e-5"] == pytest.approx(one["Exact"], rel=0.05)
        assert one["eps = 1"] > 2 * one["Exact"]
