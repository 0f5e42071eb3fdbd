"""Modern samplers, written once against the Python array API, for NumPy, CuPy, PyTorch and JAX arrays."""

__version__ = "0.1.0"

from xpsample.backend import backend_of, installed_backends
from xpsample.checkpoint import Checkpoint
from xpsample.gradients import Analytic, Auto, FiniteDifference, Via
from xpsample.kernels import (
    ACS,
    DMALA,
    DULA,
    GWG,
    HMC,
    MALA,
    PCN,
    RWM,
    ULA,
    Gibbs,
    IndependentMH,
    LocallyBalanced,
    SingleFlip,
    TwoOpt,
    UnderdampedLangevin,
)
from xpsample.noise import Portable, Replay
from xpsample.recorders import BatchMeans, Draws, Histogram, Moments, Record, Statistics
from xpsample.sampling import sample, steps
from xpsample.srmc import SRMC, PowerLaw
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
)
from xpsample.targets.batched import batched
from xpsample.trace import Trace, load
from xpsample.tuning import tune_acs

__all__ = [
    "ACS",
    "DMALA",
    "DULA",
    "GWG",
    "HMC",
    "MALA",
    "PCN",
    "RWM",
    "SRMC",
    "ULA",
    "Analytic",
    "Auto",
    "BatchMeans",
    "Binary",
    "Categorical",
    "Checkpoint",
    "Draws",
    "Exact",
    "FiniteDifference",
    "Gibbs",
    "Histogram",
    "IndependentMH",
    "LocallyBalanced",
    "Moments",
    "OneHot",
    "Parametric",
    "Permutations",
    "Portable",
    "PowerLaw",
    "Ratio",
    "Record",
    "Replay",
    "Shift",
    "SingleFlip",
    "Spins",
    "Statistics",
    "Target",
    "Tempered",
    "Trace",
    "TwoOpt",
    "UnderdampedLangevin",
    "Untilted",
    "Via",
    "backend_of",
    "batched",
    "installed_backends",
    "load",
    "sample",
    "steps",
    "tune_acs",
]
