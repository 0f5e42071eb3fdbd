"""A user's callbacks see a run between its blocks, may end it, and change nothing."""

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import HyperparameterError
from xpsample.sampling import loop

TARGET = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
X0 = np.random.default_rng(0).normal(size=(300, 2))


class Looking:
    """Notes what it sees; ends the run at a step, or fails there."""

    def __init__(self, at=None, fails=False):
        self.at, self.fails, self.seen, self.ended = at, fails, [], 0

    def on_start(self, run):
        assert run.step == 0 and run.steps == 605 and run.trace.draws is None

    def on_block(self, run):
        draws = run.trace.draws
        self.seen.append((run.step, 0 if draws is None else len(draws)))
        if self.at is not None and run.step >= self.at:
            if self.fails:
                raise ValueError("the callback failed")
            return "seen enough"

    def on_end(self, run):
        self.ended += 1


def sampled(callback=None, **settings):
    callbacks = [] if callback is None else [callback]
    settings = {"seed": 1, "burn_in": 5, "progress": False, "callbacks": callbacks} | settings
    return xps.sample(TARGET, xps.MALA(0.5), X0, 600, **settings)


@pytest.mark.slow
def test_callbacks_see_the_draws_so_far_and_change_nothing(monkeypatch):
    monkeypatch.setattr(loop, "SECONDS", 1e-9)
    callback = Looking()
    trace = sampled(callback)
    assert callback.seen == [(step, max(0, step - 5)) for step in range(1, 606)] and callback.ended == 1
    np.testing.assert_array_equal(trace.draws, sampled().draws)
    assert "ended" not in trace.metadata


def test_a_callback_ends_a_run_which_goes_on_from_its_checkpoint(tmp_path):
    callback = Looking(at=10)
    trace = sampled(callback, checkpoint=tmp_path)
    assert trace.metadata["ended"] == "seen enough" and len(trace.draws) == callback.seen[-1][1] < 600
    np.testing.assert_array_equal(sampled(checkpoint=tmp_path).draws, sampled().draws)


def test_a_callback_that_fails_ends_the_run_and_is_told():
    callback = Looking(at=10, fails=True)
    with pytest.raises(ValueError, match="the callback failed"):
        sampled(callback)
    assert callback.ended == 1


def test_what_callbacks_cannot_be():
    with pytest.raises(HyperparameterError, match=r"a callback must be.*on_start\(run\)"):
        sampled(print)
    with pytest.raises(HyperparameterError, match="callbacks must be a sequence"):
        sampled(callbacks=Looking())
    with pytest.raises(HyperparameterError, match="cannot be used with shards="):
        sampled(Looking(), shards=2)
