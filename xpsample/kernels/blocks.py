"""Metropolis within Gibbs: each block of a model's parameters is moved by its own kernel, given the others."""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, NamedTuple

from xpsample.core.arrays import Array
from xpsample.core.checks import given
from xpsample.core.declared import declared
from xpsample.core.errors import CapabilityError, HyperparameterError
from xpsample.core.fields import checked
from xpsample.core.hyperparameters import OF_A_PART, check_hyperparameters
from xpsample.core.specs import Specs
from xpsample.kernels.compose import Shaped, check_base, kernels_inside
from xpsample.kernels.kernel import Info, Kernel, with_position
from xpsample.kernels.traits import Trait
from xpsample.spaces.discrete import Discrete
from xpsample.spaces.integers import Integers
from xpsample.spaces.named import Named, States
from xpsample.spaces.space import Real, Space
from xpsample.targets.block import GivenOthers, given_others
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability, Point

OF_A_SPACE = Capability.REAL | Capability.ORDERED | Capability.DISCRETE | Capability.DIFFERENCES
"""Capabilities that a kernel needs from its block, not from the whole model."""


class BlockState(NamedTuple):
    """The state of the block's kernel."""

    base: Any

    @property
    def point(self) -> Point:
        """Point of all parameters."""
        return self.base.point.base

    def with_position(self, point: Point) -> "BlockState":
        """Return the state after all parameters have moved; the refresh that begins a step updates the block."""
        return BlockState(with_position(self.base, self.base.point._replace(base=point)))


class Block(Kernel[BlockState, Any]):
    """A kernel that moves some parameters of a `Model`, given the others.

    Several real parameters may share a block, as may discrete parameters of one space. `sample` fills in the `space` of
    all parameters, and `own`, the space of the block, bound to their positions.
    """

    names: tuple[str, ...]
    base: Kernel = field(metadata=OF_A_PART)
    space: Named | None = field(default=None, repr=False, metadata=OF_A_PART)
    own: Space | None = field(default=None, repr=False, metadata=OF_A_PART)

    def __check_init__(self) -> None:
        needs = {
            Trait.SAMPLES: "the others are drawn given its draws. Use a kernel that samples its target",
            Trait.UNTILTED: "the others are drawn given the target's own density. Use SRMC(Blocks(...), ...)",
            Trait.MOVABLE: "the others move between its steps. Use a kernel without a memory, such as HMC or Gibbs",
            Trait.EXACT: "blocks are moved by densities. Use the kernel on the whole data",
            Trait.SEPARATE: "each chain has other values of the other blocks. Use a kernel whose chains are "
            "independent, such as RWM",
        }
        check_base("Blocks", self.base, needs)
        if has_blocks(self.base):
            raise HyperparameterError("a block cannot contain Blocks. List all blocks in one mapping.")

    @declared
    def requires(self) -> Capability:
        return self.base.requires & ~OF_A_SPACE | Capability.LOG_DENSITY

    @declared
    def traits(self) -> Trait:
        return self.base.traits

    def init(self, target: BoundTarget, x: Array) -> BlockState:
        block = self._given_others(target, target.evaluate(x))
        own = block.of_all(x)
        check_hyperparameters(self.base, own)
        return BlockState(self.base.init(block, own))

    def noise(self, x: Array) -> Specs:
        size = sum(self._space.part(name).dim for name in self.names)
        own: Any = Shaped((*x.shape[:-1], size))
        return self.base.noise(own)

    def step(self, target: BoundTarget, state: BlockState, noise: dict[str, Array]) -> tuple[BlockState, Any]:
        base, info = self.base.advance(self._given_others(target, state.point), state.base, noise)
        return BlockState(base), info

    def on_target(self, target: BoundTarget, x: Array) -> "Block":
        """The block, which knows the parameters of the model that the target is."""
        space = target.space
        if not isinstance(space, Named):
            raise HyperparameterError(
                "Blocks moves the parameters of a Model, and this target has none: write Model(log_density, ...)"
            )
        unknown = [name for name in self.names if name not in space.names]
        if unknown:
            raise HyperparameterError(
                f"{', '.join(unknown)} is no parameter of the model: those are {', '.join(space.names)}"
            )
        own = space_of_block(space, self.names, self.base)
        return replace(self, space=space, own=own.bind(target.backend, space.take(target.xp, x, self.names)))

    @property
    def _space(self) -> Named:
        if self.space is None:
            raise HyperparameterError("the blocks of Blocks know their parameters inside sample and steps only")
        return self.space

    def _given_others(self, target: BoundTarget, point: Point) -> GivenOthers:
        assert self.own is not None
        return given_others(target, self.names, self.own, point, self.base.requires)


