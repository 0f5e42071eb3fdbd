"""The comparison of samplers: its table, its rule of when to stop, and what it says of a sampler that is wrong."""

import json
from argparse import Namespace

import numpy as np
import pytest

from xpsample.cli import main
from xpsample.core.devices import device_dtypes
from xpsample.core.errors import HyperparameterError
from xpsample.diagnostics import temperatures
from xpsample.experiments.runner import Run
from xpsample.experiments.samplers import defaults
from xpsample.experiments.samplers.published import LIMITS, PUBLISHED
from xpsample.experiments.samplers.samplers import EXPERIMENT, QUICK, SAMPLERS, cases, chosen, conclude, until_low
from xpsample.kernels import HMC, ULA
from xpsample.zoo.benchmarks import BENCHMARKS


def run_of(tmp_path, **options):
    args = Namespace(
        **(
            {"seed": 0, "out": tmp_path, "part": "gradients"}
            | dict.fromkeys(("target", "sampler", "chains", "seeds", "most"))
            | options
        )
    )
    return Run(QUICK, args, device_dtypes(["numpy"])[-1:], "samplers")


def gaussian():
    return BENCHMARKS["gaussian"], BENCHMARKS["gaussian"].target()


RUN = "samplers"


def test_quick(rows):
    assert [(row["target"], row["sampler"]) for row in rows] == [
        (target, sampler) for target in QUICK.targets for sampler in QUICK.samplers
    ]
    (gaussian,) = (row for row in rows if (row["target"], row["sampler"]) == ("gaussian", "HMC"))
    assert 15 < gaussian["gradients"] < 100  # published: 58
    assert gaussian["made"] > gaussian["draws"]


def test_options(tmp_path):
    size = chosen(run_of(tmp_path, target=["rosenbrock"], sampler=["MALA"], chains=3, most=7))
    assert size == QUICK._replace(targets=("rosenbrock",), samplers=("MALA",), chains=3, most=7)
    with pytest.raises(HyperparameterError, match="--seeds must be a positive integer; got 0"):
        chosen(run_of(tmp_path, seeds=0))


def test_a_sampler_that_is_biased_never_gets_there_and_its_bias_is_shown(tmp_path):
    """ULA with a step of 0.5 on a standard normal has the variance 1 / (1 - 0.25): off by 0.24 of the square's sd."""
    run = run_of(tmp_path)
    size = QUICK._replace(chains=16, most=2000)
    row = until_low(run, run.devices[0], *gaussian(), ULA(0.5), 0, size)
    assert row["gradients"] == np.inf and row["error"] > 0.01
    assert row["bias"] == pytest.approx((1 / 0.75 - 1) / np.sqrt(2), abs=0.1)
    right = until_low(run, run.devices[0], *gaussian(), HMC(0.75, steps=2), 0, size._replace(most=8000))
    assert np.isfinite(right["gradients"]) and right["bias"] < 0.1
    assert right["per_draw"] == 2 and right["gradients"] == pytest.approx(2 * right["draws"] / 100)
    assert right["warm_up"] == 0


def test_cases_have_medians_ranges_and_ratios(tmp_path):
    one = {"target": "banana", "sampler": "HMC"} | dict.fromkeys(
        ("warm_up", "per_draw", "acceptance", "diverged", "bias", "seconds"), 1.0
    )
    rows = [one | {"gradients": gradients} for gradients in (400.0, 319.0, 100.0)]
    (case,) = cases(rows)
    assert (case["gradients"], case["gradients_low"], case["gradients_high"]) == (319.0, 100.0, 400.0)
    assert case["ratio"] == pytest.approx(0.5) and case["reached"] == "3 of 3"
    assert conclude(run_of(tmp_path), rows).startswith("1 of 1 cases")
    (case,) = cases([*rows, one | {"gradients": np.inf}])
    assert case["reached"] == "3 of 4"
    assert "not: HMC on banana" in conclude(run_of(tmp_path), [*rows, one | {"gradients": np.inf}])


def test_runs_from_defaults_are_right(tmp_path):
    assert (
        main(["run", "samplers", "--quick", "--part", "defaults", "--target", "gaussian", "--out", str(tmp_path)]) == 0
    )
    (row,) = json.loads((tmp_path / "results.json").read_text())
    assert (row["chains"], row["outcome"]) == (4, "right")
    assert "1 of 1 runs are right" in (tmp_path / "report.txt").read_text()


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


def test_published_figures_are_of_targets_that_are_here():
    assert set(PUBLISHED) < set(BENCHMARKS)
    assert set(LIMITS) <= {sampler for row in PUBLISHED.values() for sampler in row}
    assert all(SAMPLERS[name]() is not None for name in SAMPLERS)
    assert EXPERIMENT.name == "samplers"
