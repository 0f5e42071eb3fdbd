"""sosmc-ebm2d in its quick size; its data, quadrature and optimum against other generators and closed forms."""

import json

import numpy as np
import pytest
from scipy.stats import norm

from xpsample.cli import main
from xpsample.experiments.sosmc import ebm2d_problems as problems
from xpsample.experiments.sosmc.ebm2d import METHODS
from xpsample.experiments.sosmc.ebm2d_figures import ALONG, rows_along
from xpsample.experiments.sosmc.ebm2d_tilts import DRAWS, TILTS, Tilts, tilted

RUN = "sosmc-ebm2d"


def test_table(rows):
    rows = [row for row in rows if row["dataset"] != TILTS]
    assert [(r["method"], r["beta"]) for r in rows] == [(m, b) for m in METHODS for b in (0.25, 1.0)]
    for row in rows:
        assert row["start"] + 0.02 < row["model"] < row["optimum"]
        assert row["loss_optimum"] < row["loss"] < -row["start"]
        if row["method"] != "ImpDiff":  # 200 particles: five standard errors are 0.1; weights keep them at the model
            assert row["particles"] == pytest.approx(row["model"], abs=0.1)
    lagging = [r for r in rows if r["method"] == "ImpDiff"]
    assert all(r["model"] - r["particles"] > 0.03 for r in lagging)


def test_table_of_the_tilts(rows, out):
    own = [row for row in rows if row["dataset"] == TILTS]
    assert [(r["method"], r["beta"]) for r in own] == [(m, b) for m in METHODS for b in (0.25, 1.0)]
    with np.load(out / "curves.npz") as kept:
        for row in own:
            losses = kept[f"{TILTS} {row['method']} {row['beta']:g}"]
            assert losses.shape == (100, DRAWS) and np.all(losses > 0)  # no tilt is below the least
            assert row["above"] == pytest.approx(np.mean(losses[-1]), rel=1e-4)
            # At beta = 1 the tilt has arrived; weighted particles are with it, and the others, in their modes, are not.
            near = abs(row["particles"] - row["model"]) < 0.05
            assert near == (row["method"] != "ImpDiff")


def test_new_chains_along_the_tuning(out):
    """The last of them are the new chains of the end, without their first steps."""
    with np.load(out / "curves.npz") as kept:
        short, paths = kept["moons SOSMC-ULA short"], kept["moons SOSMC-ULA paths"]
    assert short.shape == (ALONG, 2)
    assert short[-1, 0] == pytest.approx(np.mean(problems.lower(paths[8:])), abs=1e-6)
    assert np.all(np.std(short, axis=0) > 0)
    np.testing.assert_array_equal(rows_along(20), [3, 7, 11, 15, 19])


def test_data_are_those_of_scikit_learn():
    made = pytest.importorskip("sklearn.datasets")
    rng = np.random.default_rng(0)
    for ours, theirs in ((problems.moons, made.make_moons), (problems.circles, made.make_circles)):
        np.testing.assert_allclose(ours(101, rng, noise=0.0), theirs(101, shuffle=False)[0], atol=1e-12)
    far, labels = made.make_blobs(3000, centers=problems.CENTRES, cluster_std=0.5, random_state=0)
    near = problems.blobs(3000, rng)
    for k in range(3):  # standard errors are 0.016 of a mean and 0.011 of a standard deviation
        one, other = near[k::3], far[labels == k]
        np.testing.assert_allclose(np.mean(one, axis=0), np.mean(other, axis=0), atol=0.1)
        np.testing.assert_allclose(np.std(one, axis=0), np.std(other, axis=0), atol=0.07)


