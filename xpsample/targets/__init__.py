"""Targets: what is sampled, and the targets made from targets."""

from xpsample.targets.acceptance import Acceptance, LineIntegral, Taylor
from xpsample.targets.bound import BoundTarget
from xpsample.targets.check import check_gradient
from xpsample.targets.parametric import Parametric
from xpsample.targets.point import Capability, Costs, Point
from xpsample.targets.posterior import Rows, posterior
from xpsample.targets.target import AbstractTarget, Target
from xpsample.targets.tempered import Tempered
from xpsample.targets.tilted import Exact, Ratio, Shift, Tilt, Tilted, Untilted

__all__ = [
    "AbstractTarget",
    "Acceptance",
    "BoundTarget",
    "Capability",
    "Costs",
    "Exact",
    "LineIntegral",
    "Parametric",
    "Point",
    "Ratio",
    "Rows",
    "Shift",
    "Target",
    "Taylor",
    "Tempered",
    "Tilt",
    "Tilted",
    "Untilted",
    "check_gradient",
    "posterior",
]
