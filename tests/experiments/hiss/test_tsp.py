"""The hiss-tsp experiment in its quick size, through the command line."""

import csv
import importlib.util
import json

import numpy as np
import pytest

from xpsample.cli import main
from xpsample.experiments.hiss.tsp import lengths_of, samplers

NAMES = [
    "GWG",
    "DMALA",
    "ACS",
    "PT+DMALA",
    "HiSS",
    "single flip",
    "uniform proposals",
    "2-opt",
    "independent draws",
    "uniform tours",
]


RUN = "hiss-tsp"
NEEDS = ("data",)


def test_table(out, rows):
    rows = {row["sampler"]: row for row in rows}
    assert list(rows) == NAMES
    # A change of one place leaves a city out, so these two cannot leave the start.
    for name in ("GWG", "single flip"):
        assert (rows[name]["moved"], rows[name]["unique"]) == (0.0, 3)
    two_opt = rows["2-opt"]
    assert two_opt["moved"] > 0.1 and two_opt["unique"] > 3
    assert 191.85 - 1e-6 < two_opt["best"] < two_opt["final"] + 1e-9
    assert rows["independent draws"]["best"] < 191.86 and 350 < rows["uniform tours"]["cost"] < 440
    assert all(row["best"] <= row["cost"] for row in rows.values())
    with open(out / "results.csv", newline="") as file:
        assert [row["sampler"] for row in csv.DictReader(file)] == NAMES


def test_report(out):
    text = (out / "report.txt").read_text()
    assert "277.9 +- 19.8" in text and "the shortest has 191.85" in text and "uniform random tours" in text
    assert "2-opt ends with the shortest tours" in text
    assert (out / "plot.png").exists() == (importlib.util.find_spec("matplotlib") is not None)


def test_other_cities_have_no_figures_of_the_paper(tmp_path, data_folder):
    assert main(["run", "hiss-tsp", "--quick", "--cities", "eil10", "--samples", "2", "--out", str(tmp_path)]) == 0
    rows = json.loads((tmp_path / "results.json").read_text())
    assert "eil10: 3 chains" in (tmp_path / "report.txt").read_text()
    assert all(row["paper"] == "" for row in rows)


def test_samplers_make_as_many_inner_steps():
    for sampler in samplers(400).values():
        assert 40 % sampler.inner == 0


def test_lengths_are_of_closed_tours(data_folder):
    data = np.load(data_folder / "tsp_eil.npz", allow_pickle=False)
    length = lengths_of(data["eil14_opt_tour"].astype(int), data["eil14"].astype(float))
    assert length == pytest.approx(float(data["eil14_opt_length"]), rel=1e-12)


def test_without_data_one_line_says_what_is_missing(monkeypatch, capsys):
    monkeypatch.delenv("XPSAMPLE_DATA", raising=False)
    assert main(["run", "hiss-tsp", "--quick"]) != 0
    assert "set XPSAMPLE_DATA" in capsys.readouterr().err
