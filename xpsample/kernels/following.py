"""Kernels of particles whose target changes from step to step, which tune their unset hyperparameters as they run.

The particles are the pooled chains, and the next values are derived from their steps under the targets so far
(Fearnhead & Taylor 2013, "An adaptive sequential Monte Carlo sampler"; Buchholz, Chopin & Jacob 2021, "Adaptive tuning
of Hamiltonian Monte Carlo within sequential Monte Carlo"). Values that depend on particles before their move alone keep
the particles' averages consistent (Beskos, Jasra, Kantas & Thiery 2016).
"""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

from xpsample.adaptation.rule import FollowingRule, unset
from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.kernels.adapted import AdaptedKernel, AdaptedState
from xpsample.kernels.compose import check_given, kernels_inside
from xpsample.kernels.kernel import Kernel
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Point

# Half the warm-up length reported to the rules, which are always in the middle and therefore never slow down.
PACE = 40.0


class Piloted(Kernel[Any, Any], ABC):
    """A kernel whose hyperparameters must be fixed before its run. A run of another kernel, the pilot, tunes them."""

    @abstractmethod
    def pilot(self, steps: int | None) -> tuple[Kernel, int]:
        """The kernel of the pilot, which tunes itself, and its steps: those asked for, or as many as are needed."""

    @abstractmethod
    def after_pilot(self, rows: dict[str, Array]) -> Kernel:
        """Return this kernel with its unset hyperparameters set from `rows`, the pilot's values after each step."""


def following(owner: str, kernel: Kernel) -> Kernel:
    """Return a kernel for particles whose target changes: with rules for unset hyperparameters, otherwise unchanged.

    HyperparameterError if an inner kernel has unset hyperparameters, or a rule requires a fixed target.
    """
    for _, inner in kernels_inside(kernel):
        check_given(owner, inner)
    known = {name: rule.settled for name, rule in unset(kernel).items() if rule.settled is not None}
    kernel = replace(kernel, **known) if known else kernel
    rules = unset(kernel)
    for name, rule in rules.items():
        if not isinstance(rule, FollowingRule):
            raise HyperparameterError(
                f"{owner} cannot tune {type(kernel).__name__}.{name} by {type(rule).__name__}, which needs a fixed "
                "target. Set it, such as to trace.kernel's after a run on the target itself."
            )
    return AdaptedKernel(kernel, PACE, pooled=True, following=True) if rules else kernel


def follow(kernel: Kernel, target: BoundTarget, state: Any, point: Point) -> Any:
    """`AdaptedKernel.follow` of a kernel that tunes itself; the state of another one stays as it is."""
    return kernel.follow(target, state, point) if isinstance(kernel, AdaptedKernel) else state


def of_chains(state: Any) -> Any:
    """The part of a kernel's state that belongs to single chains, without the memory of its rules."""
    return state.base if isinstance(state, AdaptedState) else state


def with_chains(state: Any, chains: Any) -> Any:
    """The state with another part `of_chains`."""
    return state._replace(base=chains) if isinstance(state, AdaptedState) else chains
