"""The HiSS experiments in their quick size, through the command line, and what they count."""

import csv
import importlib.util
import itertools
import json
import sys

import numpy as np
import pytest

from xpsample.cli import main
from xpsample.experiments.hiss.criticality import exact_energy, log_partition, start
from xpsample.experiments.hiss.ising import model
from xpsample.experiments.hiss.samplers import IID, Settings, counts_at, independent, measure, samplers
from xpsample.hiss.kernel import HiSS
from xpsample.metrics.discrete import exact_probabilities, prominent_states
from xpsample.zoo.bernoulli import isolated_modes, joint_bernoulli
from xpsample.zoo.ising import internal_energy

SAMPLERS = ["GWG", "DMALA", "ACS", "ACS, tuned", "PT+DMALA", "HiSS", "HiSS-GK", "HiSS, no MH", "HiSS, L = 0"]
SAMPLERS += ["single flip", "Gibbs", IID]


@pytest.fixture(scope="module", params=["hiss-bernoulli", "hiss-ising"])
def out(request, tmp_path_factory):
    """A quick run, with no matplotlib to be had and no library named."""
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib.figure", None)
        patch.delitem(sys.modules, "xpsample.experiments.hiss.plot", raising=False)
        assert main(["run", request.param, "--quick", "--out", str(folder)]) == 0
    return folder


def test_table(out):
    rows = {row["sampler"]: row for row in json.loads((out / "results.json").read_text())}
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


def test_evaluations_are_those_of_the_papers_count(out):
    rows = {row["sampler"]: row for row in json.loads((out / "results.json").read_text())}
    inner = rows["DMALA"]["score"]
    assert rows["GWG"]["nfe"] == rows["DMALA"]["nfe"] == rows["ACS"]["nfe"] == 4 * inner
    assert rows["PT+DMALA"]["nfe"] == 5 * 4 * inner
    assert rows["HiSS"]["nfe"] == 4 * inner + 4 * inner / 2  # a denoising proposal for every two refinements
    assert rows["HiSS, L = 0"]["score"] == rows["single flip"]["score"] == 0


def test_report(out):
    text = (out / "report.txt").read_text()
    assert "the paper" in text and 'pip install "xpsample[plot]"' in text and not (out / "plot.png").exists()
    assert "eta" in text or "Kaufman" in text


def test_plot(tmp_path):
    if importlib.util.find_spec("matplotlib") is None:
        pytest.skip("matplotlib is not installed")
    from xpsample.experiments.hiss.plot import plot

    curves = {name: {"tvd": np.random.default_rng(0).random((3, 5))} for name in ("DMALA", IID)}
    plot(tmp_path / "plot.png", curves, np.array([10, 20, 40]), {"tvd": "TVD"})
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["hiss-bernoulli", "hiss-ising"])
def test_unknown_backend(name, tmp_path, capsys):
    assert main(["run", name, "--quick", "--backend", "nompy", "--out", str(tmp_path)]) == 1
    assert "nompy" in capsys.readouterr().err


def test_all_samplers_make_the_same_inner_steps():
    settings = Settings(step_size=0.2, sweeps=5, refinements=2, scale=4.0, every=4)
    x0 = np.random.default_rng(0).integers(0, 2, (3, 4)) * 1.0
    for kernel, thinning in samplers(joint_bernoulli(isolated_modes()), x0, settings, seed=0).values():
        assert thinning * (kernel.sweeps * 2 if isinstance(kernel, HiSS) else 1) == 10


def test_counts():
    states = np.random.default_rng(0).integers(0, 3, (20, 2, 4))
    counts = counts_at(states, [5, 20], 3)
    for i, mark in enumerate((5, 20)):
        for chain in np.ndindex(2, 4):
            np.testing.assert_array_equal(counts[i][chain], np.bincount(states[(slice(mark), *chain)], minlength=3))


def test_measures_of_two_chains_by_hand():
    exact, counts = np.array([0.5, 0.25, 0.25]), np.array([[4, 0, 0], [0, 2, 2]])
    measured = measure(counts, exact)
    np.testing.assert_allclose(measured["tvd"], [0.5, 0.5])
    np.testing.assert_allclose(measured["logmae"], np.log([1 / 3, 1 / 3]))
    np.testing.assert_allclose(measured["kl"], [np.log(2), np.log(2)])
    np.testing.assert_allclose(measured["coverage"], [1 / 3, 2 / 3])
    np.testing.assert_allclose(measured["pooled"], 0, atol=1e-15)


def test_independent_draws():
    exact = np.array([0.7, 0.2, 0.1])
    shares = np.bincount(independent(exact, 1000, 100, 0).ravel()) / 1e5
    np.testing.assert_allclose(shares, exact, atol=5 * 0.5 / np.sqrt(1e5))


def test_the_model_has_32_prominent_states():
    exact = exact_probabilities(model(), 9)
    among = prominent_states(exact)
    assert np.sum(among) == 32 and np.sum(exact[among]) > 0.999


@pytest.mark.parametrize("k", [0.2, 0.4407, 0.7])
def test_kaufman_is_the_sum_over_states(k):
    spins = np.array(list(itertools.product((-1.0, 1.0), repeat=12)))
    energies = 12 * internal_energy(spins, (3, 4))
    weights = np.exp(-k * energies)
    np.testing.assert_allclose(log_partition(k, 3, 4), np.log(np.sum(weights)), rtol=1e-10)
    np.testing.assert_allclose(exact_energy(k, 3, 4), np.sum(weights * energies) / np.sum(weights) / 12, rtol=1e-6)


def test_start_is_half_cold():
    energy = internal_energy(start(0), (24, 24))
    np.testing.assert_array_equal(energy[:4], -2.0)
    assert np.all(np.abs(energy[4:]) < 5 * np.sqrt(2 / 576))
