"""Particles that never move, that run away, and momenta that noisy scores heat: a run says so, cause first."""

import numpy as np
import pytest

import xpsample as xps
from tests.field.support import NORMAL, kinds, posterior_of_a_mean, quiet
from xpsample.core.errors import ConvergenceWarning, PositionError

ROWS = np.random.default_rng(0).normal(2.0, 1.0, size=(1000, 1))
POSTERIOR = posterior_of_a_mean(ROWS)


@pytest.mark.parametrize("kernel", [xps.SVGD(0.1), xps.StochasticSVGD(0.1)], ids=["svgd", "stochastic"])
@pytest.mark.parametrize("equal", [5, 2], ids=["all", "two"])
def test_equal_particles_are_refused(kernel, equal, library):
    """They never moved, since nothing repels; with noise, rounding drove them to -17,568."""
    x0 = np.random.default_rng(1).normal(size=(3, 5, 2))
    x0[1, :equal] = x0[1, 0]
    target = xps.Target(lambda x: -0.5 * library.xp.sum(x * x, axis=-1), score=lambda x: -x)
    with pytest.raises(PositionError, match="would stay equal"):
        xps.sample(target, kernel, library.array(x0), 3, seed=1, progress=False)


@pytest.mark.parametrize("kernel", [xps.SVGD(50.0), xps.StochasticSVGD(50.0)], ids=["svgd", "stochastic"])
def test_a_step_that_is_too_large_is_named(kernel):
    x0 = np.random.default_rng(1).normal(size=(20, 2))
    trace = quiet(NORMAL, kernel, x0, 100)
    assert np.max(np.abs(trace.draws[-1])) > 1e10
    assert kinds(trace)[0] == "heat"
    finding = trace.diagnose()[0]
    assert "times as hot as draws of the target" in str(finding) and "smaller step_size" in str(finding)


@pytest.mark.parametrize("target", ["normal", "shifted", "heavy"])
@pytest.mark.parametrize("particles", [5, 50])
def test_particles_at_rest_are_not_told_off(target, particles):
    targets = {
        "normal": NORMAL,
        "shifted": xps.Target(lambda x: -0.5 * np.sum((x - 100) ** 2, axis=-1), score=lambda x: 100 - x),
        "heavy": xps.Target(lambda x: -np.sum(np.log1p(x * x), axis=-1), score=lambda x: -2 * x / (1 + x * x)),
    }
    x0 = np.random.default_rng(1).normal(size=(particles, 2)) + (100 if target == "shifted" else 0)
    for kernel in (xps.SVGD(0.1), xps.StochasticSVGD(0.05)):
        assert "heat" not in kinds(quiet(targets[target], kernel, x0, 300))


def test_noisy_scores_that_heat_the_momenta_are_named():
    """The variance is more than 50 times the posterior's, 1 / 1001."""
    kernel = xps.Minibatch(xps.UnderdampedLangevin(0.02), 100)
    with pytest.warns(ConvergenceWarning, match="times as hot as the target's"):
        trace = xps.sample(POSTERIOR, kernel, np.full((4, 1), 2.0), 1500, seed=1, burn_in=500, progress=False)
    assert np.var(trace.draws) * 1001 > 50
    assert kinds(trace)[0] == "heat" and "larger friction" in str(trace.diagnose()[0])


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_noise_that_differs_between_coordinates_is_named(scale):
    """One friction for both: the draws of the noisier coordinate are too wide, and of the other one too narrow."""
    weight = np.array([1.0, scale**2])
    target = posterior_of_a_mean(np.random.default_rng(0).normal(size=(1000, 2)), weight)
    kernel = xps.Minibatch(xps.SGNHT(0.001, friction=30.0), 20)
    trace = quiet(target, kernel, np.zeros((200, 2)), 1000, burn_in=1000)
    ratio = np.var(trace.draws, axis=(0, 1)) * (1000 * weight + 1)
    if scale == 1.0:
        assert np.all(np.abs(ratio - 1) < 0.15) and trace.diagnose() == ()
    else:
        assert ratio[0] < 0.5 and ratio[1] > 1.5
        (heat,) = [f for f in trace.diagnose() if f.kind == "heat"]
        assert "coordinate 1" in heat.what and "Rescale" in heat.advice


@pytest.mark.parametrize("chains", [1, 20])
def test_steps_that_are_too_large_for_noisy_scores_are_named(chains):
    """SGLD: the noise of batches of 2 makes the variance more than 10 times the posterior's, 1 / 1001."""
    x0 = np.full((chains, 1), 2.0)
    trace = quiet(POSTERIOR, xps.Minibatch(xps.ULA(5e-4), 2), x0, 2000)
    assert np.var(trace.draws[500:]) * 1001 > 10
    assert kinds(trace)[0] == "heat" and "smaller step size" in str(trace.diagnose()[0])


def test_the_heat_of_langevin_steps_is_that_of_the_chains():
    """On N(0, 1) the variance is 1 / (1 - eta / 2): of 20,000 chains the finding says it within 4 %, over 5 sds."""
    x0 = np.random.default_rng(1).normal(size=(20_000, 1))
    for eta in (0.5, 1.0):
        (heat,) = [f for f in quiet(NORMAL, xps.ULA(eta), x0, 20).diagnose() if f.kind == "heat"]
        assert abs(heat.value * (1 - eta / 2) - 1) < 0.04


@pytest.mark.parametrize(("base", "alpha"), [(xps.ULA(0.05), 60.0), (xps.UnderdampedLangevin(0.3), 15.0)])
def test_chains_that_a_repulsion_heats_are_told_of_it(base, alpha):
    trace = quiet(NORMAL, xps.SRLD(base, alpha), np.random.default_rng(1).normal(size=(16, 2)), 2000)
    (heat,) = [f for f in trace.diagnose() if f.kind == "heat"]
    assert np.var(trace.draws[500:]) > 1.2 and "smaller alpha" in heat.advice and "MALA" not in heat.advice


@pytest.mark.slow
@pytest.mark.parametrize("chains", [1, 4, 64])
def test_langevin_steps_of_a_healthy_run_are_not_told_off(chains):
    """Steps of the bias that is tuned to, 5 % and twice that with noisy scores: below 1e-5 for each run."""
    rng = np.random.default_rng(1)
    for kernel in (xps.ULA(), xps.ULA(0.1), xps.SRLD(xps.ULA(0.05))):
        assert "heat" not in kinds(quiet(NORMAL, kernel, rng.normal(size=(chains, 3)), 200))
    smooth = xps.MYULA(regularizer=xps.L1())
    assert "heat" not in kinds(quiet(NORMAL, smooth, rng.normal(size=(chains, 3)), 200))
    for size in (2, 100):
        assert "heat" not in kinds(quiet(POSTERIOR, xps.Minibatch(xps.ULA(), size), np.full((chains, 1), 2.0), 300))


@pytest.mark.parametrize("chains", [4, 64])
def test_momenta_of_a_healthy_run_are_not_told_off(chains):
    x0 = np.random.default_rng(1).normal(size=(chains, 3))
    for kernel in (xps.UnderdampedLangevin(), xps.UnderdampedLangevin(0.3)):
        assert "heat" not in kinds(quiet(NORMAL, kernel, x0, 100))
    small = xps.Minibatch(xps.UnderdampedLangevin(1e-4), 500)
    assert "heat" not in kinds(quiet(POSTERIOR, small, np.full((chains, 1), 2.0), 300))
