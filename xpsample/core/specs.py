"""What a kernel declares of its randomness: the random numbers that one step consumes, by name."""

from collections.abc import Mapping
from typing import NamedTuple


class Normal(NamedTuple):
    """Independent standard normals of a shape, one set a step."""

    shape: tuple[int, ...]


class Uniform(NamedTuple):
    """Independent uniforms on the open interval (0, 1) of a shape, one set a step."""

    shape: tuple[int, ...]


Specs = Mapping[str, Normal | Uniform]
"""The noise of one step, by name."""
