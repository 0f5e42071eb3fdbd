"""SRLD adds a force to the score, and over a kernel that accepts or rejects that does nothing, or harm.

Over RWM, pCN and IndependentMH the chain was bit for bit the base's. Over MALA, HMC, MAMS and NUTS the mean's squared
error was 6 to 32 times the base's at alpha = 10 on N(0, I), without a word.
"""

import pytest

import xpsample as xps
from xpsample.core.errors import CapabilityError

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
