"""The targets of comparisons: shapes of starts, moments and parameters fit, and the score at the starts is finite."""

import numpy as np
import pytest

from xpsample import MALA
from xpsample.zoo.benchmarks import BENCHMARKS


@pytest.mark.parametrize("name", BENCHMARKS)
def test_everything_fits(name, data_folder):
    benchmark = BENCHMARKS[name]
    x = benchmark.start(np.random.default_rng(0), 4)
    assert x.shape == benchmark.parameters(x).shape == (4, benchmark.dim)
    assert all(part.shape == (benchmark.dim,) for part in benchmark.moments())
    point = benchmark.target().prepare(x, MALA(0.1).requires).evaluate(x)
    assert np.all(np.isfinite(point.log_density)) and np.all(np.isfinite(point.score))


def test_starts_are_as_wide_as_the_widest_coordinate_or_standard_normal_or_drawn_from_the_prior():
    for name, scale in (("gaussian", 1.0), ("gaussian-scaled", 10.0), ("gaussian-rotated", 10.0), ("rosenbrock", 1.0)):
        x = BENCHMARKS[name].start(np.random.default_rng(1), 1000)
        assert np.std(x) == pytest.approx(scale, rel=0.02), name
    x = BENCHMARKS["stochastic-volatility"].start(np.random.default_rng(2), 200)
    assert np.std(np.diff(x[:, :-2], axis=-1)) == pytest.approx(0.02, rel=0.01)
    np.testing.assert_array_equal(x[:, -2:], 0.0)


def test_the_rotated_gaussian_has_variances_of_its_axes():
    moments = BENCHMARKS["gaussian-rotated"].moments()
    assert moments.square.sum() == pytest.approx(np.sum(np.logspace(-2, 2, 100)))
    assert moments.square.min() > 0.1  # no axis is a coordinate
    np.testing.assert_allclose(moments.square_variance, 2 * moments.square**2)
