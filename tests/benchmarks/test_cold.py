"""The comparison from the start of a process: densities, the clock, and rows of the table."""

import math

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from asv_benchmarks.peers import cold  # noqa: E402
from asv_benchmarks.peers.cold_cases import MODELS, ColdCase  # noqa: E402
from xpsample.zoo.logistic import german_credit  # noqa: E402


@pytest.mark.sampled(6)
@pytest.mark.parametrize("model", cold.MODELS)
def test_a_density_of_many_positions_is_that_of_each(model, data_folder):
    x = ColdCase(model, 4).start(0)
    assert x.shape == (4, MODELS[model][0])
    every, each = MODELS[model][1](x), [MODELS[model][1](one) for one in x]
    assert every.shape == (4,) and np.all(np.isfinite(every))
    np.testing.assert_allclose(every, each, rtol=1e-4)


def test_german_credit_is_that_of_the_zoo(data_folder):
    target, x = german_credit(), ColdCase("German credit", 4).start(0)
    np.testing.assert_allclose(MODELS["German credit"][1](x), target.log_density(x, target.data), rtol=1e-4)


def test_the_clock_leaves_out_what_is_not_the_samplers():
    clock = cold.Clock()
    began = clock()
    assert clock.off(lambda: sum(range(3_000_000))) == 4499998500000
    assert clock() - began < 0.02


def test_a_row_has_medians_and_what_was_said():
    run = {"seconds": 3.0, "start": math.nan, "ess": 410.0, "draws": 500, "said": ""}
    row = cold.row("toy", 4, "HMC", [run, run | {"seconds": 9.0}, run | {"seconds": 4.0}])
    assert (row["least"], row["seconds"], row["most"], row["ess"], row["said"]) == (3.0, 4.0, 9.0, 410.0, "")
    none = cold.row("toy", 4, "nutpie", [{"said": "not installed"}])
    assert math.isnan(none["seconds"]) and none["said"] == "not installed"
