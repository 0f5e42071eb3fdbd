"""Stein self-repulsive dynamics: a kernel that moves along the score, repelled by its own past."""

from xpsample.metrics.stein import (
    RBF,
    Bandwidth,
    InverseMultiquadric,
    Median,
    MedianFromPoint,
    PairKernel,
    stein_force,
)
from xpsample.srld.history import History, Past, Rolling, Thinned
from xpsample.srld.kernel import SRLD, Repelled, SRLDState
from xpsample.srld.strength import Balanced, Measured

__all__ = [
    "RBF",
    "SRLD",
    "Balanced",
    "Bandwidth",
    "History",
    "InverseMultiquadric",
    "Measured",
    "Median",
    "MedianFromPoint",
    "PairKernel",
    "Past",
    "Repelled",
    "Rolling",
    "SRLDState",
    "Thinned",
    "stein_force",
]
