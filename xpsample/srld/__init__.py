"""Stein self-repulsive dynamics: a kernel that moves along the score, repelled by its own past."""

from xpsample.metrics.stein import RBF as RBF
from xpsample.metrics.stein import Bandwidth as Bandwidth
from xpsample.metrics.stein import InverseMultiquadric as InverseMultiquadric
from xpsample.metrics.stein import Median as Median
from xpsample.metrics.stein import MedianFromPoint as MedianFromPoint
from xpsample.metrics.stein import PairKernel as PairKernel
from xpsample.metrics.stein import stein_force as stein_force
from xpsample.srld.history import History as History
from xpsample.srld.history import Past as Past
from xpsample.srld.history import Rolling as Rolling
from xpsample.srld.history import Thinned as Thinned
from xpsample.srld.kernel import SRLD as SRLD
from xpsample.srld.kernel import Repelled as Repelled
from xpsample.srld.kernel import SRLDState as SRLDState
from xpsample.srld.strength import Balanced as Balanced
from xpsample.srld.strength import Measured as Measured
