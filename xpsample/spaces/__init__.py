"""Spaces: where positions live."""

from xpsample.spaces.discrete import Binary, Categorical, Discrete, OneHot, Spins
from xpsample.spaces.permutations import Permutations
from xpsample.spaces.space import Real, Space

__all__ = ["Binary", "Categorical", "Discrete", "OneHot", "Permutations", "Real", "Space", "Spins"]
