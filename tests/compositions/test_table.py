"""The table of all compositions: a handful of its cells, and that it catches wrappers that are wrong on purpose."""

import numpy as np
import pytest

import xpsample as xps
from tests.compositions import table
from tests.compositions.around import Anywhere
from xpsample.kernels import ADJUSTED, Trait, tempering
from xpsample.kernels.discrete import dlp

CASES = table.cases()
KNOWN = {kind: dict(table.trees(kind)) for kind in ("real", "discrete", "mixed")}


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


class Wrong(Anywhere):
    """A kernel around another one that claims to be exact."""

    traits = ADJUSTED


class Hotter(Wrong):
    """It accepts as at a temperature of 3."""

    def step(self, target, state, noise):
        return self.kernel.step(target, state, noise | {"accept": noise["accept"] ** 3})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("case", "name", "kind"),
    [
        ("normal", "alone: MALA", "exact"),
        ("normal", "PT: HMC", "exact"),
        ("normal", "SRMC: RWM", "long run"),
        ("normal", "alone: ULA", "near"),
        ("normal", "SRLD: MALA", "refused"),
        ("normal", "AIS: MALA", "weights"),
        ("normal", "alone: SVGD", "other law"),
        ("learned", "alone: RWM", "exact"),
        ("learned", "alone: MALA", "refused"),
        ("half-normal", "alone: HMC", "exact"),
        ("half-normal", "alone: ULA", "refused"),
        ("half-normal", "SRMC: HMC", "refused"),
        ("half-normal", "SMC: RWM", "weights"),
        ("bits", "SRMC: Gibbs", "long run"),
        ("bits", "SRMC, Untilted: GWG", "near"),
        ("bits", "SRMC: DULA", "refused"),
        ("ragged", "alone: DULA", "own law"),
        ("spins", "HiSS: DULA", "own law"),
        ("spins", "HiSS, unadjusted: DULA", "own law"),
        ("spins", "HiSS, unadjusted: DMALA", "own law"),
        ("ragged", "AIS: GWG", "weights"),
        ("mixed", "alone: Blocks(Gibbs, MALA)", "exact"),
        ("mixed", "SRMC: Blocks(Gibbs, RWM)", "long run"),
        ("mixed", "alone: HMC", "refused"),
        ("simplex", "alone: NUTS", "exact"),
    ],
)
def test_cells(case, name, kind):
    """A right cell fails with a probability below 1e-6."""
    verdict = table.judge(CASES[case], KNOWN[CASES[case].kind][name], chains=400)
    assert verdict.kind == kind, verdict
    assert not verdict.wrong, verdict


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("case", "make"),
    [
        ("normal", lambda: Wrong(xps.ULA(0.4))),
        ("normal", lambda: Hotter(xps.RWM(1.5))),
        ("half-normal", lambda: Wrong(xps.ULA(0.1))),
        ("half-normal", lambda: xps.AIS(Wrong(xps.ULA(0.3)), table.LADDER)),
        ("bits", lambda: Wrong(xps.DULA(1.5))),
        ("bits", lambda: Wrong(xps.HiSS(xps.GWG(), 1.0, 1, 1, adjusted=False))),
        ("simplex", lambda: Hotter(xps.RWM(1.5))),
    ],
)
def test_what_is_wrong_is_caught(case, make):
    assert table.judge(CASES[case], make, chains=1000).wrong


@pytest.mark.filterwarnings("ignore")
def test_a_tilt_whose_scores_have_another_mean_is_caught(monkeypatch):
    """What was the default on discrete spaces."""
    monkeypatch.setattr(table, "claim", lambda kernel: "long run")
    assert table.judge(CASES["bits"], lambda: xps.SRMC(xps.GWG(), 2.0, tilt=xps.Untilted()), 400).wrong


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["alone: DULA", "HiSS, unadjusted: DULA"])
def test_a_kernel_with_another_bias_than_its_own_is_caught(monkeypatch, name):
    """Which is less than what a kernel without an accept step is otherwise let off by."""
    right = dlp.langevin_moves
    monkeypatch.setattr(dlp, "langevin_moves", lambda target, point, step, balance: right(target, point, step, 0.8))
    verdict = table.judge(CASES["bits"], KNOWN["discrete"][name], chains=2000)
    assert verdict.wrong and verdict.off < table.NEAR


@pytest.mark.filterwarnings("ignore")
def test_swaps_of_the_wrong_sign_are_caught(monkeypatch):
    right = tempering.swap_log_ratio
    monkeypatch.setattr(tempering, "swap_log_ratio", lambda betas, density: -right(betas, density))
    assert table.judge(CASES["normal"], lambda: xps.ParallelTempering(xps.MALA(0.3), (1.0, 0.3))).wrong


def test_every_kind_of_verdict_is_by_trait():
    assert table.claim(xps.ULA(0.1)) == "near" and Trait.SAMPLES in xps.ULA(0.1).traits
    assert table.claim(xps.SVGD(0.1)) == "other law"
    assert table.claim(xps.SRMC(xps.GWG(), 0.1)) == "long run"
    assert table.claim(xps.SRMC(xps.GWG(), 0.1, tilt=xps.Untilted())) == "near"
