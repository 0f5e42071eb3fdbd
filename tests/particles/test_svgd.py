"""SVGD and its stochastic form against loops over particles, and the law that each has."""

import math

import numpy as np
import pytest

from xpsample import Replay, sample
from xpsample.core.errors import HyperparameterError
from xpsample.metrics.stein import RBF, InverseMultiquadric, Median, MedianFromPoint
from xpsample.particles.svgd import SVGD, AdaGrad, StochasticSVGD
from xpsample.zoo.gaussian import gaussian

COVARIANCE = np.array([[1.0, 0.5], [0.5, 1.2]])
PRECISION = np.linalg.inv(COVARIANCE)
TARGET = gaussian(COVARIANCE)
SETS, PARTICLES, DIM, STEPS, ETA = 2, 6, 2, 5, 0.2
START = np.random.default_rng(0).normal(size=(SETS, PARTICLES, DIM))


def force(x, sigma=None):
    """Algorithm 1 of Liu & Wang, one set."""
    if sigma is None:
        distances = [np.linalg.norm(a - b) for i, a in enumerate(x) for b in x[:i]]
        sigma = np.median(distances) ** 2 / math.log(len(x))
    total = np.zeros_like(x)
    for i in range(len(x)):
        for j in range(len(x)):
            k = math.exp(-np.sum((x[j] - x[i]) ** 2) / sigma)
            total[i] += (-x[j] @ PRECISION * k - 2 * (x[j] - x[i]) / sigma * k) / len(x)
    return total


def test_svgd_is_the_loop_over_particles(library):
    x = START
    for _ in range(STEPS):
        x = np.stack([one + ETA * force(one) for one in x])
    trace = sample(TARGET, SVGD(ETA), library.array(START), STEPS, seed=1)
    np.testing.assert_allclose(library.host(trace.draws)[-1], x, rtol=1e-9)
    assert trace.run_statistics.evaluations == {"log_density": 0, "score": 1, "hvp": 0}


def test_adagrad_is_the_common_recipe(library):
    x, squares = START, None
    for _ in range(STEPS):
        g = np.stack([force(one, 2.0) for one in x])
        squares = g**2 if squares is None else 0.9 * squares + 0.1 * g**2
        x = x + ETA * g / (1e-6 + np.sqrt(squares))
    kernel = SVGD(ETA, RBF(2.0), AdaGrad())
    trace = sample(TARGET, kernel, library.array(START), STEPS, seed=1)
    np.testing.assert_allclose(library.host(trace.draws)[-1], x, rtol=1e-8)


def test_the_stochastic_form_by_hand(library):
    noise = np.random.default_rng(1).normal(size=(STEPS, SETS, PARTICLES, DIM))
    x = START
    for z in noise:
        k = np.exp(-np.sum((x[:, :, None] - x[:, None]) ** 2, axis=-1) / 2.0)
        spread = np.linalg.cholesky(k + PARTICLES**2 * 2.0**-52 * np.eye(PARTICLES)) @ z
        x = x + ETA * np.stack([force(one, 2.0) for one in x]) + np.sqrt(2 * ETA / PARTICLES) * spread
    replay = Replay({"proposal": library.array(noise)})
    trace = sample(TARGET, StochasticSVGD(ETA, RBF(2.0)), library.array(START), STEPS, seed=replay)
    np.testing.assert_allclose(library.host(trace.draws)[-1], x, rtol=1e-7, atol=1e-9)


def test_every_kernel_and_rule_runs_in_float32(library32):
    x0 = library32.array(START)
    for kernel in (
        SVGD(0.1, InverseMultiquadric(MedianFromPoint()), AdaGrad()),
        StochasticSVGD(0.1, InverseMultiquadric(Median())),
    ):
        draws = sample(TARGET, kernel, x0, 10, seed=1).draws
        assert np.all(np.isfinite(library32.host(draws)))


def test_the_set_is_the_last_but_one_axis():
    """Sets are independent of one another, with step sizes and bandwidths of their own."""
    eta, sigma = np.array([[0.1], [0.3]]), np.array([[1.0], [3.0]])
    both = sample(TARGET, SVGD(eta, RBF(sigma)), START, STEPS, seed=1).draws
    for i in range(SETS):
        kernel = SVGD(float(eta[i, 0]), RBF(float(sigma[i, 0])))
        alone = sample(TARGET, kernel, START[i], STEPS, seed=1).draws
        np.testing.assert_allclose(both[:, i], alone, rtol=1e-12)


@pytest.mark.slow
def test_only_the_stochastic_form_keeps_the_target():
    """From exact draws of N(0, 1): 4,000 sets of 4 particles, 5 standard errors, error probability 6e-7.

    Its steps bias the variance by less than eta / (2 particles); SVGD's few particles lose much of it.
    """
    normal, sets, eta = gaussian(np.eye(1)), 4000, 0.1
    x0 = np.random.default_rng(2).normal(size=(sets, 4, 1))
    stochastic, plain = (
        sample(normal, kernel, x0, 1, burn_in=99, seed=3).draws[-1]
        for kernel in (StochasticSVGD(eta, RBF(1.0)), SVGD(eta, RBF(1.0)))
    )
    bound = 5 * math.sqrt(2 / (4 * sets)) + eta / 8
    assert abs(stochastic.var() - 1) < bound
    assert plain.var() < 1 - 3 * bound
    between = np.mean(stochastic[:, 0] * stochastic[:, 1])  # the particles of a set are independent in the limit
    assert abs(between) < 5 / math.sqrt(sets) + eta / 8


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SVGD(0.0), "step_size must be greater than 0"),
        (lambda: StochasticSVGD(-1.0), "step_size must be greater than 0"),
        (lambda: StochasticSVGD(0.1, RBF(MedianFromPoint())), "K must be symmetric"),
        (lambda: AdaGrad(1.0), "decay must be at least 0 and below 1; got 1"),
        (lambda: AdaGrad(0.9, 0.0), "offset must be greater than 0"),
        (lambda: sample(TARGET, SVGD(0.1), np.zeros(2), 1, seed=1), r"sets of particles.*got \(2,\)"),
    ],
)
def test_bad_settings_say_what_would_do(make, message):
    with pytest.raises(HyperparameterError, match=message):
        make()
