"""SRMC on images: quick runs, energy models, machines, and what is counted."""

import math

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import softmax

import xpsample as xps
from xpsample import SRMC, ULA, Draws, FiniteDifference, PowerLaw, Replay, Target, sample
from xpsample.core.errors import CheckpointError
from xpsample.experiments.clipped_langevin import ClippedLangevin
from xpsample.experiments.data import load_dataset
from xpsample.experiments.digits import Digits, classify, load_digits
from xpsample.experiments.mnist_ebm import load_parameters, mnist_ebm
from xpsample.experiments.srmc import modes
from xpsample.experiments.srmc.digits import ALPHAS as DIGIT_ALPHAS
from xpsample.experiments.srmc.digits import CONTROLS, ROWS
from xpsample.experiments.srmc.ebm import measures, model, uniform_measures
from xpsample.experiments.srmc.rbm_training import train_rbm
from xpsample.metrics.discrete import exact_probabilities, total_variation
from xpsample.spaces import Binary
from xpsample.zoo.mixture import gaussian_mixture
from xpsample.zoo.rbm import rbm

# ---- modes -----------------------------------------------------------------------------------------------------------


def test_modes(quick):
    rows, out = quick("srmc-modes")
    found = {(row["pixels"], row["noise"], row["sampler"]): row for row in rows}
    assert len(found) == 10
    for row in rows:
        assert 1 <= row["held"] <= row["by_100"] <= 100
    # Where wells overlap many are visited, with and without repellence; with 250 sigma between them none but the start.
    for sampler in ("ULA", "SR-ULA"):
        assert found["[0, 1]", 1.0, sampler]["by_100"] > 40
        assert found["[0, 255]", 1.0, sampler]["by_100"] == 1
        assert found["[0, 255]", 1.0, sampler]["balls"] <= 1  # a tenth of states lie outside, in 99 dimensions
        assert found["[0, 1]", 0.01, sampler]["balls"] == 100
    assert found["[0, 1]", 1.0, "ULA"]["shift"] == 0 < found["[0, 1]", 1.0, "SR-ULA"]["shift"] < 2
    ablation = (out / "report.txt").read_text().partition("modes by alpha and eps")[2].splitlines()[3:]
    found = [tuple(map(float, line.split()[1:3])) for line in ablation[: len(modes.ALPHAS) + len(modes.EPSILONS)]]
    assert found == [(alpha, 0.001) for alpha in modes.ALPHAS] + [(modes.ALPHA, eps) for eps in modes.EPSILONS]


def test_the_reduced_chain_is_that_of_all_pixels(data_folder):
    """ULA on all 3,072 pixels, and on the span of the centres with the same noise in the coordinates of the span."""
    data = load_dataset("cifar10_1000")
    order = np.argsort(data["labels"], kind="stable").reshape(10, -1)[:, :2].ravel()
    pixels, small = data["images"][order].reshape(20, -1) / 255.0, modes.centres(20)
    centred = pixels - pixels.mean(axis=0)
    basis = np.linalg.lstsq(small, centred, rcond=None)[0]  # rows: the coordinates' directions in pixels
    np.testing.assert_allclose(basis @ basis.T, np.eye(19), atol=1e-10)
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((30, 4, 3072))
    target = gaussian_mixture(np.ones(20), pixels, modes.SIGMA)
    full = sample(
        target, ULA(modes.ETA), np.repeat(pixels[9:10], 4, axis=0), 30, seed=Replay({"proposal": noise}), progress=False
    ).draws
    reduced_target, kernel = modes.target_and_kernel(small, 1.0, 0.0)
    start = np.repeat(small[9:10], 4, axis=0)
    reduced = sample(
        reduced_target, kernel, start, 30, seed=Replay({"proposal": noise @ basis.T}), progress=False
    ).draws
    np.testing.assert_allclose((full - pixels.mean(axis=0)) @ basis.T, reduced, atol=1e-9)
    nearest = np.argmin(cdist(full.reshape(120, -1), pixels), axis=-1)
    assert len(np.unique(nearest)) > 5
    np.testing.assert_array_equal(nearest, np.argmin(cdist(reduced.reshape(120, -1), small), axis=-1))


