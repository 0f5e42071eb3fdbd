"""Targets: what is sampled, and the targets made from targets."""

from xpsample.targets.parametric import Parametric
from xpsample.targets.space import Real, Space
from xpsample.targets.target import AbstractTarget, BoundTarget, Capability, Costs, Point, Target
from xpsample.targets.tempered import Tempered
from xpsample.targets.tilted import Exact, Shift, Tilt, Tilted

__all__ = [
    "AbstractTarget",
    "BoundTarget",
    "Capability",
    "Costs",
    "Exact",
    "Parametric",
    "Point",
    "Real",
    "Shift",
    "Space",
    "Target",
    "Tempered",
    "Tilt",
    "Tilted",
]
