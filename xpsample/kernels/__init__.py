"""Kernels: one file per algorithm, each a frozen value with a pure step."""

from xpsample.hyperparameters import PER_CHAIN, check_range, per_coordinate
from xpsample.kernels.acs import ACS, ACSState, Cosine, Cycle, Table
from xpsample.kernels.balanced import Balancing, Barker, LocallyBalanced, Max, SquareRoot
from xpsample.kernels.dlp import DMALA, DULA
from xpsample.kernels.gibbs import Gibbs, SingleFlip
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
from xpsample.kernels.myula import MYULA
from xpsample.kernels.pcn import PCN
from xpsample.kernels.rwm import RWM
from xpsample.kernels.step_sizes import PolynomialDecay, StepSizes
from xpsample.kernels.tempering import ParallelTempering, geometric_ladder
from xpsample.kernels.two_opt import TwoOpt
from xpsample.kernels.ula import ULA
from xpsample.kernels.underdamped import UnderdampedLangevin

__all__ = [
    "ACS",
    "DMALA",
    "DULA",
    "GWG",
    "HMC",
    "MALA",
    "MYULA",
    "PCN",
    "PER_CHAIN",
    "RWM",
    "ULA",
    "ACSState",
    "Balancing",
    "Barker",
    "ChainState",
    "Cosine",
    "Cycle",
    "Gibbs",
    "IndependentMH",
    "Info",
    "Kernel",
    "LocallyBalanced",
    "Max",
    "ParallelTempering",
    "PolynomialDecay",
    "SingleFlip",
    "SquareRoot",
    "StepSizes",
    "Table",
    "TwoOpt",
    "UnderdampedLangevin",
    "check_range",
    "freeze",
    "geometric_ladder",
    "metropolis",
    "none_frozen",
    "normal_like",
    "per_coordinate",
    "relocate",
    "select",
    "uniform_per_chain",
]
