"""Expectations by control variates: right values, errors that hold, the same everywhere, and what is refused."""

import warnings

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import CapabilityError, FunctionError, TraceError

RECORDERS = (xps.Draws(), xps.Statistics(), xps.Scores())
X0 = np.random.default_rng(0).normal(size=(4, 2))


def log_density(x):
    """A quartic in each coordinate: far from normal, and with moments that quadrature tells."""
    return -0.5 * (x[..., 0] ** 2 + x[..., 1] ** 2) - 0.1 * (x[..., 0] ** 4 + x[..., 1] ** 4)


QUARTIC = xps.Target(log_density, score=lambda x: -x - 0.4 * x**3, hvp=lambda x, v: -v - 1.2 * x * x * v)


def second_moment():
    x = np.linspace(-8, 8, 4001)
    p = np.exp(-0.5 * x**2 - 0.1 * x**4)
    return np.sum(x**2 * p) / np.sum(p)


def run(target=QUARTIC, kernel=None, x0=X0, draws=200, **settings):
    kernel = xps.HMC(0.6, 4) if kernel is None else kernel
    given = {"seed": 1, "recorders": RECORDERS, "burn_in": 50} | settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short runs
        return xps.sample(target, kernel, x0, draws, **given)


@pytest.mark.slow
def test_the_error_holds_and_is_small():
    """50 runs, two coordinates: for errors that hold exactly, 86 of 100 or fewer within 1.96 have probability 4e-4.

    The squared error is a tenth of that of the plain mean, or less.
    """
    trace = run(x0=np.random.default_rng(1).normal(size=(50, 4, 2)), seed=2)
    found, truth = xps.expectation(trace, lambda x: x**2), second_moment()
    assert found.value.shape == found.standard_error.shape == (50, 2)
    assert np.sum(np.abs(found.value - truth) < 1.96 * found.standard_error) > 86
    np.testing.assert_allclose(found.plain, np.mean(trace.draws**2, axis=(0, 2)))
    assert np.sum((found.value - truth) ** 2) < 0.1 * np.sum((found.plain - truth) ** 2)
    assert np.all(found.standard_error < found.plain_standard_error)


@pytest.mark.slow
def test_no_bias_and_coverage_over_200_runs():
    """95 % of 400: less than 359 or more than 396 have probability 2e-4 for errors that hold exactly.

    And the mean of the estimates is within 4 of its errors of the truth: 6e-5 each.
    """
    trace = run(kernel=xps.MALA(0.4), x0=np.random.default_rng(1).normal(size=(200, 4, 2)), draws=200, seed=2)
    found, truth = xps.expectation(trace, lambda x: x**2), second_moment()
    inside = np.sum(np.abs(found.value - truth) < 1.96 * found.standard_error)
    assert 358 < inside < 397
    bias = np.mean(found.value, axis=0) - truth
    assert np.all(np.abs(bias) < 4 * np.std(found.value, axis=0) / np.sqrt(200))


@pytest.mark.parametrize(
    "kernel",
    [
        xps.NUTS(0.6),
        xps.MAMS(0.6, 1.0),
        xps.HMC(0.5, 3, mass=np.array([2.0, 0.5])),
        xps.ParallelTempering(xps.MALA(0.4), (1.0, 0.5)),
    ],
    ids=["NUTS", "MAMS", "HMC", "ParallelTempering"],
)
def test_scores_are_those_of_the_draws_of_every_kernel(kernel):
    trace = run(kernel=kernel, draws=30)
    np.testing.assert_allclose(trace.recorded["scores"], -trace.draws - 0.4 * trace.draws**3, rtol=1e-12, atol=1e-12)
    assert np.all(np.isfinite(xps.expectation(trace, np.cos)))


def test_scores_are_those_of_the_draws_on_every_library(library):
    """And the estimate is that of NumPy."""
    xp = library.xp
    target = xps.Target(lambda x: xp.sum(-0.5 * x**2 - 0.1 * x**4, axis=-1), score=lambda x: -x - 0.4 * x**3)
    trace = run(target, x0=library.array(X0), draws=40, seed=xps.Portable(3))
    draws = library.host(trace.draws)
    np.testing.assert_allclose(library.host(trace.recorded["scores"]), -draws - 0.4 * draws**3, rtol=1e-12, atol=1e-12)
    found = xps.expectation(trace, lambda x: x**2)
    on_numpy = xps.expectation(run(draws=40, seed=xps.Portable(3)), lambda x: x**2)
    np.testing.assert_allclose(found, on_numpy, rtol=1e-6)


def test_names_are_in_unconstrained_coordinates():
    """tau is Exponential(1): its mean is 1; the score is that of log tau, with its Jacobian."""
    spaces = {"tau": xps.Positive(), "z": xps.Real(2)}
    model = xps.Model(lambda p: -p.tau - 0.5 * np.sum(p.z**2, axis=-1), gradient=xps.FiniteDifference(), **spaces)
    trace = run(model, x0={"tau": np.ones(8), "z": np.zeros((8, 2))}, draws=300)
    np.testing.assert_allclose(trace.recorded["scores"][..., 0], 1 - trace["tau"], atol=1e-6)
    found = xps.expectation(trace, lambda p: p.tau)
    assert found.value.shape == ()
    assert abs(found.value - 1) < 1e-6 and abs(found.plain - 1) > 1e-3
    shaped = xps.expectation(trace, lambda p: p.z[..., None, :] * p.tau[..., None, None])
    assert shaped.value.shape == (1, 2)