@pytest.mark.parametrize("noise", [1.0, 0.1])
def test_the_tempered_run_is_the_papers_recursion_with_less_noise(noise):
    """Algorithm 3 written out: forward differences along theta, and noise of variance 2 eta T."""
    rng = np.random.default_rng(1)
    means, xi = 3 * rng.standard_normal((6, 4)), rng.standard_normal((25, 2, 4))
    eps = 1e-3

    def score(x):
        p = softmax(-0.5 * np.sum((x[:, None, :] - means) ** 2, axis=-1) / modes.SIGMA**2, axis=-1)
        return (p @ means - x) / modes.SIGMA**2

    x, theta, expected = np.repeat(means[2:3], 2, axis=0), np.zeros((2, 4)), []
    for n in range(25):
        s = score(x)
        tilted = s - modes.ALPHA * (score(x + eps * theta) - s) / eps
        x = x + modes.ETA * tilted + np.sqrt(2 * modes.ETA * noise) * xi[n]
        theta = theta + (n + 2) ** -0.6 * (score(x) - theta)
        expected.append(x)
    target, kernel = modes.target_and_kernel(means, noise, modes.ALPHA)
    start = np.repeat(means[2:3], 2, axis=0)
    trace = sample(target, kernel, start, 25, seed=Replay({"proposal": xi}), progress=False)
    np.testing.assert_allclose(trace.draws, expected, atol=1e-9)
    np.testing.assert_allclose(trace.state.theta * noise, theta, atol=1e-9)
    # The tilt is large enough to be seen: without it the chain is another one.
    base = sample(target, kernel.base, start, 25, seed=Replay({"proposal": xi}), progress=False).draws
    assert np.abs(base - trace.draws).max() > 1e-3


def test_what_is_recorded(library):
    rng = np.random.default_rng(2)
    means, x = rng.standard_normal((7, 3)), rng.standard_normal((2, 5, 3)) * 8
    means = means - means.mean(axis=0)

    class State:
        class point:
            pass

    State.point.x = library.array(x)
    row = {k: library.host(v) for k, v in modes.recorder(library.array(means)).function(State).items()}
    squared = np.sum((x[..., None, :] - means) ** 2, axis=-1)
    np.testing.assert_array_equal(row["nearest"], np.argmin(squared, axis=-1))
    np.testing.assert_allclose(
        row["share"], np.max(softmax(-0.5 * squared / modes.SIGMA**2, axis=-1), axis=-1), rtol=1e-9
    )
    np.testing.assert_array_equal(row["balls"], np.sum(squared < 3 * (1.1 * modes.SIGMA) ** 2, axis=-1))


def test_maxima_of_two_normals_and_the_correction_in_a_single_well():
    """Two maxima beyond two sigma; of one normal the Hessian is -1 / sigma^2, so the ratio is theta's over x's norm."""
    for distance, maxima in ((1.9, 1), (2.1, 2)):
        assert modes.local_maxima(np.array([[0.0, 0.0], [distance, 0.0]]), 1.0, tolerance=1e-9) == maxima
    x, theta = np.random.default_rng(3).standard_normal((2, 2, 5, 4))
    expected = np.linalg.norm(theta, axis=-1) / np.linalg.norm(x, axis=-1)
    np.testing.assert_allclose(modes.correction(np.zeros((1, 4)), x, theta), expected)


# ---- energy model ----------------------------------------------------------------------------------------------------


def test_energy_model(quick):
    rows, _ = quick("srmc-ebm")
    parts = {part: [row for row in rows if row["part"] == part] for part in ("parallel", "single", "seven", "density")}
    assert [len(part) for part in parts.values()] == [4, 4, 4, 5]
    for row in rows[:12]:
        assert 0 <= row["kl"] <= math.log(10) + 1e-9 and 0 <= row["entropy"] <= 1 and 1 <= row["covered"] <= 10
        assert row["kl"] == pytest.approx(math.log(10) * (1 - row["entropy"]))
    assert {row["alpha"] for row in parts["single"]} == {0, 1, 10, 30}
    # Twenty steps climb from -17.9 far up, and a 7 stays one.
    assert parts["parallel"][0]["f"] > -3
    assert parts["seven"][0]["covered"] == 1 and parts["seven"][0]["f"] > -0.1
    # The full noise at T = 1 destroys digits, and at T = 1e-4 not within the quick run.
    assert parts["density"][0]["f_digits"] < -10 < -1 < parts["density"][-1]["f_digits"]


