"""The losses that `fit` minimises."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

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
    """

    constants: tree.Tree = None

    @abstractmethod
    def noise(self, rows: int, dim: int) -> Specs:
        """The random numbers that one evaluation on a batch (rows, dim) consumes, by name."""

    @abstractmethod
    def __call__(
        self, parameters: tree.Tree, x: Array, noise: Mapping[str, Array], constants: tree.Tree, progress: Array
    ) -> Array:
        """The loss, 0-d.

        Parameters
        ----------
        parameters : tree of arrays
        x : array, shape (rows, dim)
            The batch.
        noise : mapping of str to array
            The numbers that `noise` declares.
        constants : tree of arrays
            Those of the attribute, in the library of x.
        progress : array, 0-d
            From 0 in the first epoch to 1 in the last one; 1 for a validation.
        """
