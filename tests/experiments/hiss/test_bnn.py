"""The hiss-bnn experiment in its quick size, through the command line, and its data."""

import numpy as np
import pytest

from xpsample.experiments.hiss.bnn import ENERGIES, PROBLEMS

SHAPES = {
    "breast-cancer": ((455, 30), (114, 30)),
    "compas": ((4937, 13), (1235, 13)),
    "hiv": ((1300, 160), (325, 160)),
    "blog": ((4498, 280), (1384, 280)),
}


RUN = "hiss-bnn"
SAMPLERS = "GWG, DMALA, ACS, PT+DMALA, HiSS, single flip, uniform proposals, random networks"


def test_table(rows):
    both = [{row["sampler"]: row for row in rows if row["energy"] == energy} for energy in ("code", "printed")]
    rows, steeper = both
    assert sum(map(len, both)) == 16
    assert ", ".join(rows) == ", ".join(steeper) == SAMPLERS
    for row in rows.values():
        assert row["rmse"] ** 2 <= -row["log_likelihood"] + 1e-6  # of a mean over networks
        assert 0.1 < row["rmse"] < 1.0
    assert rows["single flip"]["changed"] < 0.02  # 50 flips of 3,201 weights
    assert rows["DMALA"]["changed"] > rows["GWG"]["changed"]
    # 4.55 times steeper: another chain from the same networks.
    assert steeper["DMALA"]["changed"] != rows["DMALA"]["changed"]
    same = [{key: energy["random networks"][key] for key in ("rmse", "train_rmse")} for energy in both]
    assert same[0] == same[1]


@pytest.mark.parametrize(("energy", "scale"), [("code", 100.0), ("printed", 455.0)])
def test_the_scales_of_the_energy(energy, scale):
    """Section 6.4 prints the sum of squared errors, the public code has 100 times their mean."""
    assert ENERGIES[energy](455) == scale


def test_the_constant_is_in_the_table(out):
    constant = next(line for line in (out / "report.txt").read_text().splitlines() if "constant mean" in line)
    assert constant.split() == ["breast-cancer", "constant", "mean", "-0.2350", "0.485"]


@pytest.mark.parametrize("name", PROBLEMS)
def test_data_have_the_shapes_and_ranges_of_the_paper(data_folder, name):
    split = PROBLEMS[name].load()
    assert (split.train_x.shape, split.test_x.shape) == SHAPES[name]
    for array in split:
        assert array.dtype == np.float64 and array.min() >= 0.0 and array.max() <= 1.0
    assert len(split.train_y) == len(split.train_x) and len(split.test_y) == len(split.test_x)


def test_malignant_is_1(data_folder):
    # 212 of 569 tumours are malignant.
    split = PROBLEMS["breast-cancer"].load()
    assert np.sum(split.train_y) + np.sum(split.test_y) == 212


def test_the_papers_figures_on_hiv_are_those_of_a_constant(data_folder):
    split = PROBLEMS["hiv"].load()
    assert -np.mean(split.test_y**2) == pytest.approx(-0.2554, abs=5e-5)  # HiSS: -0.2551
    assert -np.mean((split.test_y - 1.0) ** 2) == pytest.approx(-0.7446, abs=5e-5)  # DMALA, ACS, PT


def test_the_papers_rmse_on_the_training_rows_of_hiv_is_the_mean_squared_error(data_folder):
    """Its Table 5 has 0.7746 for networks that say 1 throughout."""
    error = np.mean((1.0 - PROBLEMS["hiv"].load().train_y) ** 2)
    assert error == pytest.approx(0.7746, abs=2e-3) and error**0.5 == pytest.approx(0.8806, abs=1e-4)