def space_of_block(space: Named, names: tuple[str, ...], kernel: Kernel) -> Space:
    """Return the space of a block's parameters, as the kernel's target sees it.

    CapabilityError if the kernel does not move on such a space, or the parameters are of several kinds.
    """
    parts = [space.part(name) for name in names]
    spaces = [part.space for part in parts if isinstance(part, States)]
    shown, name = ", ".join(names), type(kernel).__name__
    if spaces and (len(spaces) < len(parts) or len(parts) > 1):
        raise CapabilityError(
            f"the block of {shown} mixes a discrete parameter with others. Use a separate block for each "
            "discrete parameter."
        )
    if spaces and Capability.ORDERED in kernel.requires and isinstance(spaces[0], Integers):
        return spaces[0]
    if spaces and kernel.requires & (Capability.REAL | Capability.ORDERED):
        raise CapabilityError(f"{name} moves real numbers, but {shown} is discrete. Use a kernel such as Gibbs().")
    if not spaces and kernel.requires & (Capability.DISCRETE | Capability.DIFFERENCES):
        raise CapabilityError(f"{name} moves discrete values, but {shown} is real. Use a kernel such as HMC().")
    if spaces and not isinstance(spaces[0], Discrete) and kernel.requires & OF_A_SPACE:
        use = "RWM" if isinstance(spaces[0], Integers) else "Swap"
        raise CapabilityError(f"{name} cannot move {shown}, which is {spaces[0]!r}. Use a kernel such as {use}().")
    return spaces[0] if spaces else Real()


class InTurnState(NamedTuple):
    """The states of both kernels; where all parameters are is what `rest` says."""

    first: Any
    rest: Any

    @property
    def point(self) -> Point:
        """Point of all parameters."""
        return self.rest.point

    def with_position(self, point: Point) -> "InTurnState":
        """Both at another position."""
        return InTurnState(with_position(self.first, point), with_position(self.rest, point))


class InTurn(Kernel[InTurnState, Info]):
    """A step of one kernel, and then a step of another one."""

    first: Kernel
    rest: Kernel

    @declared
    def requires(self) -> Capability:
        return self.first.requires | self.rest.requires

    @declared
    def traits(self) -> Trait:
        return self.first.traits & self.rest.traits

    def init(self, target: BoundTarget, x: Array) -> InTurnState:
        return InTurnState(self.first.init(target, x), self.rest.init(target, x))

    def noise(self, x: Array) -> Specs:
        first = {f"first/{name}": spec for name, spec in self.first.noise(x).items()}
        return first | {f"rest/{name}": spec for name, spec in self.rest.noise(x).items()}

    def step(self, target: BoundTarget, state: InTurnState, noise: dict[str, Array]) -> tuple[InTurnState, Info]:
        def of(whose: str) -> dict[str, Array]:
            return {name.removeprefix(whose): a for name, a in noise.items() if name.startswith(whose)}

        first, one = self.first.step(target, with_position(state.first, state.point), of("first/"))
        rest, two = self.rest.step(target, with_position(state.rest, first.point), of("rest/"))
        both = Info(
            one.acceptance_probability * two.acceptance_probability,
            one.moved | two.moved,
            one.diverged | two.diverged,
            one.evaluations.plus(two.evaluations),
        )
        return InTurnState(first, rest), both


