"""Proximal operators, against solvers that share nothing with them."""

from functools import cache, partial

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp
from scipy.optimize import lsq_linear

from xpsample.core.errors import HyperparameterError
from xpsample.core.registry import backend_named
from xpsample.prox import L1, AnisotropicTV, IsotropicTV, envelope

NUMPY = backend_named("numpy")
SHAPE = (6, 5)


def images(shape=SHAPE, number=3, seed=0):
    """Noisy two-level pictures, flat."""
    generator = np.random.default_rng(seed)
    level = np.where(np.arange(shape[0] * shape[1]) % shape[1] < shape[1] // 2, 0.0, 3.0)
    return level + generator.normal(size=(number, shape[0] * shape[1]))


def difference_matrix(height, width):
    """All downward, then all rightward differences of a flat image, one row each."""
    number = np.arange(height * width).reshape(height, width)
    pairs = [*zip(number[:-1].ravel(), number[1:].ravel(), strict=True)]
    pairs += [*zip(number[:, :-1].ravel(), number[:, 1:].ravel(), strict=True)]
    rows = np.zeros((len(pairs), height * width))
    for row, (a, b) in zip(rows, pairs, strict=True):
        row[a], row[b] = -1.0, 1.0
    return rows


def by_quadratic_program(rows, x, scale):
    """argmin_u scale |rows u|_1 + |u - x|^2 / 2 through its dual, a least-squares problem in a box."""
    return x - rows.T @ lsq_linear(rows.T, x, bounds=(-scale, scale), method="bvls", tol=1e-15).x


@pytest.mark.parametrize("shape", [(1, 6), (6, 1)])
def test_a_line_with_ties_and_a_scale_of_nothing(shape):
    y = np.array([[0.0, 0.0, 1.0, 1.0, 1.0, 0.0], [2.0, 2.0, 2.0, 2.0, 2.0, 2.0]])
    prox = AnisotropicTV(shape, 400).prox
    np.testing.assert_allclose(prox(NUMPY, y, 0.0), y)
    want = [[0.1, 0.1, 1 - 0.4 / 3, 1 - 0.4 / 3, 1 - 0.4 / 3, 0.2], [2.0] * 6]  # the plateaus pull at each other
    np.testing.assert_allclose(prox(NUMPY, y, 0.2), want, atol=1e-9)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("scale", [0.05, 0.5, 2.0])
def test_anisotropic_prox_solves_the_quadratic_program(library, scale):
    x = images()
    g = AnisotropicTV(SHAPE, iterations=600)
    got = library.host(library.compiled(lambda x: g.prox(library.backend, x, scale))(library.array(x)))
    want = np.stack([by_quadratic_program(difference_matrix(*SHAPE), one, scale) for one in x])
    gap = g.gap(numpy_xp, x, got, scale)
    assert np.all(np.sum((got - want) ** 2, axis=-1) <= 2 * gap + 1e-12)
    np.testing.assert_allclose(got, want, atol=2e-4)


@cache
def by_scikit_image(shape, scale):
    """Another scheme (Chambolle 2004, Eq. 9), run until it no longer moves."""
    restoration = pytest.importorskip("skimage.restoration")
    pictures = images(shape).reshape(-1, *shape)
    found = [restoration.denoise_tv_chambolle(one, weight=scale, eps=0, max_num_iter=6000) for one in pictures]
    return np.reshape(found, (len(found), -1))


@pytest.mark.first_cases(3)
@pytest.mark.parametrize("scale", [0.05, 0.5, 2.0])
def test_isotropic_prox_is_that_of_another_library(library, scale):
    shape = (12, 9)
    x, g = images(shape), IsotropicTV(shape, iterations=600)
    got = library.host(library.compiled(lambda x: g.prox(library.backend, x, scale))(library.array(x)))
    np.testing.assert_allclose(got, by_scikit_image(shape, scale), atol=2e-3)
    assert np.all(g.gap(numpy_xp, x, got, scale) < 3e-3)


@pytest.mark.slow
def test_the_gap_bounds_the_error_and_shrinks():
    x, scale = images((12, 9)), 1.0
    exact = IsotropicTV((12, 9), 20_000).prox(NUMPY, x, scale)
    gaps = []
    for iterations in (2, 8, 32, 128):
        g = IsotropicTV((12, 9), iterations)
        u = g.prox(NUMPY, x, scale)
        gaps.append(g.gap(numpy_xp, x, u, scale))
        assert np.all(0.5 * np.sum((u - exact) ** 2, axis=-1) <= gaps[-1])
    assert np.all(np.diff(gaps, axis=0) < 0)
    assert np.all(gaps[0] > 0.1) and np.all(gaps[-1] < 0.03)


@pytest.mark.parametrize("g", [IsotropicTV(SHAPE, 30), AnisotropicTV(SHAPE, 30)], ids=lambda g: type(g).__name__)
def test_total_variation_by_hand(library32, g):
    image = np.zeros((6, 5))
    image[2:4, 1:3] = 2.0  # a square of side 2: 8 edges of height 2, one pixel of which has both its differences
    x = library32.array(np.stack([image.ravel(), np.full(30, 7.0)]))
    value = library32.host(g.value(library32.xp, x))
    corner = 2 * np.sqrt(2) if isinstance(g, IsotropicTV) else 4.0
    np.testing.assert_allclose(value, [6 * 2.0 + corner, 0.0], rtol=1e-6)
    u = library32.compiled(partial(g.prox, library32.backend))(x, library32.array([0.3, 0.3]))
    assert u.dtype == x.dtype
    np.testing.assert_allclose(library32.host(u)[1], 7.0, rtol=1e-6)
    np.testing.assert_allclose(np.mean(library32.host(u)[0]), np.mean(image), rtol=1e-5)  # the prox keeps the mean


@pytest.mark.parametrize(
    "g", [L1(), IsotropicTV(SHAPE, 300), AnisotropicTV(SHAPE, 300)], ids=lambda g: type(g).__name__
)
def test_gradient_of_the_envelope(g):
    """(x - prox(x)) / smoothing is the gradient of the Moreau envelope, by central differences of its values."""
    x, smoothing, strength, h = images(number=1)[0], 0.4, 0.7, 1e-4
    gradient = (x - g.prox(NUMPY, x, smoothing * strength)) / smoothing
    steps = h * np.eye(30)
    up, down = (envelope(g, NUMPY, x + s, smoothing, strength) for s in (steps, -steps))
    np.testing.assert_allclose(gradient, (up - down) / (2 * h), atol=2e-3)
    assert np.max(np.abs(gradient)) > 0.3


def test_soft_thresholding(library):
    x = library.array(np.array([[-2.0, -0.5, 0.0, 0.3, 4.0], [-2.0, -0.5, 0.0, 0.3, 4.0]]))
    got = library.host(L1().prox(library.backend, x, library.array([0.5, 1.0])))
    np.testing.assert_allclose(got, [[-1.5, 0, 0, 0, 3.5], [-1.0, 0, 0, 0, 3.0]])
    np.testing.assert_allclose(library.host(L1().value(library.xp, x)), [6.8, 6.8])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: IsotropicTV((4,)), r"shape must be \(height, width\)"),
        (lambda: AnisotropicTV((0, 4)), "height must be a positive integer; got 0"),
        (lambda: IsotropicTV((4, 4), 0), "iterations must be a positive integer; got 0"),
        (lambda: AnisotropicTV((4, 4), 0), "iterations must be a positive integer; got 0"),
        (lambda: IsotropicTV((4, 4)).value(numpy_xp, np.zeros(15)), "dim 15 are no images of 4 x 4"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(HyperparameterError, match=message):
        make()
