"""Warm-up: rules that tune unset hyperparameters, each a value that a kernel names for a field."""

from xpsample.core.lazy_imports import attach

_NAMES = {
    "bias": "BoundedBias MoreauSmoothing",
    "doublings": "Doublings",
    "energy": "DecoherenceLength EnergyVariance",
    "ladder": "Ladder",
    "length": "ChEES",
    "low_rank": "LowRankMetric",
    "metric": "DenseMetric DiagonalMetric",
    "proposal": "ProposalCovariance ProposalMean",
    "rule": "FollowingRule Rule StepRecord unset",
    "step_size": "StepSize",
}
__getattr__, __all__ = attach(__name__, _NAMES)


def __dir__() -> list[str]:
    return __all__
