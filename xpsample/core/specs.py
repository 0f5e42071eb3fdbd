"""Declarations of randomness: which random numbers one step of a kernel consumes, by name."""

from collections.abc import Mapping
from typing import NamedTuple


class Normal(NamedTuple):
    """Independent standard normals of the given shape, for one step."""

    shape: tuple[int, ...]


class Uniform(NamedTuple):
    """Independent uniforms on the open interval (0, 1) of the given shape, for one step."""

    shape: tuple[int, ...]


Specs = Mapping[str, Normal | Uniform]
"""The noise of one step, by name."""
