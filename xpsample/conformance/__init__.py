"""The conformance suite: what every kernel must do on every library, importable by anyone.

``python -m xpsample conformance`` prints its table. A third party adds its kernels as `Scenario` values and its
backend by registering it; `check_all` runs them.
"""

from xpsample.conformance.checks import CHECKS, Outcome, check_all, reference, run_check
from xpsample.conformance.invariance import invariance
from xpsample.conformance.laws import Enumerated, Image, Invariance, Law
from xpsample.conformance.scenario import Scenario
from xpsample.conformance.scenarios import scenarios
from xpsample.places import Place, places

__all__ = [
    "CHECKS",
    "Enumerated",
    "Image",
    "Invariance",
    "Law",
    "Outcome",
    "Place",
    "Scenario",
    "check_all",
    "invariance",
    "places",
    "reference",
    "run_check",
    "scenarios",
]
