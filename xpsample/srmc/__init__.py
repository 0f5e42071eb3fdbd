"""Score-repellent Monte Carlo: a kernel repelled by the average of the scores that it has seen."""

from xpsample.srmc.diagnostics import Repellence as Repellence
from xpsample.srmc.diagnostics import RepellenceReport as RepellenceReport
from xpsample.srmc.diagnostics import exponent_scale as exponent_scale
from xpsample.srmc.diagnostics import theta_norm as theta_norm
from xpsample.srmc.estimator import Estimates as Estimates
from xpsample.srmc.estimator import Estimator as Estimator
from xpsample.srmc.kernel import SRMC as SRMC
from xpsample.srmc.kernel import SRMCState as SRMCState
from xpsample.srmc.pilot import LowestError as LowestError
from xpsample.srmc.schedules import Frozen as Frozen
from xpsample.srmc.schedules import PowerLaw as PowerLaw
from xpsample.srmc.schedules import Schedule as Schedule
from xpsample.srmc.schedules import Stable as Stable
from xpsample.srmc.stability import Autocorrelation as Autocorrelation
from xpsample.srmc.stability import Constant as Constant
from xpsample.srmc.stability import LangevinAutocorrelation as LangevinAutocorrelation
from xpsample.srmc.stability import LeapfrogAutocorrelation as LeapfrogAutocorrelation
from xpsample.srmc.stability import autocorrelation as autocorrelation
from xpsample.srmc.stability import spectrum as spectrum
from xpsample.srmc.stability import stability_bound as stability_bound
from xpsample.srmc.strength import Adaptive as Adaptive
from xpsample.srmc.strength import Growing as Growing
from xpsample.srmc.strength import warmup_steps as warmup_steps
