"""Stochastic gradients: an unadjusted kernel that sees random rows of the data in every step (Welling & Teh 2011)."""

import math
from typing import Any, NamedTuple

from array_api_compat import device as device_of

from xpsample.adaptation import BoundedBias
from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.declared import declared
from xpsample.core.errors import CapabilityError, HyperparameterError
from xpsample.core.fields import count, flag
from xpsample.core.specs import Specs, Uniform
from xpsample.kernels.compose import check_base, rules_inside
from xpsample.kernels.kernel import Kernel
from xpsample.kernels.traits import Trait
from xpsample.targets.bound import BoundTarget, Rows, on_some_rows
from xpsample.targets.point import Capability, Point


class MinibatchState(NamedTuple):
    """The state of the kernel inside, whose point is under the batch of the last step."""

    base: Any

    @property
    def point(self) -> Point:
        """The kernel's inside."""
        return self.base.point


class Minibatch(Kernel[Any, Any]):
    """A kernel on unbiased estimates of a posterior's score: ``Minibatch(ULA(eta), n)`` is SGLD.

    ``Minibatch(ULA(), n)`` tunes the step size to a bias of at most 10 % of every variance of a Gaussian.

    Every step draws `size` of the N rows of a `posterior`, uniformly and with replacement, and weights their log
    likelihood by N / size. The batch of a step determines the score at its new position, so each is used once, at a
    position that does not depend on it. The score at the initial position, the checks and the diagnosis use up to 256
    evenly spaced rows: no step of a run evaluates all rows.

    Parameters
    ----------
    base : Kernel
        Kernel without an accept step; this includes `SRLD` over one.
    size : int
        n, rows per batch.
    common : bool
        Whether all chains see the same batch (the same row numbers, if each chain has its own rows) instead of
        independent batches.

    Raises
    ------
    CapabilityError
        If the base compares evaluations: accepting by random log densities would be wrong, as would differences of
        random scores.

    See Also
    --------
    ULA : A kernel that it takes.
    posterior : A target with rows.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> rows = np.random.default_rng(0).normal(2.0, 1.0, size=(1000, 1))
    >>> target = xps.posterior(
    ...     lambda x: -0.5 * np.sum(x**2, axis=-1),  # the prior
    ...     lambda x, rows: -0.5 * np.sum((rows - x[..., None, :]) ** 2, axis=(-2, -1)),  # of the rows that it is given
    ...     rows,
    ...     prior_score=lambda x: -x,
    ...     likelihood_score=lambda x, rows: np.sum(rows - x[..., None, :], axis=-2),
    ... )
    >>> kernel = xps.Minibatch(xps.ULA(3e-4), 100)  # 100 of the 1,000 rows in each step
    >>> trace = xps.sample(target, kernel, np.zeros((20, 1)), 2000, seed=1, burn_in=200)
    >>> bool(abs(trace.draws.mean() - rows.sum() / 1001) < 0.01)
    True
    """

    base: Kernel
    size: int = count()
    common: bool = flag(default=False)

    def __check_init__(self) -> None:
        unadjusted = "use a kernel without an accept step (ULA, UnderdampedLangevin), or SRLD over one"
        check_base("Minibatch", self.base, {Trait.TAKES_ESTIMATES: unadjusted})
        for name, rule in rules_inside(self.base):
            if isinstance(rule, BoundedBias) and rule.underdamped:
                raise HyperparameterError(
                    f"{name} is unset inside Minibatch, where no warm-up can bound the bias from noisy scores. Set it, "
                    "or use ULA, whose bias is bounded."
                )

    @declared
    def requires(self) -> Capability:
        return self.base.requires | Capability.SOME_ROWS

    @declared
    def traits(self) -> Trait:
        return self.base.traits & ~(Trait.EXACT | Trait.TAKES_ESTIMATES)

    def init(self, target: BoundTarget, x: Array) -> MinibatchState:
        if not isinstance(target.data, Rows):
            raise CapabilityError("the target has no rows to draw from: make it by posterior(...)")
        xp, rows, sets = target.xp, target.data.number, math.prod(target.data.sets)
        most = min(int(1 / xp.finfo(x.dtype).eps), int(xp.iinfo(_indexing(xp)).max) // sets)
        if rows > most:
            raise HyperparameterError(
                f"the rows must number at most {most} for positions of {x.dtype}; got {rows}. Use float64 positions, "
                "or fewer rows."
            )
        return MinibatchState(self.base.init(on_some_rows(target), x))  # each step evaluates again, on its batch

    def noise(self, x: Array) -> Specs:
        shape = (self.size,) if self.common else (*x.shape[:-1], self.size)
        return {"rows": Uniform(shape), **self.base.noise(x)}

    def step(self, target: BoundTarget, state: MinibatchState, noise: dict[str, Array]) -> tuple[MinibatchState, Any]:
        batch = target.with_data(draw_rows(target.xp, target.data, noise["rows"]))
        base, info = self.base.advance(batch, state.base, noise)
        return MinibatchState(base), info


def draw_rows(xp: Any, data: Rows, uniforms: Array) -> Rows:
    """Return the rows that uniforms (..., n) choose, (..., n, ...), from each chain's own set, weighted by N / n."""
    count, n, sets = data.number, uniforms.shape[-1], data.sets
    dtype = xp.int32 if count * math.prod(sets) < 2**31 else _indexing(xp)
    at = xp.astype(xp.floor(uniforms * count), dtype)
    at = xp.where(at < count, at, count - 1)  # a uniform that is replayed may be 1
    first = count * xp.arange(math.prod(sets), dtype=dtype, device=device_of(uniforms))
    at = xp.reshape(first, (*sets, 1)) + at
    flat = xp.reshape(at, (-1,))

    def take(leaf: Array) -> Array:
        own = leaf.shape[len(sets) + 1 :]
        return xp.reshape(xp.take(xp.reshape(leaf, (-1, *own)), flat, axis=0), (*at.shape, *own))

    return Rows(tree.map(take, data.rows), data.weight * (count / n))


def _indexing(xp: Any) -> Any:
    """The largest integers that the library indexes with."""
    return xp.__array_namespace_info__().default_dtypes()["indexing"]
