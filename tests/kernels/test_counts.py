"""What kernels, wrappers and blocks spend: what a step says is what it calls, and no more than it needs."""

import math

import numpy as np
import pytest
from array_api_compat import array_namespace

import xpsample as xps
from tests.kernels.support import GAUSSIAN, QUARTIC, start
from tests.sosmc.sosmc_support import Along, nothing, shifted
from xpsample.conformance.counting import NONE, Counter, stated
from xpsample.kernels.compose import on_target
from xpsample.sampling.noise import Portable
from xpsample.sosmc import SOSMC
from xpsample.srld import Balanced
from xpsample.zoo.ising import ising_lattice

CHAINS = 3
WIDE = xps.Target(lambda x: -0.1 * np.sum(x * x, axis=-1), score=lambda x: -0.2 * x, hvp=lambda x, v: -0.2 * v)
BRIDGE = xps.Bridge(WIDE, QUARTIC)
SIX = np.linspace(-1.0, 1.0, 6)
BITS = xps.Target(
    lambda x: x @ SIX + 0.1 * np.sum(x[..., :-1] * x[..., 1:], axis=-1), score=lambda x: SIX + 0 * x, space=xps.Binary()
)
FOUR_EACH = xps.Categorical(((0, 1, 2, 3),) * 6)
LEVELS = xps.Target(BITS.log_density, score=BITS.score, hvp=lambda x, v: 0 * v, space=FOUR_EACH)


def counts(target, kernel, x0, steps=3):
    """What each step says and what it calls, per chain; both (steps, 3)."""
    counter = Counter()
    bound = counter.counted(target.prepare(x0, kernel.requires))
    kernel = on_target(kernel, bound, x0)
    state, said, called = kernel.init(bound, x0), [], []
    noise = Portable(1).block(bound.backend, kernel.noise(x0), 0, steps, x0)
    chains = math.prod(x0.shape[:-1])
    for t in range(steps):
        counter.spent = NONE
        state, info = kernel.step(bound, state, {name: rows[t] for name, rows in noise.items()})
        said.append(stated(info.evaluations, chains))
        called.append(counter.spent)
    return np.asarray(said) / chains, np.asarray(called) / chains


