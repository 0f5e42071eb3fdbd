"""Stein self-repulsive dynamics: a kernel that moves along the score, repelled by its own past."""

from xpsample.srld.history import History, Past, Rolling, Thinned
from xpsample.srld.kernel import SRLD, Repelled, SRLDState
from xpsample.srld.strength import Balanced, Fixed, Strength
from xpsample.stein import RBF, Bandwidth, InverseMultiquadric, Median, MedianFromPoint, PairKernel, stein_force

__all__ = [
    "RBF",
    "SRLD",
    "Balanced",
    "Bandwidth",
    "Fixed",
    "History",
    "InverseMultiquadric",
    "Median",
    "MedianFromPoint",
    "PairKernel",
    "Past",
    "Repelled",
    "Rolling",
    "SRLDState",
    "Strength",
    "Thinned",
    "stein_force",
]
