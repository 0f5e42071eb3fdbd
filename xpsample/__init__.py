"""Modern samplers, written once against the Python array API, for NumPy, CuPy, PyTorch and JAX arrays."""

__version__ = "0.1.0"

from xpsample.backend import backend_of, installed_backends
from xpsample.checkpoint import Checkpoint
from xpsample.gradients import Analytic, Auto, FiniteDifference, Via
from xpsample.kernels import HMC, MALA, PCN, RWM, ULA, IndependentMH, UnderdampedLangevin
from xpsample.noise import Portable, Replay
from xpsample.recorders import BatchMeans, Draws, Moments, Record, Statistics
from xpsample.sampling import sample, steps
from xpsample.srmc import SRMC, PowerLaw
from xpsample.targets import Exact, Parametric, Shift, Target, Tempered
from xpsample.targets.batched import batched
from xpsample.trace import Trace, load

__all__ = [
    "HMC",
    "MALA",
    "PCN",
    "RWM",
    "SRMC",
    "ULA",
    "Analytic",
    "Auto",
    "BatchMeans",
    "Checkpoint",
    "Draws",
    "Exact",
    "FiniteDifference",
    "IndependentMH",
    "Moments",
    "Parametric",
    "Portable",
    "PowerLaw",
    "Record",
    "Replay",
    "Shift",
    "Statistics",
    "Target",
    "Tempered",
    "Trace",
    "UnderdampedLangevin",
    "Via",
    "backend_of",
    "batched",
    "installed_backends",
    "load",
    "sample",
    "steps",
]
