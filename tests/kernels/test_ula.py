"""Unadjusted Langevin."""

import numpy as np
import pytest

import xpsample as xps
from tests.kernels.support import CHAINS, GAUSSIAN, NARROW, assert_variance, noise_of, score, start, walk
from xpsample.core.errors import HyperparameterError
from xpsample.kernels import ULA, CosineCycles, PolynomialDecay


def test_ula_by_hand(library):
    x = start(50)
    noise = noise_of(ULA(0.1), x, 1)
    positions, _, _ = walk(library, ULA(0.1), x, noise)
    y = x + 0.1 * score(x) + np.sqrt(0.2) * noise["proposal"][0]
    np.testing.assert_allclose(positions[0], y, rtol=1e-12)


def test_the_bias_of_ula_is_as_documented():
    """v / (1 - eta / (2 v)) on N(0, v)."""
    x0 = np.zeros((CHAINS, 1))
    draws = xps.sample(NARROW, ULA(0.3), x0, 1, burn_in=30, seed=5).draws
    assert_variance(draws[-1], 0.5 / (1 - 0.3 / (2 * 0.5)))


def test_a_schedule_gives_every_step_its_size(library):
    """Welling & Teh (2011): a (b + n)^-gamma, here with a of its own for each chain."""
    x = start(5)
    scale = np.linspace(0.05, 0.3, 5)
    kernel = ULA(PolynomialDecay(library.array(scale), 0.5, 2.0))
    noise = noise_of(kernel, x, 6)
    positions, _, _ = walk(library, kernel, x, noise)
    for n in range(1, 7):
        eta = (scale * (n + 2.0) ** -0.5)[:, None]
        x = x + eta * score(x) + np.sqrt(2 * eta) * noise["proposal"][n - 1]
        np.testing.assert_allclose(positions[n - 1], x, rtol=1e-10)


def test_cycles_have_large_steps_first(library):
    """Zhang et al. (2020), Eq. 1, over two cycles of three steps."""
    x = start(5)
    kernel = ULA(CosineCycles(0.2, 3))
    noise = noise_of(kernel, x, 6)
    positions, _, _ = walk(library, kernel, x, noise)
    for n, eta in enumerate((0.2, 0.15, 0.05, 0.2, 0.15, 0.05)):
        x = x + eta * score(x) + np.sqrt(2 * eta) * noise["proposal"][n]
        np.testing.assert_allclose(positions[n], x, rtol=1e-10)


def test_thinning_by_the_length_keeps_the_last_step_of_each_cycle():
    x0 = start(4)
    every = xps.sample(GAUSSIAN, ULA(CosineCycles(0.2, 5)), x0, 20, seed=1).draws
    last = xps.sample(GAUSSIAN, ULA(CosineCycles(0.2, 5)), x0, 4, seed=1, thinning=5).draws
    np.testing.assert_array_equal(last, every[4::5])


def test_a_schedule_without_decay_is_a_number():
    x0 = start(4)
    number, schedule = (xps.sample(GAUSSIAN, ULA(s), x0, 20, seed=1).draws for s in (0.1, PolynomialDecay(0.1, 0.0)))
    np.testing.assert_array_equal(schedule, number)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PolynomialDecay(0.0), r"scale must be greater than 0; got 0\.0"),
        (lambda: PolynomialDecay(1.0, -0.5), "power must be at least 0; got -0"),
        (lambda: PolynomialDecay(1.0, 0.5, -1.0), "offset must be at least 0; got -1"),
        (lambda: CosineCycles(0.1, 0), "length must be a positive integer; got 0"),
    ],
)
def test_bad_schedules_say_what_would_do(make, message):
    with pytest.raises(HyperparameterError, match=message):
        make()
