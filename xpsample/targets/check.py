"""Compare two ways to the same derivatives."""

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.checks import check_flag, check_instance, check_number
from xpsample.core.devices import current_device
from xpsample.core.errors import GradientError
from xpsample.core.registry import to_host
from xpsample.gradients.choices import FiniteDifference, GradientChoice
from xpsample.targets.point import Capability
from xpsample.targets.shaped import coordinates
from xpsample.targets.target import Target


def check_gradient(
    target: Target,
    x: Array,
    *,
    against: GradientChoice | None = None,
    hvp: bool = False,
    rtol: float | None = None,
) -> float:
    """Compare a target's score (and hvp) with another choice's, at the positions x.

    Parameters
    ----------
    target : Target
        The target; its derivatives as it would use them.
    x : array, shape (*chains, dim), or (*chains, *shape) of a space with a shape
        Positions to compare at; random ones are best.
    against : GradientChoice, optional
        The other way; central finite differences of the log density when not given.
    hvp : bool
        Compare Hessian-vector products along the score direction, too.
    rtol : float, optional
        Tolerance relative to the largest entry; by default the cube root of the dtype's resolution, times 10.

    Returns
    -------
    float
        The largest deviation, relative to the largest entry.

    Raises
    ------
    GradientError
        If they disagree by more than `rtol`; names the chain and coordinate.
    HyperparameterError
        If an argument is of another kind, or `rtol` negative.
    """
    check_instance("target", target, Target, "Target(log_density)")
    check_flag("hvp", hvp)
    check_instance("against", against, GradientChoice, "FiniteDifference()", optional=True)
    if rtol is not None:
        check_number("rtol", rtol, 0.0, closed=True)
    needs = Capability.SCORE | (Capability.HVP if hvp else Capability.SCORE)
    x = coordinates(target, x)
    with current_device(x):
        mine = target.prepare(x, needs)
        resolution = float(np.finfo(to_host(x).dtype).eps)
        tolerance = 10 * resolution ** (1 / 3) if rtol is None else rtol
        other = FiniteDifference(eps=resolution ** (1 / 3)) if against is None else against
        reference = target.without_own_derivatives(other).prepare(x, needs)
        score, expected = mine.score(x), to_host(reference.score(x))
        worst = _compare("score", to_host(score), expected, tolerance)
        if hvp:
            product = to_host(reference.hvp(x, score))
            worst = max(worst, _compare("hvp", to_host(mine.hvp(x, score)), product, tolerance))
            both = to_host(mine.score_plus_hvp(x, score))
            worst = max(worst, _compare("score plus hvp", both, expected + product, tolerance))
        return worst


def _compare(what: str, mine: np.ndarray, reference: np.ndarray, tolerance: float) -> float:
    deviation = np.abs(mine - reference) / max(float(np.abs(reference).max(initial=0)), 1e-30)
    worst = float(deviation.max(initial=0))
    if not worst <= tolerance:
        at = tuple(
            int(i)
            for i in np.unravel_index(np.nanargmax(np.where(np.isnan(deviation), np.inf, deviation)), deviation.shape)
        )
        raise GradientError(
            f"the {what} disagrees with the log density's: at index {at} it is {mine[at]:.6g}, the reference "
            f"{reference[at]:.6g} (relative deviation {worst:.2g}, tolerance {tolerance:.2g})"
        )
    return worst
