"""Score-repellent Monte Carlo: any kernel, repelled by the average of the scores that it has seen."""

from xpsample.srmc.kernel import SRMC, SRMCState
from xpsample.srmc.schedules import Frozen, PowerLaw, Schedule

__all__ = ["SRMC", "Frozen", "PowerLaw", "SRMCState", "Schedule"]
