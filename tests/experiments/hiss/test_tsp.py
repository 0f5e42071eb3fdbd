"""The hiss-tsp experiment in its quick size, through the command line."""

import json

import numpy as np
import pytest

from xpsample import sample
from xpsample.cli import main
from xpsample.experiments.data import load_dataset
from xpsample.experiments.hiss.one_hot_tours import tsp_one_hot
from xpsample.experiments.hiss.tsp import lengths_of, random_tours, samplers
from xpsample.hiss import HiSS
from xpsample.kernels import DMALA

RUN = "hiss-tsp"


def test_table(rows):
    rows = {row["sampler"]: row for row in rows}
    local, free = "GWG, DMALA, ACS, PT+DMALA, HiSS, single flip", "uniform proposals, 2-opt"
    assert ", ".join(rows) == f"{local}, {free}, independent draws, uniform tours"
    # A change of one place leaves a city out, so these two cannot leave the start.
    for name in ("GWG", "single flip"):
        assert (rows[name]["moved"], rows[name]["unique"]) == (0.0, 3)
    two_opt = rows["2-opt"]
    assert two_opt["moved"] > 0.1 and two_opt["unique"] > 3
    assert 191.85 - 1e-6 < two_opt["best"] < two_opt["final"] + 1e-9
    assert rows["independent draws"]["best"] < 191.86 and 350 < rows["uniform tours"]["cost"] < 440
    assert all(row["best"] <= row["cost"] for row in rows.values())


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


def test_refinements_of_fig_17_change_nothing(data_folder):
    """A change costs 1 / alpha = 10,000 in the exponent. So 4,000 of them change no draw, and they are left out."""
    cities = load_dataset("tsp_eil")["eil14"].astype(np.float64)
    x0 = np.eye(14)[random_tours(0, 50, 14)].reshape(50, 196)
    target = tsp_one_hot(cities, relaxation="coordinates", standardized=True)
    with_them, without = (
        sample(target, HiSS(DMALA(1e-4), np.full(50, 0.3), 2, count), x0, 10, seed=1, progress=False)
        for count in (4, 0)
    )
    np.testing.assert_array_equal(with_them.draws, without.draws)


def test_no_scale_finds_a_tour_soon(out):
    table = (out / "report.txt").read_text().partition("Fig. 17")[2]
    assert table.count("104.0    0.052") == 6  # of the three starts
