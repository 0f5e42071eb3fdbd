"""Activations and networks against SciPy, torch and loops by hand; files of parameters."""

import numpy as np
import pytest
from scipy import special

from tests.damage import damages
from xpsample import score_mh
from xpsample.core import tree
from xpsample.core.errors import DataError
from xpsample.core.registry import backend_of
from xpsample.core.tree import leaves
from xpsample.core.tree import map as tree_map
from xpsample.score_mh import (
    gelu,
    init_acceptance_network,
    init_score_network,
    load_parameters,
    log_sigmoid,
    negative_entropy,
    save_parameters,
    softplus,
)

PLACES = np.array(
    [-1e30, -1e4, -100.0, -20.0, -9.9, -3.0, -0.5, -1e-3, 0.0, 1e-3, 0.5, 3.0, 9.9, 20.0, 100.0, 1e4, 1e30]
)


def gelu_reference(a):
    torch = pytest.importorskip("torch")
    return torch.nn.functional.gelu(torch.tensor(a, dtype=torch.float64), approximate="tanh").numpy()


def gelu_slope(a):
    c = np.sqrt(2 / np.pi)
    b = np.clip(a, -40, 40)
    t, inner = np.tanh(c * (b + 0.044715 * b**3)), c * (1 + 3 * 0.044715 * b**2)
    return 0.5 * (1 + t) + 0.5 * b * (1 - t**2) * inner


@pytest.mark.parametrize(
    ("function", "reference"),
    [(softplus, lambda a: np.logaddexp(a, 0)), (log_sigmoid, special.log_expit), (gelu, gelu_reference)],
    ids=["softplus", "log-sigmoid", "gelu"],
)
def test_values(function, reference, typed_library):
    a = PLACES.astype(typed_library.dtype)
    found = typed_library.host(function(typed_library.array(a)))
    wide = a.astype(np.float64)
    expected = reference(wide)
    eps = np.finfo(typed_library.dtype).eps
    # GELU's 1 + tanh loses the relative precision of what is nearly 0; the others that of subnormal numbers.
    atol = 10 * eps if function is gelu else np.finfo(typed_library.dtype).tiny
    np.testing.assert_allclose(found, expected, rtol=8 * eps, atol=atol)


def test_gelu_is_near_the_one_with_the_error_function():
    a = np.linspace(-12, 12, 4001)
    gap = np.max(np.abs(gelu(a) - a * special.ndtr(a)))
    assert 4e-4 < gap < 5e-4


@pytest.mark.parametrize(
    ("function", "slope"),
    [(softplus, special.expit), (log_sigmoid, lambda a: special.expit(-a)), (gelu, gelu_slope)],
    ids=["softplus", "log-sigmoid", "gelu"],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_first_and_second_derivatives(function, slope, dtype, differentiating):
    """At 0 too, and finite where exponentials and cubes would overflow."""
    a = differentiating.array(PLACES, dtype)
    autodiff = backend_of(a).autodiff
    first = autodiff.value_and_grad(function)
    second = autodiff.value_and_grad(lambda a: first(a)[1])
    eps = np.finfo(dtype).eps
    at = PLACES.astype(dtype).astype(np.float64)
    np.testing.assert_allclose(differentiating.host(first(a)[1]), slope(at), rtol=20 * eps, atol=100 * eps)
    h = 1e-6
    bent = (slope(np.clip(at, -200, 200) + h) - slope(np.clip(at, -200, 200) - h)) / (2 * h)
    np.testing.assert_allclose(differentiating.host(second(a)[1]), bent, rtol=1e-5, atol=1e-5)


def test_entropy(library):
    logit = np.array([-800.0, -5.0, 0.0, 0.3, 40.0, 800.0])
    a = special.expit(logit)
    expected = special.xlogy(a, a) + special.xlogy(1 - a, 1 - a)
    expected[4] = -40 * np.exp(-40) - np.exp(-40)  # where 1 - a is 0 in floating numbers
    found = library.host(negative_entropy(library.array(logit)))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-300)


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


def test_round_trip(tmp_path, typed_library):
    parameters = tree.map(typed_library.array, init_acceptance_network(2, 5, seed=1, blocks=2))
    path = tmp_path / "new" / "acceptance.npz"
    save_parameters(path, parameters)
    found = load_parameters(path, like=init_acceptance_network(2, 5, seed=0, blocks=2))
    assert type(found) is type(parameters) and len(found.blocks) == 2
    for a, b in zip(tree.leaves(found), tree.leaves(parameters), strict=True):
        assert isinstance(a, np.ndarray) and str(a.dtype) == typed_library.dtype
        np.testing.assert_array_equal(a, typed_library.host(b))
    assert [p.name for p in path.parent.iterdir()] == ["acceptance.npz"]


def test_other_containers(tmp_path):
    for parameters in (np.arange(3.0), {"b": [np.ones(2), None], "a": (np.zeros((2, 1)),)}):
        save_parameters(tmp_path / "p.npz", parameters)
        found = load_parameters(tmp_path / "p.npz", like=parameters)
        assert repr(found) == repr(parameters)


def test_files_that_are_refused(tmp_path):
    path = tmp_path / "score.npz"
    with pytest.raises(DataError, match="cannot be read"):
        load_parameters(path, like=np.ones(1))
    save_parameters(path, init_score_network(2, 5, seed=0))
    with pytest.raises(DataError, match=r"0/weight: \(2, 5\) there, \(3, 5\) asked for"):
        load_parameters(path, like=init_score_network(3, 5, seed=0))
    with pytest.raises(DataError, match=r"2/bias: \(2,\) there, nothing asked for"):
        load_parameters(path, like=init_score_network(2, 5, seed=0)[:2])
    path.write_bytes(b"no archive")
    with pytest.raises(DataError, match="cannot be read"):
        load_parameters(path, like=np.ones(1))
    np.savez(path, object=np.array([{}], dtype=object))
    with pytest.raises(DataError, match="cannot be read"):
        load_parameters(path, like={"object": np.ones(1)})


def test_every_damage_is_one_error_that_names_the_file(tmp_path):
    path, parameters = tmp_path / "score.npz", init_score_network(2, 5, seed=0)
    save_parameters(path, parameters)
    refused, all_of_them = 0, list(damages(path.read_bytes()))
    for damaged in all_of_them:
        path.write_bytes(damaged)
        try:
            found = load_parameters(path, like=parameters)
        except DataError as error:
            refused += str(path) in str(error)
        else:  # a date, or another part of the archive that holds no numbers
            assert all(map(np.array_equal, tree.leaves(found), tree.leaves(parameters)))
            refused += 1
    assert refused == len(all_of_them)


def test_any_name_can_be_stored(tmp_path):
    save_parameters(tmp_path / "p.npz", {"file": np.ones(1), "args": np.zeros(2)})
    assert load_parameters(tmp_path / "p.npz", like={"file": np.ones(1), "args": np.zeros(2)})["file"] == 1