def test_a_file_and_shards_have_them_too(tmp_path):
    trace = run()
    trace.save(tmp_path / "run.npz")
    np.testing.assert_array_equal(
        xps.expectation(xps.load(tmp_path / "run.npz"), np.cos), xps.expectation(trace, np.cos)
    )
    cut = run(shards=2, seed=5)
    assert xps.expectation(cut, lambda x: x[..., 0] > 0).value.shape == ()


# ---- refused ---------------------------------------------------------------------------------------------------------

NOT_RECORDED = [
    (QUARTIC, xps.RWM(0.5), "the kernel evaluates none"),
    (xps.Target(log_density, score=lambda x: -x, constrained=True), xps.HMC(0.5, 3), "hard constraints"),
    (xps.Target(None, score=lambda x: -x, acceptance=xps.targets.LineIntegral()), xps.HMC(0.5, 3), "LineIntegral"),
    (xps.Target(lambda x: x[..., 0], score=lambda x: 0 * x, space=xps.Binary()), xps.GWG(), "discrete"),
]


@pytest.mark.parametrize(("target", "kernel", "message"), NOT_RECORDED)
def test_scores_whose_mean_is_not_0_are_not_recorded(target, kernel, message):
    with pytest.raises(CapabilityError, match=message):
        run(target, kernel, x0=np.abs(np.round(X0)) % 2)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (xps.ULA(0.1), "ULA does not leave its target invariant"),
        (xps.MCLMC(0.5, 1.0), "MCLMC does not leave"),
        (xps.SVGD(0.1), "SVGD does not leave"),
        (xps.ParallelTempering(xps.ULA(0.1), (1.0, 0.5)), "ParallelTempering does not leave"),
        (xps.SRMC(xps.HMC(0.6, 4), 0.3), "SRMC draws from tilted targets"),
    ],
)
def test_draws_of_something_else_are_refused(kernel, message, tmp_path):
    """From a file, too."""
    trace = run(kernel=kernel, draws=20)
    trace.save(tmp_path / "run.npz")
    for one in (trace, xps.load(tmp_path / "run.npz")):
        with pytest.raises(CapabilityError, match=message):
            xps.expectation(one, lambda x: x)


def test_every_kernel_says_whether_its_scores_are_estimates():
    trace = run(draws=20)
    known = trace.metadata["diagnosis"]
    assert known["exact"]
    known["exact"] = False
    with pytest.raises(CapabilityError, match="random estimates"):
        xps.expectation(trace, lambda x: x)


@pytest.mark.parametrize(
    "target",
    [
        xps.Target(
            lambda x: np.where(np.all(x > 0, axis=-1), -np.sum(x, axis=-1), -np.inf), score=lambda x: -1 + 0 * x
        ),
        xps.Target(lambda x: np.where(np.all(np.abs(x) < 1, axis=-1), 0.0, -np.inf), score=lambda x: 0 * x),
        xps.Target(log_density, score=lambda x: 1 - x),
        xps.Target(log_density, score=lambda x: -4 * x),
    ],
    ids=["an undeclared bound", "two bounds", "a wrong score", "a wrong score whose mean is 0"],
)
def test_a_score_whose_mean_is_far_from_0_is_refused(target):
    trace = run(target, xps.MALA(0.4), x0=np.abs(X0) / 3, draws=500)
    with pytest.raises(TraceError, match=r"standard errors from 0\. Set burn_in"):
        xps.expectation(trace, lambda x: x)


WIDE = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)


@pytest.mark.parametrize(
    ("function", "settings", "error", "message"),
    [
        (lambda x: x[0], {}, FunctionError, r"must give \(draw, \*chains, ...\)"),
        (lambda x: 1.0, {}, FunctionError, r"must give \(draw, \*chains, ...\)"),
        (np.mean, {}, FunctionError, r"must give \(draw, \*chains, ...\)"),
        (lambda x: x + 1j, {}, FunctionError, "real numbers"),
        (np.cos, {"recorders": (xps.Draws(),)}, TraceError, r"recorders=\(Draws\(\), Scores\(\)\)"),
        (np.cos, {"x0": X0[:3]}, TraceError, "needs at least 4 in all"),
        (np.cos, {"target": WIDE, "x0": np.zeros((4, 1001))}, TraceError, "at most 1,000 coordinates"),
    ],
)
def test_what_does_not_fit_says_what_would(function, settings, error, message):
    trace = run(draws=20, **settings)
    with pytest.raises(error, match=message):
        xps.expectation(trace, function)


def test_values_that_are_not_finite_stay_by_themselves():
    found = xps.expectation(run(draws=40), lambda x: np.stack([x[..., 0], np.nan + x[..., 0], 1 + 0 * x[..., 0]], -1))
    assert np.isfinite(found.value[0]) and np.isnan(found.value[1]) and found.value[2] == 1
    assert np.isnan(found.standard_error[2])
