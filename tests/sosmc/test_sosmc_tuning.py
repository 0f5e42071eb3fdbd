"""Moves of SOSMC that tune what their kernel leaves out: right weights, particles that keep up, the same everywhere."""

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

import xpsample as xps
from tests.sosmc.sosmc_support import Along, nothing, scaled
from xpsample.core.errors import HyperparameterError
from xpsample.kernels.adapted import tuning_states
from xpsample.sosmc import SOSMC, Adaptation, Unweighted

STEPS, VELOCITY = 80, 0.1
QUIET = {"recorders": (), "progress": False}


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


def test_runs_tune_as_each_would_alone():
    x0 = np.random.default_rng(0).normal(size=(3, 20, 1))
    kernel = SOSMC(nothing, xps.HMC(), Along(VELOCITY), threshold=0.9)
    bounds = [scaled(runs).prepare(x0 if runs else x0[0], kernel.requires) for runs in ((3,), ())]
    together, alone = kernel.init(bounds[0], x0), [kernel.init(bounds[1], x) for x in x0]
    rng = np.random.default_rng(1)
    for _ in range(10):
        noise = {name: rng.uniform(size=spec.shape) for name, spec in kernel.noise(x0).items()}
        together, _ = kernel.step(bounds[0], together, noise)
        alone = [
            kernel.step(bounds[1], state, {name: rows[g] for name, rows in noise.items()})[0]
            for g, state in enumerate(alone)
        ]
    (shared,) = tuning_states(together)
    for g in range(3):
        (own,) = tuning_states(alone[g])
        for name, rule in kernel.tuning_inside.rules.items():
            np.testing.assert_array_equal(
                rule.final(numpy_xp, own.memory[name]), rule.final(numpy_xp, shared.memory[name])[g]
            )


def test_the_same_values_on_every_library(library):
    def run(array):
        family = xps.Parametric(scaled().log_density, array(np.zeros(1)), score=scaled().score)
        x0 = array(np.random.default_rng(0).normal(size=(30, 1)))
        kernel = SOSMC(nothing, xps.MALA(), Along(VELOCITY), threshold=0.9)
        return xps.sample(family, kernel, x0, 10, seed=xps.Portable(1), **QUIET)

    ours, theirs = run(np.asarray), run(library.array)
    for name in ("MALA.step_size", "MALA.preconditioner"):
        np.testing.assert_array_equal(library.host(theirs.warmup[name]), ours.warmup[name])
    np.testing.assert_allclose(library.host(theirs.state.point.x), ours.state.point.x, rtol=1e-8, atol=1e-10)


def test_a_run_goes_on_from_a_checkpoint(tmp_path):
    x0 = np.random.default_rng(0).normal(size=(30, 1))
    kernel = SOSMC(nothing, Unweighted(xps.sosmc.Reversible(xps.HMC())), Along(VELOCITY))
    options = {"seed": 1, **QUIET}
    xps.sample(scaled(), kernel, x0, 4, checkpoint=tmp_path, **options)
    resumed = xps.sample(scaled(), kernel, x0, 10, checkpoint=tmp_path, **options)
    whole = xps.sample(scaled(), kernel, x0, 10, **options)
    np.testing.assert_array_equal(resumed.state.point.x, whole.state.point.x)
    np.testing.assert_array_equal(resumed.warmup["HMC.step_size"], whole.warmup["HMC.step_size"])


def test_what_is_left_out_is_not_adapted_by_weights():
    with pytest.raises(HyperparameterError, match="adapt_move needs a step_size"):
        SOSMC(nothing, xps.MALA(), Along(0.1), adapt_move=Adaptation())