def test_the_sampler_is_its_recursion(library):
    rng = np.random.default_rng(0)
    start, xi = rng.uniform(-1, 1, (3, 4)), rng.standard_normal((20, 3, 4))
    centre = np.array([-2.0, 0.3, 0.0, 1.5])
    target = Target(None, score=lambda x, c: 0.05 * (c - x), data=centre)
    kernel = ClippedLangevin(step_size=2.0, noise_sd=0.05, limit=0.03)
    trace = sample(
        target,
        kernel,
        library.array(start),
        20,
        seed=Replay({"noise": library.array(xi)}),
        progress=False,
        recorders=(Draws(),),
    )
    x, expected = start, []
    for n in range(20):
        x = np.clip(x + 2.0 * np.clip(0.05 * (centre - x), -0.03, 0.03), -1, 1)
        x = np.clip(x + 0.05 * xi[n], -1, 1)
        expected.append(x)
    np.testing.assert_allclose(library.host(trace.draws), expected, atol=1e-12)
    assert trace.run_statistics.evaluations["score"] == 1


def test_repellence_acts_on_the_score_before_it_is_clipped():
    """On a Gaussian the tilt moves the mean by alpha theta, so the chain is that of a moved target."""
    rng = np.random.default_rng(1)
    start, xi, theta = rng.uniform(-0.5, 0.5, (2, 3)), rng.standard_normal((1, 2, 3)), np.array([0.1, -0.2, 0.0])
    kernel = ClippedLangevin(step_size=2.0, noise_sd=0.05, limit=0.03)
    tilted = SRMC(kernel, 3.0, PowerLaw(0.6), FiniteDifference(0.1, scheme="forward"), theta=np.tile(theta, (2, 1)))
    draws = [
        sample(target, k, start, 1, seed=Replay({"noise": xi}), progress=False, recorders=(Draws(),)).draws
        for target, k in (
            (Target(None, score=lambda x: -0.2 * x), tilted),
            (Target(None, score=lambda x: -0.2 * (x - 3.0 * theta)), kernel),
        )
    ]
    np.testing.assert_allclose(draws[0], draws[1], atol=1e-12)


def test_the_model_without_walls_is_the_target_within_them(data_folder):
    x = np.random.default_rng(2).uniform(-1, 1, (8, 784))
    x[:, ::3] = -1.0
    points = [t.prepare(x, ClippedLangevin().requires).evaluate(x) for t in (model(load_parameters()), mnist_ebm())]
    np.testing.assert_allclose(points[0].score, points[1].score, atol=1e-12)


def test_neighbors_are_those_of_scikit_learn(data_folder):
    train, test = load_digits()
    some = Digits(train.images[:1500], train.labels[:1500])
    x = test.images[:1200].reshape(2, 600, 784)
    found = classify(x, some)
    neighbors = pytest.importorskip("sklearn.neighbors")
    reference = neighbors.KNeighborsClassifier(5, algorithm="brute").fit(some.images, some.labels)
    flat = x.reshape(-1, 784)
    np.testing.assert_allclose(found.votes.reshape(-1, 10), reference.predict_proba(flat), atol=1e-6)
    np.testing.assert_array_equal(found.labels.ravel(), reference.predict(flat))
    np.testing.assert_allclose(found.distance.ravel(), reference.kneighbors(flat, 1)[0][:, 0], rtol=1e-3)
    assert np.mean(classify(test.images, train).labels == test.labels) > 0.91


def test_what_uniform_samples_give():
    """The number of classes among n uniform ones has mean 10 (1 - 0.9^n); measures of one class are extreme."""
    assert uniform_measures(10)["covered"] == pytest.approx(10 * (1 - 0.9**10), abs=0.05)  # 5 standard errors
    assert uniform_measures(100)["kl"] == pytest.approx(9 / 200, rel=0.05)  # chi-squared / 2 n, to first order
    one = measures(np.full((1, 30), 4))
    assert (one["covered"][0], one["tv"][0], one["entropy"][0]) == (1, pytest.approx(0.9), 0)


# ---- digits ----------------------------------------------------------------------------------------------------------


