"""Runs in shards that end when they have drawn enough."""

import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xpsample as xps
from tests.sampling.test_shards import TARGET, X0, log_density, same
from xpsample.core.errors import ConvergenceWarning, Interrupted
from xpsample.sampling.parallel import rounds
from xpsample.trace.screen import worst

ENOUGH = xps.Until(ess=800, rhat=1.01)
long = partial(xps.sample, TARGET, xps.MALA(), X0, 20_000, seed=1, warmup=50, shards=3)


@given(st.integers(1, 10_000), st.integers(0, 12_000))
@settings(max_examples=50)
def test_rounds_go_up_to_the_last_draw(draws, made):
    every, left = list(rounds(draws)), list(rounds(draws, made))
    assert every[-1] == left[-1] == draws
    assert all(a < b <= 1.5 * a + 1 for a, b in pairwise(every))
    assert left[:-1] == [look for look in every[:-1] if look >= made]


def test_until_looks_at_the_chains_of_all_shards(tmp_path):
    trace = long(until=ENOUGH, checkpoint=tmp_path / "a")
    draws = len(trace.draws)
    assert draws in list(rounds(20_000)) and draws < 2000
    assert worst(trace.draws)[0] >= 800 and worst(trace.draws)[1] <= 1.01
    before = max(look for look in rounds(20_000) if look < draws)
    ess, rhat = worst(trace.draws[:before])
    assert ess < 800 or rhat > 1.01
    same(trace, xps.sample(TARGET, xps.MALA(), X0, draws, seed=1, warmup=50, shards=3))
    same(long(until=ENOUGH, checkpoint=tmp_path / "a"), trace)
    more = long(until=xps.Until(ess=3000), checkpoint=tmp_path / "a")
    assert len(more.draws) > draws and np.array_equal(more.draws[:draws], trace.draws)


def test_until_makes_one_executor_for_all_rounds(tmp_path):
    made = []

    def pool():
        made.append(ThreadPoolExecutor(2))
        return made[-1]

    trace = long(until=ENOUGH, checkpoint=tmp_path / "a", executor=pool)
    same(trace, long(until=ENOUGH, checkpoint=tmp_path / "b"))
    assert len(made) == 1


def test_until_goes_on_in_the_round_where_it_was_stopped(tmp_path):
    calls = []

    def interrupting(x):
        calls.append(x.shape[0])
        if calls.count(2) == 900:  # in the third round, of the third shard
            signal.raise_signal(signal.SIGINT)
        return -x

    target = xps.Target(log_density, score=interrupting)
    shared = partial(xps.sample, target, xps.MALA(0.5), X0, 20_000, seed=1, shards=3, until=ENOUGH)
    saved = xps.Checkpoint(tmp_path, every=0.0)
    with pytest.raises(Interrupted, match="Ctrl-C after 2 of 3 shards"):
        shared(checkpoint=saved)
    calls.clear()
    trace = shared(checkpoint=tmp_path)
    assert calls.count(2) < 900
    same_draws = xps.sample(TARGET, xps.MALA(0.5), X0, len(trace.draws), seed=1, shards=3).draws
    assert np.array_equal(trace.draws, same_draws)


def test_until_of_running_moments_and_of_what_is_never_reached(tmp_path):
    recorders = (xps.Moments(), xps.BatchMeans(20))
    trace = long(until=ENOUGH, checkpoint=tmp_path / "a", recorders=recorders)
    again = long(until=ENOUGH, checkpoint=tmp_path / "a", recorders=recorders)
    assert again.recorded["moments"].count == trace.recorded["moments"].count < 20_000
    assert np.all(trace.summary().ess_bulk >= 800)
    shared = partial(xps.sample, TARGET, xps.MALA(), X0, 300, seed=1, warmup=50, shards=3, checkpoint=tmp_path / "b")
    with pytest.warns(ConvergenceWarning, match=r"ended with 300 draws before they had the ESS 5000"):
        assert len(shared(until=xps.Until(ess=5000)).draws) == 300
    short = long(until=xps.Until(seconds=1e-9), checkpoint=tmp_path / "c")
    assert len(short.draws) == 200
