"""Helpers of the SOSMC experiments: a method made of a move and its settings, and colors."""

from typing import Any, NamedTuple

from xpsample.particles.resampling import Resampling
from xpsample.sosmc import SOSMC, Adaptation

THRESHOLD = 0.9
"""Resample where the effective sample size is at most this share of the particles."""
# Okabe-Ito colors, safe for color-blind readers.
COLOURS = {
    "ImpDiff": "#6b6b6b",
    "SOUL": "#E69F00",
    "SOSMC-ULA": "#B3440A",
    "SOSMC-MALA": "#00568A",
    "SOSMC-RWM": "#009E73",
    "SOSMC-HMC": "#CC79A7",
}


class Method(NamedTuple):
    """A move, when to resample (0: never), and how the move's step adapts."""

    move: Any
    threshold: float = 0.0
    adapt: Adaptation | None = None

    def kernel(self, loss: Any, optimizer: Any, resampling: Resampling) -> SOSMC:
        """The kernel that minimizes a loss."""
        return SOSMC(loss, self.move, optimizer, threshold=self.threshold, resampling=resampling, adapt_move=self.adapt)
