"""Helpers of kernels that wrap another kernel: checks of the base kernel, shapes inside, and nested noise."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from xpsample.adaptation import Rule, unset
from xpsample.core.arrays import Array
from xpsample.core.errors import CapabilityError, HyperparameterError
from xpsample.core.hyperparameters import settings, show
from xpsample.core.registry import to_host
from xpsample.core.specs import Specs
from xpsample.kernels.kernel import Kernel
from xpsample.kernels.traits import LACKING, Trait
from xpsample.targets.bound import BoundTarget
from xpsample.targets.prepared import PreparedTarget


def check_base(owner: str, base: Any, needs: Mapping[Trait, str]) -> None:
    """Refuse a kernel inside another one that would be biased by it.

    Parameters
    ----------
    owner : str
        The kernel around it.
    base : Kernel
    needs : mapping of Trait to str
        What the owner relies on, and what to do where the base lacks it.

    Raises
    ------
    CapabilityError
        Names the owner, the kernel that lacks something (it may be deep inside), and what would do.
    """
    if not isinstance(base, Kernel):
        given = f"the class {base.__name__}" if isinstance(base, type) else f"a {type(base).__name__}"
        raise CapabilityError(f"{owner} goes around a kernel, such as RWM(1.0); got {given}")
    for trait, instead in needs.items():
        if trait not in base.traits:
            raise CapabilityError(f"{owner} cannot go around {lacking(base, trait)}, since {LACKING[trait]}: {instead}")


def lacking(kernel: Kernel, trait: Trait) -> str:
    """The innermost kernel that lacks a trait, by name."""
    for _, inner in kernels_inside(kernel):
        if trait not in inner.traits:
            return lacking(inner, trait)
    return type(kernel).__name__


def check_target_fits(kernel: Kernel, target: BoundTarget) -> None:
    """Raise CapabilityError for a kernel on a target that it would not sample.

    It names the kernel that does not fit, which may be deep inside, and what would do.
    """
    if target.constrained and Trait.STAYS_INSIDE not in kernel.traits:
        raise CapabilityError(
            f"{lacking(kernel, Trait.STAYS_INSIDE)} cannot sample a target with hard constraints: "
            f"{LACKING[Trait.STAYS_INSIDE]}. Use MALA, HMC or NUTS without repulsion, or a Model with bounded "
            "parameters."
        )
    only = target.acceptance.only_with
    if only is not None and not (isinstance(target, PreparedTarget) and _same(kernel, only)):
        itself = isinstance(target, PreparedTarget)
        moved = show(kernel) if itself else f"{show(kernel)} on a {type(target).__name__} that is made from it"
        raise CapabilityError(
            f"{type(target.acceptance).__name__} is the acceptance of {show(only)} on the target itself; got {moved}. "
            "Use that kernel, or direct=False for any kernel."
        )


def _same(kernel: Any, other: Any) -> bool:
    """Return whether both have the same type and the same numbers."""
    if type(kernel) is not type(other):
        return False
    pairs = [(getattr(kernel, f.name), value) for f, value in settings(other) if f.init]
    return all((a is b) if a is None or b is None else _close(a, b) for a, b in pairs)


def _close(a: Any, b: Any) -> bool:
    return not isinstance(a, Rule) and bool(np.allclose(to_host(a), to_host(b), rtol=1e-6, atol=0.0))


def check_given(owner: str, base: Kernel) -> None:
    """Raise HyperparameterError for a kernel with unset hyperparameters if its target changes with its steps."""
    missing = unset_inside(base)
    if missing:
        raise HyperparameterError(
            f"{owner} cannot tune {', '.join(missing)}, since its target changes from step to step. Set them, such as "
            "to trace.kernel's after a run on the target itself."
        )


def unset_inside(kernel: Any) -> list[str]:
    """Return the unset hyperparameters of a kernel and its inner kernels, such as ``HMC.step_size``."""
    return [name for name, _ in rules_inside(kernel)]


def rules_inside(kernel: Any) -> list[tuple[str, Rule]]:
    """Return the rules that tune the unset hyperparameters of a kernel and its inner kernels, by such names."""
    if kernel.tuning_inside is not None:
        return []
    own = [(f"{type(kernel).__name__}.{name}", rule) for name, rule in unset(kernel).items()]
    return own + [pair for _, inner in kernels_inside(kernel) for pair in rules_inside(inner)]


def kernels_inside(kernel: Any) -> list[tuple[str, Kernel]]:
    """The kernels that a kernel holds, by field."""
    return [(f.name, value) for f, value in settings(kernel) if f.init and isinstance(value, Kernel)]


def on_target(kernel: Any, target: BoundTarget, x: Array) -> Any:
    """A kernel whose `Blocks` know the parameters of the model that the target is.

    Raises if there are blocks and the target is no model, lacks a parameter of theirs, or does not fit their kernels.
    """
    if hasattr(kernel, "on_target"):
        return kernel.on_target(target, x)
    inner = {name: on_target(part, target, x) for name, part in kernels_inside(kernel)}
    changed = {name: part for name, part in inner.items() if part is not getattr(kernel, name)}
    return replace(kernel, **changed) if changed else kernel


class Shaped(NamedTuple):
    """All that `Kernel.noise` may know of the positions."""

    shape: tuple[int, ...]


def nested(specs: Specs, *axes: int) -> Specs:
    """Noise of an inner kernel under separate names, for as many steps as the product of the leading `axes`."""
    return {f"base/{name}": spec._replace(shape=(*axes, *spec.shape)) for name, spec in specs.items()}


def of_moves(specs: Specs, moves: int) -> Specs:
    """The noise of a kernel that moves so many times in a step; under its own names where it moves once."""
    return specs if moves == 1 else nested(specs, moves)


def of_move(noise: dict[str, Array], moves: int, i: Any) -> dict[str, Array]:
    """The part of move i of the noise of `of_moves`."""
    return noise if moves == 1 else unnested(noise, i)


def unnested(noise: Mapping[str, Array], *index: int) -> dict[str, Array]:
    """The inner kernel's part of the noise, at an index into the leading axes."""
    return {name.removeprefix("base/"): a[(*index, ...)] for name, a in noise.items() if name.startswith("base/")}
