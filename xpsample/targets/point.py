"""What a target can give, and what it evaluated at a position."""

import enum
from typing import Any, NamedTuple

from xpsample.core.arrays import Array
from xpsample.gradients.choices import Evaluations


class Capability(enum.Flag):
    """What a target can give, or a kernel needs: a set of flags, not an order."""

    NONE = 0
    LOG_DENSITY = enum.auto()
    SCORE = enum.auto()
    HVP = enum.auto()
    DISCRETE = enum.auto()
    DIFFERENCES = enum.auto()
    DENSITY_RATIO = enum.auto()
    """`BoundTarget.log_ratio`: less than a log density, since an `Acceptance` makes it from a score, too."""
    REAL = enum.auto()
    """Positions that may be anywhere in R^dim."""


class Point(NamedTuple):
    """A position with what was evaluated there.

    ``x`` has shape ``(*chains, dim)``, ``log_density`` ``(*chains)``, ``score`` that of x; what the kernel did not ask
    for is None. Where an `Acceptance` other than `ByDensity` stands for the density, ``log_density`` is only what a
    wrapper adds to it. ``base`` is the underlying target's Point where the target is made from another one.
    ``differences`` ``(*chains, variables, choices - 1)`` are, on a discrete space, the log density at each position
    that differs in one variable, minus that at x (see `Discrete`).
    """

    x: Array
    log_density: Any
    score: Any
    base: Any = None
    differences: Any = None


class Costs(NamedTuple):
    """Evaluations, per chain, of the underlying model that a call of a bound target spends."""

    evaluate: Evaluations
    evaluate_lazily: Evaluations
    refresh: Evaluations
    score: Evaluations
    hvp: Evaluations
