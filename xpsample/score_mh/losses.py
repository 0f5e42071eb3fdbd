"""The losses that `fit` minimizes."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from array_api_compat import array_namespace

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.specs import Specs


class TrainingLoss(ABC):
    """A loss of a tree of parameters, estimated from a batch of rows. Final subclasses are frozen dataclasses.

    Attributes
    ----------
    constants : tree of arrays
        Other arrays that it needs, such as the parameters of a network that is already trained. NumPy arrays are put
        into the library of the data.
    any_shape : bool
        Whether rows may be arrays with more axes, such as images; otherwise they are vectors.
    """

    if TYPE_CHECKING:  # subclasses have it as a field or as a property

        @property
        def constants(self) -> tree.Tree: ...
    else:
        constants = None
    any_shape = False

    @abstractmethod
    def noise(self, rows: int, dim: int) -> Specs:
        """The random numbers that one evaluation on a batch (rows, dim) consumes, by name.

        If rows have more axes, `dim` is the product of their lengths.
        """

    @abstractmethod
    def __call__(
        self, parameters: tree.Tree, x: Array, noise: Mapping[str, Array], constants: tree.Tree, progress: Array
    ) -> Array:
        """The loss, 0-d, of a batch x, (rows, dim) or (rows, *shape), with the numbers that `noise` declares.

        The constants are the attribute's, in the library of x. `progress`, 0-d, goes from 0 in the first epoch to 1 in
        the last one; it is 1 for a validation.
        """


def squares(x: Array) -> Array:
    """The sum of the squares of each row, ``(rows, *shape) -> (rows)``."""
    xp = array_namespace(x)
    return xp.sum(xp.reshape(x * x, (x.shape[0], -1)), axis=-1)


def per_row(values: Array, x: Array) -> Array:
    """A number for each row, (rows), with axes that broadcast against x, ``(rows, *shape)``."""
    return array_namespace(x).reshape(values, (-1, *(1,) * (x.ndim - 1)))


def shaped(numbers: Array, x: Array) -> Array:
    """Random numbers (rows, dim) in the shape of x."""
    return array_namespace(x).reshape(numbers, x.shape)
