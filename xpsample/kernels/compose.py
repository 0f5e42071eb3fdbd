"""What kernels that hold another kernel share: the shape that it sees, and its noise among theirs."""

from collections.abc import Mapping
from typing import NamedTuple

from xpsample.core.arrays import Array
from xpsample.core.specs import Specs


class Shaped(NamedTuple):
    """All that `Kernel.noise` may know of the positions."""

    shape: tuple[int, ...]


def nested(specs: Specs, *axes: int) -> Specs:
    """The noise of a kernel inside, under names of its own, for as many steps as the product of `axes`, which lead."""
    return {f"base/{name}": spec._replace(shape=(*axes, *spec.shape)) for name, spec in specs.items()}


def unnested(noise: Mapping[str, Array], *index: int) -> dict[str, Array]:
    """The inner kernel's part of the noise, at an index into the leading axes."""
    return {name.removeprefix("base/"): a[(*index, ...)] for name, a in noise.items() if name.startswith("base/")}
