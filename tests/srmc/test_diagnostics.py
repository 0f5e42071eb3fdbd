"""What a run shows of its tilt, the warning where it is too strong, and the estimator of Eq. 7."""

import warnings

import numpy as np
import pytest

from xpsample import HMC, MALA, RWM, SRMC, ULA, Draws, Exact, PowerLaw, Record, sample
from xpsample.core.errors import RepellenceWarning
from xpsample.srmc import Estimator, Frozen, LeapfrogAutocorrelation, Repellence, Stable, exponent_scale, theta_norm
from xpsample.zoo.gaussian import gaussian

pytestmark = pytest.mark.filterwarnings("ignore::xpsample.core.errors.RepellenceWarning")
"""Some tilts are too strong on purpose."""

COVARIANCE = np.array([[1.0, 0.5, 0.2], [0.5, 1.2, -0.3], [0.2, -0.3, 0.8]])
PRECISION = np.linalg.inv(COVARIANCE)
TARGET = gaussian(COVARIANCE)


def run(kernel, recorders, steps=50, x0=None, **options):
    x0 = np.ones((4, 3)) if x0 is None else x0
    return sample(TARGET, kernel, x0, steps, seed=1, recorders=recorders, **options)


@pytest.mark.parametrize("chains", [(4,), (), (2, 2)])
def test_functions_of_the_state(library, chains):
    recorders = (
        Draws(),
        Record("theta", lambda state: state.theta),
        Record("norm", theta_norm),
        Record("scale", exponent_scale),
    )
    trace = run(SRMC(MALA(0.3), 0.7, tilt=Exact()), recorders, x0=library.array(np.ones((*chains, 3))))
    theta = library.host(trace.recorded["theta"])
    score = -library.host(trace.draws) @ PRECISION
    np.testing.assert_allclose(library.host(trace.recorded["norm"]), np.linalg.norm(theta, axis=-1), rtol=1e-12)
    expected = 0.7 * np.abs(np.sum(score * theta, axis=-1))
    np.testing.assert_allclose(library.host(trace.recorded["scale"]), expected, rtol=1e-9)


