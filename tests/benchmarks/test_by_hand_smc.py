"""Tempered SMC by hand and ours estimate the same."""

import math

import numpy as np
import pytest

from asv_benchmarks.peers import by_hand_smc


@pytest.mark.parametrize("run", [by_hand_smc.by_hand, by_hand_smc.ours])
def test_both_estimate_the_ratio_of_the_normalising_constants(run):
    x = 3.0 * np.random.default_rng(1).standard_normal((2000, 2))
    assert run(x, 0) == pytest.approx(-math.log(9), abs=0.2)
