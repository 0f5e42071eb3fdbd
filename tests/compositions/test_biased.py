"""What is refused is biased: the same compositions, let past the refusal, fail the checks of the random trees.

So the refusals are needed, and the checks would see a bias that is not refused. Settings are the first that were tried.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import xpsample as xps
from tests.compositions.around import Anywhere
from tests.compositions.claims import claimed, invariance, tilted, weighing, weighs
from tests.compositions.settings import Setting
from tests.compositions.test_random_trees import runs_or_is_refused
from tests.compositions.trees import Onwards, Tree
from xpsample.kernels import Cosine, Trait, tempering
from xpsample.sosmc import MarginalLikelihood
from xpsample.srmc import Frozen

pytestmark = pytest.mark.filterwarnings("ignore::xpsample.core.errors.RepellenceWarning")
"""Some tilts are too strong on purpose."""

BETAS = (1.0, 0.3)
LADDER = (0.0, 0.2, 0.5, 1.0, 1.0)
BITS, SPINS, RAGGED = Setting("bits"), Setting("spins"), Setting("ragged")
BRIDGE = Setting("gaussian", "bridge")


class Trusted(Anywhere):
    """A kernel that claims to be all that a wrapper may ask for."""

    traits = ~Trait.NONE


def tree(kernel):
    return Tree(type(kernel).__name__, lambda place: kernel)


def repellent(base):
    return xps.SRMC(base, 0.5, Frozen(), xps.Untilted(), np.asarray([1.5, -1.0, 0.5]))


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    "make",
    [lambda base: xps.ParallelTempering(base, BETAS), lambda base: xps.HiSS(base, 1.0, 1, 2)],
    ids=["ParallelTempering", "HiSS"],
)
def test_a_tilt_inside_gives_neither_distribution(make):
    outside, inside = repellent(make(xps.GWG())), make(Trusted(repellent(xps.GWG())))
    for laws in (RAGGED.laws(), tilted(RAGGED, outside)):
        found = invariance(RAGGED, tree(inside), laws)
        assert found.z > found.limit
    found = invariance(RAGGED, tree(outside), tilted(RAGGED, outside))
    assert found.z < found.limit


WEIGHING = {
    "AIS": lambda base: xps.AIS(base, LADDER),
    "TemperedSMC": lambda base: xps.TemperedSMC(base, LADDER, moves=1),
    "SOSMC": lambda base: xps.SOSMC(MarginalLikelihood(), base, Onwards(0.3)),
}
NOT_INVARIANT = {
    "ULA": (BRIDGE, xps.ULA(0.7)),
    "UnderdampedLangevin": (BRIDGE, xps.UnderdampedLangevin(0.4, 0.3)),
    "MYULA": (BRIDGE, xps.MYULA(0.3, xps.L1(), 0.3)),
    "SVGD": (BRIDGE, xps.SVGD(0.8, xps.RBF(1.0))),
    "DULA": (BITS, xps.DULA(2.0)),
    "HiSS": (RAGGED, xps.HiSS(xps.GWG(), 1.0, 1, 1, adjusted=False)),
    "SRMC": (RAGGED, repellent(xps.GWG())),
    "ParallelTempering": (BRIDGE, xps.ParallelTempering(xps.MALA(0.02), (1.0, 0.95))),  # hot rungs that lag behind
}
INVARIANT = {
    "MALA": (BRIDGE, xps.MALA(0.3)),
    "GWG": (RAGGED, xps.GWG()),
    "HiSS": (RAGGED, xps.HiSS(xps.GWG(), 1.0, 1, 1)),
}


def weighed(owner, setting, base):
    kernel = WEIGHING[owner](base)
    setting = replace(setting, kind="family") if owner == "SOSMC" else setting
    assert weighs(setting, kernel)
    return weighing(setting, tree(kernel), kernel)


@pytest.mark.parametrize(
    ("setting", "kernel"),
    [(RAGGED, xps.DULA(0.5)), (Setting("gaussian"), xps.ULA(0.3))]
    + [(RAGGED, xps.HiSS(xps.GWG(), 1.0, 1, 1, adjusted=False)), (RAGGED, xps.ParallelTempering(xps.DULA(0.5), BETAS))],
    ids=lambda value: type(value).__name__,
)
def test_claims_that_are_false(setting, kernel):
    assert Trait.INVARIANT not in kernel.traits
    found = invariance(setting, tree(Trusted(kernel)), claimed(setting, Trusted(kernel)))
    assert found.z > found.limit


def test_swaps_of_the_wrong_sign(monkeypatch):
    right = tempering.swap_log_ratio
    monkeypatch.setattr(tempering, "swap_log_ratio", lambda betas, density: -right(betas, density))
    found = invariance(RAGGED, tree(xps.ParallelTempering(xps.GWG(), BETAS)), RAGGED.laws())
    assert found.z > found.limit


# The bias of AIS(ParallelTempering(...)) is below what 4,000 chains show.
@pytest.mark.parametrize(
    ("owner", "base"), sorted({*product(WEIGHING, NOT_INVARIANT)} - {("AIS", "ParallelTempering")})
)
def test_weights_of_moves_that_do_not_leave_the_target_invariant(owner, base):
    setting, kernel = NOT_INVARIANT[base]
    found = weighed(owner, setting, Trusted(kernel))
    assert found.z > found.limit


@pytest.mark.parametrize("base", INVARIANT)
@pytest.mark.parametrize("owner", WEIGHING)
def test_weights_of_moves_that_do(owner, base):
    found = weighed(owner, *INVARIANT[base])
    assert found.z < found.limit


def final(target, kernel, x0, steps):
    with np.errstate(all="ignore"):
        return xps.sample(target, kernel, x0, 1, burn_in=steps - 1, seed=3, progress=False).draws[0]


ROWS = 4.0 * np.random.default_rng(0).normal(size=(40, 1))
POSTERIOR = xps.posterior(  # of variance 1 / 4
    lambda x: -0.5 * np.sum(x * x, axis=-1),
    lambda x, rows: -0.0375 * np.sum((rows - x[..., None, :]) ** 2, axis=(-2, -1)),
    ROWS - ROWS.mean(),
    lambda x: -x,
    lambda x, rows: 0.075 * np.sum(rows - x[..., None, :], axis=-2),
)
NEAR = 0.5 * np.random.default_rng(1).normal(size=(4000, 1))


@pytest.mark.slow
def test_swaps_by_densities_of_batches():
    """They give more variance than the noise of the batches does."""
    ula, sgld, betas = xps.ULA(0.005), xps.Minibatch(xps.ULA(0.005), 4), (1.0, 0.3)
    exact = np.var(final(POSTERIOR, xps.ParallelTempering(ula, betas), NEAR, 200))
    alone = np.var(final(POSTERIOR, sgld, NEAR, 200))
    swapping = np.var(final(POSTERIOR, xps.ParallelTempering(Trusted(sgld), betas), NEAR, 200))
    assert 0.23 < exact < 0.27 and 0.25 < alone < 0.29
    assert swapping > 0.34


@pytest.mark.parametrize("outside", [False, True])
def test_a_difference_of_two_batches(outside):
    tilt, ula = xps.FiniteDifference(1e-4, "forward"), xps.ULA(0.005)
    if outside:
        kernel = xps.Minibatch(Trusted(xps.SRMC(ula, 0.2, tilt=tilt)), 4)
    else:
        kernel = xps.SRMC(Trusted(xps.Minibatch(ula, 4)), 0.2, tilt=tilt)
    x0 = NEAR[:200]
    assert np.var(final(POSTERIOR, xps.SRMC(ula, 0.2, tilt=tilt), x0, 50)) < 0.5
    assert not np.var(final(POSTERIOR, kernel, x0, 50)) < 5.0


@pytest.mark.parametrize("tilt", [xps.Untilted(), xps.Ratio()], ids=repr)
def test_a_tilt_that_no_accept_step_sees_does_nothing(tilt):
    target, x0 = SPINS.target(np.asarray), SPINS.draws(np.random.default_rng(2), 50)
    plain = final(target, xps.DULA(0.5), x0, 30)
    for alpha in (0.5, 50.0):
        kernel = xps.SRMC(Trusted(xps.DULA(0.5)), alpha, tilt=tilt)
        np.testing.assert_array_equal(final(target, kernel, x0, 30), plain)


@pytest.mark.parametrize("kernel", [xps.RWM(1.0), xps.HiSS(Trusted(xps.RWM(1.0)), 1.0, 1, 1)], ids=["RWM", "HiSS"])
def test_moves_of_real_positions_leave_a_finite_space(kernel):
    with pytest.raises(AssertionError, match="left the space"):
        runs_or_is_refused(RAGGED, tree(Trusted(kernel)), "native", 3)


@pytest.mark.slow
def test_a_memory_that_counts_steps_is_no_bias():
    """ACS's cycle goes on through sweeps, rungs and levels: it is INVARIANT whatever the step."""
    for kernel in (xps.HiSS(xps.ACS(Cosine(0.8, 3)), 1.0, 1, 2), xps.ParallelTempering(xps.ACS(Cosine(0.8, 3)), BETAS)):
        found = invariance(RAGGED, tree(kernel), RAGGED.laws())
        assert found.z < found.limit
