"""The two-wells experiment in its quick size, through the command line, and what it counts."""

import numpy as np
from scipy.stats import binomtest

from xpsample import MALA, ULA, sample
from xpsample.experiments.srmc.wells import ETA, RADIUS, escaped, responsibility, truth, ula_sd, wells, wilson
from xpsample.zoo.gaussian import gaussian

SAMPLERS = ["ULA", "SR-ULA Exact", "SR-ULA Shift"]


RUN = "srmc-wells"


def test_table(rows):
    assert [row["sampler"] for row in rows] == SAMPLERS
    for row in rows:
        assert (row["backend"], row["dtype"]) == ("numpy", "float64")
        shares = [row[f"escaped_{n}"] for n in (1000, 2000, 3000, 4000)]
        assert shares == sorted(shares)
        assert row["escaped_4000_low"] <= row["escaped_4000"] <= row["escaped_4000_high"]
        assert row["escaped_4000"] <= row["naive_4000"]
        assert -2.5 < row["mean_x1"] < 3
    assert rows[0]["naive_4000"] < 0.2  # ULA stays for long
    assert max(row["naive_4000"] for row in rows[1:]) > 0.9  # SR-ULA does not


def test_escape_needs_more_than_the_right_side():
    x = np.array([[-2.0, 0], [0.5, 0], [1.0, 0], [2.1, 0], [2.1, 2.0], [2.1, 3.0], [2 + 1.01 * RADIUS, 0]])
    np.testing.assert_array_equal(escaped(x), [False, False, False, True, True, False, False])


def test_responsibility_is_bayes_rule():
    x = np.random.default_rng(0).standard_normal((5, 2)) * 2
    wide = 0.2 * np.exp(-0.5 * np.sum((x - [2, 0]) ** 2, axis=-1)) / (2 * np.pi)
    density = np.exp(wells().prepare(x, MALA(1.0).requires).evaluate(x).log_density)
    np.testing.assert_allclose(responsibility(x), wide / density, rtol=1e-9)
    np.testing.assert_allclose(responsibility(np.array([[1e4, 0.0], [-2.0, 0.0]])), [1.0, 0.0], atol=0.01)


def test_truth_is_the_targets():
    exact = truth()
    assert abs(exact["in_wide"] - 0.2) < 0.005 and abs(exact["near_1"] - 0.24) < 0.02


def test_wilson():
    for count in (0, 5, 50):
        expected = binomtest(count, 50).proportion_ci(method="wilson")
        np.testing.assert_allclose(wilson(count, 50), (expected.low, expected.high), rtol=1e-6, atol=1e-12)
    assert wilson(0, 100)[0] == 0 and wilson(100, 100)[1] == 1


def test_ula_bias():
    sd = 0.18
    trace = sample(gaussian(sd**2 * np.eye(2)), ULA(ETA), np.zeros((500, 2)), 100, seed=0, burn_in=50, progress=False)
    np.testing.assert_allclose(np.std(trace.draws), ula_sd(sd), rtol=0.01)
