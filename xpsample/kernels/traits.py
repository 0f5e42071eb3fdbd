"""Properties of a kernel on which wrappers around it may rely."""

import enum


class Trait(enum.Flag):
    """Properties that kernels declare, and wrappers require of their base kernel: a set of flags, not an order."""

    NONE = 0
    SAMPLES = enum.auto()
    """In the long run every chain samples its target, exactly or nearly."""
    UNTILTED = enum.auto()
    """It moves on the density of its target, whatever it remembers."""
    INVARIANT = enum.auto()
    """Every step leaves its target invariant."""
    MOVABLE = enum.auto()
    """The target may be another one at every step: nothing that the kernel remembers has to move with it."""
    EXACT = enum.auto()
    """Density and score at the state's point are the target's own, and no estimates."""
    TAKES_ESTIMATES = enum.auto()
    """Every score is used once, at a position that does not depend on it, so that an unbiased estimate will do."""
    SEPARATE = enum.auto()
    """A chain does not depend on any other chain, so chains may be cut into shards."""
    STAYS_INSIDE = enum.auto()
    """Steps never end where the density is 0, and sample what is left: the target may have hard constraints."""
    DRIFTS = enum.auto()
    """It moves along the score and takes every move, so that a force may be added to the score."""
    ANY_DEPENDENCE = enum.auto()
    """It samples any density that it is given, whichever of its variables depend on each other."""
    REVERSIBLE = enum.auto()
    """Moves from x to y are as frequent as from y to x in the target, and nothing is remembered but the position."""


LACKING = {
    Trait.SAMPLES: "its chains do not sample the target that it is given",
    Trait.UNTILTED: "it moves on a density that its history tilts",
    Trait.INVARIANT: "it does not leave its target invariant",
    Trait.MOVABLE: "it needs a target that stays the same at all steps",
    Trait.EXACT: "its densities and scores are random estimates",
    Trait.TAKES_ESTIMATES: "it compares evaluations, which random estimates do not allow",
    Trait.SEPARATE: "its chains depend on each other",
    Trait.STAYS_INSIDE: "it needs a density that falls to 0 smoothly",
    Trait.ANY_DEPENDENCE: "it relies on which variables of the target depend on each other, and in another density "
    "more may",
    Trait.REVERSIBLE: "its moves are not known to be reversible",
    Trait.DRIFTS: "a force that is added to the score does nothing in it, or biases it",
}
"""Text of messages about a kernel without a trait."""

MEMORYLESS = Trait.SAMPLES | Trait.UNTILTED | Trait.MOVABLE | Trait.EXACT | Trait.SEPARATE | Trait.ANY_DEPENDENCE
"""Traits of a kernel that remembers nothing but its position; the default of kernels that declare nothing."""

ADJUSTED = MEMORYLESS | Trait.INVARIANT | Trait.STAYS_INSIDE
"""Traits of a kernel that accepts or rejects, or draws from conditional distributions: RWM, HMC, Gibbs, ..."""

REVERSIBLE = ADJUSTED | Trait.REVERSIBLE
"""Traits of a kernel whose single move satisfies detailed balance: RWM, MALA, HMC, ..."""

UNADJUSTED = MEMORYLESS | Trait.TAKES_ESTIMATES | Trait.DRIFTS
"""Traits of a kernel that moves along the score and accepts every move: ULA, UnderdampedLangevin, ..."""
