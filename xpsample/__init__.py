"""Modern samplers, written once against the Python array API, for NumPy, CuPy, PyTorch and JAX arrays."""

from xpsample.core.registry import backend_of, installed_backends
from xpsample.core.version import __version__ as __version__
from xpsample.gradients import Analytic, Auto, FiniteDifference, Via
from xpsample.hiss.kernel import HiSS
from xpsample.kernels import (
    ACS,
    DMALA,
    DULA,
    GWG,
    HMC,
    MALA,
    MYULA,
    PCN,
    RWM,
    ULA,
    Gibbs,
    IndependentMH,
    LocallyBalanced,
    ParallelTempering,
    PolynomialDecay,
    SingleFlip,
    TwoOpt,
    UnderdampedLangevin,
)
from xpsample.kernels.minibatch import Minibatch
from xpsample.metrics.stein import RBF, InverseMultiquadric
from xpsample.particles.ais import AIS, log_normalizer
from xpsample.particles.annealed import Annealed
from xpsample.particles.ladders import geometric_ladder
from xpsample.particles.smc import TemperedSMC, particle_log_normalizer
from xpsample.particles.svgd import SVGD, AdaGrad, StochasticSVGD
from xpsample.prox import L1, AnisotropicTV, IsotropicTV
from xpsample.run.checkpoint import Checkpoint
from xpsample.run.noise import Portable, Replay
from xpsample.run.recorders import BatchMeans, Draws, Histogram, Moments, Record, Statistics
from xpsample.run.sampling import sample, steps
from xpsample.run.trace import Trace, load
from xpsample.run.tune_acs import tune_acs
from xpsample.sosmc import SOSMC
from xpsample.spaces import Binary, Categorical, OneHot, Permutations, Spins
from xpsample.srld import SRLD, Rolling, Thinned
from xpsample.srmc import SRMC, PowerLaw
from xpsample.targets import Exact, Parametric, Ratio, Shift, Target, Tempered, Untilted, posterior
from xpsample.targets.batched import batched
from xpsample.targets.bridge import Bridge

__all__ = [
    "ACS",
    "AIS",
    "DMALA",
    "DULA",
    "GWG",
    "HMC",
    "L1",
    "MALA",
    "MYULA",
    "PCN",
    "RBF",
    "RWM",
    "SOSMC",
    "SRLD",
    "SRMC",
    "SVGD",
    "ULA",
    "AdaGrad",
    "Analytic",
    "AnisotropicTV",
    "Annealed",
    "Auto",
    "BatchMeans",
    "Binary",
    "Bridge",
    "Categorical",
    "Checkpoint",
    "Draws",
    "Exact",
    "FiniteDifference",
    "Gibbs",
    "HiSS",
    "Histogram",
    "IndependentMH",
    "InverseMultiquadric",
    "IsotropicTV",
    "LocallyBalanced",
    "Minibatch",
    "Moments",
    "OneHot",
    "ParallelTempering",
    "Parametric",
    "Permutations",
    "PolynomialDecay",
    "Portable",
    "PowerLaw",
    "Ratio",
    "Record",
    "Replay",
    "Rolling",
    "Shift",
    "SingleFlip",
    "Spins",
    "Statistics",
    "StochasticSVGD",
    "Target",
    "Tempered",
    "TemperedSMC",
    "Thinned",
    "Trace",
    "TwoOpt",
    "UnderdampedLangevin",
    "Untilted",
    "Via",
    "backend_of",
    "batched",
    "geometric_ladder",
    "installed_backends",
    "load",
    "log_normalizer",
    "particle_log_normalizer",
    "posterior",
    "sample",
    "steps",
    "tune_acs",
]


def __dir__() -> list[str]:
    """What a user types, and nothing else."""
    return [*__all__, "__version__"]
