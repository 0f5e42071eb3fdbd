"""SRMC with a strength of one's own, all else left out, on targets whose score is not Lipschitz.

A model with one positive scale: `SRMC(RWM(), 0.2)` gave a mean of 1.9e10 for 1.5. On `zoo.banana()` 12 of 512 chains of
MALA were stuck at alpha = 1, and the run was told of modes that do not mix, and to take `ParallelTempering`.
"""

import numpy as np
import pytest

import xpsample as xps
from tests.field.support import NORMAL, kinds, quiet
from xpsample.core.errors import CapabilityError, RepellenceWarning
from xpsample.kernels.compose import on_target
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


# ---- over a kernel that accepts or rejects ---------------------------------------------------------------------------
#
# SRLD adds a force to the score, and over a kernel that accepts or rejects that does nothing, or harm.
#
# Over RWM, pCN and IndependentMH the chain was bit for bit the base's. Over MALA, HMC, MAMS and NUTS the mean's squared
# error was 6 to 32 times the base's at alpha = 10 on N(0, I), without a word.

SGLD = xps.Minibatch(xps.ULA(0.1), 4)


@pytest.mark.parametrize(
    ("base", "culprit"),
    [
        (xps.RWM(1.0), "RWM"),
        (xps.PCN(0.5), "PCN"),
        (xps.IndependentMH(covariance=1.0), "IndependentMH"),
        (xps.MALA(0.3), "MALA"),
        (xps.HMC(0.4, 3), "HMC"),
        (xps.NUTS(), "NUTS"),
        (xps.MAMS(0.7, 2.0), "MAMS"),
        (xps.MCLMC(0.3, 2.0), "MCLMC"),
        (xps.ParallelTempering(xps.ULA(0.1), (1.0, 0.5)), "ParallelTempering"),
        (xps.ParallelTempering(xps.MALA(0.1), (1.0, 0.5)), "MALA"),
        (xps.Blocks({"x": xps.ULA(0.1)}), "Blocks"),
        (xps.SRMC(xps.ULA(0.1), 0.3), "SRMC"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_base_that_does_not_just_follow_the_score_is_refused(base, culprit):
    with pytest.raises(CapabilityError, match=f"^SRLD cannot go around {culprit}, since a force .*ULA"):
        xps.SRLD(base, 3.0, xps.Rolling(2))


@pytest.mark.parametrize("base", [xps.ULA(0.1), xps.ULA(), xps.UnderdampedLangevin(0.1), SGLD])
def test_what_the_message_names_is_taken(base):
    assert xps.SRLD(base, 3.0, xps.Rolling(2)).base is base


# ---- over blocks -----------------------------------------------------------------------------------------------------
#
# SRMC over blocks breaks on a model whose real parameters are normal, where a block takes long steps.
#
# The ratio of a discrete parameter's probabilities grows like an exponential of the real ones, so any tilt by it has no
# integral: with RWM left to its tuning, which takes long steps, the mean of mu^2 was 8 standard deviations off.

MIXED = xps.Model(
    lambda p: 0.7 * p.z - 0.5 * (p.mu - p.z) ** 2, z=xps.Binary(()), mu=xps.Real(), gradient=xps.FiniteDifference()
)
ODDS = 1 / (1 + np.exp(-0.7))


def exact_draws(chains):
    generator = np.random.default_rng(0)
    z = (generator.random(chains) < ODDS).astype(float)
    return np.stack([z, z + generator.normal(size=chains)], axis=-1)


@pytest.mark.parametrize("step", [None, 4.4], ids=["tuned", "long"])
@pytest.mark.parametrize("alpha", [0.05, None])
@pytest.mark.first_cases(1)
def test_the_moments_are_right(step, alpha):
    """From exact draws; means of 400 chains within 5.7 standard errors and 2 % of a standard deviation."""
    kernel = xps.SRMC(xps.Blocks({"z": xps.Gibbs(), "mu": xps.RWM(step)}), alpha)
    draws = xps.sample(MIXED, kernel, exact_draws(400), 150, seed=1, progress=False).draws
    z, mu = draws[..., 0], draws[..., 1]
    for values, exact, sd in ((z, ODDS, 0.47), (mu, ODDS, 1.1), (mu * mu, 1 + ODDS, 2.1)):
        means = values.mean(axis=0)
        assert abs(means.mean() - exact) < 5.7 * means.std() / 20 + 0.02 * sd


def test_the_score_is_bounded_and_has_mean_zero_given_all_else():
    """However far out the real parameter is; by enumeration of the discrete one."""
    mu = np.linspace(-300.0, 300.0, 61)
    both = np.stack([np.stack([z + 0 * mu, mu], axis=-1) for z in (0.0, 1.0)])
    kernel = xps.SRMC(xps.Blocks({"z": xps.Gibbs(), "mu": xps.RWM(1.0)}), 0.05)
    bound = MIXED.prepare(both, kernel.requires)
    score = on_target(kernel, bound, both).init(bound, both).score[..., 0]
    assert np.all((score >= -0.5) & (score <= 4.0))
    change = 0.7 + mu - 0.5
    ratio = np.exp(np.stack([change, -change]))  # of the other state's probability to that of this one
    np.testing.assert_allclose(score, (ratio - 1) * 4 * ratio / (1 + ratio) ** 2, rtol=1e-9, atol=1e-12)
    odds = np.exp(np.stack([-np.logaddexp(0.0, change), -np.logaddexp(0.0, -change)]))
    np.testing.assert_allclose(np.sum(odds * score, axis=0), 0.0, atol=1e-12)
    assert np.max(np.abs(score)) > 3.9
