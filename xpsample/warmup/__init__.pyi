# The names of `__init__.py`, each with its module, for type checkers; a test compares both files.

from xpsample.warmup.bias import BoundedBias as BoundedBias
from xpsample.warmup.bias import MoreauSmoothing as MoreauSmoothing
from xpsample.warmup.doublings import Doublings as Doublings
from xpsample.warmup.energy import DecoherenceLength as DecoherenceLength
from xpsample.warmup.energy import EnergyVariance as EnergyVariance
from xpsample.warmup.ladder import Ladder as Ladder
from xpsample.warmup.length import ChEES as ChEES
from xpsample.warmup.low_rank import LowRankMetric as LowRankMetric
from xpsample.warmup.metric import DenseMetric as DenseMetric
from xpsample.warmup.metric import DiagonalMetric as DiagonalMetric
from xpsample.warmup.proposal import ProposalCovariance as ProposalCovariance
from xpsample.warmup.proposal import ProposalMean as ProposalMean
from xpsample.warmup.rule import FollowingRule as FollowingRule
from xpsample.warmup.rule import Rule as Rule
from xpsample.warmup.rule import Seen as Seen
from xpsample.warmup.rule import left_out as left_out
from xpsample.warmup.step_size import StepSize as StepSize
