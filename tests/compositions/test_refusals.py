"""What a composition would bias is refused, by name, before the first step; what each refusal says would do, runs.

Most of these ran, without a word, on other distributions than the target: see test_biased.py, which shows it.
"""

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import CapabilityError
from xpsample.kernels import Kernel, Trait
from xpsample.sosmc import SGD, LangevinMove, Reversible
from xpsample.zoo.gaussian import gaussian

BETAS, PAST = (1.0, 0.4), xps.Rolling(2)
ULA, MYULA, DULA = xps.ULA(0.1), xps.MYULA(0.1, xps.L1(), 0.1), xps.DULA(0.5)
UNADJUSTED = {"ULA": ULA, "MYULA": MYULA, "DULA": DULA, "UnderdampedLangevin": xps.UnderdampedLangevin(0.1)}
SGLD = xps.Minibatch(ULA, 4)
TEMPERING = xps.ParallelTempering(xps.MALA(0.1), BETAS)
REPELLENT = xps.SRMC(xps.MALA(0.1), 0.5)

WRAPPERS = {
    "SRMC": lambda base: xps.SRMC(base, 0.5),
    "SRLD": lambda base: xps.SRLD(base, 0.5, PAST),
    "ParallelTempering": lambda base: xps.ParallelTempering(base, BETAS),
    "HiSS": lambda base: xps.HiSS(base, 1.0, 1, 1),
    "Annealed": lambda base: xps.Annealed(base, (2.0, 1.0)),
    "AIS": lambda base: xps.AIS(base, (0.0, 1.0)),
    "TemperedSMC": lambda base: xps.TemperedSMC(base, (0.0, 1.0)),
    "Minibatch": lambda base: xps.Minibatch(base, 4),
    "SOSMC": Reversible,
}
WEIGHING = ("AIS", "TemperedSMC", "SOSMC")
COMPARING = ("SRMC", "ParallelTempering", "HiSS", *WEIGHING)


INVARIANT = "it does not leave its target invariant"
ESTIMATES = "its densities and scores are random estimates: .*whole data"
COMPARES = "it compares evaluations, .*ULA, UnderdampedLangevin"
STAYS = "it needs a target that stays the same at all steps"
NOT_INVARIANT = [
    (REPELLENT, "SRMC"),
    (xps.SRLD(ULA, 0.5, PAST), "ULA"),
    (xps.SVGD(0.1), "SVGD"),
    (xps.StochasticSVGD(0.1), "StochasticSVGD"),
    (xps.HiSS(DULA, 1.0, 1, 1), "DULA"),
    (xps.HiSS(xps.GWG(), 1.0, 1, 1, adjusted=False), "HiSS"),
    (xps.TemperedSMC(xps.MALA(0.1), (0.0, 1.0)), "TemperedSMC"),
]
COMPARING_KERNELS = [
    (xps.MALA(0.1), "MALA"),
    (xps.RWM(0.1), "RWM"),
    (xps.GWG(), "GWG"),
    (xps.ParallelTempering(ULA, BETAS), "ParallelTempering"),
    (SGLD, "Minibatch"),
    (xps.AIS(xps.MALA(0.1), (0.0, 1.0)), "MALA"),
]
OTHER_LAWS = [
    (MYULA, "MYULA"),
    (xps.SVGD(0.1), "SVGD"),
    (xps.AIS(xps.GWG(), (0.0, 1.0)), "AIS"),
    (xps.TemperedSMC(xps.GWG(), (0.0, 1.0)), "TemperedSMC"),
    (xps.Annealed(ULA, (2.0, 1.0)), "Annealed"),
    (xps.SOSMC(lambda x, p: p, LangevinMove(0.1), SGD(0.1)), "SOSMC"),
]


def refused():
    """Rows of owner, base, the kernel that is named, and words."""
    for owner in WEIGHING:
        words = f"{INVARIANT}: .*{'LangevinMove' if owner == 'SOSMC' else 'MALA, HMC, DMALA'}"
        yield from ((owner, base, name, words) for name, base in UNADJUSTED.items())
        rungs = {name: xps.ParallelTempering(base, BETAS) for name, base in UNADJUSTED.items() if name != "MYULA"}
        yield from ((owner, base, name, words) for name, base in rungs.items())
        yield from ((owner, base, name, INVARIANT) for base, name in NOT_INVARIANT)
        yield owner, TEMPERING, "ParallelTempering", STAYS
    for owner in COMPARING:
        culprit, words = ("ULA", INVARIANT) if owner in WEIGHING else ("Minibatch", ESTIMATES)
        yield from ((owner, base, culprit, words) for base in (SGLD, xps.SRLD(SGLD, 0.5, PAST)))
    yield from (("Minibatch", base, name, COMPARES) for base, name in COMPARING_KERNELS)
    for owner in ("ParallelTempering", "HiSS"):
        for tilt in (xps.Exact(), xps.Untilted()):
            yield owner, xps.SRMC(xps.GWG(), 0.5, tilt=tilt), "SRMC", rf"SRMC\({owner}\(\.\.\.\), \.\.\.\)"
    for base in (TEMPERING, xps.SRMC(TEMPERING, 0.5)):
        yield "Annealed", base, "ParallelTempering", STAYS
    yield "HiSS", TEMPERING, "ParallelTempering", STAYS
    for owner in ("SRMC", "SRLD", "ParallelTempering", "HiSS"):
        for base, name in OTHER_LAWS:
            yield owner, base, name, "its chains do not sample the target that it is given"
    added = "a force that is added to the score does nothing in it, or biases it"
    for owner, words in (("SRLD", added), *((owner, INVARIANT) for owner in WEIGHING), ("Minibatch", "it compares")):
        yield owner, Silent(), "Silent", words


