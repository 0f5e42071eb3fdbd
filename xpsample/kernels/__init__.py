"""Kernels: one file per algorithm, each a frozen value with a pure step."""

from xpsample.kernels.hmc import HMC
from xpsample.kernels.independent import IndependentMH
from xpsample.kernels.kernel import ChainState, Info, Kernel, metropolis
from xpsample.kernels.mala import MALA
from xpsample.kernels.pcn import PCN
from xpsample.kernels.rwm import RWM
from xpsample.kernels.ula import ULA
from xpsample.kernels.underdamped import UnderdampedLangevin

__all__ = [
    "HMC",
    "MALA",
    "PCN",
    "RWM",
    "ULA",
    "ChainState",
    "IndependentMH",
    "Info",
    "Kernel",
    "UnderdampedLangevin",
    "metropolis",
]
