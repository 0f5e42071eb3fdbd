# The names of `__init__.py`, each with its module, for type checkers; a test compares both files.

from xpsample.adaptation.bias import BoundedBias as BoundedBias
from xpsample.adaptation.bias import MoreauSmoothing as MoreauSmoothing
from xpsample.adaptation.doublings import Doublings as Doublings
from xpsample.adaptation.energy import DecoherenceLength as DecoherenceLength
from xpsample.adaptation.energy import EnergyVariance as EnergyVariance
from xpsample.adaptation.ladder import Ladder as Ladder
from xpsample.adaptation.length import ChEES as ChEES
from xpsample.adaptation.low_rank import LowRankMetric as LowRankMetric
from xpsample.adaptation.metric import DenseMetric as DenseMetric
from xpsample.adaptation.metric import DiagonalMetric as DiagonalMetric
from xpsample.adaptation.proposal import ProposalCovariance as ProposalCovariance
from xpsample.adaptation.proposal import ProposalMean as ProposalMean
from xpsample.adaptation.rule import FollowingRule as FollowingRule
from xpsample.adaptation.rule import Rule as Rule
from xpsample.adaptation.rule import StepRecord as StepRecord
from xpsample.adaptation.rule import unset as unset
from xpsample.adaptation.step_size import StepSize as StepSize
