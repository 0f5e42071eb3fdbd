"""The spaces of constraints, which torch.distributions and NumPyro call by the same names."""

from typing import Any

import numpy as np

from xpsample.core.errors import CapabilityError
from xpsample.core.registry import to_host
from xpsample.spaces.constrained import Circular, Interval, LowerBounded, Positive, UpperBounded
from xpsample.spaces.matrices import CorrelationCholesky, CovarianceCholesky
from xpsample.spaces.simplexes import Ordered, PositiveOrdered, Simplex
from xpsample.spaces.space import Constrained, Real

PLAIN: dict[str, Any] = {
    "real": Real,
    "circular": Circular,
    "simplex": Simplex,
    "ordered_vector": Ordered,
    "positive_ordered_vector": PositiveOrdered,
}
"""Constraints without bounds, by their names, and spaces with the shape of the values."""

MATRICES: dict[str, Any] = {
    "corr_cholesky": CorrelationCholesky,
    "lower_cholesky": CovarianceCholesky,
    "softplus_lower_cholesky": CovarianceCholesky,
}
"""Constraints of square matrices."""

BOUNDED = ("greater_than", "greater_than_eq", "less_than", "interval", "half_open_interval")
"""Classes of constraints that have a ``lower_bound``, an ``upper_bound``, or both."""


WRAPPERS = ("independent", "MixtureSameFamilyConstraint")
"""Classes of constraints around a ``base_constraint``."""


def space_of(constraints: Any, name: str, support: Any, shape: tuple[int, ...]) -> Constrained:
    """The space of a parameter, from the support of its distribution.

    Only the set of values is taken over: coordinates and Jacobian come from the space.

    Parameters
    ----------
    constraints : module
        ``torch.distributions.constraints`` or ``numpyro.distributions.constraints``.
    name : str
        Name of the parameter, for messages.
    support : constraint
        One of that module's.
    shape : tuple of int
        Shape of a value of one chain: batch and event axes.

    Returns
    -------
    Constrained

    Raises
    ------
    CapabilityError
        For a discrete parameter, and for a set that no space stands for.

    Examples
    --------
    >>> from torch.distributions import constraints
    >>> from xpsample.interop import space_of
    >>> space_of(constraints, "tau", constraints.positive, (8,))
    Positive(8)
    """
    wrappers: Any = _classes(constraints, WRAPPERS)
    while isinstance(support, wrappers):
        support = support.base_constraint
    if getattr(support, "is_discrete", False):
        raise CapabilityError(
            f"{name} is discrete: sum over its values in the density, or write a Model with a discrete space, such as "
            "Binary(), and use Blocks"
        )
    for kind, space in PLAIN.items():
        if _is(constraints, kind, support):
            return space(*shape)
    for kind, space in MATRICES.items():
        if _is(constraints, kind, support):
            return space(*shape[:-1])
    if isinstance(support, _classes(constraints, BOUNDED)):
        low, high = (_bound(support, side) for side in ("lower_bound", "upper_bound"))
        space = between(-np.inf if low is None else low, np.inf if high is None else high, shape)
        if space is not None:
            return space
    raise CapabilityError(
        f"the values of {name} are in {support}, which no space of xpsample is: write the parameter in another form, "
        "such as a Cholesky factor in place of a covariance"
    )


def between(low: Any, high: Any, shape: tuple[int, ...]) -> Constrained | None:
    """The space of numbers between two bounds, which may be infinite; None where some of a bound are and some not."""
    below, above = np.isfinite(low), np.isfinite(high)
    if np.any(below != np.all(below)) or np.any(above != np.all(above)):
        return None
    low, high = _one(low), _one(high)
    if np.all(below):
        if np.all(above):
            return Interval(low, high, *shape)
        return LowerBounded(low, *shape) if np.any(low) else Positive(*shape)
    return UpperBounded(high, *shape) if np.all(above) else Real(*shape)


def _one(bound: Any) -> Any:
    """A number in place of an array of equal ones."""
    values = np.asarray(bound)
    return float(values.flat[0]) if np.all(values == values.flat[0]) else bound


def _classes(constraints: Any, kinds: tuple[str, ...]) -> tuple[type, ...]:
    """Constraints of some classes that the module has."""
    return tuple(getattr(constraints, kind) for kind in kinds if hasattr(constraints, kind))


def _is(constraints: Any, kind: str, support: Any) -> bool:
    """Return whether a support is the named constraint, if the module has it."""
    return hasattr(constraints, kind) and isinstance(support, type(getattr(constraints, kind)))


def _bound(support: Any, side: str) -> np.ndarray | None:
    bound = getattr(support, side, None)
    return None if bound is None else np.asarray(bound if isinstance(bound, int | float) else to_host(bound))