def test_digits(quick):
    rows, out = quick("srmc-digits")
    assert [row["alpha"] for row in rows] == [*DIGIT_ALPHAS, 0.0, 0.0, 0.0, 0.0, 0.0]
    others = [row["sampler"].split()[0] for row in rows[len(DIGIT_ALPHAS) :]]
    assert others == ["all", "single", "PT+GWG", "model,", "model,"]
    assert rows[0]["theta"] == 0.0 and rows[3]["theta"] > rows[2]["theta"] > 0.0
    for row in rows:
        assert 0.0 <= row["kl"] <= np.log(10) + 1e-9 and row["classes"] >= 1
        assert 1.0 - 1e-6 <= row["vendi"] <= 5.0 + 1e-6  # of 5 chains
    assert rows[0]["same_class"] == 1.0  # 100 flips of 784 pixels
    assert np.load(out / "machine.npz")["weights"].shape == (784, 100)
    with np.load(out / "images.npz", allow_pickle=False) as images:
        x, others = images["images"], [images[name] for name in CONTROLS]
    assert x.shape == (1 + ROWS, len(DIGIT_ALPHAS), 5, 784) and set(np.unique(x)) == {0.0, 1.0}
    for way in (x[:, 0], *others):
        assert way.shape == (1 + ROWS, 5, 784) and np.all(way[0] == x[0, 0, 0]) and np.any(way[-1] != way[0])


def test_all_bits_at_once_are_new_draws_of_independent_ones():
    """Where the gradient foretells exactly what a flip changes, every move is accepted and forgets where it was."""
    b = np.array([1.5, -1.0, 0.3])
    target = xps.Target(lambda x: x @ b, score=lambda x: b + 0 * x, space=xps.Binary())
    trace = xps.sample(target, CONTROLS["all bits"], np.ones((2000, 3)), 2, seed=0)
    np.testing.assert_allclose(trace.run_statistics.acceptance_probability, 1.0, atol=1e-5)  # at a finite step size
    # 2,000 pairs: five standard errors of a mean and of a product of deviations are 0.056 and 0.028
    one, other = trace.draws - 1 / (1 + np.exp(-b))
    np.testing.assert_allclose(np.mean(one, axis=0), 0.0, atol=0.056)
    np.testing.assert_allclose(np.mean(one * other, axis=0), 0.0, atol=0.028)


# ---- training of machines --------------------------------------------------------------------------------------------

# Five bits on a ring that like to be equal: no product of bits comes near, and Gibbs sweeps mix.
STATES = Binary().states(5)
P = np.exp(1.5 * np.sum(np.roll(STATES, 1, axis=1) == STATES, axis=1))
P /= P.sum()
RING = STATES[np.random.default_rng(0).choice(32, 2000, p=P)]


def test_the_distribution_is_learned():
    """Ten times nearer to the rows' shares than independent bits are."""
    seen = np.bincount((RING @ 2 ** np.arange(4, -1, -1)).astype(int), minlength=32) / len(RING)
    learned = exact_probabilities(rbm(train_rbm(RING, 6, 3000, seed=0, rate=1.0, batch=200, sweeps=3)), 5)
    independent = np.prod(np.where(STATES == 1, RING.mean(0), 1 - RING.mean(0)), axis=1)
    assert total_variation(learned, seen) < 0.06 < 0.4 < total_variation(independent, seen)


def test_one_seed_is_one_model_on_every_library(library):
    expected = train_rbm(RING, 3, 20, seed=4, batch=10, sweeps=2)
    found = train_rbm(library.array(RING), 3, 20, seed=4, batch=10, sweeps=2)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(library.host(mine), theirs, rtol=1e-9, atol=1e-12)
    assert np.any(train_rbm(RING, 3, 20, seed=5, batch=10, sweeps=2).weights != expected.weights)


def test_another_training_is_refused_by_name(tmp_path):
    """That a stopped one goes on is tested by kills, in `tests/sampling/faults.py`."""
    settings = {"hidden": 3, "updates": 20, "seed": 4, "batch": 10, "checkpoint": tmp_path, "progress": False}
    train_rbm(RING, **settings)
    for changed, named in (({"decay": 0.5}, "kernel decay"), ({"rate": 0.5}, "target data"), ({"seed": 5}, "noise")):
        with pytest.raises(CheckpointError, match=f"the checkpoint of another run .*{named}"):
            train_rbm(RING, **(settings | changed))
