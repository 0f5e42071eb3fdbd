"""What the tests of targets share: scores and Hessian-vector products against differences, on every library."""

import numpy as np

from xpsample import MALA, SRMC, Exact
from xpsample.core.registry import to_host

STEP = 1e-5
EVERYTHING = SRMC(MALA(0.1), alpha=1.0, tilt=Exact()).requires


def check_score(target, x, coordinates=None, rtol=1e-6):
    """The score of `target` at NumPy positions x is the slope of its log density, in all or in given coordinates."""
    bound = target.prepare(x, MALA(0.1).requires)
    point = bound.evaluate(x)
    assert point.log_density.shape == x.shape[:-1]
    np.testing.assert_allclose(bound.score(x), point.score, rtol=1e-13)
    scale = np.max(np.abs(point.score))
    for i in range(x.shape[-1]) if coordinates is None else coordinates:
        e = STEP * (np.arange(x.shape[-1]) == i)
        slope = (bound.evaluate(x + e).log_density - bound.evaluate(x - e).log_density) / (2 * STEP)
        np.testing.assert_allclose(point.score[..., i], slope, rtol=rtol, atol=1e-6 * scale, err_msg=f"coordinate {i}")


def check_hvp(target, x, v):
    """Its Hessian times v, at NumPy positions, is the slope of its score along v."""
    bound = target.prepare(x, EVERYTHING)
    slope = (bound.score(x + STEP * v) - bound.score(x - STEP * v)) / (2 * STEP)
    np.testing.assert_allclose(bound.hvp(x, v), slope, rtol=1e-6, atol=1e-7 * np.max(np.abs(slope)))


def check_libraries(target, x, library):
    """Density, score and hvp are those of NumPy, to the digits of the dtype, in the positions' library and dtype."""
    requires = MALA(0.1).requires if target.hvp is None else EVERYTHING
    places = library.array(x), x
    found, wanted = (_derivatives(target.prepare(at, requires), at, target.hvp is not None) for at in places)
    rtol = 1e-11 if library.dtype == "float64" else 1e-4
    for mine, numpys in zip(found, wanted, strict=True):
        assert mine.dtype == places[0].dtype
        np.testing.assert_allclose(to_host(mine), numpys, rtol=rtol, atol=rtol * np.max(np.abs(numpys)))


def _derivatives(bound, x, curved):
    point = bound.evaluate(x)
    return [point.log_density, point.score, *([bound.hvp(x, x)] if curved else [])]


def check_density(target, reference, x):
    """The log density differs from `reference`, a function of one position, by one number at all x (count, dim)."""
    found = target.prepare(x, MALA(0.1).requires).evaluate(x).log_density
    wanted = np.array([reference(one) for one in x])
    np.testing.assert_allclose(found - found[0], wanted - wanted[0], rtol=1e-10, atol=1e-9 * np.max(np.abs(wanted)))


def check_moments(moments, y):
    """Known moments against draws y (rows, dim), within 5 standard errors in each: a false alarm below 1e-6 a number.

    The error of a variance of squares is found from 100 batches of the draws.
    """
    for name, found in (("mean", y), ("square", y**2)):
        error = np.std(found, axis=0) / np.sqrt(len(y))
        assert np.all(np.abs(found.mean(axis=0) - getattr(moments, name)) < 5 * error), name
    batches = np.var(y.reshape(100, -1, y.shape[-1]) ** 2, axis=1, ddof=1)
    error = np.std(batches, axis=0) / 10
    assert np.all(np.abs(batches.mean(axis=0) - moments.square_variance) < 5 * error)
    np.testing.assert_allclose(moments.variance, moments.square - moments.mean**2)
