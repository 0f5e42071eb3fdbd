"""The comparisons of samplers: tables, when they stop, and what they say of a sampler that is wrong."""

from argparse import Namespace
from itertools import product

import numpy as np
import pytest

from xpsample import RWM, Draws, load, sample
from xpsample.core.devices import device_dtypes
from xpsample.core.errors import HyperparameterError
from xpsample.diagnostics import temperatures
from xpsample.experiments.breast_cancer.breast_cancer import held_out_log_density
from xpsample.experiments.runner import Run
from xpsample.experiments.samplers import defaults
from xpsample.experiments.samplers.low_error import RecordSquareErrors, draws_to_low_error
from xpsample.experiments.samplers.published import LIMITS, PUBLISHED
from xpsample.experiments.samplers.samplers import QUICK, SAMPLERS, cases, chosen, conclude, until_low
from xpsample.kernels import HMC, ULA
from xpsample.zoo.benchmarks import BENCHMARKS
from xpsample.zoo.gaussian import gaussian
from xpsample.zoo.logistic import load_breast_cancer


def run_of(tmp_path, **options):
    unset = dict.fromkeys(("target", "sampler", "chains", "seeds", "most"))
    args = Namespace(**{"seed": 0, "out": tmp_path, "part": "gradients"} | unset | options)
    return Run(QUICK, args, device_dtypes(["numpy"])[-1:], "samplers")


def benchmark():
    return BENCHMARKS["gaussian"], BENCHMARKS["gaussian"].target()


def test_quick(quick):
    rows, _ = quick("samplers")
    cells = [(row["target"], row["sampler"]) for row in rows]
    assert cells == list(product(QUICK.targets, QUICK.samplers))
    row = rows[cells.index(("gaussian", "HMC"))]
    assert 15 < row["gradients"] < 100 and row["made"] > row["draws"]  # published: 58 gradients
    assert set(PUBLISHED) < set(BENCHMARKS)
    assert set(LIMITS) <= {sampler for row in PUBLISHED.values() for sampler in row} and all(
        f() for f in SAMPLERS.values()
    )


def test_options(tmp_path):
    size = chosen(run_of(tmp_path, target=["rosenbrock"], sampler=["MALA"], chains=3, most=7))
    assert size == QUICK._replace(targets=("rosenbrock",), samplers=("MALA",), chains=3, most=7)
    with pytest.raises(HyperparameterError, match="--seeds must be a positive integer; got 0"):
        chosen(run_of(tmp_path, seeds=0))


def test_a_sampler_that_is_biased_never_gets_there_and_its_bias_is_shown(tmp_path):
    """ULA with a step of 0.5 on a standard normal has the variance 1 / (1 - 0.25): off by 0.24 of the square's sd."""
    run = run_of(tmp_path)
    size = QUICK._replace(chains=16, most=2000)
    row = until_low(run, run.devices[0], *benchmark(), ULA(0.5), 0, size)
    assert row["gradients"] == np.inf and row["error"] > 0.01
    assert row["bias"] == pytest.approx((1 / 0.75 - 1) / np.sqrt(2), abs=0.1)
    right = until_low(run, run.devices[0], *benchmark(), HMC(0.75, steps=2), 0, size._replace(most=8000))
    assert np.isfinite(right["gradients"]) and right["bias"] < 0.1
    assert right["per_draw"] == 2 and right["gradients"] == pytest.approx(2 * right["draws"] / 100)
    assert right["warm_up"] == 0


def test_cases_have_medians_ranges_and_ratios(tmp_path):
    same = dict.fromkeys(("warm_up", "per_draw", "acceptance", "diverged", "bias", "seconds"), 1.0)
    rows = [
        {"target": "banana", "sampler": "HMC", "gradients": value} | same for value in (400.0, 319.0, 100.0, np.inf)
    ]
    (case,) = cases(rows[:3])
    assert (case["gradients"], case["gradients_low"], case["gradients_high"]) == (319.0, 100.0, 400.0)
    assert case["ratio"] == pytest.approx(0.5) and case["reached"] == "3 of 3"
    assert conclude(run_of(tmp_path), rows[:3]).startswith("1 of 1 cases")
    (case,) = cases(rows)
    assert case["reached"] == "3 of 4" and "not: HMC on banana" in conclude(run_of(tmp_path), rows)


def test_runs_from_defaults_are_right(rows_of):
    (row,), text = rows_of("samplers", "--part", "defaults", "--target", "gaussian")
    assert (row["chains"], row["outcome"]) == (4, "right") and "1 of 1 runs are right" in text


