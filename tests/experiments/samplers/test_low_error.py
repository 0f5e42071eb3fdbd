"""The rule of the comparison of samplers: its order of worst coordinate, median and last time, and its recorder."""

import numpy as np
import pytest

from xpsample import RWM, sample
from xpsample.experiments.samplers.low_error import RecordSquareErrors, draws_to_low_error
from xpsample.zoo.gaussian import gaussian

SQUARE, VARIANCE = np.array([1.0, 4.0]), np.array([2.0, 32.0])


def chains(library, draws=30, since=None, seed=3, **options):
    """A run on N(0, diag(1, 4)) with 5 chains: its draws and what the recorder gives."""
    x0 = library.array(np.random.default_rng(0).standard_normal((5, 2)))
    from xpsample import Draws

    recorder = RecordSquareErrors(SQUARE, VARIANCE, since=since, **options)
    trace = sample(gaussian(np.diag(SQUARE)), RWM(1.0), x0, draws, seed=seed, recorders=(Draws(), recorder))
    return library.host(trace.draws), trace.recorded["square_errors"]


def by_hand(y):
    """Errors (draw, chains) of y (draw, chains, dim), draw by draw."""
    running = [np.mean(y[: i + 1] ** 2, axis=0) for i in range(len(y))]
    return np.array([np.max((mean - SQUARE) ** 2 / VARIANCE, axis=-1) for mean in running])


def test_errors_are_those_of_the_draws(library):
    draws, found = chains(library)
    np.testing.assert_allclose(library.host(found.errors), by_hand(draws), rtol=1e-10)
    assert float(found.count) == 30
    np.testing.assert_allclose(library.host(found.total), np.sum(draws**2, axis=0), rtol=1e-12)


def test_errors_of_parameters():
    from xpsample.core.registry import to_host

    class Numpy:
        array, host = staticmethod(np.asarray), staticmethod(to_host)

    draws, found = chains(Numpy, parameters=lambda x: 2.0 * x - 1.0)
    np.testing.assert_allclose(found.errors, by_hand(2.0 * draws - 1.0), rtol=1e-10)


def test_a_run_goes_on_from_an_earlier_one(library):
    first, found = chains(library)
    second, both = chains(library, 20, found, seed=4)
    wanted = by_hand(np.concatenate([first, second]))
    np.testing.assert_allclose(library.host(both.errors), wanted[30:], rtol=1e-10)
    assert float(both.count) == 50


def test_the_last_time_above_counts_and_not_the_first_below():
    errors = np.array([1.0, 0.005, 0.005, 0.02, 0.005, 0.004])[:, None]
    assert draws_to_low_error(errors) == 4
    assert draws_to_low_error(errors[:4]) == np.inf  # above at the end
    assert draws_to_low_error(errors[4:]) == 1
    assert draws_to_low_error(errors, low=0.1) == 1


def test_the_median_is_over_chains_and_nan_is_no_low_error():
    low, high = np.full((3, 1), 0.001), np.full((3, 1), 0.5)
    assert draws_to_low_error(np.concatenate([low, low, high], axis=1)) == 1
    assert draws_to_low_error(np.concatenate([low, high, high], axis=1)) == np.inf
    assert draws_to_low_error(np.concatenate([low, low, np.nan * high], axis=1)) == 1
    assert draws_to_low_error(np.concatenate([low, np.nan * high, np.nan * high], axis=1)) == np.inf


def test_independent_draws_of_one_coordinate_need_about_what_chance_says():
    """The median chain is last above 0.01, that is beyond 0.1 sd, where a Brownian path's is: by simulation 100 to 500.

    With 400 chains the count varies by a few per cent from seed to seed.
    """
    z = np.random.default_rng(5).standard_normal((3000, 400))
    running = np.cumsum(z**2, axis=0) / np.arange(1, 3001)[:, None]
    found = draws_to_low_error((running - 1.0) ** 2 / 2.0)
    assert found == pytest.approx(46, abs=15)  # the median of chi-squared with one degree is 0.45
