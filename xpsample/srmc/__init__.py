"""Score-repellent Monte Carlo: a kernel repelled by the average of the scores that it has seen."""

from xpsample.srmc.diagnostics import Repellence, RepellenceReport, exponent_scale, hvp_share, theta_norm
from xpsample.srmc.estimator import Estimates, Estimator
from xpsample.srmc.kernel import SRMC, SRMCState
from xpsample.srmc.pilot import LowestError
from xpsample.srmc.schedules import Frozen, PowerLaw, Schedule, Stable
from xpsample.srmc.stability import (
    Autocorrelation,
    Constant,
    LangevinAutocorrelation,
    LeapfrogAutocorrelation,
    autocorrelation,
    spectrum,
    stability_bound,
)
from xpsample.srmc.strength import Adaptive, Growing, warmup_steps

__all__ = [
    "SRMC",
    "Adaptive",
    "Autocorrelation",
    "Constant",
    "Estimates",
    "Estimator",
    "Frozen",
    "Growing",
    "LangevinAutocorrelation",
    "LeapfrogAutocorrelation",
    "LowestError",
    "PowerLaw",
    "Repellence",
    "RepellenceReport",
    "SRMCState",
    "Schedule",
    "Stable",
    "autocorrelation",
    "exponent_scale",
    "hvp_share",
    "spectrum",
    "stability_bound",
    "theta_norm",
    "warmup_steps",
]