def _as_sweep(name: str, sweep: Any) -> Kernel:
    """The kernels of a mapping in turn, or what was made of one before."""
    if isinstance(sweep, Block | InTurn):
        return sweep
    if not isinstance(sweep, Mapping) or not sweep:
        raise HyperparameterError(
            f'Blocks takes a mapping of names to kernels, such as {{"mu": HMC()}}; got {given(sweep)}'
        )
    named = {(names,) if isinstance(names, str) else tuple(names): base for names, base in sweep.items()}
    every = [name for names in named for name in names]
    twice = sorted({name for name in every if every.count(name) > 1})
    if twice:
        raise HyperparameterError(f"{', '.join(twice)} is in two blocks: every parameter is moved by one kernel")
    *firsts, last = [Block(names, base) for names, base in named.items()]
    whole: Kernel = last
    for block in reversed(firsts):
        whole = InTurn(block, whole)
    return whole


class Blocks(Kernel[Any, Info]):
    """A sweep over the parameters of a `Model`: each block is moved by its own kernel, given all others.

    Leaves the target invariant if each of the kernels does (Gibbs sampling with Metropolis steps; Tierney 1994). Unset
    hyperparameters of the kernels are tuned block by block.

    Parameters
    ----------
    sweep : mapping of str, or tuple of str, to Kernel
        Which kernel moves which parameters, in this order; every parameter of the model once. Real parameters may be in
        a block together; each discrete parameter needs a separate block. A block of few discrete variables may be all
        that is needed next to a gradient-based kernel: ``Blocks({"z": Gibbs(), ("mu", "tau"): HMC()})``.

    Raises
    ------
    HyperparameterError
        If a parameter is in two blocks; at the start of a run, if one is in none, or unknown.
    CapabilityError
        At the start of a run, if a kernel does not move on the space of its block.

    See Also
    --------
    Model : Names the parameters of a block.

    Notes
    -----
    A step's acceptance probability is the product of the blocks' acceptance probabilities.

    References
    ----------
    .. [1] Tierney (1994), "Markov chains for exploring posterior distributions", Annals of Statistics 22.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> def log_density(p):  # x is 1 with probability 1 / (1 + exp(-mu)), and mu is normal
    ...     return p.x * p.mu - np.logaddexp(0.0, p.mu) - 0.5 * p.mu**2
    >>> model = xps.Model(log_density, x=xps.Binary(()), mu=xps.Real(), gradient=xps.FiniteDifference())
    >>> kernel = xps.Blocks({"x": xps.Gibbs(), "mu": xps.HMC()})
    >>> trace = xps.sample(model, kernel, model.start(like=np.zeros(0), chains=4, seed=0), 2000, seed=1)
    >>> trace["mu"].shape
    (2000, 4)
    """

    sweep: Any = checked(_as_sweep)

    @declared
    def requires(self) -> Capability:
        return self.sweep.requires

    @declared
    def traits(self) -> Trait:
        return self.sweep.traits & ~(Trait.TAKES_ESTIMATES | Trait.DRIFTS)

    def init(self, target: BoundTarget, x: Array) -> Any:
        names = target.space.names if isinstance(target.space, Named) else ()
        moved = [name for block in blocks_of(self.sweep) for name in block.names]
        missing = [name for name in names if name not in moved]
        if missing:
            raise HyperparameterError(f"{', '.join(missing)} is in no block and would never move. Assign it a kernel.")
        return self.sweep.init(target, x)

    def noise(self, x: Array) -> Specs:
        return self.sweep.noise(x)

    def step(self, target: BoundTarget, state: Any, noise: dict[str, Array]) -> tuple[Any, Any]:
        return self.sweep.step(target, state, noise)


def has_blocks(kernel: Any) -> bool:
    """Return whether a kernel contains blocks."""
    return isinstance(kernel, Block) or any(has_blocks(part) for _, part in kernels_inside(kernel))


def blocks_of(kernel: Any) -> list[Block]:
    """The blocks of a sweep, in order."""
    return [*blocks_of(kernel.first), *blocks_of(kernel.rest)] if isinstance(kernel, InTurn) else [kernel]
