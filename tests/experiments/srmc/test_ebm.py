"""The energy-model experiment in its quick size; its sampler, its classifier, and what it counts."""

import math

import numpy as np
import pytest

from xpsample import SRMC, Draws, FiniteDifference, PowerLaw, Replay, Target, sample
from xpsample.experiments.clipped_langevin import ClippedLangevin
from xpsample.experiments.digits import Digits, classify, load_digits
from xpsample.experiments.mnist_ebm import load_parameters, mnist_ebm
from xpsample.experiments.srmc.ebm import measures, model, uniform_measures

RUN = "srmc-ebm"


def test_table(rows):
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
