"""Constrained spaces: the maps, their log Jacobians, and what becomes of them at the edges."""

import math

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp
from scipy import stats

import xpsample as xps
from tests.conftest import x64
from xpsample.core.registry import backend_named

LOWS = np.asarray([[-3.0], [1.0]])
SPACES = [
    xps.Real(),
    xps.Real(2, 3),
    xps.Positive(),
    xps.Positive(2, 2),
    xps.LowerBounded(-1.5, 2),
    xps.LowerBounded(LOWS, 2, 3),
    xps.UpperBounded(np.asarray([0.5, 4.0])),
    xps.Interval(-1.0, 2.0),
    xps.Interval(LOWS, 3.0, 2, 2),
    xps.Circular(),
    xps.Circular(3),
    xps.Ordered(4),
    xps.Ordered(2, 3),
    xps.PositiveOrdered(3),
    xps.PositiveOrdered(2, 2),
    xps.Simplex(2),
    xps.Simplex(5),
    xps.Simplex(2, 3),
    xps.UnitVector(3),
    xps.UnitVector(2, 4),
    xps.ZeroSum(2),
    xps.ZeroSum(2, 5),
    xps.CorrelationCholesky(2),
    xps.CorrelationCholesky(4),
    xps.CorrelationCholesky(2, 3),
    xps.CovarianceCholesky(1),
    xps.CovarianceCholesky(3),
    xps.CovarianceCholesky(2, 2),
]
every_space = pytest.mark.parametrize("space", SPACES, ids=repr)
BY_RADIUS = (xps.UnitVector, xps.Circular)
"""Spaces with one coordinate more than a value has, along which the value does not change."""


def coordinates(space, *chains, seed=0, scale=1.5):
    return scale * np.random.default_rng(seed).standard_normal((*chains, space.dim))


# ---- there and back --------------------------------------------------------------------------------------------------


@every_space
def test_every_library_gives_the_values_of_numpy(typed_library, space):
    """And of the same dtype, on the same device, from any number of chain axes; and their coordinates lead back."""
    xp, eps = typed_library.xp, float(np.finfo(typed_library.dtype).eps)
    host = coordinates(space, 3, 4).astype(typed_library.dtype)
    z = typed_library.array(host)
    value, log_jacobian = typed_library.compiled(lambda z: space.constrain(xp, z))(z)
    back = space.unconstrain(xp, value)
    expected, expected_jacobian = space.constrain(numpy_xp, host.astype(np.float64))
    assert value.dtype == log_jacobian.dtype == back.dtype == z.dtype
    devices = typed_library.backend.devices
    assert devices(value) == devices(log_jacobian) == devices(back) == devices(z)
    assert value.shape == (3, 4, *space.shape) and log_jacobian.shape == (3, 4) and back.shape == z.shape
    np.testing.assert_allclose(typed_library.host(value), expected, rtol=200 * eps, atol=20 * eps)
    np.testing.assert_allclose(typed_library.host(log_jacobian), expected_jacobian, rtol=100 * eps, atol=100 * eps)
    assert typed_library.host(space.contains(xp, value)).all()
    assert space.contains(xp, value).shape == (3, 4)
    again = typed_library.host(space.constrain(xp, back)[0])
    np.testing.assert_allclose(again, typed_library.host(value), rtol=1000 * eps, atol=100 * eps)
    if typed_library.dtype == "float64" and not isinstance(space, BY_RADIUS):
        np.testing.assert_allclose(typed_library.host(back), host, atol=1e-8)


def test_the_middle_is_at_zero():
    assert xps.Interval(-1.0, 3.0).constrain(numpy_xp, np.zeros(1))[0] == 1.0
    np.testing.assert_allclose(xps.Simplex(5).constrain(numpy_xp, np.zeros(4))[0], np.full(5, 0.2), rtol=1e-14)
    np.testing.assert_array_equal(xps.CorrelationCholesky(3).constrain(numpy_xp, np.zeros(3))[0], np.eye(3))
    np.testing.assert_array_equal(xps.CovarianceCholesky(3).constrain(numpy_xp, np.zeros(6))[0], np.eye(3))


