"""Kernels: one file per algorithm, each a frozen value with a pure step."""

from xpsample.hyperparameters import PER_CHAIN, check_range, per_coordinate
from xpsample.kernels.gwg import GWG
from xpsample.kernels.hmc import HMC
from xpsample.kernels.independent import IndependentMH
from xpsample.kernels.kernel import (
    ChainState,
    Info,
    Kernel,
    freeze,
    metropolis,
    none_frozen,
    normal_like,
    relocate,
    select,
    uniform_per_chain,
)
from xpsample.kernels.mala import MALA
from xpsample.kernels.pcn import PCN
from xpsample.kernels.rwm import RWM
from xpsample.kernels.step_sizes import PolynomialDecay, StepSizes
from xpsample.kernels.ula import ULA
from xpsample.kernels.underdamped import UnderdampedLangevin

__all__ = [
    "GWG",
    "HMC",
    "MALA",
    "PCN",
    "PER_CHAIN",
    "RWM",
    "ULA",
    "ChainState",
    "IndependentMH",
    "Info",
    "Kernel",
    "PolynomialDecay",
    "StepSizes",
    "UnderdampedLangevin",
    "check_range",
    "freeze",
    "metropolis",
    "none_frozen",
    "normal_like",
    "per_coordinate",
    "relocate",
    "select",
    "uniform_per_chain",
]
