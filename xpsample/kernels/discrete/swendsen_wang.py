"""Swendsen-Wang: clusters of equal values, each of which gets a new value."""

from dataclasses import field, replace
from typing import Any, ClassVar

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.core.special import minimum_at
from xpsample.core.specs import Specs, Uniform
from xpsample.kernels.discrete.common import space_of, uniform_per_variable
from xpsample.kernels.kernel import ChainState, Info, MemorylessKernel
from xpsample.kernels.traits import ADJUSTED, Trait
from xpsample.spaces.discrete import as_index, pick
from xpsample.targets.bonds import Bonds
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability


class SwendsenWang(MemorylessKernel[Info]):
    """Cluster updates of Ising and Potts models whose couplings are all ferromagnetic (Swendsen & Wang 1987).

    A bond between equal values is closed with probability ``1 - exp(-gain)``, where the gain is what the log density
    gains by their being equal. All variables that closed bonds join get one new value, drawn uniformly. At and below
    the critical temperature, where single moves rarely turn a domain over, a few steps do.

    In a field, each variable is held with probability ``1 - exp(-(h(x) - min h))``, and clusters with a held variable
    keep their value. With a strong field most clusters do; use `Sweep` then.

    Needs a target that states its bonds: `ising_lattice`, `ising_couplings` and `potts` do, or ``Target(bonds=...)``.

    See Also
    --------
    Sweep : Any couplings.

    References
    ----------
    .. [1] Swendsen & Wang (1987), "Nonuniversal critical dynamics in Monte Carlo simulations", Physical Review Letters.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> from xpsample.zoo.ising import ising_lattice
    >>> x0 = np.ones((8, 64))
    >>> trace = xps.sample(ising_lattice((8, 8), 0.5), xps.SwendsenWang(), x0, 1000, seed=1)
    >>> bool(abs(trace.draws.mean()) < 0.05)  # all chains started with all spins up
    True
    """

    bonds: int | None = field(default=None, repr=False, init=False)

    requires: ClassVar[Capability] = Capability.LOG_DENSITY | Capability.DISCRETE | Capability.BONDS
    traits = ADJUSTED & ~Trait.ANY_DEPENDENCE

    def on_target(self, target: BoundTarget, x: Array) -> "SwendsenWang":
        """The kernel, which knows the number of bonds of the target."""
        known = replace(self)
        object.__setattr__(known, "bonds", target.bonds().number)
        return known

    def noise(self, x: Array) -> Specs:
        if self.bonds is None:
            raise HyperparameterError("SwendsenWang knows the bonds of its target inside sample and steps only")
        each = uniform_per_variable(x)
        return {"bond": Uniform((*x.shape[:-1], self.bonds)), "held": each, "value": each}

    def step(self, target: BoundTarget, state: ChainState, noise: dict[str, Array]) -> tuple[ChainState, Info]:
        xp, space, current, bonds = target.xp, space_of(target), state.point, target.bonds()
        n, q = space.variables(current.x.shape[-1]), space.choices
        index = space.index(xp, current.x)
        closed = _closed(xp, bonds, index, noise["bond"])
        weights = bonds.field + xp.zeros_like(noise["held"][..., :n, None])  # with the axes of the chains
        surplus = pick(xp, weights, index) - xp.min(bonds.field, axis=-1)
        held = noise["held"][..., :n] < -xp.expm1(-surplus)

        # A label is the number of a variable, from 1 to n; held variables have label 0, and n changes nothing.
        def spread(_: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            labels, _ = carry
            least = xp.min(xp.where(closed, _around(xp, labels, bonds.neighbors), n), axis=-1)
            # The variables that labels name hear of it, too, and what they hear reaches all that have their label: the
            # number of rounds grows with the logarithm of a cluster, and not with its diameter.
            heard = xp.where(labels > 0, least, n)
            new = _at_named(xp, xp.minimum(labels, least), _named(xp, labels), heard, first)
            new = xp.where(new > 0, _of_label(xp, new, new), 0)
            return new, xp.any(new != labels)

        labels = xp.where(held, 0, space.numbers(n) + 1)
        count = xp.cumulative_sum(xp.reshape(xp.ones_like(_named(xp, labels)), (-1,))) - 1
        first = count // n * n  # of each chain, where all chains are in a row
        labels, _ = target.backend.repeat(n, spread, (labels, xp.any(labels >= 0)), until=lambda carry: ~carry[1])
        drawn = xp.astype(xp.floor(_of_label(xp, noise["value"][..., :n], labels) * q), xp.int32)
        choice = xp.where(labels > 0, (drawn - index) % q, 0)
        ones = xp.ones_like(current.log_density)
        moved = xp.any(choice > 0, axis=-1)
        point = target.evaluate(space.move(xp, current.x, choice))
        return ChainState(point), Info(ones, moved, xp.zeros_like(moved), target.costs.evaluate)


def _closed(xp: Any, bonds: Bonds, index: Array, uniform: Array) -> Array:
    """Which bonds are closed, ``(*chains, variables, most)``."""
    same = _around(xp, index, bonds.neighbors) == index[..., None]
    uniform = xp.concat([uniform, xp.ones_like(index[..., :1], dtype=uniform.dtype)], axis=-1)  # 1: no bond
    return same & (_around(xp, uniform, bonds.bond) < -xp.expm1(-bonds.gains))


def _around(xp: Any, values: Array, places: Array) -> Array:
    """Values ``(*chains, n)`` at places (variables, most): ``(*chains, variables, most)``."""
    return xp.reshape(xp.take(values, xp.reshape(places, (-1,)), axis=-1), (*values.shape[:-1], *places.shape))


def _named(xp: Any, labels: Array) -> Array:
    """The variables that labels name; any where they are 0."""
    return as_index(xp, xp.where(labels > 0, labels - 1, 0))


def _at_named(xp: Any, labels: Array, named: Array, heard: Array, first: Array) -> Array:
    """Minimum of each variable's label and the labels received by variables that name it, ``(*chains, variables)``."""
    flat = xp.reshape(named, (-1,))
    found = minimum_at(xp, xp.reshape(labels, (-1,)), first + flat, xp.reshape(heard, (-1,)))
    return xp.reshape(found, labels.shape)


def _of_label(xp: Any, values: Array, labels: Array) -> Array:
    """The value of the variable that each label names, ``(*chains, variables)``."""
    return xp.take_along_axis(values, _named(xp, labels), axis=-1)