def test_matrices_by_hand():
    """From the definition: partial correlations row by row, and entries below the diagonal before the diagonal."""
    z = np.asarray([0.3, -0.7, 1.1])
    a, b, c = np.tanh(z)
    rest = math.sqrt(1 - b * b)
    rows = [[1, 0, 0], [a, math.sqrt(1 - a * a), 0], [b, c * rest, rest * math.sqrt(1 - c * c)]]
    np.testing.assert_allclose(xps.CorrelationCholesky(3).constrain(numpy_xp, z)[0], rows, rtol=1e-14)
    value, log_jacobian = xps.CovarianceCholesky(2).constrain(numpy_xp, z)
    np.testing.assert_allclose(value, [[math.exp(-0.7), 0], [0.3, math.exp(1.1)]], rtol=1e-14)
    assert log_jacobian == pytest.approx(0.4)


# ---- the log Jacobian against the derivatives of the map -------------------------------------------------------------


def free(space, value):
    """The entries of one value that a density is a function of."""
    n = space.shape[-1] if space.shape else 0
    if isinstance(space, xps.Simplex):
        value = value[..., :-1]
    if isinstance(space, (xps.CorrelationCholesky, xps.CovarianceCholesky)):
        row, column = np.tril_indices(n, -1 if isinstance(space, xps.CorrelationCholesky) else 0)
        value = value[..., row, column]
    return value.reshape(-1)


def log_volume(space, z, derivative):
    """The log Jacobian, from the matrix of derivatives ``(values, coordinates)`` alone."""
    sizes = np.linalg.svd(derivative, compute_uv=False)
    if not isinstance(space, BY_RADIUS):
        return np.sum(np.log(sizes))
    width = space.axes[-1]
    radius = np.linalg.norm(z.reshape(-1, width), axis=-1)
    # The radius has a chi distribution, and directions are all that moves the value.
    return np.sum(np.log(sizes[sizes > 1e-9])) + np.sum(stats.chi(width).logpdf(radius))


def points(space):
    near = coordinates(space, 2)
    return [*near, 3.0 * near[0], *([] if isinstance(space, BY_RADIUS) else [np.zeros(space.dim)])]


def jacobian_of(library, constrain):
    """The derivatives of a map of one vector."""
    if library.name.startswith("torch"):
        import torch

        return lambda z: torch.func.jacrev(constrain)(library.array(z)).numpy(force=True)
    import jax

    compiled = jax.jit(jax.jacfwd(constrain))
    return lambda z: np.asarray(compiled(library.array(z)))


