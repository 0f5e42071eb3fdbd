"""What ``check=True`` asks of a target."""

from xpsample.core.arrays import Array
from xpsample.core.errors import CapabilityError, XpsampleError
from xpsample.kernels.kernel import Kernel
from xpsample.targets.check import check_gradient
from xpsample.targets.model import Model
from xpsample.targets.point import Capability
from xpsample.targets.target import AbstractTarget, Target, check_target


def check_score(target: AbstractTarget, kernel: Kernel, x0: Array) -> None:
    """Raise unless the score that a kernel takes is that of the log density."""
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
