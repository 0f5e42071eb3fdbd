"""The perceptron against loops by hand, automatic differentiation and differences, and its batches of runs."""

import numpy as np
import pytest

from xpsample.core import tree
from xpsample.core.errors import HyperparameterError
from xpsample.targets import Capability
from xpsample.zoo.networks import Dense, init_mlp, mlp, mlp_and_score, mlp_energy, mlp_score

SIZES = (3, 8, 5, 1)


def parameters(seed=0):
    """With biases, so that they show, and weights that leave no layer near linear."""
    rng = np.random.default_rng(seed)
    return tuple(Dense(2 * w, rng.standard_normal(b.shape)) for w, b in init_mlp(SIZES, seed))


def by_hand(x, layers):
    """One point at a time, unit by unit."""
    for depth, (weight, bias) in enumerate(layers):
        a = [sum(x[i] * weight[i, j] for i in range(len(x))) + bias[j] for j in range(len(bias))]
        x = a if depth == len(layers) - 1 else [u / (1 + np.exp(-u)) for u in a]
    return x[0]


def test_value_and_score(library):
    x, layers, h = np.random.default_rng(1).standard_normal((2, 4, 3)), parameters(), 1e-5
    value, score = mlp_and_score(library.array(x), tree.map(library.array, layers))
    expected = np.array([[by_hand(point, layers) for point in row] for row in x])
    np.testing.assert_allclose(library.host(value), expected, rtol=1e-12)
    steps = [np.eye(3)[k] * h for k in range(3)]
    slopes = [[[by_hand(p + s, layers) - by_hand(p - s, layers) for s in steps] for p in row] for row in x]
    np.testing.assert_allclose(library.host(score), np.array(slopes) / (2 * h), rtol=1e-7, atol=1e-9)


def test_a_batch_of_runs_is_its_runs(library):
    x, both = np.random.default_rng(2).standard_normal((2, 6, 3)), (parameters(3), parameters(4))
    stacked = tree.map(lambda a, b: library.array(np.stack([a, b])[:, None]), *both)
    value, score = mlp_and_score(library.array(x), stacked)
    for r, layers in enumerate(both):
        alone = mlp_and_score(library.array(x[r]), tree.map(library.array, layers))
        np.testing.assert_allclose(library.host(value)[r], library.host(alone[0]), rtol=1e-12)
        np.testing.assert_allclose(library.host(score)[r], library.host(alone[1]), rtol=1e-12)


def test_large_activations_overflow_nowhere(library32):
    layers = tree.map(lambda a: library32.array(100 * a), parameters())
    value, score = mlp_and_score(library32.array(np.full((1, 3), 1e6)), layers)
    assert np.all(np.isfinite(library32.host(value))) and np.all(np.isfinite(library32.host(score)))


def test_the_librarys_own_gradients_agree(differentiating):
    x, layers = np.random.default_rng(5).standard_normal((7, 3)), parameters()
    here, there = differentiating.array(x), tree.map(differentiating.array, layers)
    autodiff = differentiating.backend.autodiff
    _, native = autodiff.value_and_grad(mlp)(here, there)
    np.testing.assert_allclose(differentiating.host(native), differentiating.host(mlp_score(here, there)), rtol=1e-10)

    # In the parameters, of the network and through its score.
    def loss(p, points):
        return differentiating.xp.sum(mlp(points, p)) + differentiating.xp.sum(mlp_score(points, p) ** 2)

    def on_host(p):
        value, score = mlp_and_score(x, p)
        return np.sum(value) + np.sum(score**2)

    _, gradient = autodiff.value_and_grad(loss)(there, here)
    direction, h = parameters(6), 1e-6
    ahead, behind = (on_host(tree.map(lambda a, b, s=s: a + s * b, layers, direction)) for s in (h, -h))
    pairs = zip(tree.leaves(gradient), tree.leaves(direction), strict=True)
    slope = sum(np.sum(differentiating.host(g) * d) for g, d in pairs)
    assert slope == pytest.approx((ahead - behind) / (2 * h), rel=1e-6)


def test_the_family_takes_both_at_once(library):
    x = library.array(np.random.default_rng(7).standard_normal((4, 3)))
    bound = mlp_energy(parameters()).prepare(x, Capability.LOG_DENSITY | Capability.SCORE)
    point, layers = bound.evaluate(x), tree.map(library.array, parameters())
    # The target's functions are compiled on JAX, and round otherwise than op by op.
    np.testing.assert_allclose(library.host(point.log_density), library.host(mlp(x, layers)), rtol=1e-13)
    np.testing.assert_allclose(library.host(point.score), library.host(mlp_score(x, layers)), rtol=1e-13)


def test_initial_parameters():
    layers = init_mlp((400, 300, 1), seed=8)
    assert [w.shape for w, _ in layers] == [(400, 300), (300, 1)] and all(np.all(b == 0) for _, b in layers)
    # Of 120,000 weights the standard deviation has a relative error of 0.002.
    assert np.std(layers[0].weight) == pytest.approx(0.05, rel=0.01)
    assert np.std(init_mlp((400, 300, 1), seed=8, sd=0.02)[0].weight) == pytest.approx(0.02, rel=0.01)
    for sizes, sd in (((2,), None), ((2, 0, 1), None), ((2, 1), 0.0)):
        with pytest.raises(HyperparameterError):
            init_mlp(sizes, 0, sd)