def test_what_would_be_biased_is_refused_by_name():
    """Weights need moves that leave the target invariant, and comparisons exact densities; a tilt goes around.

    At a fixed history the chain of ParallelTempering(SRMC(...)) sampled neither distribution.
    """
    for owner, base, culprit, words in refused():
        with pytest.raises(CapabilityError, match=rf"^{owner} cannot go around {culprit}, since .*{words}"):
            WRAPPERS[owner](base)


def test_annealing_for_draws_takes_what_samples_its_target():
    for base in (ULA, DULA, UNADJUSTED["UnderdampedLangevin"], REPELLENT, xps.SRLD(ULA, 0.5, PAST)):
        assert xps.AIS(base, (0.0, 1.0), approximate=True).base is base
    for base in (MYULA, xps.SVGD(0.1), SGLD, TEMPERING):
        with pytest.raises(CapabilityError, match="AIS cannot go around"):
            xps.AIS(base, (0.0, 1.0), approximate=True)
    xps.AIS(xps.HiSS(DULA, 1.0, 1, 0), (0.0, 1.0))  # without refinements it is as exact as its denoising


@pytest.mark.parametrize("tilt", [xps.Exact(), xps.Shift(), xps.FiniteDifference(1e-4, "forward")], ids=repr)
def test_no_tilt_is_made_of_two_batches(tilt):
    """A difference of the scores of two batches, over eps: the variance was 0.018 for 0.006 at eps 1e-4."""
    with pytest.raises(CapabilityError, match="SRMC cannot go around Minibatch"):
        xps.SRMC(SGLD, 1.0, tilt=tilt)
    with pytest.raises(CapabilityError, match="Minibatch cannot go around SRMC, since it compares evaluations"):
        xps.Minibatch(xps.SRMC(ULA, 1.0, tilt=tilt), 4)


@pytest.mark.parametrize("tilt", [xps.Untilted(), xps.Ratio()], ids=repr)
def test_a_tilt_that_only_an_accept_step_sees_needs_one(tilt):
    bases = [*((kernel, name) for name, kernel in UNADJUSTED.items() if name != "MYULA")]
    bases += [(xps.ParallelTempering(DULA, BETAS), "DULA"), (xps.HiSS(DULA, 1.0, 1, 1), "DULA")]
    words = rf"with {type(tilt).__name__}\(\) only an accept step sees the tilt; use Exact\(\) or Shift\(\)"
    for base, culprit in bases:
        with pytest.raises(CapabilityError, match=f"SRMC cannot go around {culprit}, since .*{words}"):
            xps.SRMC(base, 0.5, tilt=tilt)
        xps.SRMC(base, 0.5, tilt=xps.Shift())


@pytest.mark.parametrize("owner", WRAPPERS)
def test_what_is_no_kernel(owner):
    for base, given in ((xps.RWM, "the class RWM"), (0.5, "a float"), (None, "a NoneType")):
        with pytest.raises(CapabilityError, match=rf"{owner} goes around a kernel, such as RWM\(1\.0\); got {given}"):
            WRAPPERS[owner](base)


class Silent(Kernel):
    """A kernel that declares nothing of itself."""

    requires = xps.RWM(1.0).requires
    init, noise, step = xps.RWM.init, xps.RWM.noise, xps.RWM.step


class Declared(Silent):
    """One that does."""

    traits = Silent.traits | Trait.INVARIANT


def test_a_kernel_of_ones_own_is_trusted_with_what_it_declares():
    for owner in ("SRMC", "ParallelTempering", "HiSS", "Annealed"):
        WRAPPERS[owner](Silent())
    for owner in WEIGHING:
        WRAPPERS[owner](Declared())


@pytest.mark.parametrize(
    "kernel",
    [xps.RWM(1.0), xps.PCN(0.5), xps.MALA(0.1), xps.HMC(0.1, 2), ULA, xps.SRMC(xps.RWM(1.0), 0.5), xps.SVGD(0.1)]
    + [xps.IndependentMH(0.0), UNADJUSTED["UnderdampedLangevin"], xps.SRLD(xps.DULA(0.5), 0.5, PAST)]
    + [xps.HiSS(xps.RWM(1.0), 1.0, 1, 1), xps.ParallelTempering(xps.RWM(1.0), BETAS)],
    ids=lambda kernel: type(kernel).__name__,
)
@pytest.mark.parametrize("space", [xps.Spins(), xps.Permutations()], ids=repr)
def test_moves_of_real_positions_stay_off_other_spaces(kernel, space):
    """They left the space with their first step, and sampled the density as one of real numbers."""
    target = xps.Target(lambda x: -np.sum(x, axis=-1), lambda x: 0 * x - 1, space=space)
    x0 = np.ones((4, 3)) if isinstance(space, xps.Spins) else np.tile(np.arange(3), (4, 1))
    with pytest.raises(CapabilityError, match=r"the kernel moves (real positions|on a discrete space) and the target"):
        xps.sample(target, kernel, x0, 3, seed=1)


def test_what_the_messages_name_runs():
    normal, x0 = gaussian(np.eye(2)), np.zeros((3, 2))
    for kernel in (xps.SRMC(TEMPERING, 0.5), xps.SRMC(ULA, 0.5, tilt=xps.Shift())):
        assert xps.sample(normal, kernel, x0, 5, seed=1).draws.shape == (5, 3, 2)
    for owner in ("ParallelTempering", "HiSS"):
        for tilt in (xps.Exact(), xps.Untilted()):
            xps.SRMC(WRAPPERS[owner](xps.GWG()), 0.5, tilt=tilt)
