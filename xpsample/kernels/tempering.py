"""Parallel tempering (Geyer 1991), with the deterministic even-odd swaps of Okabe et al. (2001), which are
non-reversible: Syed, Bouchard-Côté, Deligiannidis & Doucet (2021)."""

from dataclasses import field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from xpsample.adaptation import Ladder, unset
from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.checks import check_numbers
from xpsample.core.declared import declared
from xpsample.core.errors import HyperparameterError
from xpsample.core.fields import checked, count
from xpsample.core.hyperparameters import NUMBERS, rungs_of
from xpsample.core.specs import Specs, Uniform
from xpsample.core.tree import dtype_name
from xpsample.gradients.choices import Evaluations
from xpsample.kernels.compose import Shaped, check_base, nested, unnested
from xpsample.kernels.kernel import Kernel, select, with_position
from xpsample.kernels.tempering_state import COLD, TemperingState, at_the_ends, on_ladder
from xpsample.kernels.traits import Trait
from xpsample.targets.bound import BoundTarget, counter
from xpsample.targets.bridge import annealed, log_density_ratio
from xpsample.targets.point import Capability


class TemperingInfo(NamedTuple):
    """`Info` of the cold rung; evaluations are summed over all rungs.

    ``diverged`` is of all rungs if the base kernel has no accept step, whose frozen chains never move again.
    ``swap_probability`` (rungs - 1, *chains) includes every pair of neighbors, whether or not it is their turn.
    """

    acceptance_probability: Array
    moved: Array
    diverged: Array
    evaluations: Evaluations
    swap_probability: Array


def _check_betas(name: str, value: Any) -> tuple[float, ...]:
    betas = check_numbers(name, value)
    if len(betas) < 2 or betas[0] != 1 or betas[-1] < 0 or any(b <= c for b, c in pairwise(betas)):
        raise HyperparameterError(
            f"{name} must decrease from 1, to 0 at the lowest, and have at least two values; got {betas}"
        )
    return betas


