"""Moves of SOSMC that tune what their kernel leaves out: right weights, particles that keep up, the same everywhere."""

import numpy as np
import pytest

import xpsample as xps
from tests.sosmc.sosmc_support import Along, nothing, scaled
from xpsample.core.errors import HyperparameterError
from xpsample.sosmc import SOSMC, Adaptation

STEPS, VELOCITY = 80, 0.1
QUIET = {"recorders": ()}


def narrowing(runs, particles, **options):
    """N(0, exp(-theta)), theta from 0 to 8: the scale falls to 1 / 55 of that of the start."""
    kernel = SOSMC(nothing, xps.MALA(), Along(VELOCITY), **options)
    x0 = np.random.default_rng(0).normal(size=(runs, particles, 1))
    return xps.sample(scaled((runs,)), kernel, x0, STEPS, seed=1, **QUIET)


def test_weights_and_values_of_a_target_that_narrows():
    trace = narrowing(50, 100)
    whole = xps.log_normalizer(trace.state.weights.log_normalizer)
    assert whole.standard_error < 0.1
    # Within 5 errors; tuning biases by the order of one over the particles, 1 %.
    assert abs(whole.value + 0.5 * STEPS * VELOCITY) < 5 * whole.standard_error + 0.01
    accepted = trace.warmup["acceptance_probability"]
    np.testing.assert_allclose(np.mean(accepted[40:], axis=0), 0.574, atol=0.1)
    step = trace.warmup["MALA.step_size"] * trace.warmup["MALA.preconditioner"][..., 0]
    assert step.shape == (STEPS, 50, 1)
    # The step size in units of x squared goes with the variance.
    np.testing.assert_allclose(np.mean(np.log(step[-1] / step[39])), -VELOCITY * 40, atol=0.5)


def test_moves_that_do_not_follow_are_caught(monkeypatch):
    monkeypatch.setattr("xpsample.adaptation.metric.Metric.follow", lambda self, xp, memory, point, pooled: memory)
    monkeypatch.setattr("xpsample.adaptation.step_size.GAIN", 0.0)
    assert np.all(np.mean(narrowing(5, 100).warmup["acceptance_probability"][40:], axis=0) < 0.4)


def test_what_is_left_out_is_not_adapted_by_weights():
    with pytest.raises(HyperparameterError, match="adapt_move needs a step_size"):
        SOSMC(nothing, xps.MALA(), Along(0.1), adapt_move=Adaptation())
