"""Kernels: one file per algorithm, each a frozen value with a pure step."""

from xpsample.kernels.discrete.acs import ACS, ACSState
from xpsample.kernels.discrete.balanced import Balancing, Barker, LocallyBalanced, Max, SquareRoot
from xpsample.kernels.discrete.cycles import Cosine, Cycle, CycleSearch, Table
from xpsample.kernels.discrete.dlp import DMALA, DULA
from xpsample.kernels.discrete.gibbs import Gibbs, SingleFlip
from xpsample.kernels.discrete.gwg import GWG
from xpsample.kernels.discrete.two_opt import TwoOpt
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
    select,
    uniform_per_chain,
    with_position,
)
from xpsample.kernels.mala import MALA
from xpsample.kernels.mams import MAMS, MAMSInfo
from xpsample.kernels.mclmc import MCLMC, MCLMCInfo
from xpsample.kernels.myula import MYULA
from xpsample.kernels.nuts import NUTS, NUTSInfo
from xpsample.kernels.pcn import PCN
from xpsample.kernels.rwm import RWM
from xpsample.kernels.step_sizes import PolynomialDecay, StepSizes
from xpsample.kernels.tempering import ParallelTempering
from xpsample.kernels.traits import ADJUSTED, MEMORYLESS, UNADJUSTED, Trait
from xpsample.kernels.ula import ULA
from xpsample.kernels.underdamped import UnderdampedLangevin

__all__ = [
    "ACS",
    "ADJUSTED",
    "DMALA",
    "DULA",
    "GWG",
    "HMC",
    "MALA",
    "MAMS",
    "MCLMC",
    "MEMORYLESS",
    "MYULA",
    "NUTS",
    "PCN",
    "RWM",
    "ULA",
    "UNADJUSTED",
    "ACSState",
    "Balancing",
    "Barker",
    "ChainState",
    "Cosine",
    "Cycle",
    "CycleSearch",
    "Gibbs",
    "IndependentMH",
    "Info",
    "Kernel",
    "LocallyBalanced",
    "MAMSInfo",
    "MCLMCInfo",
    "Max",
    "NUTSInfo",
    "ParallelTempering",
    "PolynomialDecay",
    "SingleFlip",
    "SquareRoot",
    "StepSizes",
    "Table",
    "Trait",
    "TwoOpt",
    "UnderdampedLangevin",
    "freeze",
    "metropolis",
    "none_frozen",
    "normal_like",
    "select",
    "uniform_per_chain",
    "with_position",
]