class ParallelTempering(Kernel[TemperingState, TemperingInfo]):
    """One chain on each rung of a ladder pi^beta, and swaps between neighbors; the draws are the cold rung's.

    Every `every` steps, rungs k and k + 1 swap positions with probability
    ``min(1, exp((beta_k - beta_{k+1}) (log pi(x_{k+1}) - log pi(x_k))))``, for all even k or all odd k in turn. The
    fixed turns make the scheme non-reversible: a position that is swapped continues in the same direction. Memory of
    the base kernel other than its position (a history, a step count) stays with its rung. On a `Bridge` the rungs are
    ``pi_0^(1 - beta) pi^beta``, and the swaps are of ``log pi - log pi_0``.

    Parameters
    ----------
    base : Kernel
        Kernel that moves every rung; the draws are as close to the target as its samples. Its unset hyperparameters are
        tuned for each rung. Its hyperparameters may have the shape ``(rungs, 1, ...)``, with a 1 for each chain axis.
    betas : sequence of float, or Ladder, optional
        Inverse temperatures, from 1 downwards, at least two (`geometric_ladder`). The last may be 0 on a finite space
        and on a `Bridge`. Tuned to equal swap rates if unset, or if a `Ladder` sets their number and the hottest.
    every : int
        Steps from one attempt to swap to the next.

    See Also
    --------
    TemperedSMC : The same path with particles.
    Ladder : Chooses the temperatures.
    geometric_ladder : Temperatures.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> modes = np.array([[-4.0], [4.0]])
    >>> target = xps.Target(
    ...     lambda x: np.logaddexp(*(-0.5 * np.sum((x - m) ** 2, axis=-1) for m in modes)),
    ...     score=lambda x: 4 * np.tanh(4 * x) - x,
    ... )
    >>> x0 = np.tile(modes[0], (8, 1))
    >>> trace = xps.sample(target, xps.ParallelTempering(xps.MALA()), x0, 2000, seed=1, burn_in=500)
    >>> bool(abs(np.mean(trace.draws > 0) - 0.5) < 0.1)  # all chains started in the left mode
    True
    """

    base: Kernel = field(metadata=rungs_of("rungs"))
    betas: Any = checked(_check_betas, default=None, tune=Ladder(), kind=NUMBERS)
    every: int = count(default=1)

    def __check_init__(self) -> None:
        if self.betas is not None and not isinstance(self.betas, Ladder):
            _check_betas("betas", self.betas)
        check_base(
            "ParallelTempering",
            self.base,
            {
                Trait.SAMPLES: "rungs swap as draws of its powers. Use a kernel that samples its target",
                Trait.UNTILTED: "rungs swap by the density of the target. Use SRMC(ParallelTempering(...), ...)",
                Trait.EXACT: "rungs swap by the density. Use the kernel on the whole data",
            },
        )

    def rungs(self, x: Array) -> int:
        """The number of rungs on positions like x."""
        rule = unset(self).get("betas")
        return rule.count(x.shape[-1]) if isinstance(rule, Ladder) else len(self.betas)

    @declared
    def requires(self) -> Capability:
        return self.base.requires | Capability.LOG_DENSITY

    @declared
    def traits(self) -> Trait:
        # The hot rungs would lag behind, and swap by densities.
        return self.base.traits & ~(Trait.MOVABLE | Trait.TAKES_ESTIMATES | Trait.DRIFTS)

    @declared
    def optimal_acceptance(self) -> float | None:
        return self.base.optimal_acceptance

    def init(self, target: BoundTarget, x: Array) -> TemperingState:
        xp, real = target.xp, target.as_floating(x)
        betas = self.betas
        if isinstance(betas, tuple):
            betas = target.backend.from_host(np.asarray(betas, dtype=dtype_name(real)), x)
        betas = xp.reshape(betas, (-1, *(1,) * (x.ndim - 1)))
        base = self.base.init(annealed(target, betas), xp.stack([x] * betas.shape[0]))
        rates, n = xp.zeros_like(base.point.base.log_density[1:, ...]), counter(target, x)
        unmoved = n + xp.zeros_like(base.point.base.log_density, dtype=n.dtype)
        came_from = xp.concat([unmoved[:1, ...] + COLD, unmoved[1:, ...]])
        return TemperingState(base, betas, rates, came_from, unmoved[0, ...], n)

    def noise(self, x: Array) -> Specs:
        rungs, shape = self.rungs(x), tuple(x.shape)
        base: Any = Shaped((rungs, *shape))
        return {**nested(self.base.noise(base)), "swap": Uniform((rungs - 1, *shape[:-1]))}

    def step(
        self, target: BoundTarget, state: TemperingState, noise: dict[str, Array]
    ) -> tuple[TemperingState, TemperingInfo]:
        xp = target.xp
        if not isinstance(self.betas, tuple):  # in a warm-up
            state = on_ladder(xp, state, self.betas)
        rungs, n = state.betas.shape[0], state.n + 1
        base, info = self.base.advance(annealed(target, state.betas), state.base, unnested(noise))
        log_ratio = swap_log_ratio(state.betas, log_density_ratio(target, base.point.base))
        log_ratio = xp.where(xp.isfinite(log_ratio), log_ratio, -xp.inf)
        turn, turns = self._turns(xp, n, log_ratio)
        swap = turn & (xp.log(noise["swap"]) < log_ratio)
        probability = xp.exp(xp.where(log_ratio < 0.0, log_ratio, 0.0))
        rates = xp.where(turn, state.swap_rates + (probability - state.swap_rates) / turns, state.swap_rates)
        # The densities under the tempered target now belong to other rungs; the next step evaluates them again.
        points, came_from = exchange(xp, swap, (base.point, state.came_from))
        base = with_position(base, points)
        came_from, returned = at_the_ends(xp, came_from)
        round_trips = state.round_trips + xp.astype(returned, state.round_trips.dtype)
        # From the positions: a swap of two rungs at the same place moves nothing.
        cold, before = base.point.base.x[0, ...], state.base.point.base.x[0, ...]
        # A proposal that a hot rung rejects harms no draw. A rung that is frozen, without an accept step, does.
        diverged = info.diverged[0, ...] if Trait.INVARIANT in self.base.traits else xp.any(info.diverged, axis=0)
        said = TemperingInfo(
            info.acceptance_probability[0, ...],
            xp.any(cold != before, axis=-1),
            diverged,
            Evaluations(*(_total(xp, count, rungs) for count in info.evaluations)),
            probability,
        )
        return TemperingState(base, state.betas, rates, came_from, round_trips, n), said

    def _turns(self, xp: Any, n: Array, like: Array) -> tuple[Array, Array]:
        """Which pairs may swap after step n, and how often each could by then, ``(rungs - 1, 1, ...)``."""
        due, attempt = n % self.every == 0, (n + self.every - 1) // self.every
        pairs = range(like.shape[0])
        turn = xp.stack([due & ((attempt + k) % 2 == 1) for k in pairs])
        turns = xp.stack([xp.astype((attempt + 1) // 2, like.dtype) for _ in pairs])
        shape = (like.shape[0], *(1,) * (like.ndim - 1))
        return xp.reshape(turn, shape), xp.reshape(turns, shape)


def swap_log_ratio(betas: Array, log_density: Array) -> Array:
    """Log of the Metropolis ratio of a swap of neighbors, (rungs - 1, *chains).

    Takes inverse temperatures (rungs, 1, ...), and log densities (rungs, *chains) that are not tempered; on a bridge,
    minus the log density of its initial target.
    """
    return (betas[:-1, ...] - betas[1:, ...]) * (log_density[1:, ...] - log_density[:-1, ...])


def exchange(xp: Any, swap: Array, values: tree.Tree) -> tree.Tree:
    """Rungs k and k + 1 of leaves ``(rungs, *chains, ...)`` exchanged where ``swap[k]``, (rungs - 1, *chains), holds.

    No two neighboring pairs may swap at once.
    """
    none = xp.zeros_like(swap[:1, ...])
    above = tree.map(lambda a: xp.concat([a[1:, ...], a[-1:, ...]]), values)
    below = tree.map(lambda a: xp.concat([a[:1, ...], a[:-1, ...]]), values)
    values = select(xp, xp.concat([swap, none]), above, values)
    return select(xp, xp.concat([none, swap]), below, values)


def _total(xp: Any, count: Any, rungs: int) -> Any:
    """Evaluations of all rungs; counts that are not the same for all chains are ``(rungs, *chains)``."""
    return xp.sum(count, axis=0) if getattr(count, "ndim", 0) else rungs * count
