"""Modern samplers, written once against the Python array API, for NumPy, CuPy, PyTorch and JAX arrays."""

__version__ = "0.1.0"

from xpsample.backend import backend_of, installed_backends
from xpsample.checkpoint import Checkpoint
from xpsample.gradients import Analytic, Auto, FiniteDifference, Via
from xpsample.kernels import HMC, MALA, PCN, RWM, ULA, IndependentMH, PolynomialDecay, UnderdampedLangevin
from xpsample.kernels.minibatch import Minibatch
from xpsample.noise import Portable, Replay
from xpsample.recorders import BatchMeans, Draws, Moments, Record, Statistics
from xpsample.sampling import sample, steps
from xpsample.srld import RBF, SRLD, InverseMultiquadric, Rolling, Thinned
from xpsample.srmc import SRMC, PowerLaw
from xpsample.svgd import SVGD, AdaGrad, StochasticSVGD
from xpsample.targets import Exact, Parametric, Shift, Target, Tempered, posterior
from xpsample.targets.batched import batched
from xpsample.trace import Trace, load

__all__ = [
    "HMC",
    "MALA",
    "PCN",
    "RBF",
    "RWM",
    "SRLD",
    "SRMC",
    "SVGD",
    "ULA",
    "AdaGrad",
    "Analytic",
    "Auto",
    "BatchMeans",
    "Checkpoint",
    "Draws",
    "Exact",
    "FiniteDifference",
    "IndependentMH",
    "InverseMultiquadric",
    "Minibatch",
    "Moments",
    "Parametric",
    "PolynomialDecay",
    "Portable",
    "PowerLaw",
    "Record",
    "Replay",
    "Rolling",
    "Shift",
    "Statistics",
    "StochasticSVGD",
    "Target",
    "Tempered",
    "Thinned",
    "Trace",
    "UnderdampedLangevin",
    "Via",
    "backend_of",
    "batched",
    "installed_backends",
    "load",
    "posterior",
    "sample",
    "steps",
]
