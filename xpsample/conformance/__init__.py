"""The conformance suite: what every kernel must do on every library, importable by anyone.

``python -m xpsample conformance`` prints its table. To check kernels of your own, write them as `Scenario` values; to
check a backend of your own, register it. `check_all` runs them. ``--kernel package.module:NAME`` does so for a kernel,
or for scenarios, of any module.
"""

from xpsample.conformance.checks import CHECKS, Outcome, check_all, reference, run_check
from xpsample.conformance.distributions import Distribution, Enumerated, Invariance, Pushforward
from xpsample.conformance.invariance import invariance
from xpsample.conformance.scenario import Scenario
from xpsample.conformance.scenarios import scenarios
from xpsample.conformance.third_party import cases_of
from xpsample.core.devices import DeviceDtype, device_dtypes

__all__ = [
    "CHECKS",
    "DeviceDtype",
    "Distribution",
    "Enumerated",
    "Invariance",
    "Outcome",
    "Pushforward",
    "Scenario",
    "cases_of",
    "check_all",
    "device_dtypes",
    "invariance",
    "reference",
    "run_check",
    "scenarios",
]
