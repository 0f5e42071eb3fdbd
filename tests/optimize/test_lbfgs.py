"""L-BFGS on many paths: its inverse Hessians by the recursion, its ends by closed forms."""

import numpy as np
import pytest

from xpsample.core.registry import backend_of
from xpsample.optimize.lbfgs import Ascent, Curvature, climb

NUMPY = backend_of(np.zeros(1))


def see_nothing(at, h, moved, seen):
    return seen


def of_gaussian(precision, middle=0.0):
    def evaluate(x):
        z = x - middle
        return Ascent(x, -0.5 * np.sum((z @ precision) * z, axis=-1), -z @ precision)

    return evaluate


@pytest.mark.parametrize(("dim", "history", "moves"), [(9, 4, 7), (9, 4, 2), (3, 4, 6), (1, 2, 3), (9, 4, 0)])
def test_the_inverse_hessian_is_that_of_the_recursion(dim, history, moves):
    """That of BFGS, from the diagonal on, over the pairs that are kept: a path with more than fit, with fewer, none."""
    generator = np.random.default_rng(1)
    root = generator.normal(size=(dim, dim))
    hessian = root @ root.T + np.eye(dim)
    found, pairs = Curvature.none(np, np.zeros((1, 1, dim)), history), []
    for _ in range(moves):
        s = generator.normal(size=dim)
        pairs.append((s, hessian @ s))
        found = found.after(np, s[None, None, :], pairs[-1][1][None, None, :], np.ones((1, 1), dtype=bool))
    expected = np.diag(found.diagonal[0, 0])
    for s, z in pairs[-history:]:
        left = np.eye(dim) - np.outer(s, z) / (s @ z)
        expected = left @ expected @ left.T + np.outer(s, s) / (s @ z)
    np.testing.assert_allclose(found.inverse_hessian(np).product(np.eye(dim))[0], expected, rtol=1e-8, atol=1e-10)


def test_the_diagonal_is_that_of_the_bfgs_update():
    """The diagonal of the direct update, in full, of the old one scaled by ``z^T D z / s^T z``."""
    generator, dim = np.random.default_rng(2), 5
    old, s = np.exp(generator.normal(size=dim)), generator.normal(size=dim)
    z = s * np.exp(generator.normal(size=dim))
    b = np.diag(np.sum(z * z * old) / (s @ z) / old)
    b = b - np.outer(b @ s, b @ s) / (s @ b @ s) + np.outer(z, z) / (s @ z)
    before = Curvature.none(np, np.zeros((1, 1, dim)), 3)._replace(diagonal=old[None, None, :])
    found = before.after(np, s[None, None, :], z[None, None, :], np.ones((1, 1), dtype=bool))
    np.testing.assert_allclose(1 / found.diagonal[0, 0], np.diag(b), rtol=1e-12)


def test_a_move_without_positive_curvature_changes_nothing():
    x, moved = np.zeros((2, 1, 3)), np.array([[True], [False]])
    before = Curvature.none(np, x, 2)
    s = np.ones_like(x)
    after = before.after(np, s, np.array([[[-1.0, 0.0, 0.0]], [[1.0, 0.0, 0.0]]]), moved)
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    assert not after.known(np).any()


def test_paths_end_where_the_density_is_largest():
    """From far and near, of a Gaussian whose variances are from 1e-4 to 1e4."""
    precision = np.diag(np.logspace(-4, 4, 5))
    start = np.array([[[100.0] * 5], [[0.1] * 5]])
    at, endless, evaluations, _ = climb(NUMPY, of_gaussian(precision, 3.0), start, 200, 6, see_nothing, ())
    assert np.all(-at.log_density < 1e-5)
    assert not endless.any() and np.all(evaluations < 100)


def test_a_path_without_an_end_is_bounded_and_told():
    def evaluate(x):  # rises along the first coordinate, for ever
        return Ascent(x, x[..., 0] - 0.5 * x[..., 1] ** 2, np.stack([np.ones_like(x[..., 0]), -x[..., 1]], axis=-1))

    _, endless, evaluations, _ = climb(NUMPY, evaluate, np.ones((2, 1, 2)), 50, 6, see_nothing, ())
    assert endless.all() and np.all(evaluations < 200)


def test_what_is_not_finite_is_not_moved_to():
    def evaluate(x):  # a half line, with its mode at 1
        inside = np.all(x > 0, axis=-1)
        safe = np.where(x > 0, x, 1.0)
        density = np.where(inside, np.sum(np.log(safe) - safe, axis=-1), -np.inf)
        return Ascent(x, density, np.where(x > 0, 1 / safe - 1, np.nan))

    at, endless, _, _ = climb(NUMPY, evaluate, np.array([[[1e-6]], [[50.0]], [[-1.0]]]), 100, 6, see_nothing, ())
    np.testing.assert_allclose(at.x[:2, 0, 0], 1.0, atol=1e-2)
    assert at.x[2, 0, 0] == -1.0 and not endless.any()