LATTICE = ising_lattice((2, 3), 0.4, np.arange(6.0) / 6)
FOURS = xps.Target(BITS.log_density, space=FOUR_EACH)
SPINS = xps.Target(lambda x: np.sum(x, axis=-1), differences=lambda x: (-2.0 * x)[..., None], space=xps.Spins())
MOVES = 6 * 3  # of the levels
EXACT, SHIFT = xps.Exact(), xps.Shift()
FORWARD, CENTRAL = xps.FiniteDifference(1e-3, "forward"), xps.FiniteDifference(1e-3, "central")
CASES = [
    (QUARTIC, xps.RWM(0.5), (1, 0, 0)),
    (QUARTIC, xps.PCN(0.5), (1, 0, 0)),
    (QUARTIC, xps.IndependentMH(0.0), (1, 0, 0)),
    (QUARTIC, xps.ULA(0.1), (0, 1, 0)),
    (QUARTIC, xps.UnderdampedLangevin(0.1), (0, 1, 0)),
    (QUARTIC, xps.SGNHT(0.1), (0, 1, 0)),
    (QUARTIC, xps.MALA(0.1), (1, 1, 0)),
    (QUARTIC, xps.HMC(0.1, 1), (1, 1, 0)),
    (QUARTIC, xps.HMC(0.1, 5), (1, 5, 0)),
    # SRMC: a kernel without a score needs the score for the tilt of its density, and never an hvp.
    (QUARTIC, xps.SRMC(xps.RWM(0.5), alpha=0.5), (1, 1, 0)),
    (QUARTIC, xps.SRMC(xps.PCN(0.5), alpha=0.5), (1, 1, 0)),
    (QUARTIC, xps.SRMC(xps.IndependentMH(0.0), alpha=0.5), (1, 1, 0)),
    # One hvp re-tilts the point, one tilts the proposal, at which ULA does not look.
    (QUARTIC, xps.SRMC(xps.MALA(0.1), alpha=0.5, tilt=EXACT), (1, 1, 2)),
    (QUARTIC, xps.SRMC(xps.ULA(0.1), alpha=0.5), (0, 1, 1)),
    (QUARTIC, xps.SRMC(xps.UnderdampedLangevin(0.1), alpha=0.5), (0, 1, 2)),
    (QUARTIC, xps.SRMC(xps.HMC(0.1, 5), alpha=0.5, tilt=EXACT), (1, 5, 6)),
    (QUARTIC, xps.SRMC(xps.MALA(0.1), alpha=0.5, tilt=SHIFT), (1, 3, 0)),
    (QUARTIC, xps.SRMC(xps.HMC(0.1, 4), alpha=0.5, tilt=SHIFT), (1, 6, 0)),
    (QUARTIC, xps.SRMC(xps.MALA(0.1), alpha=0.5, tilt=FORWARD), (1, 3, 0)),
    (QUARTIC, xps.SRMC(xps.MALA(0.1), alpha=0.5, tilt=CENTRAL), (1, 5, 0)),
    (QUARTIC, xps.ParallelTempering(xps.MALA(0.1), (1.0, 0.5)), (2, 2, 0)),
    (QUARTIC, xps.ParallelTempering(xps.RWM(0.1), (1.0, 0.5, 0.2)), (3, 0, 0)),
    (BRIDGE, xps.ParallelTempering(xps.HMC(0.1, 2), (1.0, 0.5)), (4, 8, 0)),
    (QUARTIC, xps.ParallelTempering(xps.ULA(0.1), (1.0, 0.5)), (2, 2, 0)),
    (xps.Tempered(QUARTIC, 0.5), xps.MALA(0.1), (1, 1, 0)),
    (BRIDGE, xps.AIS(xps.MALA(0.1), (0.0, 0.3, 0.6, 1.0)), (2, 2, 0)),
    (BRIDGE, xps.TemperedSMC(xps.HMC(0.1, 2), (0.0, 0.3, 0.6, 1.0), moves=1), (2, 4, 0)),
    (BRIDGE, xps.TemperedSMC(xps.HMC(0.1, 2), (0.0, 0.3, 0.6, 1.0), moves=3), (6, 12, 0)),
    # The tilt of tempered rungs takes the score of the cold one where its kernel needs none.
    (QUARTIC, xps.SRMC(xps.ParallelTempering(xps.RWM(0.1), (1.0, 0.5)), 0.1), (2, 2, 0)),
    (QUARTIC, xps.SRLD(xps.ULA(0.1), 0.5, xps.Rolling(2, 1)), (0, 1, 0)),
    (QUARTIC, xps.SVGD(0.1), (0, 1, 0)),
    (QUARTIC, xps.StochasticSVGD(0.1), (0, 1, 0)),
    (BITS, xps.Gibbs(), (1, 0, 0)),
    (LEVELS, xps.Gibbs(), (3, 0, 0)),
    (BITS, xps.LocallyBalanced(), (7, 0, 0)),
    (BITS, xps.GWG(), (1, 1, 0)),
    (BITS, xps.HiSS(xps.DMALA(0.5), 1.0, 2, 3), (8, 8, 0)),
    (BITS, xps.HiSS(xps.LocallyBalanced(), 1.0, 1, 1), (14, 0, 0)),
    (BITS, xps.ParallelTempering(xps.LocallyBalanced(), (1.0, 0.5)), (14, 0, 0)),
    # The tilt is made of the scores at all values that a variable may take.
    (LEVELS, xps.SRMC(xps.Gibbs(), 0.1, tilt=xps.Untilted()), (3, 3, 0)),
    (LEVELS, xps.SRMC(xps.GWG(), 0.1, tilt=xps.Untilted()), (1, 1, 0)),  # as GWG itself
    (LEVELS, xps.SRMC(xps.GWG(), 0.1, tilt=EXACT), (1, 1, 2)),
    (LEVELS, xps.SRMC(xps.GWG(), 0.1, tilt=xps.Ratio()), (1 + MOVES, 1, 0)),
    (LEVELS, xps.SRMC(xps.DMALA(0.8), 0.1, tilt=xps.Untilted()), (1, 1, 0)),
    (LEVELS, xps.LocallyBalanced(), (1 + MOVES, 0, 0)),
    (LEVELS, xps.SRMC(xps.LocallyBalanced(), 0.1, tilt=xps.Ratio()), (1 + MOVES, 0, 0)),  # no extra evaluation
    (LEVELS, xps.SRMC(xps.LocallyBalanced(), 0.1, tilt=xps.Untilted()), (1 + MOVES, 1, 0)),
    (LEVELS, xps.SRMC(xps.LocallyBalanced(), 0.1, tilt=EXACT), (1 + MOVES, 1 + 2 * MOVES, 0)),
    (QUARTIC, xps.SRLD(xps.UnderdampedLangevin(0.2), Balanced(5), xps.Rolling(2, 3)), (0, 1, 0)),
    # Differences that are given count as scores: one for each color, or each variable once.
    (SPINS, xps.ChromaticGibbs([0, 1, 1, 2, 0, 1]), (3, 3, 0)),
    (LATTICE, xps.Sweep(), (1, 1, 0)),
    (LATTICE, xps.Sweep(heat_bath=True), (1, 1, 0)),
    (FOURS, xps.Sweep(), (1 + 6 * 4, 0, 0)),
    (BITS, xps.HiSS(xps.GWG(), 1.0, 3, 0), (3, 0, 0)),
]


