"""A learned acceptance that is exact gives the chain that the density gives, in every composition; what it refuses."""

import numpy as np
import pytest
from scipy.special import expit

from tests.score_mh.gaussians import GAUSSIAN, PROPOSALS, barker, log_density, log_ratio, score
from xpsample import HMC, MALA, PCN, RWM, SRMC, Exact, Portable, Shift, Target, sample
from xpsample.core.errors import BackendError, CapabilityError
from xpsample.kernels import IndependentMH
from xpsample.score_mh import CrankNicolson, LangevinProposal, Learned, RandomWalk
from xpsample.targets import Capability, Tempered

KERNELS = {"RWM": RWM(0.8), "MALA": MALA(0.3), "PCN": PCN(0.6)}
EXACT = Target(log_density, score=score, data=GAUSSIAN)


def learned(proposal, divisor=1.0, direct=False):
    acceptance = Learned(barker(proposal, divisor), GAUSSIAN, proposal, direct)
    return Target(None, score=score, data=GAUSSIAN, acceptance=acceptance)


def chains(target, kernel, library, draws=60):
    x0 = library.array(np.random.default_rng(1).normal(size=(3, 2)))
    return library.host(sample(target, kernel, x0, draws, seed=Portable(2)).draws)


@pytest.mark.parametrize("divisor", [1.0, 5.0])
@pytest.mark.parametrize("name", KERNELS)
def test_the_chain_of_the_density(name, divisor, library):
    """The proposals are those of the kernels, and a constant factor of a changes nothing."""
    found = chains(learned(PROPOSALS[name], divisor), KERNELS[name], library)
    np.testing.assert_allclose(found, chains(EXACT, KERNELS[name], library), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("kernel", "tempered"),
    [
        (HMC(0.4, 3), False),
        (IndependentMH(0.0), False),
        (MALA(0.7), False),
        (SRMC(MALA(0.3), alpha=0.5, tilt=Exact()), False),
        (MALA(0.5), True),
    ],
    ids=["HMC", "independent", "another step size", "SR-MALA", "tempered"],
)
@pytest.mark.parametrize("name", PROPOSALS)
def test_with_other_kernels_than_it_was_trained_for(kernel, tempered, name):
    """It stands for the density ratio, whatever q it was trained with."""
    from types import SimpleNamespace

    numpy = SimpleNamespace(array=np.asarray, host=np.asarray)
    pair = (learned(PROPOSALS[name]), EXACT)
    runs = [chains(Tempered(t, 0.4) if tempered else t, kernel, numpy) for t in pair]
    np.testing.assert_allclose(runs[0], runs[1], rtol=1e-8, atol=1e-8)


def test_another_proposal_than_its_own_is_wrong():
    """A kept mistake: a of one step size said to be of another gives another chain."""
    proposal = LangevinProposal(0.3)
    acceptance = Learned(barker(proposal), GAUSSIAN, LangevinProposal(0.2))
    target = Target(None, score=score, data=GAUSSIAN, acceptance=acceptance)
    x0 = np.random.default_rng(1).normal(size=(30, 2))
    runs = [sample(t, MALA(0.3), x0, 60, seed=Portable(2)).draws for t in (target, EXACT)]
    assert np.max(np.abs(runs[0] - runs[1])) > 0.1


@pytest.mark.parametrize("name", KERNELS)
def test_direct_accepts_with_the_probability_itself(name, library):
    kernel, proposal = KERNELS[name], PROPOSALS[name]
    x = np.random.default_rng(3).normal(size=(200, 2))
    there = library.array(x)
    bound = learned(proposal, direct=True).prepare(there, kernel.requires)
    xi = np.random.default_rng(4).normal(size=x.shape)
    noise = {"proposal": library.array(xi), "accept": library.array(np.full(200, 1e-12))}
    state, info = kernel.step(bound, kernel.init(bound, there), noise)
    y = proposal.draw(x, xi, score(x, GAUSSIAN))
    np.testing.assert_allclose(library.host(state.point.x), y, rtol=1e-10)
    expected = expit(log_ratio(y, x, GAUSSIAN, proposal))
    np.testing.assert_allclose(library.host(info.acceptance_probability), expected, rtol=1e-9)


def test_direct_is_refused_on_a_derived_target():
    x0 = np.zeros((2, 2))
    for target, kernel in (
        (learned(LangevinProposal(0.3), direct=True), SRMC(MALA(0.3), alpha=0.5, tilt=Shift())),
        (Tempered(learned(LangevinProposal(0.3), direct=True), 0.5), MALA(0.3)),
    ):
        with pytest.raises(CapabilityError, match="direct=False"):
            sample(target, kernel, x0, 1, seed=1)


def test_scores_are_asked_for_only_where_the_ratio_needs_them():
    calls = []

    def counted(x):
        calls.append(x.shape)
        return score(x, GAUSSIAN)

    for proposal, direct, expected in (
        (RandomWalk(0.8), False, 0),
        (RandomWalk(0.8), True, 0),
        (LangevinProposal(0.3), False, 1),
    ):
        calls.clear()
        acceptance = Learned(barker(RandomWalk(0.8)), GAUSSIAN, proposal, direct)
        target = Target(None, score=counted, acceptance=acceptance)
        sample(target, RWM(0.8), np.zeros((2, 2)), 10, seed=1)
        assert len(calls) >= 10 if expected else not calls


def test_the_parameters_are_data(library):
    """NumPy ones are put beside the positions, and a driver may pass others in their place."""
    x, y = (library.array(a) for a in (np.zeros((4, 2)), np.ones((4, 2))))
    target = Target(None, score=lambda x: -x, acceptance=Learned(lambda y, x, p: y @ p, np.ones(2), CrankNicolson(0.5)))
    bound = target.prepare(x, Capability.DENSITY_RATIO)
    assert library.backend.owns(bound.data.acceptance) and bound.data.own is None
    ratios = []
    for p in (1.0, 2.0):
        moved = bound.with_data(bound.data._replace(acceptance=library.array(np.full(2, p))))
        ratios.append(library.host(moved.log_ratio(moved.evaluate(y), moved.evaluate(x))))
    q = 0.5 * (2 - 0)  # log q(x | x') - log q(x' | x) from 0 to (1, 1), for every beta
    for p, found in zip((1.0, 2.0), ratios, strict=True):
        a, b = np.log(expit(2 * p)), np.log(0.5)
        np.testing.assert_allclose(found, a - b - q, rtol=1e-10)


def test_parameters_of_another_library_are_refused():
    torch = pytest.importorskip("torch")
    acceptance = Learned(lambda y, x, p: y @ p, torch.ones(2), RandomWalk(0.5))
    with pytest.raises(BackendError, match="the acceptance's parameters"):
        sample(Target(None, score=lambda x: -x, acceptance=acceptance), RWM(0.5), np.zeros((2, 2)), 1, seed=1)
