"""A learned probability to accept is right for the proposal that it was trained for, and any kernel takes it.

Under MALA(0.15), one that was trained for a random walk gave E x^2 = 0.48 for 0.69, and 5.6e15 under HMC.
"""

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import CapabilityError
from xpsample.score_mh import CrankNicolson, LangevinProposal, Learned, RandomWalk
from xpsample.targets import LineIntegral, Tempered


def network(x_new, x, parameters):
    """log a / (1 - a) of a = r / (1 + r) for N(0, 1) and a symmetric proposal."""
    return 0.5 * np.sum(x * x - x_new * x_new, axis=-1) + 0 * parameters[0]


def learned(proposal, direct=True):
    acceptance = Learned(network, np.zeros(1), proposal, direct)
    return xps.Target(None, score=lambda x: -x, acceptance=acceptance)


def run(target, kernel, x0, steps=1):
    return xps.sample(target, kernel, x0, 1, burn_in=steps - 1, seed=1, warmup=None, progress=False).draws[0]


WALK, LANGEVIN, NICOLSON = RandomWalk(0.5), LangevinProposal(0.15), CrankNicolson(0.4)


@pytest.mark.parametrize(
    ("proposal", "kernel"),
    [
        (WALK, xps.MALA(0.15)),
        (WALK, xps.HMC(0.5, 2)),
        (WALK, xps.MAMS(0.7, 2.0)),
        (WALK, xps.PCN(0.5)),
        (WALK, xps.IndependentMH(covariance=1.0)),
        (WALK, xps.RWM(0.6)),
        (WALK, xps.RWM()),
        (WALK, xps.RWM(0.5, covariance=np.asarray([2.0, 1.0]))),
        (WALK, xps.SRMC(xps.RWM(0.5), 0.1)),
        (LANGEVIN, xps.RWM(0.5)),
        (LANGEVIN, xps.MALA(0.2)),
        (LANGEVIN, xps.MALA(0.15, np.asarray([2.0, 1.0]))),
        (LANGEVIN, xps.SRMC(xps.MALA(0.15), 0.1)),
        (NICOLSON, xps.PCN(0.5)),
        (NICOLSON, xps.PCN(0.4, mean=1.0)),
        (NICOLSON, xps.PCN(0.4, covariance=2.0)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_another_kernel_or_another_step_is_refused_before_the_first_step(proposal, kernel):
    target, x0 = learned(proposal), np.zeros((4, 2))
    with pytest.raises(CapabilityError, match=r"Learned is the acceptance of .*direct=False"):
        run(target, kernel, x0)
    with pytest.raises(CapabilityError, match="direct=False"):
        next(xps.steps(target, kernel, x0, seed=1))


def test_so_it_is_on_a_target_made_from_it():
    with pytest.raises(CapabilityError, match=r"RWM\(step_size=0.5\) on a TemperedTarget that is made from it"):
        run(Tempered(learned(WALK), 0.5), xps.RWM(0.5), np.zeros((4, 2)))


@pytest.mark.parametrize("proposal", [WALK, LANGEVIN, NICOLSON], ids=repr)
def test_the_kernel_that_the_message_names_runs(proposal):
    run(learned(proposal), proposal.kernel, np.zeros((4, 2)))


def test_its_own_kernel_keeps_exact_draws_exact():
    """4,000 exact draws stay so; a right kernel fails with a probability below 1e-6."""
    x0 = np.random.default_rng(0).normal(size=(4000, 2))
    x = run(learned(WALK), xps.RWM(0.5), x0, 20)
    assert abs(np.mean(x * x) - 1) < 4.9 * np.sqrt(2 / 8000)


def test_as_a_ratio_it_goes_with_every_kernel():
    x0 = np.random.default_rng(0).normal(size=(4000, 2))
    for kernel in (xps.MALA(0.15), xps.HMC(0.5, 2), xps.PCN(0.5)):
        x = run(learned(WALK, direct=False), kernel, x0, 20)
        exact = run(xps.Target(None, score=lambda x: -x, acceptance=LineIntegral(1)), kernel, x0, 20)
        np.testing.assert_allclose(x, exact, atol=1e-8)