@pytest.mark.parametrize(("target", "kernel", "expected"), CASES, ids=[repr(case[1])[:60] for case in CASES])
def test_a_step_spends_what_it_says(target, kernel, expected):
    discrete = isinstance(getattr(target, "space", None), xps.Binary | xps.Categorical | xps.Spins)
    x0 = np.ones((CHAINS, 6)) if discrete else start(CHAINS)
    said, called = counts(target, kernel, x0)
    np.testing.assert_array_equal(said, called)
    np.testing.assert_array_equal(called, [expected] * len(called))


@pytest.mark.parametrize("moves", [1, 3])
def test_sosmc_spends_what_it_says(moves):
    said, called = counts(shifted(), SOSMC(nothing, xps.MALA(0.1), Along(0.1), moves=moves), np.zeros((4, 2)))
    np.testing.assert_array_equal(said, called)
    np.testing.assert_array_equal(called, [(1 + moves, 1 + moves, 0)] * len(called))


def mixed(values, dim, score):
    """A model of `dim` variables of so many values and of two real numbers."""

    def log_density(p):
        xp = array_namespace(p.mu)
        return xp.sum(p.z, axis=-1) * p.mu[..., 0] * 0.1 - 0.5 * xp.sum(p.mu * p.mu, axis=-1)

    space = xps.Binary(dim) if values == 2 else xps.Categorical(tuple(range(values)), dim)
    return xps.Model(log_density, z=space, mu=xps.Real(2), gradient=score)


BLOCKS = [
    # Of z, the neighbors of the point and of the proposal, and the proposal; its score is used where it is accepted.
    (2, {"z": xps.LocallyBalanced(), "mu": xps.MALA(0.1)}, (14, 2, 0)),
    (2, {"z": xps.Gibbs(), "mu": xps.HMC(0.1, 3)}, (2, 4, 0)),
    (2, {"z": xps.Gibbs(), "mu": xps.RWM(0.1)}, (2, 0, 0)),
    # All three other values by their density alone, and the one that is drawn as a whole.
    (4, {"z": xps.Gibbs(), "mu": xps.MALA(0.1)}, (5, 2, 0)),
    (4, {"z": xps.Gibbs(), "mu": xps.RWM(0.1)}, (4, 0, 0)),
    (4, {"z": xps.LocallyBalanced(), "mu": xps.HMC(0.1, 3)}, (38, 4, 0)),
]


@pytest.mark.parametrize(("values", "sweep", "expected"), BLOCKS, ids=[repr(case[1])[:60] for case in BLOCKS])
@pytest.mark.parametrize("around", [None, xps.ParallelTempering], ids=["alone", "tempered"])
def test_blocks_spend_what_they_say(values, sweep, expected, around):
    from tests.conftest import open_library

    library = open_library("torch", "float64")
    model = mixed(values, 6, xps.Auto())
    kernel = xps.Blocks(sweep)
    rungs = 1 if around is None else 2
    if around is not None:
        kernel = around(kernel, (1.0, 0.5))
    said, called = counts(model, kernel, model.start(library.array(np.zeros(0)), chains=CHAINS, seed=0))
    np.testing.assert_array_equal(said, called)
    np.testing.assert_array_equal(called, [[rungs * count for count in expected]] * len(called))


def test_differentiation_by_differences_is_counted_in_densities():
    target = xps.Target(QUARTIC.log_density, gradient=xps.FiniteDifference())
    trace = xps.sample(target, xps.MALA(0.1), start(4), 5, seed=0)
    assert trace.run_statistics.evaluations == {"log_density": 1 + 2 * 3, "score": 0, "hvp": 0}


def test_what_the_gaussian_of_other_tests_costs_is_as_said():
    said, called = counts(GAUSSIAN, xps.NUTS(0.5, max_depth=3), start(1))
    np.testing.assert_array_equal(said, called)
