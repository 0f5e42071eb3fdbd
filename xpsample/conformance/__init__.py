"""The conformance suite: what every kernel must do on every library, importable by anyone.

``python -m xpsample conformance`` prints its table. To check your own kernels, write them as `Scenario` values; to
check your own backend, register it. `check_all` runs them. ``--kernel package.module:NAME`` does so for a kernel,
or for scenarios, of any module.
"""

from xpsample.conformance.checks import CHECKS as CHECKS
from xpsample.conformance.checks import Outcome as Outcome
from xpsample.conformance.checks import check_all as check_all
from xpsample.conformance.checks import reference as reference
from xpsample.conformance.checks import run_check as run_check
from xpsample.conformance.distributions import Distribution as Distribution
from xpsample.conformance.distributions import Enumerated as Enumerated
from xpsample.conformance.distributions import Invariance as Invariance
from xpsample.conformance.distributions import Pushforward as Pushforward
from xpsample.conformance.scenario import Scenario as Scenario
from xpsample.conformance.scenario import invariance as invariance
from xpsample.conformance.scenarios import cases_of as cases_of
from xpsample.conformance.scenarios import scenarios as scenarios
from xpsample.core.devices import DeviceDtype as DeviceDtype
from xpsample.core.devices import device_dtypes as device_dtypes
