"""Supports of other libraries' distributions, and the spaces that they are."""

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

import xpsample as xps
from xpsample.core.errors import CapabilityError
from xpsample.interop import space_of
from xpsample.interop.constraints import between

MODULES = ["torch.distributions.constraints", "numpyro.distributions.constraints"]


@pytest.fixture(params=MODULES)
def constraints(request):
    pytest.importorskip(request.param.partition(".")[0])
    return pytest.importorskip(request.param)


def spaces(c):
    """Supports, shapes of values, and spaces."""
    return [
        (c.real, xps.Real()),
        (c.real, xps.Real(2, 3)),
        (c.real_vector, xps.Real(4)),
        (c.independent(c.independent(c.positive, 1), 1), xps.Positive(2, 3)),
        (c.positive, xps.Positive()),
        (c.nonnegative, xps.Positive(5)),
        (c.greater_than(1.5), xps.LowerBounded(1.5)),
        (c.greater_than_eq(-1.0), xps.LowerBounded(-1.0, 2)),
        (c.less_than(2.0), xps.UpperBounded(2.0, 3)),
        (c.unit_interval, xps.Interval(0.0, 1.0)),
        (c.interval(-2.0, 3.0), xps.Interval(-2.0, 3.0, 2)),
        (c.simplex, xps.Simplex(2, 3)),
        (c.corr_cholesky, xps.CorrelationCholesky(3)),
        (c.lower_cholesky, xps.CovarianceCholesky(2, 3)),
    ]


def test_each_support_is_a_space(constraints):
    for support, space in spaces(constraints):
        assert space_of(constraints, "x", support, space.shape) == space, support


def test_the_libraries_own_supports():
    c = pytest.importorskip("numpyro.distributions.constraints")
    t = pytest.importorskip("torch.distributions.constraints")
    assert space_of(t, "x", t.half_open_interval(0.0, 2.0), ()) == xps.Interval(0.0, 2.0)
    for support, space in (
        (c.circular, xps.Circular(2)),
        (c.ordered_vector, xps.Ordered(2)),
        (c.positive_ordered_vector, xps.PositiveOrdered(2)),
        (c.softplus_positive, xps.Positive(2)),
    ):
        assert space_of(c, "x", support, (2,)) == space


def test_bounds_of_each_entry_are_kept(constraints):
    torch_or_jax = pytest.importorskip("torch" if constraints.__name__.startswith("torch") else "jax.numpy")
    array = torch_or_jax.asarray([0.0, -1.0, 2.0])
    assert space_of(constraints, "x", constraints.greater_than(array), (3,)) == xps.LowerBounded([0.0, -1.0, 2.0])
    found = space_of(constraints, "x", constraints.interval(array, array + 2), (3,))
    assert np.allclose(found.constrain(numpy_xp, np.zeros(3))[0], [1.0, 0.0, 3.0])


@pytest.mark.parametrize(
    ("kind", "shape", "message"),
    [
        ("boolean", (), "is discrete.*Blocks"),
        ("nonnegative_integer", (), "is discrete.*Blocks"),
        ("positive_integer", (), "is discrete.*Blocks"),
        ("positive_definite", (3, 3), "no space"),
    ],
)
def test_sets_that_no_space_is_are_refused(constraints, kind, shape, message):
    with pytest.raises(CapabilityError, match=rf"Sigma.*{message}"):
        space_of(constraints, "Sigma", getattr(constraints, kind), shape)


INF = np.inf


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ([0.0, 0.0], [1.0, INF]),
        ([-INF, -INF], [1.0, INF]),
        ([-INF, 0.0], [1.0, 1.0]),
        ([-INF, 0.0], [INF, INF]),
        ([-INF, 0.0], [1.0, INF]),
    ],
)
def test_bounds_of_some_entries_alone_are_no_space(constraints, low, high):
    """A space that left one of them out would let a parameter run over it."""
    array = pytest.importorskip("torch" if constraints.__name__.startswith("torch") else "jax.numpy").asarray
    assert between(np.asarray(low), np.asarray(high), (2,)) is None
    with pytest.raises(CapabilityError, match=r"x are in .*no space"):
        space_of(constraints, "x", constraints.interval(array(low), array(high)), (2,))
