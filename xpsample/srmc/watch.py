"""Statistics of a chain's tilt, and limits above which it is too strong."""

from typing import Any, NamedTuple

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.registry import to_host
from xpsample.diagnostics.findings import Finding

# Limits of `alpha |s . theta|`, the paper's tau; of the share of steps above it; of the mean acceptance.
LIMIT, SHARE, LEAST_ACCEPTANCE = 1.0, 0.75, 0.05

RUNAWAY = 5.0  # Times the limit: the mean of a chain that runs away late, where the tilted density does not fall off

# Times the limit: the median of the chains' means from which on variances are a tenth too large or more, though each
# chain is above the limit in fewer steps: of normal targets in 2 and 20 dimensions, with `MALA` and `RWM`.
BIASED = 1.5


class Watch(NamedTuple):
    """The number of steps, 0-d, and sums over them, each (*chains).

    Sums of the exponent scale ``alpha |s . theta|``, of the steps in which it exceeded the limit, and of the
    acceptance.
    """

    steps: Array
    exponent: Array
    above: Array
    acceptance: Array

    def after(self, xp: Any, exponent: Array, acceptance: Array, limit: float = LIMIT) -> "Watch":
        """The sums after one more step."""
        above = xp.astype(~(exponent <= limit), exponent.dtype)  # counts nan, too
        return Watch(self.steps + 1, self.exponent + exponent, self.above + above, self.acceptance + acceptance)

    def means(self, xp: Any) -> tuple[Array, Array, Array]:
        """Means of the exponent scale, of the steps above, and of the acceptance; nan before the first step."""
        steps = xp.astype(self.steps, self.above.dtype)
        return self.exponent / steps, self.above / steps, self.acceptance / steps


def watch(counter: Array, zeros: Array) -> Watch:
    """Before the first step; zeros have the shape and dtype (*chains) of the sums."""
    return Watch(counter, zeros + 0.0, zeros + 0.0, zeros + 0.0)


def judge(
    exponent: Array,
    above: Array,
    accepted: Array,
    at_zero: Array,
    alpha: Array,
    gamma: Array,
    limit: float = LIMIT,
    share: float = SHARE,
    least_acceptance: float = LEAST_ACCEPTANCE,
) -> list[Finding]:
    """Findings: the tilt was too strong, next to nothing was accepted, or nothing repels, since theta is 0."""
    values = exponent, above, accepted, at_zero, alpha, gamma
    exponent, above, accepted, at_zero, alpha, gamma = (to_host(a) for a in values)
    count = np.size(alpha)
    found = []
    biased = ~(np.median(exponent) <= BIASED * limit) & ~(exponent <= BIASED * limit)
    strong = int(np.sum((biased | (above > share) | ~(exponent <= RUNAWAY * limit)) & (alpha > 0)))
    if strong:
        what = (
            f"the tilt is too strong in {strong} of {count} chains: at worst, alpha |s . theta| is "
            f"{np.max(exponent):.3g} on average, and above {limit:g} in {np.max(above):.0%} of the steps"
        )
        advice = (
            f"do not set alpha, or, if it was tuned, set less than {np.max(alpha):.2g}. Or use alpha=Adaptive(...), "
            "smaller first steps of the history (schedule=Stable(...), a larger offset or a smaller scale), or "
            "tilt=Untilted() with a base kernel that accepts or rejects. Steps of the burn-in count, too"
        )
        found.append(Finding("tilt", what, strong, advice))
    stuck = int(np.sum(~(accepted >= least_acceptance) & (alpha > 0)))
    if stuck:
        what = f"the acceptance collapsed in {stuck} of {count} chains, to below {least_acceptance:g} on average"
        advice = (
            "do not set alpha, or set a smaller one. If the base kernel alone accepts as little, use a smaller step "
            "size"
        )
        found.append(Finding("tilt_acceptance", what, stuck, advice))
    idle = int(np.sum(at_zero & (gamma == 0) & (alpha > 0)))
    if idle:
        what = f"nothing repels in {idle} of {count} chains, because their gamma and theta are 0"
        advice = (
            "pass eigenvalues to the Stable schedule, which allows no step where the base kernel may be in resonance, "
            "or change steps or step_size"
        )
        found.append(Finding("tilt_idle", what, idle, advice))
    return found
