"""The HiSS experiments on few states in their quick size, through the command line, and what they count."""

import csv
import importlib.util

import numpy as np
import pytest

from xpsample.cli import main
from xpsample.experiments.hiss.joint_bernoulli import isolated_modes, joint_bernoulli
from xpsample.experiments.hiss.samplers import (
    IID,
    Settings,
    best_sampler,
    counts_at,
    independent,
    measures,
    samplers,
)
from xpsample.hiss.kernel import HiSS

SAMPLERS = ["GWG", "DMALA", "ACS", "ACS, tuned", "PT+DMALA, steps", "PT+DMALA, draws", "HiSS"]
SAMPLERS += ["HiSS-GK", "HiSS-GK, 0.9", "HiSS, no MH", "HiSS, L = 0", "single flip", "Gibbs", "uniform proposals", IID]


@pytest.fixture(scope="module", params=["hiss-bernoulli", "hiss-ising"])
def out(request, tmp_path_factory):
    """A quick run, with no library named."""
    folder = tmp_path_factory.mktemp("run")
    assert main(["run", request.param, "--quick", "--out", str(folder)]) == 0
    return folder


def test_table(out, rows):
    rows = {row["sampler"]: row for row in rows}
    assert list(rows) == SAMPLERS
    for row in rows.values():
        assert row["backend"] == "numpy-cpu-float64"
        assert 0 <= row["tvd"] <= 1 and 0 <= row["coverage"] <= 1
        # The mean estimate of all chains is nearer than the mean chain: total variation is convex.
        assert row["pooled"] <= row["tvd"] + 1e-12
    # The modes are isolated: HiSS finds them, DMALA does not, and without MH the target is another.
    assert rows["HiSS"]["tvd"] + 5 * rows["HiSS"]["tvd_se"] < rows["DMALA"]["tvd"]
    assert rows["HiSS"]["pooled"] + 0.1 < rows["HiSS, no MH"]["pooled"]
    assert rows[IID]["tvd"] < rows["HiSS"]["tvd"]
    with open(out / "results.csv", newline="") as file:
        assert [row["sampler"] for row in csv.DictReader(file)] == SAMPLERS


def test_evaluations_are_those_of_the_papers_count(rows):
    rows = {row["sampler"]: row for row in rows}
    inner = rows["DMALA"]["score"]
    assert rows["GWG"]["nfe"] == rows["DMALA"]["nfe"] == rows["ACS"]["nfe"] == 4 * inner
    assert rows["PT+DMALA, steps"]["nfe"] == rows["PT+DMALA, draws"]["nfe"] == 5 * 4 * inner
    assert rows["HiSS"]["nfe"] == 4 * inner + 4 * inner / 2  # a denoising proposal for every two refinements
    assert rows["HiSS, L = 0"]["score"] == rows["single flip"]["score"] == rows["uniform proposals"]["score"] == 0


def test_report(out):
    text = (out / "report.txt").read_text()
    assert "the paper" in text and "of a sampler: " in text
    assert (out / "plot.png").exists() == (importlib.util.find_spec("matplotlib") is not None)


def test_the_least_leaves_independent_draws_out():
    rows = [{"backend": "a", "sampler": name, "tvd": tvd} for name, tvd in ((IID, 0.1), ("HiSS", 0.3), ("DMALA", 0.2))]
    rows.append({"backend": "b", "sampler": "Gibbs", "tvd": 0.0})  # the conclusion is about the first backend
    line = best_sampler(rows, "tvd", "TVD")
    assert line == f"least TVD of a sampler: DMALA with 0.200; HiSS 0.300, {IID} 0.100"


@pytest.mark.parametrize("name", ["hiss-bernoulli", "hiss-ising"])
def test_unknown_backend(name, tmp_path, capsys):
    assert main(["run", name, "--quick", "--backend", "nompy", "--out", str(tmp_path)]) == 1
    assert "nompy" in capsys.readouterr().err


def test_all_samplers_make_the_same_inner_steps():
    settings = Settings(step_size=0.2, sweeps=5, refinements=2, scale=4.0, every=4)
    for kernel, thinning in samplers(joint_bernoulli(isolated_modes()), settings).values():
        assert thinning * (kernel.sweeps * 2 if isinstance(kernel, HiSS) else 1) == 10


def test_counts():
    states = np.random.default_rng(0).integers(0, 3, (20, 2, 4))
    counts = counts_at(states, [5, 20], 3)
    for i, mark in enumerate((5, 20)):
        for chain in np.ndindex(2, 4):
            np.testing.assert_array_equal(counts[i][chain], np.bincount(states[(slice(mark), *chain)], minlength=3))


def test_measures_of_two_chains_by_hand():
    exact, counts = np.array([0.5, 0.25, 0.25]), np.array([[4, 0, 0], [0, 2, 2]])
    measured = measures(counts, exact)
    np.testing.assert_allclose(measured["tvd"], [0.5, 0.5])
    np.testing.assert_allclose(measured["logmae"], np.log([1 / 3, 1 / 3]))
    np.testing.assert_allclose(measured["kl"], [np.log(2), np.log(2)])
    np.testing.assert_allclose(measured["coverage"], [1 / 3, 2 / 3])
    np.testing.assert_allclose(measured["pooled"], 0, atol=1e-15)


def test_independent_draws():
    exact = np.array([0.7, 0.2, 0.1])
    shares = np.bincount(independent(exact, 1000, 100, 0).ravel()) / 1e5
    np.testing.assert_allclose(shares, exact, atol=5 * 0.5 / np.sqrt(1e5))
