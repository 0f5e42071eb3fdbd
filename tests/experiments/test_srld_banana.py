"""The srld-banana experiment in its quick size, through the command line, and its target."""

import importlib.util
import json
import sys

import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.stats import kstest

from xpsample import MALA
from xpsample.cli import main
from xpsample.experiments.srld.banana import correlated, exact_draws, starts
from xpsample.targets import check_gradient


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """A quick run, with no matplotlib and no POT to be had."""
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib.axes", None)
        patch.setitem(sys.modules, "ot", None)
        patch.delitem(sys.modules, "xpsample.experiments.srld.banana_plot", raising=False)
        assert main(["run", "srld-banana", "--quick", "--out", str(folder)]) == 0
    return folder


def test_table(out):
    rows = json.loads((out / "results.json").read_text())
    assert [row["sampler"] for row in rows] == ["LD", "SRLD", "SRLD - LD"] * 2
    for ld, srld, gain in (rows[:3], rows[3:]):
        assert srld["eta"] == pytest.approx(0.01)
        assert ld["eta"] > srld["eta"]  # the repulsion makes the drift larger, and Langevin's step with it
        for key in ("mmd2", "marginal_w1", "ess", "acf10"):
            assert gain[key] == pytest.approx(srld[key] - ld[key], abs=1e-12)
        assert gain["eta"] is None and ld["ess"] > 1 and 0 < ld["marginal_w1"] < 3


def test_report(out):
    text = (out / "report.txt").read_text()
    assert "no W1: it needs POT" in text and "no plot: it needs matplotlib" in text


def test_plot(tmp_path):
    if importlib.util.find_spec("matplotlib") is None:
        pytest.skip("matplotlib is not installed")
    from xpsample.experiments.srld.banana_plot import plot

    draws = np.random.default_rng(0).normal(size=(2, 40, 3, 2))
    plot(tmp_path / "plot.png", {"a": tuple(draws), "b": tuple(draws)}, draws[0, :, 0])
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


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
