"""The 1,000-mode experiment in its quick size, its reduction to the span of the centres, and what it counts."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import softmax

from xpsample import ULA, Replay, sample
from xpsample.experiments.data import load_dataset
from xpsample.experiments.srmc.modes import (
    ALPHA,
    ALPHAS,
    EPSILONS,
    ETA,
    SIGMA,
    centres,
    correction,
    local_maxima,
    recorder,
    target_and_kernel,
)
from xpsample.zoo.mixture import gaussian_mixture

RUN = "srmc-modes"


def test_table(rows):
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


def test_the_ablation_has_all_alphas_and_steps(out):
    text = (out / "report.txt").read_text()
    ablation = text[text.index("modes by alpha and eps") :].splitlines()[3:]
    found = [tuple(map(float, line.split()[1:3])) for line in ablation[: len(ALPHAS) + len(EPSILONS)]]
    assert found == [(alpha, 0.001) for alpha in ALPHAS] + [(ALPHA, eps) for eps in EPSILONS]


def test_the_reduced_chain_is_that_of_all_pixels(data_folder):
    """ULA on all 3,072 pixels, and on the span of the centres with the same noise in the coordinates of the span."""
    data = load_dataset("cifar10_1000")
    order = np.argsort(data["labels"], kind="stable").reshape(10, -1)[:, :2].ravel()
    pixels, small = data["images"][order].reshape(20, -1) / 255.0, centres(20)
    centred = pixels - pixels.mean(axis=0)
    basis = np.linalg.lstsq(small, centred, rcond=None)[0]  # rows: the coordinates' directions in pixels
    np.testing.assert_allclose(basis @ basis.T, np.eye(19), atol=1e-10)
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((30, 4, 3072))
    target = gaussian_mixture(np.ones(20), pixels, SIGMA)
    full = sample(
        target, ULA(ETA), np.repeat(pixels[9:10], 4, axis=0), 30, seed=Replay({"proposal": noise}), progress=False
    ).draws
    reduced_target, kernel = target_and_kernel(small, 1.0, 0.0)
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
        p = softmax(-0.5 * np.sum((x[:, None, :] - means) ** 2, axis=-1) / SIGMA**2, axis=-1)
        return (p @ means - x) / SIGMA**2

    x, theta, expected = np.repeat(means[2:3], 2, axis=0), np.zeros((2, 4)), []
    for n in range(25):
        s = score(x)
        tilted = s - ALPHA * (score(x + eps * theta) - s) / eps
        x = x + ETA * tilted + np.sqrt(2 * ETA * noise) * xi[n]
        theta = theta + (n + 2) ** -0.6 * (score(x) - theta)
        expected.append(x)
    target, kernel = target_and_kernel(means, noise, ALPHA)
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
    row = {k: library.host(v) for k, v in recorder(library.array(means)).function(State).items()}
    squared = np.sum((x[..., None, :] - means) ** 2, axis=-1)
    np.testing.assert_array_equal(row["nearest"], np.argmin(squared, axis=-1))
    np.testing.assert_allclose(row["share"], np.max(softmax(-0.5 * squared / SIGMA**2, axis=-1), axis=-1), rtol=1e-9)
    np.testing.assert_array_equal(row["balls"], np.sum(squared < 3 * (1.1 * SIGMA) ** 2, axis=-1))


def test_two_normals_have_two_maxima_when_they_are_more_than_two_sigma_apart():
    for distance, maxima in ((1.9, 1), (2.1, 2)):
        assert local_maxima(np.array([[0.0, 0.0], [distance, 0.0]]), 1.0, tolerance=1e-9) == maxima


def test_the_correction_in_a_single_well():
    """Of one normal the Hessian is -1 / sigma^2, so that the ratio is that of theta and the distance to the centre."""
    rng = np.random.default_rng(3)
    x, theta = rng.standard_normal((2, 2, 5, 4))
    expected = np.linalg.norm(theta, axis=-1) / np.linalg.norm(x, axis=-1)
    np.testing.assert_allclose(correction(np.zeros((1, 4)), x, theta), expected)
