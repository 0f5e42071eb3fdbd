"""PCD finds the maximum of a known likelihood; its update against one by hand; its penalties against differences."""

import numpy as np
import pytest
from array_api_compat import array_namespace

from xpsample import FiniteDifference, Portable, sample
from xpsample.core import tree
from xpsample.core.errors import CapabilityError, HyperparameterError
from xpsample.core.registry import backend_named
from xpsample.optimize.optimizers import SGD
from xpsample.particles.batches import RowBatches
from xpsample.particles.pcd import PCD
from xpsample.targets import Parametric, Target
from xpsample.trace.recorders import Record
from xpsample.zoo.networks import init_mlp, mlp_and_score, mlp_energy

DATA = np.random.default_rng(0).standard_normal((400, 2)) * [1.2, 0.8] + [0.7, -0.4]


def gaussian():
    """exp(-sum exp(s_k) (x_k - m_k)^2 / 2), both free."""

    def log_density(x, p):
        xp = array_namespace(x)
        return -0.5 * xp.sum(xp.exp(p["s"]) * (x - p["m"]) ** 2, axis=-1)

    def score(x, p):
        return -array_namespace(x).exp(p["s"]) * (x - p["m"])

    start = {"m": np.zeros(2), "s": np.zeros(2)}
    return Parametric(log_density, start, score=score, gradient=FiniteDifference(1e-4))


def test_it_finds_the_maximum_of_the_likelihood():
    gamma = 0.05
    kernel = PCD(RowBatches(DATA), SGD(0.1), gamma, steps=5, blocks=4, low=-6.0, high=6.0)
    x0 = np.random.default_rng(1).uniform(-6, 6, (4000, 2))
    kept = Record("parameters", lambda state: state.parameters)
    trace = sample(gaussian(), kernel, x0, 300, burn_in=200, seed=2, recorders=(kept,))
    found = tree.map(lambda leaf: np.mean(leaf, axis=0), trace.recorded["parameters"])
    # The chains have the data's mean and variance when ULA's variance v / (1 - gamma / (2 v)) is the data's. The buffer
    # is renewed about twelve times in 300 updates, so five standard deviations are 0.03 of each.
    variance = np.var(DATA, axis=0)
    v = (variance + np.sqrt(variance**2 - 2 * gamma * variance)) / 2
    np.testing.assert_allclose(found["m"], np.mean(DATA, axis=0), atol=0.03)
    np.testing.assert_allclose(np.exp(-found["s"]), v, rtol=0.03)


def noise_of(kernel, x, seed=3):
    return Portable(seed).block(backend_named("numpy"), kernel.noise(x), 0, 1, x)


def test_one_update_by_hand(library):
    """SGD, 3 blocks of 4, two steps, no penalties: theta moves along the means of grad U."""

    def family():
        return Parametric(
            lambda x, m: -0.5 * array_namespace(x).sum((x - m) ** 2, axis=-1),
            np.array([0.3, -0.2]),
            score=lambda x, m: m - x,
            gradient=FiniteDifference(1e-4),
        )

    rate, gamma, low, high = 0.5, 0.1, -1.5, 1.5
    x = np.random.default_rng(4).uniform(-1.5, 1.5, (12, 2))
    rows = DATA[:5]
    kernel = PCD(RowBatches(library.array(rows)), SGD(rate), gamma, 2, 3, 0.4, low, high)
    noise = noise_of(kernel, x)
    there = library.array(x)
    bound = family().prepare(there, kernel.requires)
    state = kernel.init(bound, there)
    state, info = kernel.step(bound, state, {k: library.array(v[0]) for k, v in noise.items()})

    m, block = np.array([0.3, -0.2]), int(noise["block"][0, 0] * 3)
    here = slice(4 * block, 4 * block + 4)
    y = np.where(noise["replaced"][0][:, None] < 0.4, low + (high - low) * noise["fresh"][0], x[here])
    for xi in noise["proposal"][0]:
        y = np.clip(y + gamma * (m - y) + np.sqrt(2 * gamma) * xi, low, high)
    gradient = np.mean(m - rows, axis=0) - np.mean(m - y, axis=0)
    expected = x.copy()
    expected[here] = y
    assert 0 < np.sum(noise["replaced"][0] < 0.4) < 4
    np.testing.assert_allclose(library.host(state.point.x), expected, rtol=1e-12)
    np.testing.assert_allclose(library.host(state.parameters), m - rate * gradient, rtol=1e-5)
    assert info.evaluations.score == 2 and not np.any(library.host(info.diverged))


def test_penalties(differentiating):
    x, layers = np.random.default_rng(5).uniform(-2, 2, (6, 2)), init_mlp((2, 6, 1), 6)
    rows, gamma = DATA[:4], 0.05
    kernel = PCD(
        RowBatches(differentiating.array(rows)), SGD(1.0), gamma, low=-9.0, energy_penalty=0.3, gradient_penalty=0.7
    )
    noise, there = noise_of(kernel, x), differentiating.array(x)
    bound = mlp_energy(layers).prepare(there, kernel.requires)
    state = kernel.init(bound, there)
    state, _ = kernel.step(bound, state, {k: differentiating.array(v[0]) for k, v in noise.items()})
    y = x + gamma * mlp_and_score(x, layers)[1] + np.sqrt(2 * gamma) * noise["proposal"][0, 0]

    def loss(p):
        (f, score), (g, _) = mlp_and_score(rows, p), mlp_and_score(y, p)
        norm = np.linalg.norm(score, axis=-1)
        return np.mean(g) - np.mean(f) + 0.3 * (np.mean(f**2) + np.mean(g**2)) + 0.7 * np.mean((norm - 1) ** 2)

    direction, h = init_mlp((2, 6, 1), 7), 1e-6
    ahead, behind = (loss(tree.map(lambda a, b, s=s: a + s * b, layers, direction)) for s in (h, -h))
    moved = tree.map(lambda a, b: a - differentiating.host(b), layers, state.parameters)
    slope = sum(np.sum(g * d) for g, d in zip(tree.leaves(moved), tree.leaves(direction), strict=True))
    assert slope == pytest.approx((ahead - behind) / (2 * h), rel=1e-5)


def test_bad_input():
    with pytest.raises(HyperparameterError, match="finite where refresh"):
        PCD(RowBatches(DATA), SGD(0.1), 0.1, refresh=0.1)
    with pytest.raises(HyperparameterError, match="5 blocks do not divide"):
        sample(gaussian(), PCD(RowBatches(DATA), SGD(0.1), 0.1, blocks=5), DATA[:12], 1, seed=0)
    target = Target(lambda x: -np.sum(x**2, axis=-1), score=lambda x: -2 * x)
    with pytest.raises(CapabilityError, match="Parametric"):
        sample(target, PCD(RowBatches(DATA), SGD(0.1), 0.1), DATA[:12], 1, seed=0)
