"""State of parallel tempering: its rungs, and the paths of positions along the ladder."""

from typing import Any, NamedTuple

from array_api_compat import array_namespace

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.registry import to_host
from xpsample.diagnostics.findings import Finding
from xpsample.diagnostics.temperatures import judge_ladder
from xpsample.kernels.kernel import with_position
from xpsample.targets.point import Point

COLD, HOT = 1, 2  # The end of the ladder that a position came from: the cold one, or the hot one after that


class TemperingState(NamedTuple):
    """The base kernel's state on all rungs, and what the swaps did since the ladder last changed.

    Attributes
    ----------
    base : NamedTuple
        State of arrays ``(rungs, *chains, ...)``.
    betas : array, shape (rungs, 1, ...)
        The ladder.
    swap_rates : array, shape (rungs - 1, *chains)
        Mean acceptance probabilities of the swaps between neighbors.
    came_from : array of int, shape (rungs, *chains)
        End of the ladder that each position visited last; 0 before it has been at the cold end. It moves with swaps.
    round_trips : array of int, shape (*chains)
        Number of round trips of positions from the cold end to the hot end and back.
    n : array, 0-d
        Number of steps.
    """

    base: Any
    betas: Array
    swap_rates: Array
    came_from: Array
    round_trips: Array
    n: Array

    @property
    def point(self) -> Point:
        """The cold rung's point under the target that was given."""
        return tree.map(lambda a: a[0, ...], self.base.point.base)

    @property
    def barrier(self) -> Array:
        """The communication barrier from the cold rung to each one, (rungs,), of all chains; the last is the ladder's.

        It is the sum of the mean rejection probabilities of swaps, which hardly depends on the rungs between the ends.
        A ladder of ``1 + 2 barrier[-1]`` rungs makes the most round trips for its cost (Syed et al. 2021).
        """
        xp, pairs = array_namespace(self.swap_rates), self.swap_rates.shape[0]
        rejected = 1.0 - xp.mean(xp.reshape(self.swap_rates, (pairs, -1)), axis=-1)
        return xp.concat([xp.zeros_like(rejected[:1]), xp.cumulative_sum(rejected, axis=0)])

    def with_position(self, point: Point) -> "TemperingState":
        """The cold rung moved to another position; the others stay where they are."""
        xp = array_namespace(point.x)
        inner = self.base.point
        base = tree.map(lambda new, old: xp.concat([new[None, ...], old[1:, ...]]), point, inner.base)
        return self._replace(base=with_position(self.base, inner._replace(x=base.x, base=base)))

    def findings(self) -> list[Finding]:
        """Findings about the ladder."""
        return judge_ladder(to_host(self.barrier), to_host(self.round_trips), int(self.n))


def on_ladder(xp: Any, state: TemperingState, betas: Array) -> TemperingState:
    """The state on a ladder (rungs,); where that is another one, what is counted begins again."""
    betas = xp.reshape(betas, state.betas.shape)
    same = xp.all(betas == state.betas)
    counts = (xp.where(same, a, xp.zeros_like(a)) for a in (state.swap_rates, state.round_trips, state.n))
    rates, round_trips, n = counts
    return state._replace(betas=betas, swap_rates=rates, round_trips=round_trips, n=n)


def at_the_ends(xp: Any, came_from: Array) -> tuple[Array, Array]:
    """`TemperingState.came_from` once those at the ends have arrived there, and which chains ended a round trip."""
    cold, hot = came_from[:1, ...], came_from[-1:, ...]
    returned = (cold == HOT)[0, ...]
    arrived = xp.where(hot == COLD, HOT, hot)
    return xp.concat([xp.full_like(cold, COLD), came_from[1:-1, ...], arrived]), returned
