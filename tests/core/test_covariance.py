"""The matrix of a diagonal and a few directions: what a matrix in full gives, and what is refused."""

import numpy as np
import pytest

import xpsample as xps
from tests.kernels.support import noise_of, start, walk
from xpsample.core.covariance import as_covariance
from xpsample.core.describe import describe
from xpsample.core.errors import HyperparameterError, XpsampleError
from xpsample.kernels import HMC, MALA, MAMS, MCLMC, NUTS, RWM, ULA

SD = np.asarray([0.5, 2.0, 1.5])
VECTORS = np.stack([np.asarray([0.6, 0.8, 0.0]), np.zeros(3)], axis=-1)
VALUES = np.asarray([9.0, 3.0])
FULL = SD[:, None] * (np.eye(3) + 8.0 * np.outer(VECTORS[:, 0], VECTORS[:, 0])) * SD


def low_rank(library, sd=SD, vectors=VECTORS, values=VALUES):
    return xps.LowRankCovariance(library.array(sd), library.array(vectors), library.array(values))


def test_products_are_those_of_the_matrix_in_full(library):
    matrix, v = low_rank(library), start(4)

    def of(method):
        return library.host(getattr(matrix, method)(library.array(v)))

    np.testing.assert_allclose(of("product"), v @ FULL, rtol=1e-12)
    np.testing.assert_allclose(of("solve"), v @ np.linalg.inv(FULL), rtol=1e-12)
    root = library.host(matrix.root(library.array(np.eye(3)))).T
    np.testing.assert_allclose(root @ root.T, FULL, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(of("root"), v @ root.T, rtol=1e-12)
    np.testing.assert_allclose(of("root_transpose"), v @ root, rtol=1e-12)
    np.testing.assert_allclose(of("whiten"), v @ np.linalg.inv(root).T, rtol=1e-12)
    np.testing.assert_allclose(library.host(matrix.diagonal()), np.diag(FULL), rtol=1e-12)
    inverse = library.host(matrix.inverse().product(library.array(np.eye(3))))
    np.testing.assert_allclose(inverse, np.linalg.inv(FULL), rtol=1e-12, atol=1e-12)


KERNELS = {
    "HMC": lambda c: HMC(0.3, 4, mass=c),
    "NUTS": lambda c: NUTS(0.3, mass=c),
    "MALA": lambda c: MALA(0.3, preconditioner=c),
    "ULA": lambda c: ULA(0.1, preconditioner=c),
    "RWM": lambda c: RWM(0.5, covariance=c),
}


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("make", KERNELS.values(), ids=KERNELS)
def test_kernels_are_those_of_the_matrix_in_full(library, make):
    """With noise of the other root, which is a rotation of this one."""
    x = start(5)
    noise = noise_of(make(None), x)
    name = next(name for name in noise if name not in ("accept", "uniform") and noise[name].shape[-1] == 3)
    matrix = low_rank(library)
    root = library.host(matrix.root(library.array(np.eye(3)))).T
    rotated = {**noise, name: noise[name] @ (np.linalg.inv(np.linalg.cholesky(FULL)) @ root).T}
    positions, _, _ = walk(library, make(matrix), x, noise)
    expected, _, _ = walk(library, make(library.array(FULL)), x, rotated)
    np.testing.assert_allclose(positions, expected, rtol=1e-9, atol=1e-11)


def gaussian():
    return xps.Target(
        lambda x: -0.5 * np.sum(x @ np.linalg.inv(FULL) * x, axis=-1), score=lambda x: -x @ np.linalg.inv(FULL)
    )


@pytest.mark.parametrize("make", [HMC, NUTS, MAMS, MCLMC])
def test_a_mass_for_each_group(make):
    sd, x0 = np.stack([SD, 2 * SD])[:, None, :], start(2, 4)
    groups = xps.LowRankCovariance(1 / sd, np.stack([VECTORS] * 2), 1 / np.stack([VALUES] * 2)[:, None, :])
    length = {} if make is NUTS else {"length": 1.0}

    def draws(mass):
        kernel = make(0.3, mass=mass, **length)
        return xps.sample(gaussian(), kernel, x0, 5, seed=xps.Portable(1), progress=False, warmup=0).draws

    together, first = draws(groups), draws(xps.LowRankCovariance(1 / SD, VECTORS, 1 / VALUES))
    np.testing.assert_allclose(together[:, 0], first[:, 0], rtol=1e-12)
    assert np.all(np.any(together[:, 1] != first[:, 1], axis=(0, 2)))


class NumPy:
    array = staticmethod(np.asarray)


def test_it_is_known_by_its_numbers():
    one, same = (describe(HMC(0.1, 2, mass=low_rank(NumPy))) for _ in "12")
    assert one == same != describe(HMC(0.1, 2, mass=low_rank(NumPy, values=VALUES + 1)))
    assert as_covariance("mass", low_rank(NumPy)).sd is not None


REFUSED = {
    "columns that are not orthogonal": ({"vectors": np.ones((3, 2)) / np.sqrt(3)}, "must have orthogonal columns"),
    "columns of another length": ({"vectors": 2 * VECTORS}, "must have orthogonal columns of length 1"),
    "columns with nan": ({"vectors": np.nan * VECTORS}, "must have orthogonal columns"),
    "a value of 0": ({"values": np.asarray([0.0, 1.0])}, "mass.values must be positive and finite"),
    "a negative sd": ({"sd": -SD}, "mass.sd must be positive and finite"),
    "another dimension": ({"sd": SD[:2]}, r"mass has sd \(dim,\), vectors \(dim, rank\) and values \(rank,\)"),
    "no array": ({"values": 3.0}, "mass.values must be an array"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    wrong, message = REFUSED[name]
    parts = {"sd": SD, "vectors": VECTORS, "values": VALUES, **wrong}
    with pytest.raises(HyperparameterError, match=message):
        HMC(0.1, 2, mass=xps.LowRankCovariance(**parts))


def test_what_does_not_fit_the_positions():
    target = xps.Target(lambda x: -0.5 * np.sum(x * x, axis=-1), score=lambda x: -x)
    with pytest.raises(HyperparameterError, match=r"mass.sd of shape \(3,\) does not fit the positions"):
        xps.sample(target, HMC(0.1, 2, mass=low_rank(NumPy)), np.zeros((4, 5)), 1, seed=1, progress=False)
    single = xps.LowRankCovariance(*(np.asarray(a, np.float32) for a in (SD, VECTORS, VALUES)))
    with pytest.raises(XpsampleError, match="float32"):
        xps.sample(target, HMC(0.1, 2, mass=single), np.zeros((4, 3)), 1, seed=1, progress=False)


def test_a_library_without_cholesky_is_not_taken_for_an_indefinite_matrix(monkeypatch):
    target, matrix = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1)), np.asarray([[1.0, 0.3], [0.3, 1.0]])
    monkeypatch.delattr("numpy.linalg.cholesky")
    with pytest.raises((AttributeError, XpsampleError), match="cholesky"):
        xps.sample(target, RWM(0.5, matrix), np.zeros((4, 2)), 1, seed=1)
