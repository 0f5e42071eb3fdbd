"""2-opt Metropolis: permutations by reversing segments (Croes, 1958, as a Markov chain)."""

from typing import ClassVar

from xpsample.core.arrays import Array
from xpsample.core.errors import CapabilityError
from xpsample.core.specs import Specs
from xpsample.kernels.kernel import ChainState, Info, Kernel, metropolis, uniform_per_chain
from xpsample.kernels.traits import REVERSIBLE
from xpsample.spaces.discrete import Permutations, as_index
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability


class TwoOpt(Kernel[ChainState, Info]):
    """Reverse the segment between two places, both drawn uniformly, and accept by Metropolis.

    On closed tours such a move replaces two edges (Lin, 1965). Reversing the same places again undoes it, so
    the proposal is symmetric. Targets on `Permutations`.

    See Also
    --------
    Permutations : The space.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> from xpsample.zoo.tsp import tsp
    >>> cities = np.random.default_rng(0).random((8, 2))
    >>> x0 = np.array([np.random.default_rng(k).permutation(8) for k in range(20)])
    >>> trace = xps.sample(tsp(cities, 0.5), xps.TwoOpt(), x0, 2000, seed=1)
    >>> trace.draws.shape
    (2000, 20, 8)
    """

    requires: ClassVar[Capability] = Capability.LOG_DENSITY
    traits = REVERSIBLE

    def init(self, target: BoundTarget, x: Array) -> ChainState:
        if not isinstance(target.space, Permutations):
            raise CapabilityError(
                f"TwoOpt moves permutations and the target's space is {type(target.space).__name__}(): pass "
                "Target(..., space=Permutations())"
            )
        return ChainState(target.evaluate(x))

    def noise(self, x: Array) -> Specs:
        return {"first": uniform_per_chain(x), "second": uniform_per_chain(x), "accept": uniform_per_chain(x)}

    def step(self, target: BoundTarget, state: ChainState, noise: dict[str, Array]) -> tuple[ChainState, Info]:
        xp, space = target.xp, target.space
        assert isinstance(space, Permutations)
        current = state.point
        n = current.x.shape[-1]
        # Two different places: the second is 1 .. n - 1 places after the first, cyclically.
        first = xp.astype(xp.floor(noise["first"] * n), xp.int32)
        second = (first + 1 + xp.astype(xp.floor(noise["second"] * (n - 1)), xp.int32)) % n
        low, high = xp.minimum(first, second)[..., None], xp.maximum(first, second)[..., None]
        place = space.places
        place = xp.where((place >= low) & (place <= high), low + high - place, place)
        proposal = target.evaluate(xp.take_along_axis(current.x, as_index(xp, place), axis=-1))
        spent = target.costs.evaluate
        log_ratio = proposal.log_density - current.log_density
        point, info = metropolis(target, log_ratio, noise["accept"], proposal, current, spent)
        return ChainState(point), info
