"""What `sample` is asked for, checked before anything is made of it."""

from collections.abc import Sequence
from typing import Any

from xpsample.core.arrays import Array
from xpsample.core.checks import check_flag
from xpsample.core.errors import CapabilityError, XpsampleError
from xpsample.engine.loop import Watcher
from xpsample.kernels.kernel import Kernel
from xpsample.targets.check import check_gradient
from xpsample.targets.model import Model
from xpsample.targets.point import Capability
from xpsample.targets.target import AbstractTarget, Target, check_target
from xpsample.trace.recorders import Recorder
from xpsample.watchers.until import Until, check_until
from xpsample.watchers.watching import check_watchers


def check_asked(
    x0: Array,
    recorders: Sequence[Recorder],
    until: Until | None,
    progress: bool | None,
    compile: bool,
    watchers: Any,
    cut: bool,
) -> tuple[Watcher, ...]:
    """Check arguments of `sample` that no other part of a run checks, where chains are `cut` or not: the watchers."""
    check_flag("compile", compile)
    if progress is not None:
        check_flag("progress", progress)
    check_until(until, recorders, x0)
    return check_watchers(watchers, cut)


def check_score(target: AbstractTarget, kernel: Kernel, x0: Array) -> None:
    """What ``check=True`` asks for: raise unless the score that a kernel takes is that of the log density."""
    check_target("target", target)
    own = target.target if isinstance(target, Model) else target
    if not isinstance(own, Target):
        raise XpsampleError("check=True compares the score of a Target with its density; this target is made of one")
    if isinstance(kernel, Kernel) and not kernel.requires & (Capability.SCORE | Capability.HVP):
        raise CapabilityError(
            f"check=True compares the score with the log density, and {type(kernel).__name__} uses no score: "
            "leave it out"
        )
    check_gradient(own, x0)