@pytest.mark.parametrize(
    ("target", "kernel", "kind"), [("gaussian", ULA(0.5), "heat"), ("funnel", HMC(), "divergences")]
)
def test_runs_that_are_not_right_are_told_apart(tmp_path, monkeypatch, target, kernel, kind):
    """ULA has twice the error that would do, and its chains agree; the funnel is more than any step size can do."""
    run = run_of(tmp_path)

    def row():
        return defaults.run_of(run, run.devices[0], target, BENCHMARKS[target], ("it", kernel), 4, 0)

    assert row()["outcome"] == "warned" and kind in row()["says"]
    if kind == "heat":
        monkeypatch.setattr(temperatures, "WARM", 10.0)  # with that finding out of the way, nothing is said
        assert row()["outcome"] == "silent"
        assert f"silent: it on {target}" in conclude(run_of(tmp_path, part="defaults"), [row()])
    else:
        assert "silent" not in conclude(run_of(tmp_path, part="defaults"), [row()])


# ---- errors of running means -----------------------------------------------------------------------------------------

SQUARE, VARIANCE = np.array([1.0, 4.0]), np.array([2.0, 32.0])


def chains(library, draws=30, since=None, seed=3, **options):
    """A run on N(0, diag(1, 4)) with 5 chains: its draws and what the recorder gives."""
    x0 = library.array(np.random.default_rng(0).standard_normal((5, 2)))
    recorders = (Draws(), RecordSquareErrors(SQUARE, VARIANCE, since=since, **options))
    trace = sample(gaussian(np.diag(SQUARE)), RWM(1.0), x0, draws, seed=seed, recorders=recorders)
    return library.host(trace.draws), trace.recorded["square_errors"]


def by_hand(y):
    """Errors (draw, chains) of y (draw, chains, dim), draw by draw."""
    running = [np.mean(y[: i + 1] ** 2, axis=0) for i in range(len(y))]
    return np.array([np.max((mean - SQUARE) ** 2 / VARIANCE, axis=-1) for mean in running])


def test_errors_are_those_of_the_draws_and_a_run_goes_on_from_an_earlier_one(library):
    draws, found = chains(library)
    np.testing.assert_allclose(library.host(found.errors), by_hand(draws), rtol=1e-10)
    np.testing.assert_allclose(library.host(found.total), np.sum(draws**2, axis=0), rtol=1e-12)
    second, both = chains(library, 20, found, seed=4)
    wanted = by_hand(np.concatenate([draws, second]))
    np.testing.assert_allclose(library.host(both.errors), wanted[30:], rtol=1e-10)
    assert (float(found.count), float(both.count)) == (30, 50)
    draws, found = chains(library, parameters=lambda x: 2.0 * x - 1.0)
    np.testing.assert_allclose(library.host(found.errors), by_hand(2.0 * draws - 1.0), rtol=1e-10)


def test_the_last_time_above_counts_and_nan_is_no_low_error():
    """The median over chains of the last draw above 0.01, and not of the first below."""
    errors = np.array([1.0, 0.005, 0.005, 0.02, 0.005, 0.004])[:, None]
    assert draws_to_low_error(errors) == 4
    assert draws_to_low_error(errors[:4]) == np.inf  # above at the end
    assert draws_to_low_error(errors[4:]) == draws_to_low_error(errors, low=0.1) == 1
    nan = np.nan
    for last, found in (([0, 0, 0.5], 1), ([0, 0.5, 0.5], np.inf), ([0, 0, nan], 1), ([0, nan, nan], np.inf)):
        assert draws_to_low_error(np.broadcast_to(last, (3, 3))) == found


# ---- breast cancer ---------------------------------------------------------------------------------------------------


def test_breast_cancer(quick):
    rows, out = quick("breast-cancer")
    assert [row["kernel"] for row in rows] == ["MALA", "SR-MALA", "HMC", "SR-HMC"]
    for row in rows:
        assert (row["backend"], row["device"], row["dtype"]) == ("numpy", "cpu", "float64")
        numbers = [v for v in row.values() if isinstance(v, (int, float))]
        assert len(numbers) == 13 and np.all(np.isfinite(numbers))
        assert row["divergences"] == 0 and 0.5 < row["acceptance"] < 0.95
        assert row["rhat"] < 1.05 and row["ess"] > 200
        assert row["error"] < 0.1 and row["chain_error"] < 0.25
        assert -0.11 < row["held_out_log_density"] < -0.05
        assert (row["hvps"] > 0) == row["kernel"].startswith("SR-")
    error = {row["kernel"]: row["chain_error"] for row in rows}
    assert error["SR-MALA"] < error["MALA"] and error["SR-HMC"] < error["HMC"]
    trace = load(out / "draws-numpy-cpu-float64-SR-MALA.npz")
    assert trace.draws.shape == (100, 16, 31) and trace.statistics["log_density"].shape == (100, 16)
    assert trace.metadata["names"] == list(load_breast_cancer().names)
    summary = trace.summary()
    assert summary.mean[summary.names.index("worst texture")] > 0.5


def test_held_out_density_is_the_log_of_the_mean():
    data = load_breast_cancer()
    draws = np.random.default_rng(0).standard_normal((3, 2, 31))
    p = 1 / (1 + np.exp(-np.einsum("dcj,nj->dcn", draws, data.test_features)))
    p = np.where(data.test_labels == 1, p, 1 - p)
    np.testing.assert_allclose(held_out_log_density(draws, data), np.log(p.mean(axis=(0, 1))).mean())
