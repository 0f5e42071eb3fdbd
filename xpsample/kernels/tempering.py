"""Parallel tempering (Geyer 1991), with the deterministic even-odd swaps of Okabe et al. (2001)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.checks import check_count, check_numbers, settle
from xpsample.core.errors import HyperparameterError
from xpsample.core.hyperparameters import rungs_of
from xpsample.core.specs import Specs, Uniform
from xpsample.core.tree import dtype_name
from xpsample.gradients.choices import Evaluations
from xpsample.kernels.compose import Shaped, check_base, nested, unnested
from xpsample.kernels.kernel import Kernel, select, with_position
from xpsample.kernels.traits import Trait
from xpsample.targets.bound import BoundTarget, counter
from xpsample.targets.point import Capability, Point
from xpsample.targets.tempered import TemperedTarget


class TemperingState(NamedTuple):
    """The base kernel's state on all rungs, ``(rungs, *chains, ...)``, and the number of steps made (0-d).

    ``swap_rates`` (rungs - 1, *chains) are the mean acceptance probabilities so far of the swaps between neighbours;
    ``betas`` (rungs, 1, ...) is the ladder.
    """

    base: Any
    betas: Array
    swap_rates: Array
    n: Array

    @property
    def point(self) -> Point:
        """The cold rung's point under the target that was given."""
        return tree.map(lambda a: a[0, ...], self.base.point.base)

    def with_position(self, point: Point) -> "TemperingState":
        """The cold rung moved to another position; the others stay where they are."""
        xp = array_namespace(point.x)
        inner = self.base.point
        base = tree.map(lambda new, old: xp.concat([new[None, ...], old[1:, ...]]), point, inner.base)
        return self._replace(base=with_position(self.base, inner._replace(x=base.x, base=base)))


