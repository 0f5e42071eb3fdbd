"""SRLD on banana and mixtures: quick runs, targets, and common noise."""

import importlib.util
import itertools
import sys

import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.signal import lfilter
from scipy.stats import kstest

from xpsample import MALA, ULA, sample
from xpsample.core.specs import Normal
from xpsample.experiments.srld import matched
from xpsample.experiments.srld.banana import correlated, exact_draws
from xpsample.experiments.srld.mixtures import FULL, PAPERS, PROBLEMS, QUICK
from xpsample.targets import check_gradient

# ---- banana ----------------------------------------------------------------------------------------------------------


def test_banana(quick):
    rows, _ = quick("srld-banana")
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
        np.testing.assert_allclose(matched.exact_w1(runs, truth)["w1"], [5.0, 5.0, 5.0])
    monkeypatch.setitem(sys.modules, "ot", None)
    assert matched.exact_w1(runs, truth) == {}


def test_differences_have_intervals_and_a_verdict_needs_one_without_zero():
    shown, row = matched.measure_columns("ess .1f ESS")["ess"][1], {"ess": 4.0, "ess_se": 1.0}
    assert shown(row | {"sampler": "LD"}) == "4.0 +- 1.0" and shown({"sampler": "LD"}) == ""
    assert shown(row | {"sampler": "SRLD - LD"}) == "4.0 (2.0, 6.0)"
    row = {"mmd2": -3.0, "marginal_w1": 3.0, "ess": 1.0} | dict.fromkeys(("mmd2_se", "marginal_w1_se", "ess_se"), 1.0)
    assert matched.verdict(row) == "better in MMD^2; worse in marginal W1; undecided in ESS"
    assert matched.verdict(row | {"ess": 2.0}) == "better in MMD^2, ESS; worse in marginal W1"


def test_the_score_is_the_densitys():
    check_gradient(correlated(), np.random.default_rng(0).normal(size=(20, 2)))


def test_exact_draws_of_the_banana():
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
    x = matched.starts(2000, np.random.default_rng(2))
    assert np.all(np.abs(x - 2) < 2) and x.std() > 0.8


def test_the_autocorrelation_of_an_autoregression():
    """0.6^lag; errors of 0.005 a lag, from 40,000 draws of each of 4 chains, one seed."""
    noise = np.random.default_rng(0).standard_normal((40_000, 4))
    draws = lfilter([1.0], [1.0, -0.6], noise, axis=0)
    np.testing.assert_allclose(matched.autocorrelation(draws, 5).mean(axis=-1), 0.6 ** np.arange(6), atol=0.02)


# ---- mixtures --------------------------------------------------------------------------------------------------------


def test_mixtures(quick):
    rows, _ = quick("srld-mixtures")
    by = {(row["problem"], row["setting"], row["sampler"], row["alpha"]): row for row in rows}
    assert len(by) == len(rows)
    for name, setting in itertools.product(PROBLEMS, matched.SETTINGS):
        problem = PROBLEMS[name]
        ld, exact = by[name, setting, "LD", 0.0], by[name, setting, "exact", None]
        assert ld["eta"] == problem.eta and exact["eta"] is None
        # Six standard errors and the scatter of the 200 draws that they are compared with.
        assert abs(exact["mmd2_median"]) < 6 * exact["mmd2_median_se"] + 0.02 and ld["mmd2_median"] > 0.02
        assert abs(exact["square"] - 1) < 6 * exact["square_se"] + 0.01
        for alpha in problem.alphas[:-1]:
            srld, scaled = by[name, setting, "SRLD", alpha], by[name, setting, "LD scaled", alpha]
            assert scaled["eta"] > srld["eta"] == problem.eta
            for key in ("mmd2", "mmd2_median", "marginal_w1", "square", "ess", "acf1", "acf10"):
                gain, fast = by[name, setting, "SRLD - LD", alpha], by[name, setting, "SRLD - LD scaled", alpha]
                assert gain[key] == pytest.approx(srld[key] - ld[key], abs=1e-12)
                assert fast[key] == pytest.approx(srld[key] - scaled[key], abs=1e-12)
    # In 100 dimensions the drift that repulsion adds, and Langevin's step with it, grow far above the noise.
    etas = [by["Gaussian, d = 100", "authors' code", "LD scaled", a]["eta"] for a in (10.0, 20.0, 50.0, 100.0)]
    assert etas == sorted(etas)


def test_problems_are_chosen(rows_of):
    rows, _ = rows_of("srld-mixtures", "--problem", "mixture-20")
    assert {row["problem"] for row in rows} == {"mixture, d = 20"}
    # The slow bandwidth is left to the paper's size.
    assert FULL.settings == ("authors' code",) and PAPERS.settings == QUICK.settings == tuple(matched.SETTINGS)


@pytest.mark.parametrize("name", PROBLEMS)
def test_exact_draws_are_the_targets(name):
    """E x.s(x) = -dim and E s = 0 under the target (Stein's identity), each within 5 standard errors."""
    problem = PROBLEMS[name]
    x = problem.exact(20_000, np.random.default_rng(1))
    assert x.shape == (20_000, problem.dim)
    score = problem.target().prepare(x, ULA(1.0).requires).score(x)
    along = np.sum(x * score, axis=-1) / problem.dim
    assert abs(along.mean() + 1) < 5 * along.std() / np.sqrt(len(x))
    across = score.mean(axis=1)
    assert abs(across.mean()) < 5 * across.std() / np.sqrt(len(x))
    squares = np.mean(x**2, axis=1)
    assert abs(squares.mean() - problem.square) < 5 * squares.std() / np.sqrt(len(x))


def test_the_modes_in_20_dimensions_are_two_root_two_apart():
    problem = PROBLEMS["mixture, d = 20"]
    a, b = (m * np.ones(problem.dim) for m in problem.means)
    assert np.linalg.norm(a - b) == pytest.approx(2 * np.sqrt(2))


def test_the_first_axis_shares_its_noise(library):
    x0 = library.array(np.zeros((3, 2, 4)))
    kernel = matched.CommonNoise(ULA(library.array([[0.1], [0.1], [0.4]])))
    assert kernel.noise(x0) == {"proposal": Normal((1, 2, 4))}
    draws = library.host(sample(PROBLEMS["mixture, d = 2"].target(), kernel, x0[..., :2], 20, seed=1).draws)
    np.testing.assert_array_equal(draws[:, 0], draws[:, 1])
    assert np.all(draws[:, 0] != draws[:, 2])
    assert np.all(draws[:, 0, 0] != draws[:, 0, 1])
