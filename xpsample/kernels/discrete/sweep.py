"""Sweeps of Metropolis or of the heat bath: one variable after the other, each given its neighbors."""

from typing import Any, ClassVar, NamedTuple

import array_api_extra as xpx

from xpsample.core.arrays import Array
from xpsample.core.fields import flag
from xpsample.core.special import minimum_with_zero
from xpsample.core.specs import Specs
from xpsample.kernels.discrete.common import choose_or_stay, space_of, uniform_per_variable
from xpsample.kernels.kernel import ChainState, Info, MemorylessKernel
from xpsample.kernels.traits import ADJUSTED
from xpsample.spaces.discrete import pick
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability


class _Swept(NamedTuple):
    """The positions within a sweep, the log ratios of the moves of the next variable, and what visits did."""

    x: Array
    logits: Array
    accepted: Array
    moved: Array
    met: Array


class Sweep(MemorylessKernel[Info]):
    """A sweep of single moves, variable after variable in their order, each as in Metropolis et al. (1953).

    A visit to a variable costs what `Target.differences_at` costs: on an Ising model the sum over its neighbors, so a
    sweep costs about one log density. `ising_lattice`, `ising_couplings` and `potts` have it. On other targets a
    visit costs a log density for each value of the variable.

    Parameters
    ----------
    heat_bath : bool
        Draw the new value from its distribution given the other variables. Without it one of the other values is
        proposed, all alike, and accepted with probability ``min(1, pi(y) / pi(x))``, which moves more often.

    See Also
    --------
    ChromaticGibbs : All variables of a color at once.
    Gibbs : One variable in a step.

    Notes
    -----
    Each visit leaves the target invariant; a sweep is not reversible. If all moves are accepted, as on a flat density,
    a Metropolis sweep of variables with two values only goes back and forth. Set `heat_bath` there.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> from xpsample.zoo.ising import ising_lattice
    >>> x0 = np.random.default_rng(0).choice([-1.0, 1.0], size=(8, 36))
    >>> trace = xps.sample(ising_lattice((6, 6), 0.3), xps.Sweep(), x0, 1000, seed=1)
    >>> trace.draws.shape
    (1000, 8, 36)
    """

    heat_bath: bool = flag(default=False)

    requires: ClassVar[Capability] = Capability.LOG_DENSITY | Capability.DISCRETE | Capability.DIFFERENCES_AT
    traits = ADJUSTED

    def noise(self, x: Array) -> Specs:
        return {"value": uniform_per_variable(x)}

    def step(self, target: BoundTarget, state: ChainState, noise: dict[str, Array]) -> tuple[ChainState, Info]:
        xp, space, current = target.xp, space_of(target), state.point
        n = space.variables(current.x.shape[-1])

        def take(i: Any, swept: _Swept) -> _Swept:
            broken = ~(swept.logits < float("inf"))  # nan, too
            logits = xp.where(broken, -float("inf"), swept.logits)
            choice, probability = self._choice(xp, logits, noise["value"][..., i])
            values = space.of_variable(i).move(xp, space.variable(xp, swept.x, i), choice[..., None])
            return _Swept(
                _with_variable(swept.x, i, values),
                swept.logits,
                swept.accepted + probability,
                swept.moved | (choice > 0),
                swept.met | broken,
            )

        # Carried from one visit to the next, log ratios are computed once. XLA computes what is used where it is made
        # for each of its uses anew, which made a sweep of 800 spins three times slower.
        def visit(i: Any, swept: _Swept) -> _Swept:
            swept = take(i, swept)
            return swept._replace(logits=target.differences_at(swept.x, i + 1))

        x = current.x + xp.zeros_like(current.x)  # a copy, which visits may write into
        logits, zero = target.differences_at(x, 0), xp.zeros_like(current.log_density)
        none = xp.zeros_like(logits, dtype=xp.bool)
        swept = target.backend.repeat(n - 1, visit, _Swept(x, logits, zero, none[..., 0], none))
        x, _, accepted, moved, met = take(n - 1, swept)
        spent = target.costs.evaluate.plus(target.sweep_cost(x))
        return ChainState(target.evaluate(x)), Info(accepted / n, moved, xp.any(met, axis=-1), spent)

    def _choice(self, xp: Any, logits: Array, uniform: Array) -> tuple[Array, Array]:
        """The move, 0 to stay, and the probability that a proposal is accepted, from log ratios (*chains, moves)."""
        if self.heat_bath:
            return choose_or_stay(xp, logits, uniform), xp.ones_like(uniform)
        if logits.shape[-1] == 1:
            probability = xp.exp(minimum_with_zero(xp, logits[..., 0]))
            return xp.astype(uniform < probability, xp.int32), probability
        scaled = uniform * logits.shape[-1]
        whole = xp.floor(scaled)  # which move; what is left of the uniform is one, too
        proposed = xp.astype(whole, xp.int32)
        probability = xp.exp(minimum_with_zero(xp, pick(xp, logits, proposed)))
        return xp.where(scaled - whole < probability, proposed + 1, 0), probability


def _with_variable(x: Any, i: Any, values: Array) -> Any:
    """Positions with other coordinates of variable i, (*chains, coordinates), written in place if possible."""
    width = values.shape[-1]
    for k in range(width):
        x = xpx.at(x, (..., i * width + k)).set(values[..., k])
    return x
