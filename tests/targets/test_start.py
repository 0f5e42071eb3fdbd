"""Start positions: spread as asked, and where the density is finite."""

import numpy as np
import pytest
from array_api_compat import array_namespace

import xpsample as xps
from xpsample.core.errors import HyperparameterError, LogDensityError, NoiseError, PositionError
from xpsample.core.registry import backend_of
from xpsample.targets.start import PILOTS, pilot_starts


def gaussian():
    return xps.Target(lambda x: -0.5 * array_namespace(x).sum(x * x, axis=-1), score=lambda x: -x)


def half_line():
    def log_density(x):
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.sum(np.log(x) - x, axis=-1)

    return xps.Target(log_density, score=lambda x: 1 / x - 1)


def test_positions_are_those_of_the_library(typed_library):
    like = typed_library.array(np.array([1.0, -100.0, 0.0]))
    x = xps.start(gaussian(), like, (2, 500), scale=3.0, seed=1)
    assert x.dtype == like.dtype and tuple(x.shape) == (2, 500, 3)
    host = typed_library.host(x)
    expected = xps.start(gaussian(), np.array([1.0, -100.0, 0.0]), (2, 500), scale=3.0, seed=1)
    np.testing.assert_allclose(host, expected, rtol=1e-6, atol=1e-5)
    # 1000 draws: the mean is within 0.4 and the standard deviation within 0.3 at 4 standard errors.
    np.testing.assert_allclose(np.mean(host, axis=(0, 1)), [1.0, -100.0, 0.0], atol=0.4)
    np.testing.assert_allclose(np.std(host, axis=(0, 1)), 3.0, atol=0.3)
    each = xps.start(gaussian(), np.zeros(2), 1000, scale=np.array([0.01, 100.0]), seed=2)
    np.testing.assert_allclose(np.std(each, axis=0), [0.01, 100.0], rtol=0.1)


def test_positions_of_no_density_are_drawn_again():
    x = xps.start(half_line(), np.zeros(3), 200, seed=1)  # one in 8 is inside
    assert np.all(x > 0)
    assert np.mean(x) == pytest.approx(2 * np.sqrt(2 / np.pi), abs=0.2)  # half normals, and not the ones next to 0
    scores = xps.Target(None, score=lambda x: np.where(x > 0, 1 / x, np.nan))
    assert np.all(xps.start(scores, np.zeros(2), 20, seed=1) > 0)


def test_no_position_at_all():
    with pytest.raises(LogDensityError, match="5 of 5 start positions have no finite log density after 100 draws"):
        xps.start(half_line(), np.full(2, -50.0), 5, seed=1)
    with pytest.raises(LogDensityError, match="must have shape"):
        xps.start(xps.Target(lambda x: np.sum(x)), np.zeros(2), seed=1)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"like": np.zeros((4, 2))}, PositionError, r"like has shape \(dim,\)"),
        ({"like": np.zeros(2, dtype=int)}, PositionError, "float"),
        ({"chains": 0}, HyperparameterError, "chains must be a positive integer"),
        ({"scale": -1.0}, HyperparameterError, "scale must be greater than 0"),
        ({"scale": np.ones(3)}, HyperparameterError, "scale of shape"),
        ({"seed": -1}, NoiseError, "a seed is a non-negative integer"),
        ({"target": xps.Target(lambda x: x.sum(-1), space=xps.Spins())}, PositionError, "is for real positions"),
    ],
)
def test_bad_arguments(change, error, message):
    with pytest.raises(error, match=message):
        xps.start(**{"target": gaussian(), "like": np.zeros(2), "chains": 3, "seed": 1, **change})


def test_pilots_on_a_discrete_space_are_uniform():
    """In each group, whatever its chains begin with: 3,000 values of three, each within 5 standard errors."""
    space = xps.Categorical((0, 1, 2))
    target = xps.Target(lambda x: 0.0 * x[..., 0], space=space)
    x0 = np.full((2, 4, 30), 2.0)
    x = pilot_starts(target, space.bind(backend_of(x0), x0), x0, seed=1)
    assert x.shape == (2, PILOTS, 30)
    shares = np.mean(np.reshape(x, (2, -1, 1)) == np.arange(3), axis=1)
    np.testing.assert_allclose(shares, 1 / 3, atol=5 * np.sqrt(2 / 9 / (PILOTS * 30)))
