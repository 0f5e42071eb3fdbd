"""Bonds of ferromagnets: which variables gain log density by having the same value, for cluster updates."""

from typing import Any, NamedTuple

from xpsample.core.arrays import Array


class Bonds(NamedTuple):
    """The log density ``sum over bonds of gain [x_i = x_j] + sum_i field[i, x_i]``, but for a constant.

    Attributes
    ----------
    neighbors : array of int32, shape (variables, most)
        The variables that each one is joined with; any, in slots without a bond.
    bond : array of int32, shape (variables, most)
        The number of the bond of each slot, the same at both of its ends; `number` in slots without one.
    gains : array, shape (variables, most) or (*chains, variables, most)
        At least 0, the same at both ends of a bond.
    field : array, shape (variables, choices) or (*chains, variables, choices)
        Log weights of the values of each variable, in the order of the space.
    number : int
        Bonds.
    """

    neighbors: Array
    bond: Array
    gains: Array
    field: Array
    number: int

    def times(self, beta: Any) -> "Bonds":
        """Return the bonds of a power of the density; beta has two axes of length 1 after the chain axes."""
        return self._replace(gains=beta * self.gains, field=beta * self.field)
