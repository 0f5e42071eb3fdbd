"""Score matching losses by hand for an affine score, at their minimum, and on a mixture."""

import numpy as np
import pytest
from array_api_compat import array_namespace

from xpsample import score_mh
from xpsample.core import tree
from xpsample.score_mh.derivatives import value_and_gradient

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 2)) @ np.array([[1.0, 0.3], [0.0, 0.7]]) + [0.5, -0.2]
ANY = {"a": np.array([[-1.0, 0.7], [-0.2, -0.5]]), "b": np.array([0.3, -0.4])}  # no gradient: a is not symmetric
ONE = np.asarray(1.0)


def affine(x, p):
    return x @ p["a"] + p["b"]


def at_level(x, sigma, p):
    return affine(x, p) / sigma[:, None]


NOISE = {
    "direction": RNG.standard_normal((3, 30, 2)),
    "added": RNG.standard_normal((30, 2)),
    "level": np.linspace(0.01, 0.999, 30),
}


def half_square(x):
    return 0.5 * np.mean(np.sum((X @ ANY["a"] + ANY["b"]) ** 2, axis=-1))


def by_hand(name):
    v, xi = NOISE["direction"], NOISE["added"]
    if name == "exact":
        return half_square(X) + np.trace(ANY["a"])
    if name == "sliced":
        return half_square(X) + np.mean(np.einsum("dri,ij,drj->dr", v, ANY["a"], v))
    if name == "denoising":
        return np.mean(np.sum((affine(X + 0.3 * xi, ANY) + xi / 0.3) ** 2, axis=-1))
    sigma = np.array([2.0, 1.0, 0.5])[np.floor(3 * NOISE["level"]).astype(int)]
    return np.mean(np.sum((affine(X + sigma[:, None] * xi, ANY) + xi) ** 2, axis=-1))


LOSSES = {
    "exact": score_mh.ExactTrace(affine),
    "sliced": score_mh.Sliced(3, affine),
    "denoising": score_mh.Denoising(0.3, affine),
    "annealed": score_mh.AnnealedDenoising((2.0, 1.0, 0.5), at_level),
}


@pytest.mark.parametrize("name", LOSSES)
def test_by_hand(name, library):
    loss = LOSSES[name]
    specs = loss.noise(30, 2)
    noise = {key: library.array(NOISE[key]) for key in specs}
    assert {key: tuple(spec.shape) for key, spec in specs.items()} == {key: NOISE[key].shape for key in specs}
    found = loss(tree.map(library.array, ANY), library.array(X), noise, None, library.array(ONE))
    np.testing.assert_allclose(library.host(found), by_hand(name), rtol=1e-12)


def test_the_minimum_of_the_exact_loss(library):
    """An affine score fitted to any data is that of the Gaussian with its mean and covariance."""
    inverse = np.linalg.inv(np.cov(X.T, bias=True))
    best = {"a": -inverse, "b": X.mean(axis=0) @ inverse}

    def loss(p, x):
        return LOSSES["exact"](p, x, {}, None, ONE)

    for p, zero in ((best, True), (ANY, False)):
        slope = value_and_gradient(loss, tree.map(library.array, p), library.array(X))[1]
        largest = max(np.max(np.abs(library.host(leaf))) for leaf in tree.leaves(slope))
        assert (largest < 1e-12) if zero else (largest > 0.1)


def test_the_ladder():
    np.testing.assert_allclose(score_mh.geometric_noise_levels(8.0, 1.0, 4), [8.0, 4.0, 2.0, 1.0])


def test_the_networks_argument_is_the_arrays_own_namespace():
    """Nested derivatives of NumPy arrays are borrowed, and come back as NumPy arrays."""
    seen = []

    def network(x, p):
        seen.append(array_namespace(x).__name__)
        return affine(x, p)

    found = score_mh.ExactTrace(network)(ANY, X, {}, None, ONE)
    assert isinstance(found, np.floating | np.ndarray) and len(set(seen)) == 2
