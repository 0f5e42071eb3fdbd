"""Targets: what is sampled, and the targets made from targets."""

from xpsample.targets.acceptance import Acceptance, LineIntegral, Taylor
from xpsample.targets.discrete import Binary, Categorical, Discrete, OneHot, Spins
from xpsample.targets.parametric import Parametric
from xpsample.targets.permutations import Permutations
from xpsample.targets.posterior import Rows, posterior
from xpsample.targets.space import Real, Space
from xpsample.targets.target import AbstractTarget, BoundTarget, Capability, Costs, Point, Target
from xpsample.targets.tempered import Tempered
from xpsample.targets.tilted import Exact, Ratio, Shift, Tilt, Tilted, Untilted

__all__ = [
    "AbstractTarget",
    "Acceptance",
    "Binary",
    "BoundTarget",
    "Capability",
    "Categorical",
    "Costs",
    "Discrete",
    "Exact",
    "LineIntegral",
    "OneHot",
    "Parametric",
    "Permutations",
    "Point",
    "Ratio",
    "Real",
    "Rows",
    "Shift",
    "Space",
    "Spins",
    "Target",
    "Taylor",
    "Tempered",
    "Tilt",
    "Tilted",
    "Untilted",
    "posterior",
]
