"""The srld-banana experiment in its quick size, through the command line, and its target."""

import importlib.util
import sys

import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.signal import lfilter
from scipy.stats import kstest

from xpsample import MALA
from xpsample.experiments.srld.banana import correlated, exact_draws
from xpsample.experiments.srld.matched import autocorrelation, exact_w1, measure_columns, starts, verdict
from xpsample.targets import check_gradient

RUN = "srld-banana"


def test_table(rows):
    assert [row["sampler"] for row in rows] == ["LD", "SRLD", "SRLD - LD"] * 2
    for ld, srld, gain in (rows[:3], rows[3:]):
        assert srld["eta"] == pytest.approx(0.01)
        assert ld["eta"] > srld["eta"]  # the repulsion makes the drift larger, and Langevin's step with it
        for key in ("mmd2", "marginal_w1", "ess", "acf10"):
            assert gain[key] == pytest.approx(srld[key] - ld[key], abs=1e-12)
        assert "w1" not in ld  # it needs POT
        assert gain["eta"] is None and ld["ess"] > 1 and 0 < ld["marginal_w1"] < 3


def test_the_exact_distance_needs_pot(monkeypatch):
    runs, truth = np.zeros((3, 4, 2)), np.full((5, 2), [3.0, 4.0])
    if importlib.util.find_spec("ot") is not None:
        np.testing.assert_allclose(exact_w1(runs, truth)["w1"], [5.0, 5.0, 5.0])
    monkeypatch.setitem(sys.modules, "ot", None)
    assert exact_w1(runs, truth) == {}


def test_measures_have_errors_and_differences_intervals():
    shown = measure_columns("ess .1f ESS")["ess"][1]
    row = {"ess": 4.0, "ess_se": 1.0}
    assert shown(row | {"sampler": "LD"}) == "4.0 +- 1.0"
    assert shown(row | {"sampler": "SRLD - LD"}) == "4.0 (2.0, 6.0)"
    assert shown({"sampler": "LD"}) == ""


def test_a_verdict_needs_an_interval_without_zero():
    row = {"mmd2": -3.0, "marginal_w1": 3.0, "ess": 1.0} | dict.fromkeys(("mmd2_se", "marginal_w1_se", "ess_se"), 1.0)
    assert verdict(row) == "better in MMD^2; worse in marginal W1; undecided in ESS"
    assert verdict(row | {"ess": 2.0}) == "better in MMD^2, ESS; worse in marginal W1"


def test_the_score_is_the_densitys():
    check_gradient(correlated(), np.random.default_rng(0).normal(size=(20, 2)))


def test_exact_draws_are_the_targets():
    """Against quadrature: moments within 5 standard errors, and the conditional law by Kolmogorov-Smirnov."""
    x = exact_draws(100_000, np.random.default_rng(1))
    bound = correlated().prepare(np.zeros((1, 2)), MALA(1.0).requires)

    def mean(f):
        def density(b, a):
            return float(np.exp(bound.evaluate(np.array([[a, b]])).log_density[0]))

        def integral(g):
            return dblquad(
                lambda b, a: g(a, b) * density(b, a), -5, 5, lambda a: a**2 / 4 - 3.2, lambda a: a**2 / 4 + 0.8
            )[0]

        return integral(f) / integral(lambda a, b: 1.0)

    for f in (lambda a, b: a**2, lambda a, b: b):
        values = f(x[:, 0], x[:, 1])
        assert abs(values.mean() - mean(f)) < 5 * values.std() / np.sqrt(len(x))
    assert kstest(4 * (x[:, 1] + 1.2) - x[:, 0] ** 2, "norm").pvalue > 1e-4


def test_starts_are_cut_off():
    x = starts(2000, np.random.default_rng(2))
    assert np.all(np.abs(x - 2) < 2) and x.std() > 0.8


def test_the_autocorrelation_of_an_autoregression():
    """0.6^lag; errors of 0.005 a lag, from 40,000 draws of each of 4 chains, one seed."""
    noise = np.random.default_rng(0).standard_normal((40_000, 4))
    draws = lfilter([1.0], [1.0, -0.6], noise, axis=0)
    np.testing.assert_allclose(autocorrelation(draws, 5).mean(axis=-1), 0.6 ** np.arange(6), atol=0.02)
