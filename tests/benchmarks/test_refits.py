"""The comparison of many fits runs, and its ways give the same posterior."""

import importlib.util
import sys

import numpy as np
import pytest

if importlib.util.find_spec("blackjax") is None:
    pytest.skip("blackjax is not installed", allow_module_level=True)

import blackjax

import xpsample as xps
from asv_benchmarks.peers import refits


@pytest.mark.release
def test_the_ways_give_one_posterior():
    """`Sampler` and `sample` to the bit; BlackJAX within a tolerance of 0.12, with a fixed seed."""
    ways = [refits.by_sampler(xps.HMC()), refits.by_sample(xps.HMC()), refits.by_blackjax(blackjax.nuts, {})]
    means = [np.mean(np.asarray(fit(1)), axis=(0, 1)) for fit in ways]
    np.testing.assert_array_equal(means[0], means[1])
    np.testing.assert_allclose(means[0], means[2], atol=0.12)


@pytest.mark.release
def test_it_prints_a_row_for_each_way(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["refits", "--fits", "2"])
    refits.main()
    assert capsys.readouterr().out.count("\n") == 7
