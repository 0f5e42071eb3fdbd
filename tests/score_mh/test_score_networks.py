"""Networks against the same in torch and against loops by hand; what they accept."""

import numpy as np
import pytest

from xpsample import score_mh
from xpsample.core.tree import leaves
from xpsample.core.tree import map as tree_map

X = np.random.default_rng(0).standard_normal((4, 3, 2))
Y = np.random.default_rng(1).standard_normal((4, 3, 2))


def placed(library, parameters):
    return tree_map(library.array, parameters)


def test_score_network(library):
    parameters = score_mh.init_score_network(2, 7, seed=3)
    assert [leaf.shape for leaf in leaves(parameters)] == [(2, 7), (7,), (7, 7), (7,), (7, 2), (2,)]
    found = library.host(score_mh.score_network(library.array(X), placed(library, parameters)))
    (w1, b1), (w2, b2), (w3, b3) = parameters
    np.testing.assert_allclose(found, score_mh.softplus(score_mh.softplus(X @ w1 + b1) @ w2 + b2) @ w3 + b3, rtol=1e-12)


def test_acceptance_network(library):
    parameters = score_mh.init_acceptance_network(2, 7, seed=3, blocks=2)
    assert len(leaves(parameters)) == 2 * (1 + 2 * 2 + 1)
    found = library.host(score_mh.acceptance_network(library.array(Y), library.array(X), placed(library, parameters)))
    first, blocks, last = parameters
    h = np.concatenate([Y, X], axis=-1) @ first.weight + first.bias
    for one, two in blocks:
        h = h + (score_mh.gelu(score_mh.gelu(h) @ one.weight + one.bias) @ two.weight + two.bias)
    np.testing.assert_allclose(found, (score_mh.gelu(h) @ last.weight + last.bias)[..., 0], rtol=1e-12)
    assert found.shape == (4, 3) and found.min() < 0 < found.max()  # so that a is on both sides of a half


@pytest.mark.parametrize("kind", ["number", "per chain", "broadcast"])
def test_noise_levels(kind, library):
    sigma = {
        "number": 0.5,
        "per chain": np.linspace(0.1, 2.0, 12).reshape(4, 3),
        "broadcast": np.array([0.1, 1.0, 2.0]),
    }
    host = sigma[kind]
    value = host if kind == "number" else library.array(host)
    level = np.broadcast_to(host, (4, 3))[..., None]
    p = score_mh.init_score_network(2, 5, seed=4, conditional=True)
    found = library.host(score_mh.conditional_score_network(library.array(X), value, placed(library, p)))
    expected = score_mh.score_network(np.concatenate([X, np.log(level)], axis=-1), p) / level
    np.testing.assert_allclose(found, expected, rtol=1e-12)

    p = score_mh.init_acceptance_network(2, 5, seed=4, blocks=1, conditional=True)
    found = score_mh.conditional_acceptance_network(library.array(Y), library.array(X), value, placed(library, p))
    expected = score_mh.acceptance_network(Y, np.concatenate([X, np.log(level)], axis=-1), p)
    np.testing.assert_allclose(library.host(found), expected, rtol=1e-12, atol=1e-14)
