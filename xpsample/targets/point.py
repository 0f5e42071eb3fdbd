"""Points and capabilities: what a target can give, and what it gave at a position."""

import enum
from typing import Any, NamedTuple

from xpsample.core.arrays import Array
from xpsample.gradients.choices import Evaluations


class Capability(enum.Flag):
    """Quantities that a target provides, or a kernel needs: a set of flags, not an order."""

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
    ORDERED = enum.auto()
    """Positions in R^dim, or on `Integers`."""
    ANY_START = enum.auto()
    """Start positions of density 0, which get weight 0."""
    DIFFERENCES_AT = enum.auto()
    """`BoundTarget.differences_at`: the differences of one variable at a time, which any discrete target has."""
    BONDS = enum.auto()
    """`BoundTarget.bonds`: the bonds of a ferromagnet."""
    SOME_ROWS = enum.auto()
    """A batch of the rows of a posterior at a time: whole data may be too large to evaluate."""
    OF_INITIAL = enum.auto()
    """Scores, HVPs and differences of the initial end of a `Bridge` only; of its target the log density is enough."""


class Wanted(NamedTuple):
    """Which parts of a `Point` are required."""

    log_density: bool
    score: bool
    ratio: bool
    differences: bool


_WANTED: dict[Capability, Wanted] = {}


def wanted(requires: Capability) -> Wanted:
    """Which parts of a `Point` are required. To ask a flag at every step would cost as much as some densities."""
    if requires not in _WANTED:  # no functools.cache, which torch.compile does not look into without a warning
        asked = (Capability.LOG_DENSITY, Capability.SCORE, Capability.DENSITY_RATIO, Capability.DIFFERENCES)
        _WANTED[requires] = Wanted(*(one in requires for one in asked))
    return _WANTED[requires]


class Point(NamedTuple):
    """A position with what was evaluated there.

    ``x`` has shape ``(*chains, dim)``, ``log_density`` ``(*chains)``, ``score`` the shape of x; values that the kernel
    does not require are None. If an `Acceptance` other than `ByDensity` stands for the density, ``log_density`` is only
    what a wrapper adds to it. ``base`` is the underlying target's Point if the target is made from another one.
    ``differences`` ``(*chains, variables, choices - 1)`` are, on a discrete space, the log density at each position
    that differs in one variable, minus that at x (see `Discrete`); for the discrete variables of a `Model`
    ``(*chains, variables, 1)``, where one of them is mirrored.
    """

    x: Array
    log_density: Any
    score: Any
    base: Any = None
    differences: Any = None


class Costs(NamedTuple):
    """Evaluations of the user's functions, per chain, that each call of a bound target costs.

    An evaluation counts with the acceptance of the proposal that it is for, where that takes more than two densities; a
    lazy one counts without.
    """

    evaluate: Evaluations
    evaluate_lazily: Evaluations
    refresh: Evaluations
    log_density: Evaluations
    score: Evaluations
    hvp: Evaluations
