"""Spaces: where positions live."""

from xpsample.spaces.categorical import Categorical, OneHot
from xpsample.spaces.constrained import Circular, Interval, LowerBounded, Positive, UpperBounded
from xpsample.spaces.discrete import Binary, Discrete, Spins
from xpsample.spaces.json_form import space_from_json
from xpsample.spaces.matrices import CorrelationCholesky, CovarianceCholesky
from xpsample.spaces.permutations import Permutations
from xpsample.spaces.simplexes import Ordered, PositiveOrdered, Simplex, UnitVector
from xpsample.spaces.space import Constrained, Real, Space

__all__ = [
    "Binary",
    "Categorical",
    "Circular",
    "Constrained",
    "CorrelationCholesky",
    "CovarianceCholesky",
    "Discrete",
    "Interval",
    "LowerBounded",
    "OneHot",
    "Ordered",
    "Permutations",
    "Positive",
    "PositiveOrdered",
    "Real",
    "Simplex",
    "Space",
    "Spins",
    "UnitVector",
    "UpperBounded",
    "space_from_json",
]
