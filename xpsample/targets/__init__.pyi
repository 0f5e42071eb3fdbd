# The names of `__init__.py`, each with its module, for type checkers; a test compares both files.

from xpsample.targets.acceptance import Acceptance as Acceptance
from xpsample.targets.acceptance import LineIntegral as LineIntegral
from xpsample.targets.acceptance import Taylor as Taylor
from xpsample.targets.bonds import Bonds as Bonds
from xpsample.targets.bound import BoundTarget as BoundTarget
from xpsample.targets.bound import Rows as Rows
from xpsample.targets.check import check_gradient as check_gradient
from xpsample.targets.parametric import Parametric as Parametric
from xpsample.targets.point import Capability as Capability
from xpsample.targets.point import Costs as Costs
from xpsample.targets.point import Point as Point
from xpsample.targets.rows import posterior as posterior
from xpsample.targets.target import AbstractTarget as AbstractTarget
from xpsample.targets.target import Target as Target
from xpsample.targets.tempered import Tempered as Tempered
from xpsample.targets.tilted import Exact as Exact
from xpsample.targets.tilted import Ratio as Ratio
from xpsample.targets.tilted import Shift as Shift
from xpsample.targets.tilted import Tilt as Tilt
from xpsample.targets.tilted import Tilted as Tilted
from xpsample.targets.tilted import Untilted as Untilted
