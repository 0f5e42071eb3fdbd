"""SRMC with a strength of one's own, all else left out, on targets whose score is not Lipschitz.

A model with one positive scale: `SRMC(RWM(), 0.2)` gave a mean of 1.9e10 for 1.5. On `zoo.banana()` 12 of 512 chains of
MALA were stuck at alpha = 1, and the run was told of modes that do not mix, and to take `ParallelTempering`.
"""

import numpy as np
import pytest

import xpsample as xps
from tests.field.support import NORMAL, kinds, quiet
from xpsample.core.errors import RepellenceWarning
from xpsample.srmc import Adaptive, Repellence
from xpsample.zoo.curved import banana, bend

ROWS = np.random.default_rng(5).normal(0, 1.5, 20)
SCALE = xps.Model(
    lambda p: -0.5 * p.s - 20 * np.log(p.s) - 0.5 * np.sum(ROWS**2) / p.s**2,
    s=xps.Positive(),
    gradient=xps.FiniteDifference(),
)
"""The standard deviation of 20 normal rows, with an exponential prior; its mean is 1.50."""


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("base", [xps.RWM, xps.MALA], ids=lambda base: base.__name__)
def test_a_positive_scale(base):
    """Right, or the tilt is the first thing that the run tells of. (MALA alone is stuck from starts further out.)"""
    start = {"s": np.exp(np.random.default_rng(0).normal(0.4, 0.6 if base is xps.RWM else 0.2, 64))}
    for alpha in (0.2, None):
        trace = quiet(SCALE, xps.SRMC(base(), alpha), start, 1000)
        means, findings = trace["s"].mean(axis=0), trace.diagnose()
        right = np.max(np.abs(means - 1.5)) < 0.2
        assert right or (alpha is not None and findings[0].kind == "tilt")
    assert right and not findings


@pytest.mark.parametrize("alpha", [0.5, Adaptive(0.5, 20), None], ids=repr)
def test_the_first_steps_of_the_history_are_small_where_none_are_asked_for(alpha):
    assert xps.SRMC(xps.MALA(0.3), alpha).schedule.offset == 100
    assert xps.SRMC(xps.MALA(0.3), alpha, xps.PowerLaw()).schedule.offset == 1


@pytest.mark.parametrize("recorders", [(xps.Draws(),), (xps.Draws(), Repellence())], ids=["none", "Repellence"])
def test_a_tilt_that_is_too_strong_is_told_first_and_once(recorders):
    x0 = bend(np.random.default_rng(0).normal(size=(64, 2)))
    kernel = xps.SRMC(xps.MALA(), 3.0, xps.PowerLaw())
    findings = quiet(banana(), kernel, x0, 500, recorders=recorders).diagnose()
    assert findings[0].kind == "tilt" and "do not set alpha" in findings[0].advice
    assert [finding.kind for finding in findings].count("tilt") == 1


@pytest.mark.slow
def test_the_advice_on_a_tuned_alpha_names_a_smaller_one():
    """`LowestError` bounds each coordinate, the finding their sum: too large for a slow walk in 300 dimensions."""
    x0 = np.random.default_rng(0).normal(size=(4, 300))
    trace = quiet(NORMAL, xps.SRMC(xps.RWM()), x0, 300)
    found = trace.diagnose()[0]
    assert found.kind == "tilt" and f"if it was tuned, set less than {trace.kernel.alpha:.2g}" in found.advice


def test_a_tilt_inside_another_kernel_is_told_too():
    """As a warning, without a recorder."""
    x0 = bend(np.random.default_rng(0).normal(size=(64, 2)))
    kernel = xps.AIS(xps.SRMC(xps.MALA(1.0), 30.0, xps.PowerLaw()), np.linspace(0, 1, 200), approximate=True)
    with pytest.warns(RepellenceWarning, match="the tilt is too strong in"):
        xps.sample(xps.Bridge(banana(), banana()), kernel, x0, 1, burn_in=198, seed=1, progress=False)


def test_a_chain_that_runs_away_late_is_told_of():
    """At the defaults, on a mean with a log scale: where it does, the tilted density falls off nowhere (Lemma 3.2)."""

    def log_density(x):
        return -2 * x[..., 0] ** 2 - x[..., 0] - 0.5 * x[..., 1] ** 2 * np.exp(-2 * x[..., 0])

    def score(x):
        scaled = x[..., 1] * np.exp(-2 * x[..., 0])
        return np.stack([-4 * x[..., 0] - 1 + x[..., 1] * scaled, -scaled], axis=-1)

    generator = np.random.default_rng(0)
    tau = 0.5 * generator.normal(size=256)
    x0 = np.stack([tau, np.exp(tau) * generator.normal(size=256)], axis=-1)
    trace = quiet(xps.Target(log_density, score=score), xps.SRMC(xps.RWM(), 1.0), x0, 1000)
    lost = np.sum(np.abs(trace.draws[..., 1].mean(axis=0)) > 2)
    (told,) = (finding.value for finding in trace.diagnose() if finding.kind == "tilt")
    assert 0 < lost <= told < 8


def test_a_run_that_is_short_or_whose_history_is_frozen_is_not_judged():
    x0 = bend(np.random.default_rng(0).normal(size=(8, 2)))
    strong = xps.SRMC(xps.MALA(0.3), 5.0, xps.srmc.Frozen(), theta=np.ones(2))
    for kernel, draws in ((strong, 100), (xps.SRMC(xps.MALA(0.3), 50.0, xps.PowerLaw()), 19)):
        found = kinds(quiet(banana(), kernel, x0, draws))
        assert not [kind for kind in found if kind.startswith("tilt")]


def test_the_banana_at_the_defaults_loses_no_chain():
    """Whose mean is more than a standard deviation off; the base kernel has 0 of these."""
    x0 = bend(np.random.default_rng(0).normal(size=(256, 2)))
    trace = quiet(banana(), xps.SRMC(xps.MALA()), x0, 500, recorders=(xps.Moments(),))
    means = trace.recorded["moments"].mean
    assert np.all(np.mean(means**2 / np.asarray([1.0, 1.5]), axis=-1) < 1)
