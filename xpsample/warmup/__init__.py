"""Warm-up: how hyper-parameters that a user leaves out are tuned, each rule a value that a kernel names for a field."""

from xpsample.warmup.bias import BoundedBias, MoreauSmoothing
from xpsample.warmup.energy import DecoherenceLength, EnergyVariance
from xpsample.warmup.ladder import Ladder
from xpsample.warmup.length import ChEES
from xpsample.warmup.low_rank import LowRankMetric
from xpsample.warmup.metric import DenseMetric, DiagonalMetric
from xpsample.warmup.proposal import ProposalCovariance, ProposalMean
from xpsample.warmup.rule import FollowingRule, Rule, Seen, left_out, tuned
from xpsample.warmup.step_size import StepSize

__all__ = [
    "BoundedBias",
    "ChEES",
    "DecoherenceLength",
    "DenseMetric",
    "DiagonalMetric",
    "EnergyVariance",
    "FollowingRule",
    "Ladder",
    "LowRankMetric",
    "MoreauSmoothing",
    "ProposalCovariance",
    "ProposalMean",
    "Rule",
    "Seen",
    "StepSize",
    "left_out",
    "tuned",
]
