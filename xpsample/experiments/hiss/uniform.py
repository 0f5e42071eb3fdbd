"""A control of every HiSS table: Metropolis with proposals that are uniform over all states."""

from typing import ClassVar

from xpsample.core.arrays import Array
from xpsample.core.specs import Specs, Uniform
from xpsample.kernels.discrete.common import space_of
from xpsample.kernels.kernel import ChainState, Info, MemorylessKernel, metropolis, uniform_per_chain
from xpsample.kernels.traits import ADJUSTED
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability


class UniformProposals(MemorylessKernel[Info]):
    """A state drawn uniformly from all, on a space whose variables have equally many values."""

    requires: ClassVar[Capability] = Capability.LOG_DENSITY | Capability.DISCRETE
    traits = ADJUSTED

    def noise(self, x: Array) -> Specs:
        # One-hot positions have fewer variables than entries, and leave the other numbers.
        return {"proposal": Uniform(tuple(x.shape)), "accept": uniform_per_chain(x)}

    def step(self, target: BoundTarget, state: ChainState, noise: dict[str, Array]) -> tuple[ChainState, Info]:
        xp, space = target.xp, space_of(target)
        current = state.point
        values = noise["proposal"][..., : space.variables(current.x.shape[-1])]
        choice = xp.astype(xp.floor(values * space.choices), xp.int32)
        choice = xp.where(choice < space.choices, choice, space.choices - 1)  # u n may round up to n
        proposal = target.evaluate(space.move(xp, current.x, choice))
        log_ratio = target.log_ratio(proposal, current)
        spent = target.costs.evaluate
        point, info = metropolis(target, log_ratio, noise["accept"], proposal, current, spent)
        return ChainState(point), info