def test_the_report_is_about_the_kept_steps(library):
    recorders = (Repellence(limit=0.3), Record("scale", exponent_scale), Record("norm", theta_norm))
    trace = run(
        SRMC(MALA(0.3), 0.7, tilt=Exact()), recorders, x0=library.array(np.ones((4, 3))), burn_in=10, thinning=2
    )
    report, scale = trace.recorded["repellence"], library.host(trace.recorded["scale"])
    np.testing.assert_allclose(library.host(report.exponent_scale), scale.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(library.host(report.above), (scale > 0.3).mean(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(library.host(report.theta_norm), library.host(trace.recorded["norm"])[-1])
    np.testing.assert_array_equal(library.host(report.alpha), np.full(4, 0.7))
    np.testing.assert_allclose(library.host(report.gamma), np.full(4, 1 / 210), rtol=1e-12)


def test_a_moderate_tilt_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(SRMC(MALA(0.3), np.array([0.0, 0.5, 1.0, 2.0]), tilt=Exact()), (Repellence(),), steps=500)


def test_a_diverging_history_warns_and_says_what_to_change():
    x0 = np.ones((4, 3))
    with (
        np.errstate(all="ignore"),
        pytest.warns(RepellenceWarning, match=r"too strong in 2 of 4 chains.*Adaptive.*Stable"),
    ):
        trace = run(
            SRMC(HMC(0.5, 3), np.array([0.0, 0.1, 50.0, 50.0]), PowerLaw(0.6), tilt=Exact()), (Repellence(),), 60, x0
        )
    assert np.all(trace.recorded["repellence"].above[2:] > 0.9)


def test_a_weak_repellence_is_judged_too_and_none_is_not():
    """Of chains with alpha 0, 0.5 and 5, all of which are above a tiny limit and accept less than always."""
    alpha = np.array([0.0, 0.5, 5.0, 5.0])
    with pytest.warns(RepellenceWarning) as caught:
        run(SRMC(RWM(0.5), alpha), (Repellence(limit=1e-9, least_acceptance=1.0),))
    assert any("too strong in 3 of 4" in str(w.message) for w in caught)
    assert any("collapsed in 3 of 4" in str(w.message) for w in caught)


def test_a_history_that_may_not_move_warns():
    with pytest.warns(RepellenceWarning, match="nothing repels in 4 of 4 chains"):
        run(SRMC(HMC(0.5, 20), 1.0, Stable(LeapfrogAutocorrelation(0.5, 20), 3.0), tilt=Exact()), (Repellence(),))


@pytest.mark.parametrize(
    "kernel",
    [SRMC(RWM(0.5), 1.0, Frozen(), theta=0.1 * np.ones(3)), SRMC(ULA(0.01), 0.1)],
    ids=["held-history", "acceptance-at-the-limit"],
)
def test_what_is_meant_does_not_warn(kernel):
    """A history that is held and not 0 repels; a mean acceptance of the least one is not below it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(kernel, (Repellence(least_acceptance=1.0 if isinstance(kernel.base, ULA) else 0.0),))


@pytest.mark.parametrize("function", [lambda x: x**2, lambda x: x[..., 0] * x[..., 1]], ids=["vector", "scalar"])
def test_the_estimator_is_equation_7_with_the_gamma_of_the_history(function, library):
    trace = run(
        SRMC(
            MALA(0.3),
            2.0,
            Stable(LeapfrogAutocorrelation(0.3, 1), library.array(np.linalg.eigvalsh(PRECISION)), PowerLaw(0.7)),
            tilt=Exact(),
        ),
        (Draws(), Record("gamma", lambda state: state.gamma), Estimator(function)),
        x0=library.array(np.ones((4, 3))),
        burn_in=5,
        thinning=2,
    )
    values, gamma = function(library.host(trace.draws)), library.host(trace.recorded["gamma"])
    gamma = gamma if values.ndim == 2 else gamma[..., None]
    mu, start = np.zeros(values.shape[1:]), 1.0  # `start`: the weight that the first mu has left
    for f, g in zip(values, gamma, strict=True):
        mu, start = mu + g * (f - mu), start * (1 - g)
    estimate = trace.recorded["estimate"]
    np.testing.assert_allclose(library.host(estimate.weighted), mu / (1 - start), rtol=1e-10)
    np.testing.assert_allclose(library.host(estimate.average), values.mean(axis=0), rtol=1e-10)


@pytest.mark.parametrize("schedule", [Frozen(), Stable(LeapfrogAutocorrelation(1.0, 3), 9.0)], ids=str)
def test_without_any_weight_the_estimator_is_the_average(schedule):
    estimate = run(SRMC(HMC(0.3, 3), 0.5, schedule, tilt=Exact()), (Estimator(),)).recorded["estimate"]
    np.testing.assert_array_equal(estimate.weighted, estimate.average)


def test_gamma_is_at_most_one():
    recorders = (Record("gamma", lambda state: state.gamma), Estimator(), Draws())
    trace = run(SRMC(MALA(0.3), 0.5, PowerLaw(0.6, scale=5.0), tilt=Exact()), recorders)
    gamma = 5.0 * (np.arange(50) + 2.0) ** -0.6
    assert gamma[0] > 3
    np.testing.assert_allclose(trace.recorded["gamma"][:, 0], np.minimum(gamma, 1.0), rtol=1e-12)
    estimate = trace.recorded["estimate"].weighted
    assert np.all((trace.draws.min(axis=0) <= estimate) & (estimate <= trace.draws.max(axis=0)))


def test_with_gamma_one_over_n_the_estimator_is_the_average():
    estimate = run(SRMC(MALA(0.3), 0.5, PowerLaw(1.0), tilt=Exact()), (Estimator(),)).recorded["estimate"]
    np.testing.assert_allclose(estimate.weighted, estimate.average, rtol=1e-12)
