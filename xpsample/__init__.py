"""Modern samplers, written once against the Python array API, for NumPy, CuPy, PyTorch and JAX arrays."""

__version__ = "0.1.0"

from xpsample.ais import AIS, log_normalizer
from xpsample.annealed import Annealed
from xpsample.backend import backend_of, installed_backends
from xpsample.checkpoint import Checkpoint
from xpsample.gradients import Analytic, Auto, FiniteDifference, Via
from xpsample.hiss import HiSS
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
    geometric_ladder,
)
from xpsample.kernels.minibatch import Minibatch
from xpsample.noise import Portable, Replay
from xpsample.prox import L1, AnisotropicTV, IsotropicTV
from xpsample.recorders import BatchMeans, Draws, Histogram, Moments, Record, Statistics
from xpsample.sampling import sample, steps
from xpsample.smc import TemperedSMC, particle_log_normalizer
from xpsample.sosmc import SOSMC
from xpsample.srld import RBF, SRLD, InverseMultiquadric, Rolling, Thinned
from xpsample.srmc import SRMC, PowerLaw
from xpsample.svgd import SVGD, AdaGrad, StochasticSVGD
from xpsample.targets import (
    Binary,
    Categorical,
    Exact,
    OneHot,
    Parametric,
    Permutations,
    Ratio,
    Shift,
    Spins,
    Target,
    Tempered,
    Untilted,
    posterior,
)
from xpsample.targets.batched import batched
from xpsample.targets.bridge import Bridge
from xpsample.trace import Trace, load
from xpsample.tuning import tune_acs

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
