"""The HiSS experiments on few states in their quick size, what they count, and what each has beside."""

import numpy as np
import pytest

from xpsample.experiments.hiss.bernoulli import SCALES, random_bits
from xpsample.experiments.hiss.ising import model
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
from xpsample.metrics.discrete import exact_probabilities, prominent_states

SAMPLERS = ["GWG", "DMALA", "ACS", "ACS, tuned", "PT+DMALA, steps", "PT+DMALA, draws", "HiSS"]
SAMPLERS += ["HiSS-GK", "HiSS-GK, 0.9", "HiSS, no MH", "HiSS, L = 0", "single flip", "Gibbs", "uniform proposals", IID]


@pytest.fixture(scope="module", params=["hiss-bernoulli", "hiss-ising"])
def out(request, quick_run):
    """A quick run of each, with no library named."""
    return quick_run(request.param)


def test_table(rows):
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


def test_evaluations_are_those_of_the_papers_count(rows):
    rows = {row["sampler"]: row for row in rows}
    inner = rows["DMALA"]["score"]
    assert rows["GWG"]["nfe"] == rows["DMALA"]["nfe"] == rows["ACS"]["nfe"] == 4 * inner
    assert rows["PT+DMALA, steps"]["nfe"] == rows["PT+DMALA, draws"]["nfe"] == 5 * 4 * inner
    assert rows["HiSS"]["nfe"] == 4 * inner + 4 * inner / 2  # a denoising proposal for every two refinements
    assert rows["HiSS, L = 0"]["score"] == rows["single flip"]["score"] == rows["uniform proposals"]["score"] == 0


def test_hiss_bernoulli_has_a_row_for_each_scale(out):
    if "Kaufman" in (text := (out / "report.txt").read_text()):
        pytest.skip("of hiss-bernoulli")
    lines = text.splitlines()
    begin = lines.index("HiSS with other scales, 10 chains, 40 draws") + 3
    found = [[float(cell) for cell in line.replace("+-", "").split()] for line in lines[begin : begin + len(SCALES)]]
    assert [row[0] for row in found] == list(SCALES)
    acceptances = [row[3] for row in found]  # small noise is taken away again, and brings the state back
    assert 1 > acceptances[0] > 2 * acceptances[-1] > 0


def test_hiss_ising_has_energies_of_the_lattice(out):
    lattice = (out / "report.txt").read_text().partition("Energy per site")[2]
    if not lattice:
        pytest.skip("of hiss-ising")
    assert [line.split()[1] for line in lattice.splitlines() if line.startswith("DMALA")] == ["60"]  # 3 draws of 20


def test_random_bits():
    bits = random_bits(0, 100, 4)
    assert bits.shape == (100, 4) and set(np.unique(bits)) == {0.0, 1.0}
    assert abs(np.mean(bits) - 0.5) < 5 * 0.5 / 20


def test_the_ising_model_has_32_prominent_states():
    exact = exact_probabilities(model(), 9)
    among = prominent_states(exact)
    assert np.sum(among) == 32 and np.sum(exact[among]) > 0.999


def test_the_least_leaves_independent_draws_out():
    rows = [{"backend": "a", "sampler": name, "tvd": tvd} for name, tvd in ((IID, 0.1), ("HiSS", 0.3), ("DMALA", 0.2))]
    rows.append({"backend": "b", "sampler": "Gibbs", "tvd": 0.0})  # the conclusion is about the first backend
    line = best_sampler(rows, "tvd", "TVD")
    assert line == f"least TVD of a sampler: DMALA with 0.200; HiSS 0.300, {IID} 0.100"


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
