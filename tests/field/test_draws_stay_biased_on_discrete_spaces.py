"""SRMC on a discrete space draws the mean of the gradients to 0, which it is not: the draws stay biased for ever.

With the default tilt a probability on 4 bits was off by 0.07 at alpha 0.3, over nine kernels; a `Model` with discrete
parameters was refused for just this. The discrete score (`Ratio`) has mean 0, so it is what is left out means.
"""

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import CapabilityError, HyperparameterError
from xpsample.srmc import SRMCState

BIAS = np.asarray([0.4, -0.3, 0.2, 0.5])


def log_density(x):
    return x @ BIAS + 0.8 * x[..., 0] * x[..., 1]


def score(x):
    return BIAS + 0.8 * np.stack([x[..., 1], x[..., 0], 0 * x[..., 0], 0 * x[..., 0]], axis=-1)


BITS = xps.Target(log_density, score=score, space=xps.Binary())
RAGGED = xps.Target(
    lambda x: x @ BIAS, lambda x: BIAS + 0 * x, space=xps.Categorical(((0, 1), (0, 1, 2), (-1.0, 0.5), (0, 2, 3)))
)
KERNELS = [xps.GWG(), xps.Gibbs(), xps.SingleFlip(), xps.DMALA(0.8), xps.LocallyBalanced(), xps.HiSS(xps.GWG(), 1.0, 1)]


def named(kernel):
    return type(kernel).__name__


def scores(target, states, kernel):
    return kernel.init(target.prepare(states, kernel.requires), states).score


@pytest.mark.parametrize("target", [BITS, RAGGED], ids=["bits", "ragged"])
@pytest.mark.parametrize("base", KERNELS, ids=named)
def test_the_scores_of_the_default_have_mean_zero(base, target):
    """By enumeration of all states."""
    states = target.space.states(4)
    probabilities = np.exp(target.log_density(states))
    probabilities /= probabilities.sum()
    np.testing.assert_allclose(probabilities @ scores(target, states, xps.SRMC(base, 0.3)), 0.0, atol=1e-12)
    if xps.kernels.Kernel in type(base).__mro__ and base.requires & xps.MALA.requires.SCORE:
        relaxed = xps.SRMC(base, 0.3, tilt=xps.Untilted())
        assert np.max(np.abs(probabilities @ scores(target, states, relaxed))) > 0.1


@pytest.mark.parametrize("base", [xps.GWG(), xps.Gibbs()], ids=named)
@pytest.mark.parametrize("alpha", [0.3, None])
def test_the_draws_are_the_targets(base, alpha):
    """The mean over 200 chains within 4.9 standard errors and 0.002; the relaxed tilt was off by 0.07."""
    states = BITS.space.states(4)
    probabilities = np.exp(log_density(states))
    exact = probabilities @ states / probabilities.sum()
    x0 = states[np.random.default_rng(0).choice(16, 200, p=probabilities / probabilities.sum())]
    trace = xps.sample(BITS, xps.SRMC(base, alpha), x0, 1000, burn_in=200, seed=1, progress=False)
    means = trace.draws.mean(axis=0)
    error = means.std(axis=0) / np.sqrt(200)
    np.testing.assert_array_less(np.abs(means.mean(axis=0) - exact), 4.9 * error + 0.002)
    assert isinstance(trace.state, SRMCState)


ONE_HOT = xps.Target(lambda x: x @ np.ones(3), lambda x: np.ones(3) + 0 * x, space=xps.OneHot(3))
TOURS = xps.Target(lambda x: -np.sum(x, axis=-1), lambda x: 0.0 * x - 1, space=xps.Permutations())
MIXED = xps.Model(lambda p: -(p.x**2) - p.k[..., 0], k=xps.Permutations(3), x=xps.Real())
BLOCKS = xps.Blocks({"k": xps.Swap(), "x": xps.RWM(1.0)})


@pytest.mark.parametrize(
    ("target", "kernel", "x0", "message"),
    [
        (ONE_HOT, xps.SRMC(xps.GWG(), 0.3), np.eye(3), r"Ratio has one discrete score .*of OneHot\. .*Untilted"),
        (TOURS, xps.SRMC(xps.TwoOpt(), 0.3), np.tile(np.arange(3), (4, 1)), "is not 0 on Permutations .*stay biased"),
        (MIXED, xps.SRMC(BLOCKS, 0.3), None, r"Ratio has one discrete score .*of Permutations\. .*Untilted"),
        (BITS, xps.SRMC(xps.GWG(), tilt=xps.Untilted()), np.zeros((4, 4)), r"cannot tune alpha, .* with Untilted\(\)"),
    ],
    ids=["one-hot", "permutations", "a model", "without a tilt"],
)
def test_what_has_no_score_of_mean_zero_is_refused_by_name(target, kernel, x0, message):
    x0 = target.start(like=np.zeros(0), chains=4, seed=0) if x0 is None else x0
    with pytest.raises((CapabilityError, HyperparameterError), match=message):
        xps.sample(target, kernel, x0, 5, seed=1, progress=False)


def test_what_has_no_accept_step_is_refused_by_name():
    with pytest.raises(CapabilityError, match=r"SRMC cannot go around DULA, .*with Ratio\(\) only an accept step"):
        xps.SRMC(xps.DULA(0.5), 0.3)
