"""A target says that it has hard constraints, and a kernel whose moves do not see them runs on it without a word.

Half of the draws of |N(0, 1)| by ULA were outside, and SRMC with a given alpha stayed biased however long it ran: the
mean of the scores, which it draws to 0, is another one beyond a hard constraint.
"""

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import CapabilityError
from xpsample.targets import LineIntegral, Taylor

HALF_NORMAL = xps.Target(
    lambda x: np.where(np.all(x > 0, axis=-1), -0.5 * np.sum(x * x, axis=-1), -np.inf),
    score=lambda x: -x,
    hvp=lambda x, v: -v,
    constrained=True,
)
BITS = xps.Target(  # no state with all bits 0
    lambda x: np.where(np.any(x > 0, axis=-1), x @ np.asarray([0.5, -1.0, 1.0]), -np.inf),
    score=lambda x: np.asarray([0.5, -1.0, 1.0]) + 0 * x,
    space=xps.Binary(),
    constrained=True,
)
PAST = xps.Rolling(2)


class Undeclared(xps.kernels.Kernel):
    """A kernel of one's own that says nothing of itself."""

    requires = xps.RWM(1.0).requires
    init, noise, step = xps.RWM.init, xps.RWM.noise, xps.RWM.step


MODEL = xps.Model(
    lambda p: np.where(p.x > 0, -0.5 * p.x * p.x, -np.inf) + p.z * p.x,
    x=xps.Real(),
    z=xps.Binary(()),
    constrained=True,
    gradient=xps.FiniteDifference(),
)


@pytest.mark.parametrize(
    ("kernel", "culprit"),
    [
        (xps.ULA(0.1), "ULA"),
        (xps.ULA(), "ULA"),
        (xps.UnderdampedLangevin(0.1), "UnderdampedLangevin"),
        (xps.MCLMC(0.3, 2.0), "MCLMC"),
        (xps.MYULA(0.1, xps.L1(), 0.1), "MYULA"),
        (xps.SVGD(0.1), "SVGD"),
        (xps.SRLD(xps.ULA(0.1), 0.5, PAST), "ULA"),
        (xps.ParallelTempering(xps.ULA(0.1), (1.0, 0.5)), "ULA"),
        (xps.SRMC(xps.RWM(1.0), 0.3), "SRMC"),
        (xps.SRMC(xps.HMC(0.5, 2)), "SRMC"),
        (xps.SRMC(xps.ULA(0.1), 0.3), "ULA"),
        (xps.SRMC(xps.ParallelTempering(xps.MALA(0.1), (1.0, 0.5)), 0.3), "SRMC"),
        (xps.AIS(xps.SRMC(xps.MALA(0.1), 0.3), (0.0, 1.0), approximate=True), "SRMC"),
        (Undeclared(), "Undeclared"),
        (xps.Blocks({"x": xps.ULA(0.1), "z": xps.Gibbs()}), "ULA"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_needs_a_density_that_falls_smoothly_is_refused_by_name(kernel, culprit):
    target, x0 = MODEL if isinstance(kernel, xps.Blocks) else HALF_NORMAL, np.ones((4, 2))
    match = f"^{culprit} cannot sample a target with hard constraints: .*MALA.*Model"
    with pytest.raises(CapabilityError, match=match):
        xps.sample(target, kernel, x0, 5, seed=1, progress=False)
    with pytest.raises(CapabilityError, match=match):
        next(xps.steps(target, kernel, x0, seed=1))


@pytest.mark.parametrize("acceptance", [LineIntegral(2), Taylor()], ids=repr)
def test_a_ratio_made_of_scores_sees_no_bound(acceptance):
    target = xps.Target(None, score=lambda x: -x, acceptance=acceptance, constrained=True)
    with pytest.raises(CapabilityError, match="do not show a hard constraint"):
        xps.sample(target, xps.RWM(1.0), np.ones((4, 1)), 5, seed=1, progress=False)


@pytest.mark.parametrize(
    "kernel",
    [
        xps.RWM(1.0),
        xps.MALA(0.3),
        xps.HMC(0.5, 2),
        xps.NUTS(0.5, max_depth=2),
        xps.ParallelTempering(xps.RWM(1.0), (1.0, 0.5)),
    ],
    ids=lambda kernel: type(kernel).__name__,
)
def test_what_accepts_or_rejects_stays_and_samples_what_is_left(kernel):
    """From exact draws, 4,000 chains; a right kernel fails with a probability of 1e-6."""
    x0 = np.abs(np.random.default_rng(0).normal(size=(4000, 1)))
    draws = xps.sample(HALF_NORMAL, kernel, x0, 1, burn_in=9, seed=1, progress=False).draws
    assert np.all(draws > 0)
    assert abs(draws.mean() - np.sqrt(2 / np.pi)) < 4.9 * np.sqrt((1 - 2 / np.pi) / 4000)


def test_the_discrete_score_has_mean_zero_beside_states_of_no_probability():
    """By enumeration; it was -1 there, with a mean of -0.2, and no chain ever makes up for it."""
    states = xps.Binary().states(3)[1:]
    probabilities = np.exp(BITS.log_density(states))
    kernel = xps.SRMC(xps.GWG(), 0.1, tilt=xps.Ratio())
    bound = BITS.prepare(states, kernel.requires)
    score = kernel.init(bound, states).score
    np.testing.assert_allclose(probabilities @ score, 0.0, atol=1e-12)
    xps.sample(BITS, kernel, states, 5, seed=1, progress=False)
