"""A user's watchers see a run between its blocks, may end it, and change nothing."""

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import HyperparameterError
from xpsample.sampling import blocks

TARGET = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
X0 = np.random.default_rng(0).normal(size=(300, 2))


class Watching:
    """Notes what it sees; ends the run at a step, or fails there."""

    def __init__(self, at=None, fails=False):
        self.at, self.fails, self.seen, self.ended = at, fails, [], 0

    def begin(self, view):
        assert view.step == 0 and view.steps == 605 and view.trace.draws is None

    def between(self, view):
        draws = view.trace.draws
        self.seen.append((view.step, 0 if draws is None else len(draws)))
        if self.at is not None and view.step >= self.at:
            if self.fails:
                raise ValueError("the watcher failed")
            return "seen enough"

    def end(self, view):
        self.ended += 1


def run(watcher=None, **settings):
    watchers = [] if watcher is None else [watcher]
    settings = {"seed": 1, "burn_in": 5, "progress": False, "watchers": watchers} | settings
    return xps.sample(TARGET, xps.MALA(0.5), X0, 600, **settings)


def test_watchers_see_the_draws_so_far_and_change_nothing(monkeypatch):
    monkeypatch.setattr(blocks, "SECONDS", 1e-9)
    watcher = Watching()
    trace = run(watcher)
    assert watcher.seen == [(step, max(0, step - 5)) for step in range(1, 606)] and watcher.ended == 1
    np.testing.assert_array_equal(trace.draws, run().draws)
    assert "ended" not in trace.metadata


def test_a_watcher_ends_a_run_which_goes_on_from_its_checkpoint(tmp_path):
    watcher = Watching(at=10)
    trace = run(watcher, checkpoint=tmp_path)
    assert trace.metadata["ended"] == "seen enough" and len(trace.draws) == watcher.seen[-1][1] < 600
    np.testing.assert_array_equal(run(checkpoint=tmp_path).draws, run().draws)


def test_a_watcher_that_fails_ends_the_run_and_is_told():
    watcher = Watching(at=10, fails=True)
    with pytest.raises(ValueError, match="the watcher failed"):
        run(watcher)
    assert watcher.ended == 1


def test_what_watchers_cannot_be():
    with pytest.raises(HyperparameterError, match=r"a watcher must be.*begin\(view\)"):
        run(print)
    with pytest.raises(HyperparameterError, match="watchers must be a sequence"):
        run(watchers=Watching())
    with pytest.raises(HyperparameterError, match="leave it out, or shards="):
        run(Watching(), shards=2)
