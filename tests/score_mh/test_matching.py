"""Score matching losses by hand for an affine score, at their minimum, and on a mixture."""

import numpy as np
import pytest
from array_api_compat import array_namespace

from xpsample import Portable, score_mh
from xpsample.core import tree
from xpsample.core.registry import to_host
from xpsample.optimize.optimizers import Adam
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


CENTRES, SPREAD = np.array([[1.2, 0.5], [-1.2, -0.3]]), 0.7


def mixture_score(x, sigma=0.0):
    """Of equal weights, with N(0, sigma^2) added."""
    variance = SPREAD**2 + sigma**2
    d = x[:, None, :] - CENTRES
    w = np.exp(-0.5 * np.sum(d * d, axis=-1) / variance)
    w = w / np.sum(w, axis=-1, keepdims=True)
    return -np.sum(w[..., None] * d, axis=1) / variance


def draws(rng, rows):
    return CENTRES[rng.integers(2, size=rows)] + SPREAD * rng.standard_normal((rows, 2))


@pytest.mark.slow
@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("loss", "sigmas", "bound"),
    [
        (score_mh.ExactTrace(), (0.0,), 0.05),
        (score_mh.Sliced(2), (0.0,), 0.05),
        (score_mh.Denoising(0.3), (0.3,), 0.05),
        (score_mh.AnnealedDenoising(score_mh.geometric_noise_levels(1.0, 0.3, 3)), (1.0, 0.3), 0.1),
    ],
    ids=["exact", "sliced", "denoising", "annealed"],
)
def test_a_network_learns_the_score_of_a_mixture(loss, sigmas, bound):
    """The mean squared error on fresh draws beside the mean square of the score; 4,000 rows, 600 updates."""
    torch = pytest.importorskip("torch")
    rng, conditional = np.random.default_rng(5), isinstance(loss, score_mh.AnnealedDenoising)
    start = score_mh.init_score_network(2, 32, seed=1, conditional=conditional)
    data = torch.tensor(draws(rng, 4000))
    found = score_mh.fit(
        loss, start, data, epochs=12, steps_per_epoch=50, batch_size=400, seed=Portable(2), optimizer=Adam(1e-2)
    )
    parameters, fresh = tree.map(to_host, found.parameters), draws(rng, 4000)
    for sigma in sigmas:
        x = fresh + sigma * rng.standard_normal(fresh.shape)
        s = (
            score_mh.conditional_score_network(x, sigma, parameters)
            if conditional
            else score_mh.score_network(x, parameters)
        )
        true = mixture_score(x, sigma)
        assert np.mean((s - true) ** 2) / np.mean(true**2) < bound


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