@pytest.mark.parametrize("space", [s for s in SPACES if s.dim < 10], ids=repr)
def test_the_log_jacobian_is_that_of_the_derivatives(differentiating, space):
    """And one that is left out, or of the wrong sign, is not."""
    derivative = jacobian_of(differentiating, lambda z: free(space, space.constrain(differentiating.xp, z)[0]))
    found, expected = [], []
    for z in points(space):
        found.append(float(space.constrain(differentiating.xp, differentiating.array(z))[1]))
        expected.append(log_volume(space, z, derivative(z)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    if not isinstance(space, (xps.Real, xps.ZeroSum)):
        for wrong in (np.zeros(len(found)), -np.asarray(found)):
            assert np.max(np.abs(wrong - expected)) > 0.1


@pytest.mark.parametrize("space", [s for s in SPACES if not isinstance(s, BY_RADIUS)], ids=repr)
def test_derivatives_at_zero_are_those_beside_it(differentiating, space):
    """Functions that are written differently on the two sides of 0 are smooth there, in the second derivative, too."""
    library = differentiating
    weights = library.array(coordinates(space, 1, seed=1)[0])

    def score(at):
        def density(z):
            value, log_jacobian = space.constrain(library.xp, z)
            flat = library.xp.reshape(value, (-1,))
            return log_jacobian + library.xp.sum(library.xp.sin(flat)) + library.xp.sum(flat * flat)

        value_and_grad = library.backend.autodiff.value_and_grad(density)
        gradient = value_and_grad(at)[1]
        product = library.backend.autodiff.hvp(lambda z: value_and_grad(z)[1])(at, weights)
        return library.host(gradient), library.host(product)

    at_zero, beside = (score(library.array(np.full(space.dim, at))) for at in (0.0, 1e-9))
    for left, right in zip(at_zero, beside, strict=True):
        np.testing.assert_allclose(left, right, atol=1e-6)


# ---- edges -----------------------------------------------------------------------------------------------------------

LOG2 = math.log(2.0)
EDGES = [  # space, coordinates, log Jacobian by its asymptotic form
    (xps.Interval(0.0, 2.0), [1e4], LOG2 - 1e4),
    (xps.Interval(0.0, 2.0), [-1e4], LOG2 - 1e4),
    (xps.Interval(0.1, 0.3, 2), [-120.0, 120.0], 2 * math.log(0.2) - 240.0),
    (xps.Positive(), [1e4], 1e4),
    (xps.Positive(), [-1e4], -1e4),
    (xps.LowerBounded(3.0), [-1e4], -1e4),
    (xps.UpperBounded(3.0), [-1e4], -1e4),
    (xps.Ordered(3), [-1e4, -1e4, -50.0], -10050.0),
    (xps.PositiveOrdered(2), [-1e4, -90.0], -10090.0),
    (xps.Simplex(3), [1e4, 1e4], -2 * (1e4 - LOG2) - 1e4),
    (xps.Simplex(3), [-1e4, -1e4], -(1e4 + LOG2) - 1e4),
    (xps.Simplex(3), [1e4, -1e4], -2 * (1e4 - LOG2) - 1e4),
    (xps.Simplex(3), [-1e4, 1e4], -(1e4 + LOG2) - 1e4),
    (xps.CorrelationCholesky(3), [1e4, 1e4, 1e4], 7 * (LOG2 - 1e4)),
    (xps.CorrelationCholesky(3), [-1e4, 1e4, -60.0], 5 * (LOG2 - 1e4) + 2 * (LOG2 - 60.0)),
    (xps.CovarianceCholesky(2), [1e4, -1e4, -95.0], -10095.0),
    (xps.UnitVector(2), [1e4, -1e4], -1e8 - math.log(2 * math.pi) + math.log(2 * math.pi)),
    (xps.Circular(), [-1e4, 1e-20], -0.5e8),
    (xps.ZeroSum(3), [1e4, -1e4], 0.0),
]
every_edge = pytest.mark.parametrize(("space", "z", "expected"), EDGES, ids=lambda v: str(v) if v in SPACES else None)


@every_edge
def test_nothing_is_nan_at_the_edges(library32, space, z, expected):
    """At |z| of 1e4 in float32: values at the bounds by rounding and not beyond, a finite and right log Jacobian."""
    xp = library32.xp
    with np.errstate(over="ignore"):
        value, log_jacobian = space.constrain(xp, library32.array(np.asarray(z)))
    host = library32.host(value)
    assert float(log_jacobian) == pytest.approx(expected, rel=3e-7)
    assert not np.isnan(host).any()
    assert np.isfinite(host).all() or (isinstance(space, xps.Positive) and z[0] > 0)
    if isinstance(space, xps.Interval):
        assert np.all(host >= np.float32(space.low)) and np.all(host <= np.float32(space.high))
    if isinstance(space, xps.Simplex):
        assert np.all(host >= 0) and host.sum() == pytest.approx(1.0, abs=1e-6)
    if isinstance(space, (xps.UnitVector, xps.CorrelationCholesky)):
        np.testing.assert_allclose(np.sum(host * host, axis=-1), 1.0, rtol=1e-6)


@every_edge
@pytest.mark.parametrize("name", ["torch", "jax"])
def test_gradients_are_finite_at_the_edges(name, space, z, expected):
    """Of the log Jacobian, and of the values where they are finite, in float32."""
    library = pytest.importorskip(name)
    backend = backend_named(name)
    xp = backend.xp
    at = library.numpy.asarray(z, dtype="float32") if name == "jax" else library.tensor(z, dtype=library.float32)
    # Plus 0: torch differentiates no constant, which the log Jacobian of an orthogonal map is.
    _, gradient = backend.autodiff.value_and_grad(lambda z: space.constrain(xp, z)[1] + 0.0 * xp.sum(z))(at)
    assert np.isfinite(backend.to_host(gradient)).all()
    if z != [1e4] or isinstance(space, xps.Interval):
        _, gradient = backend.autodiff.value_and_grad(lambda z: xp.sum(space.constrain(xp, z)[0]))(at)
        assert np.isfinite(backend.to_host(gradient)).all()


def test_an_interval_keeps_the_digits_at_its_bounds():
    """exp(-30) above 0 is seen in float32, and no rounding leads across the upper bound."""
    value, _ = xps.Interval(0.0, 1.0).constrain(numpy_xp, np.asarray([[-30.0], [-5.0]], dtype=np.float32))
    np.testing.assert_allclose(value, stats.logistic.cdf([-30.0, -5.0]), rtol=1e-6)
    for low, high in ((0.1, 0.3), (-1.7, 1.1), (1e6, 1e6 + 1), (-1e-3, 2e4)):
        z = np.linspace(-40.0, 40.0, 4001, dtype=np.float32)[:, None]
        value, _ = xps.Interval(low, high).constrain(numpy_xp, z)
        assert value.dtype == np.float32 and np.all(np.diff(value) >= 0)
        assert value[0] == np.float32(low) and value[-1] == np.float32(high)


def test_a_sum_of_large_numbers_is_zero_up_to_their_rounding():
    """And not up to that of numbers near 1, in float32."""
    z = 1e5 * np.random.default_rng(0).standard_normal((20, 49)).astype(np.float32)
    value, _ = xps.ZeroSum(50).constrain(numpy_xp, z)
    assert np.max(np.abs(np.sum(value, axis=-1))) > 1e-3
    assert xps.ZeroSum(50).contains(numpy_xp, value).all()
    assert not xps.ZeroSum(50).contains(numpy_xp, value + np.float32(100.0)).any()


def test_where_there_is_no_direction_there_is_no_value():
    with np.errstate(invalid="ignore"):
        value, log_jacobian = xps.UnitVector(3).constrain(numpy_xp, np.zeros(3))
    assert np.isnan(value).all() and np.isfinite(log_jacobian)
    assert xps.Circular().constrain(numpy_xp, np.zeros(2)) == (0.0, 0.0)


def test_edges_have_infinite_coordinates_and_what_is_outside_none():
    cases = [
        (xps.Positive(3), [0.0, np.inf, -1.0]),
        (xps.Interval(0.0, 1.0, 3), [0.0, 1.0, 2.0]),
        (xps.LowerBounded(2.0, 3), [2.0, np.inf, 0.0]),
        (xps.UpperBounded(2.0, 3), [2.0, -np.inf, 3.0]),
    ]
    for space, value in cases:
        with np.errstate(divide="ignore", invalid="ignore"):
            z = space.unconstrain(numpy_xp, np.asarray(value))
        assert np.isinf(z[:2]).all() and np.isnan(z[2])


CHOLESKY = [[1.0, 0.0], [0.6, 0.8]]
INSIDE = [
    (xps.Real(2), [1.0, -3.0]),
    (xps.Positive(2), [1e-30, 5.0]),
    (xps.LowerBounded(1.0), 1.5),
    (xps.UpperBounded(1.0), 0.5),
    (xps.Interval(0.0, 1.0), 0.5),
    (xps.Circular(), math.pi),
    (xps.Ordered(3), [-1.0, 0.0, 2.0]),
    (xps.PositiveOrdered(2), [0.5, 0.6]),
    (xps.Simplex(3), [0.2, 0.3, 0.5]),
    (xps.UnitVector(2), [0.6, -0.8]),
    (xps.ZeroSum(3), [1e5, 1e-3, -100000.001]),
    (xps.CorrelationCholesky(2), CHOLESKY),
    (xps.CovarianceCholesky(2), [[2.0, 0.0], [-3.0, 0.1]]),
]
OUTSIDE = [
    (xps.Real(2), [1.0, np.inf]),
    (xps.Real(2), [1.0, np.nan]),
    (xps.Positive(2), [0.0, 5.0]),
    (xps.Positive(2), [np.inf, 5.0]),
    (xps.LowerBounded(1.0), 1.0),
    (xps.UpperBounded(1.0), -np.inf),
    (xps.Interval(0.0, 1.0), 1.0),
    (xps.Interval(0.0, 1.0), np.nan),
    (xps.Circular(), 3.2),
    (xps.Ordered(3), [-1.0, 2.0, 2.0]),
    (xps.Ordered(3), [-np.inf, 0.0, 2.0]),
    (xps.PositiveOrdered(2), [-0.5, 0.6]),
    (xps.PositiveOrdered(2), [0.6, 0.5]),
    (xps.Simplex(3), [0.2, 0.3, 0.4]),
    (xps.Simplex(3), [0.7, 0.5, -0.2]),
    (xps.Simplex(3), [np.nan, 0.5, 0.5]),
    (xps.UnitVector(2), [0.6, 0.6]),
    (xps.ZeroSum(3), [0.6, -0.6, 0.1]),
    (xps.ZeroSum(3), [np.inf, -np.inf, 0.0]),
    (xps.CorrelationCholesky(2), [[1.0, 0.0], [0.6, -0.8]]),
    (xps.CorrelationCholesky(2), [[1.0, 0.0], [0.6, 0.6]]),
    (xps.CorrelationCholesky(2), [[0.8, 0.6], [0.6, 0.8]]),
    (xps.CovarianceCholesky(2), [[2.0, 0.1], [-3.0, 0.1]]),
    (xps.CovarianceCholesky(2), [[0.0, 0.0], [-3.0, 0.1]]),
    (xps.CovarianceCholesky(2), [[1.0, 0.0], [np.inf, 0.1]]),
]


def test_what_a_space_contains(library32):
    """One value inside beside one outside, so that chains are told apart."""
    for space, outside in OUTSIDE:
        inside = next(value for other, value in INSIDE if other == space)
        value = library32.array(np.asarray([inside, outside]))
        found = space.contains(library32.xp, value)
        np.testing.assert_array_equal(library32.host(found), [True, False], err_msg=f"{space}, {outside}")


# ---- the same maps elsewhere -----------------------------------------------------------------------------------------

SHARED = {  # how a library's constraints are called
    xps.Positive(3): ("positive",),
    xps.LowerBounded(-1.5, 3): ("greater_than", -1.5),
    xps.UpperBounded(2.5, 3): ("less_than", 2.5),
    xps.Interval(-1.0, 3.0, 3): ("interval", -1.0, 3.0),
    xps.Simplex(5): ("simplex",),
    xps.Simplex(2, 3): ("simplex",),
    xps.CorrelationCholesky(4): ("corr_cholesky",),
    xps.Ordered(4): ("ordered_vector",),
    xps.CovarianceCholesky(3): ("lower_cholesky",),
}


def constraint_of(module, name, *bounds):
    found = getattr(module, name)
    return found(*bounds) if bounds else found


OF_NUMPYRO_ALONE = ("ordered_vector", "lower_cholesky")


@pytest.mark.parametrize(
    ("space", "library"),
    [
        *((space, "torch") for space, (name, *_) in SHARED.items() if name not in OF_NUMPYRO_ALONE),
        *(pytest.param(space, "numpyro", marks=pytest.mark.slow) for space in SHARED),
    ],
    ids=repr,
)
def test_maps_are_those_of_other_libraries(space, library):
    distributions = pytest.importorskip(f"{library}.distributions")
    name = "torch" if library == "torch" else "jax"
    xp = backend_named(name).xp
    with x64(name, "float64"):
        transform = distributions.biject_to(constraint_of(distributions.constraints, *SHARED[space]))
        z = xp.asarray(coordinates(space, 6))
        value, log_jacobian = space.constrain(xp, z)
        z = z.reshape(6, *space.axes)
        expected = transform(z)
        theirs = transform.log_abs_det_jacobian(z, expected).reshape(6, -1).sum(-1)
        np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(log_jacobian, theirs, rtol=1e-8)
        back = transform.inv(expected).reshape(6, -1)
        np.testing.assert_allclose(space.unconstrain(xp, expected), back, rtol=1e-7, atol=1e-9)