@pytest.mark.parametrize("name", problems.DATASETS)
def test_standardised_data(name):
    x = problems.DATASETS[name].draw(600, 1)
    np.testing.assert_allclose(np.mean(x, axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(np.std(x, axis=0), problems.DATASETS[name].scale)
    assert np.max(np.abs(x)) < problems.EDGE


def test_the_half_planes():
    """Two and two of them are a plane without a line."""
    x = np.random.default_rng(0).normal(size=(50, 3, 2))
    found = {name: reward(x) for name, reward in problems.REWARDS.items()}
    np.testing.assert_array_equal(found["lower"] + found["upper"], 1)
    np.testing.assert_array_equal(found["left"] + found["right"], 1)
    np.testing.assert_array_equal(found["lower"], x[..., 1] < 0)
    np.testing.assert_array_equal(found["right"], x[..., 0] > 0)


def test_another_half_plane_and_number_of_particles(tmp_path):
    asked = ["--reward", "left", "--data", "moons", "--particles", "100"]
    assert main(["run", "sosmc-ebm2d", "--quick", *asked, "--out", str(tmp_path)]) == 0
    rows = json.loads((tmp_path / "results.json").read_text())
    assert "100 particles" in (tmp_path / "report.txt").read_text()
    assert all(row["start"] + 0.02 < row["model"] < row["optimum"] for row in rows)
    with np.load(tmp_path / "curves.npz") as kept:
        assert {kept[f"moons {method} paths"].shape for method in METHODS} == {(100, 20, 2)}


def test_new_chains_of_all_methods_share_their_starts_and_noise(out):
    with np.load(out / "curves.npz") as kept:
        first = [kept[f"moons {method} paths"][0] for method in METHODS]
    for other in first[1:]:  # one step of 0.005 under models that hardly differ
        np.testing.assert_allclose(other, first[0], atol=0.05)


def test_quadrature_and_draws_of_a_normal_density():
    grid = problems.Grid.of(240)
    first, second = ((grid.points - [0.5, -0.4]) / [0.8, 0.6]).T
    logs = grid.normalised(-0.5 * (first**2 + second**2))
    mass = norm.cdf(0.4 / 0.6)
    # The midpoint rule is off by side^2 / 24 times the slope at the edge, 6e-5.
    assert np.exp(logs) @ problems.lower(grid.points) == pytest.approx(mass, abs=1e-4)
    x = grid.draw(logs, (2, 5000), np.random.default_rng(2))
    # 10,000 draws: five standard errors are 0.022.
    assert np.mean(problems.lower(x)) == pytest.approx(mass, abs=0.022)
    np.testing.assert_allclose(np.mean(x, axis=(0, 1)), [0.5, -0.4], atol=0.04)
    np.testing.assert_allclose(np.var(x, axis=(0, 1)), [0.6402, 0.3602], rtol=0.08)


@pytest.mark.parametrize("beta", [0.25, 1.0, 4.0])
def test_optimum_against_all_masses_of_the_half_plane(beta):
    """Among tilts by a constant on the half-plane, of mass p, the loss is -p + beta KL(p || mass)."""
    mass, p = 0.3, np.arange(1, 100_000) / 100_000
    kl = p * np.log(p / mass) + (1 - p) * np.log((1 - p) / (1 - mass))
    best = np.argmin(beta * kl - p)
    found = problems.optimum(mass, beta)
    np.testing.assert_allclose(found, [p[best], kl[best], beta * kl[best] - p[best]], atol=1e-4)


def test_tilts_of_the_blobs():
    """The start is the blobs' own mixture; the score is the slope."""
    x, theta = np.random.default_rng(0).normal(size=(1, 5, 2)), np.array([[[0.3, -0.7, 0.2]]])
    target, h = tilted(1), 1e-5
    mixture = sum(norm.pdf(x - center, scale=0.5).prod(-1) for center in problems.CENTRES) / 3
    # The mixture without the normalizer of its components, 2 pi sd^2.
    expected = np.log(mixture * 2 * np.pi * 0.25)
    np.testing.assert_allclose(target.log_density(x, 0 * theta), expected, rtol=1e-12)
    tilt = 0.3 * x[..., 0] - 0.7 * x[..., 1] + 0.1 * np.sum(x * x, axis=-1)
    np.testing.assert_allclose(target.log_density(x, theta), expected + tilt, rtol=1e-12)
    for k in range(2):
        step = h * np.eye(2)[k]
        slope = (target.log_density(x + step, theta) - target.log_density(x - step, theta)) / (2 * h)
        np.testing.assert_allclose(target.score(x, theta)[..., k], slope, rtol=1e-6)


@pytest.mark.parametrize("beta", [0.25, 1.0, 4.0])
def test_the_least_loss_of_the_tilts(beta):
    """By a search that knows no gradient; the gap to the best of all distributions stays."""
    minimize = pytest.importorskip("scipy.optimize").minimize
    tilts = Tilts.of(problems.Grid.of(60), problems.lower)
    found = minimize(lambda theta: tilts.reward_and_loss(theta, beta)[1], np.zeros(3), method="Nelder-Mead")
    assert tilts.least(beta) == pytest.approx(found.fun, abs=1e-6)
    mass = tilts.reward_and_loss(np.zeros(3), beta)[0]
    # Two of three blobs, two standard deviations below the line, and one four above: 2/3 Phi(2) + 1/3 Phi(-4).
    assert mass == pytest.approx(2 / 3 * norm.cdf(2) + norm.cdf(-4) / 3, abs=2e-3)
    assert tilts.least(beta) > problems.optimum(mass, beta).loss + 0.001