@dataclass(frozen=True, eq=False)
class ParallelTempering(Kernel[TemperingState, Any]):
    """One chain on each rung of a ladder pi^beta, and swaps between neighbours; the draws are the cold rung's.

    Every `every` steps, rungs k and k + 1 swap positions with probability
    ``min(1, exp((beta_k - beta_{k+1}) (log pi(x_{k+1}) - log pi(x_k))))``, for even and odd k in turn. What the base
    kernel remembers beside its position (a history, a step count) stays with its rung.

    Parameters
    ----------
    base : Kernel
        Moves every rung; what is drawn is as near to the target as what it samples. Its hyper-parameters may have the
        shape ``(rungs, 1, ...)``, with a 1 for each chain axis, to differ by rung.
    betas : sequence of float
        Inverse temperatures, from 1 downwards, two at least (`geometric_ladder`). The last may be 0 where the space is
        finite.
    every : int
        Steps from one attempt to swap to the next.
    """

    base: Kernel = field(metadata=rungs_of("betas"))
    betas: Sequence[float]
    every: int = 1

    def __post_init__(self) -> None:
        check_base(
            "ParallelTempering",
            self.base,
            {
                Trait.SAMPLES: "rungs swap as draws of its powers; take a kernel that samples what it is given",
                Trait.UNTILTED: "rungs swap by the density of the target; SRMC(ParallelTempering(...), ...) is right",
                Trait.EXACT: "rungs swap by the density; take the kernel on the whole data",
            },
        )
        betas = check_numbers("betas", self.betas)
        if len(betas) < 2 or betas[0] != 1 or betas[-1] < 0 or any(b <= c for b, c in pairwise(betas)):
            raise HyperparameterError(
                f"betas must begin with 1 and decrease, to 0 at the lowest, two of them at least; got {betas}"
            )
        settle(self, "every", check_count)
        object.__setattr__(self, "betas", betas)

    @property
    def requires(self) -> Capability:
        return self.base.requires | Capability.LOG_DENSITY

    @property
    def traits(self) -> Trait:
        return self.base.traits & ~(Trait.MOVABLE | Trait.TAKES_ESTIMATES)  # the hot rungs would lag behind

    def init(self, target: BoundTarget, x: Array) -> TemperingState:
        xp, real = target.xp, target.as_floating(x)
        ladder = np.asarray(self.betas, dtype=dtype_name(real)).reshape(-1, *(1,) * (x.ndim - 1))
        betas = target.backend.from_host(ladder, x)
        base = self.base.init(TemperedTarget(target, betas), xp.stack([x] * len(self.betas)))
        rates = xp.zeros_like(base.point.base.log_density[1:, ...])
        return TemperingState(base, betas, rates, counter(target, x))

    def noise(self, x: Array) -> Specs:
        rungs, shape = len(self.betas), tuple(x.shape)
        base: Any = Shaped((rungs, *shape))
        return {**nested(self.base.noise(base)), "swap": Uniform((rungs - 1, *shape[:-1]))}

    def step(self, target: BoundTarget, state: TemperingState, noise: dict[str, Array]) -> tuple[TemperingState, Any]:
        xp = target.xp
        base, info = self.base.step(TemperedTarget(target, state.betas), state.base, unnested(noise))
        n = state.n + 1
        log_ratio = swap_log_ratio(state.betas, base.point.base.log_density)
        log_ratio = xp.where(xp.isfinite(log_ratio), log_ratio, -xp.inf)
        turn, turns = self._turns(xp, n, log_ratio)
        swap = turn & (xp.log(noise["swap"]) < log_ratio)
        probability = xp.exp(xp.where(log_ratio < 0.0, log_ratio, 0.0))
        rates = xp.where(turn, state.swap_rates + (probability - state.swap_rates) / turns, state.swap_rates)
        # The densities under the tempered target are now those of other rungs; the refresh of the next step says so.
        base = with_position(base, exchange(xp, swap, base.point))
        spent = Evaluations(*(_total(xp, count, len(self.betas)) for count in info.evaluations))
        # From the positions: a swap of two rungs at the same place moves nothing.
        cold, before = base.point.base.x[0, ...], state.base.point.base.x[0, ...]
        info = info._replace(
            acceptance_probability=info.acceptance_probability[0, ...],
            moved=xp.any(cold != before, axis=-1),
            diverged=xp.any(info.diverged, axis=0),
            evaluations=spent,
        )
        return TemperingState(base, state.betas, rates, n), info

    def _turns(self, xp: Any, n: Array, like: Array) -> tuple[Array, Array]:
        """Which pairs may swap after step n, and how often each could by then, ``(rungs - 1, 1, ...)``."""
        due, attempt = n % self.every == 0, (n + self.every - 1) // self.every
        pairs = range(like.shape[0])
        turn = xp.stack([due & ((attempt + k) % 2 == 1) for k in pairs])
        turns = xp.stack([xp.astype((attempt + 1) // 2, like.dtype) for _ in pairs])
        shape = (like.shape[0], *(1,) * (like.ndim - 1))
        return xp.reshape(turn, shape), xp.reshape(turns, shape)


def swap_log_ratio(betas: Array, log_density: Array) -> Array:
    """Log of the Metropolis ratio of a swap of neighbours.

    Parameters
    ----------
    betas : array, shape (rungs, 1, ...)
    log_density : array, shape (rungs, *chains)
        Not tempered.

    Returns
    -------
    array, shape (rungs - 1, *chains)
    """
    return (betas[:-1, ...] - betas[1:, ...]) * (log_density[1:, ...] - log_density[:-1, ...])


def exchange(xp: Any, swap: Array, values: tree.Tree) -> tree.Tree:
    """Rungs k and k + 1 of leaves ``(rungs, *chains, ...)`` exchanged where ``swap[k]``, (rungs - 1, *chains), holds.

    No two neighbouring pairs may swap at once.
    """
    none = xp.zeros_like(swap[:1, ...])
    above = tree.map(lambda a: xp.concat([a[1:, ...], a[-1:, ...]]), values)
    below = tree.map(lambda a: xp.concat([a[:1, ...], a[:-1, ...]]), values)
    values = select(xp, xp.concat([swap, none]), above, values)
    return select(xp, xp.concat([none, swap]), below, values)


def _total(xp: Any, count: Any, rungs: int) -> Any:
    """Evaluations of all rungs; counts that are not the same for all chains are ``(rungs, *chains)``."""
    return xp.sum(count, axis=0) if getattr(count, "ndim", 0) else rungs * count
