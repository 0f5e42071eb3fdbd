"""Ensembles of walkers that move by one another: stretch moves, differential evolution.

Sources: Goodman & Weare, "Ensemble samplers with affine invariance", Communications in Applied Mathematics and
Computational Science 5 (2010) 65-80; ter Braak, "A Markov chain Monte Carlo version of the genetic algorithm
differential evolution", Statistics and Computing 16 (2006) 239-249; Foreman-Mackey, Hogg, Lang & Goodman, "emcee: the
MCMC hammer" (2013), for the halves.
"""

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.errors import PositionError
from xpsample.core.fields import FrozenDataclass, instance, number
from xpsample.core.registry import to_host
from xpsample.core.specs import Normal, Specs
from xpsample.kernels.kernel import ChainState, Info, Kernel, metropolis, uniform_per_chain
from xpsample.kernels.traits import ADJUSTED, Trait
from xpsample.spaces.discrete import as_index
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability, Point

JUMPS = 0.1  # Share of the moves of differential evolution that jump between modes: Section 2 of ter Braak (2006)

JITTER = 1e-5  # Relative jitter of gamma, so that no position can be reached by one move only


class Move(ABC):
    """Proposal for the walkers of one half, given the walkers of the other half."""

    @abstractmethod
    def noise(self, x: Array) -> Specs:
        """The random numbers of all walkers, (*ensembles, walkers, ...)."""

    @abstractmethod
    def propose(self, xp: Any, x: Array, others: Array, noise: dict[str, Array]) -> tuple[Array, Array | float]:
        """Proposals for one half x, (*ensembles, walkers / 2, dim), and log q(x | y) - log q(y | x)."""


class Stretch(Move, FrozenDataclass, eq=True):
    """y = x_j + z (x - x_j), along the line through a walker of the other half. The same for all affine maps of x.

    Parameters
    ----------
    scale : float
        a, above 1: z is between 1 / a and a, with a density proportional to 1 / sqrt(z).

    See Also
    --------
    DifferentialEvolution : Along the difference of two others.

    Examples
    --------
    >>> import xpsample as xps
    >>> xps.Ensemble(xps.Stretch(3.0)).move.scale
    3.0
    """

    scale: float = number(default=2.0, gt=1)

    def noise(self, x: Array) -> Specs:
        return {"partner": uniform_per_chain(x), "stretch": uniform_per_chain(x)}

    def propose(self, xp: Any, x: Array, others: Array, noise: dict[str, Array]) -> tuple[Array, Array | float]:
        a = self.scale
        z = (1 + (a - 1) * noise["stretch"]) ** 2 / a
        partner = _at(xp, others, _one_of(xp, others.shape[-2], noise["partner"]))
        return partner + z[..., None] * (x - partner), (x.shape[-1] - 1) * xp.log(z)


class DifferentialEvolution(Move, FrozenDataclass, eq=True):
    """y = x + gamma (x_i - x_j), with two walkers of the other half; gamma is 1 in one of ten moves.

    A move with gamma = 1 goes from mode to mode where the two walkers are in these modes.

    Parameters
    ----------
    gamma : float, optional
        2.38 / sqrt(2 dim) when not given, the best for a normal target.

    See Also
    --------
    Stretch : Along the line through one other walker.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1))
    >>> x0 = np.random.default_rng(0).normal(size=(20, 2))
    >>> trace = xps.sample(target, xps.Ensemble(xps.DifferentialEvolution()), x0, 1000, seed=1)
    >>> bool(abs(trace.draws.mean()) < 0.1)
    True
    """

    gamma: float | None = number(default=None, gt=0)

    def noise(self, x: Array) -> Specs:
        uniform = uniform_per_chain(x)
        return {"first": uniform, "second": uniform, "jump": uniform, "jitter": Normal(tuple(x.shape[:-1]))}

    def propose(self, xp: Any, x: Array, others: Array, noise: dict[str, Array]) -> tuple[Array, Array | float]:
        n, dim = others.shape[-2:]
        i = _one_of(xp, n, noise["first"])
        j = (i + 1 + _one_of(xp, n - 1, noise["second"])) % n  # another one
        gamma = 2.38 / math.sqrt(2 * dim) if self.gamma is None else self.gamma
        jittered = 1 + JITTER * noise["jitter"]
        scale = xp.where(noise["jump"] < JUMPS, jittered, gamma * jittered)
        return x + scale[..., None] * (_at(xp, others, i) - _at(xp, others, j)), 0.0


class Ensemble(Kernel[ChainState, Info]):
    """Walkers that move relative to one another: the first half given the second, then the second given the first.

    Positions are (*ensembles, walkers, dim). Given the other half, each walker makes a Metropolis step, so that the
    walkers stay independent draws of the target once they are. On the way they depend on one another: an ensemble
    counts as one chain in ESS and R-hat, and several ensembles are compared.

    Parameters
    ----------
    move : Move
        `Stretch` or `DifferentialEvolution`. Nothing is tuned.

    See Also
    --------
    RWM : Chains that are independent.

    Notes
    -----
    There is an even number of walkers, at least 2 (dim + 1): each half has to span the space.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1))
    >>> x0 = np.random.default_rng(0).normal(size=(4, 10, 2))  # four ensembles of ten walkers
    >>> trace = xps.sample(target, xps.Ensemble(), x0, 2000, seed=1, burn_in=200)
    >>> trace.summary().chains
    4
    """

    move: Move = instance(Move, "Stretch() or DifferentialEvolution()", default=Stretch())

    requires: ClassVar[Capability] = Capability.DENSITY_RATIO | Capability.REAL
    traits = ADJUSTED & ~Trait.SEPARATE

    def init(self, target: BoundTarget, x: Array) -> ChainState:
        check_walkers(x)
        return ChainState(target.evaluate(x))

    def noise(self, x: Array) -> Specs:
        return {**self.move.noise(x), "accept": uniform_per_chain(x)}

    def step(self, target: BoundTarget, state: ChainState, noise: dict[str, Array]) -> tuple[ChainState, Info]:
        xp, current = target.xp, state.point
        first, second = self.halves(current, current.x.ndim - 2)
        noise_first, noise_second = self.halves(noise, current.x.ndim - 2)
        first, info_first = self._moved(target, first, second.x, noise_first)
        second, info_second = self._moved(target, second, first.x, noise_second)
        point = tree.map(lambda *halves: xp.concat(halves, axis=current.x.ndim - 2), first, second)
        each = zip(info_first[:3], info_second[:3], strict=True)
        accepted, moved, diverged = (xp.concat(halves, axis=-1) for halves in each)
        spent = target.costs.evaluate
        return ChainState(point), Info(accepted, moved, diverged, spent)

    @staticmethod
    def halves(arrays: Any, axis: int) -> tuple[Any, Any]:
        """Arrays (*ensembles, walkers, ...), cut along the axis of the walkers."""
        before = (slice(None),) * axis
        return (
            tree.map(lambda a: a[(*before, slice(None, a.shape[axis] // 2), ...)], arrays),
            tree.map(lambda a: a[(*before, slice(a.shape[axis] // 2, None), ...)], arrays),
        )

    def _moved(self, target: BoundTarget, half: Point, others: Array, noise: dict[str, Array]) -> tuple[Point, Info]:
        """One half after a Metropolis step of each of its walkers, given the other half."""
        y, log_proposal_ratio = self.move.propose(target.xp, half.x, others, noise)
        proposal = target.evaluate(y)
        log_ratio = target.log_ratio(proposal, half, log_proposal_ratio)
        return metropolis(target, log_ratio, noise["accept"], proposal, half, target.costs.evaluate)


def _one_of(xp: Any, n: int, uniform: Array) -> Array:
    """One of 0, ..., n - 1."""
    return as_index(xp, xp.clip(xp.floor(n * uniform), max=n - 1))


def _at(xp: Any, x: Array, index: Array) -> Array:
    """The positions (*ensembles, walkers, dim) of walkers by index, (*ensembles, others)."""
    return xp.take_along_axis(x, index[..., None], axis=-2)


def check_walkers(x: Array) -> None:
    """Raise PositionError unless positions are of ensembles, each half of whose walkers spans the space."""
    *_, walkers, dim = (1, *x.shape) if x.ndim < 2 else x.shape
    if walkers % 2 or walkers < 2 * (dim + 1):
        raise PositionError(
            f"Ensemble needs an even number of at least 2 (dim + 1) walkers, {2 * (dim + 1)} for {dim} dimensions; got "
            f"{walkers} in {tuple(x.shape)}. Use more walkers, (*ensembles, walkers, dim)."
        )
    halves = np.reshape(to_host(x), (-1, walkers // 2, dim))
    away = halves - np.mean(halves, axis=1, keepdims=True)
    unit = np.max(np.abs(away), axis=1, keepdims=True)
    rank = np.min(np.linalg.matrix_rank(away / np.where(unit > 0, unit, 1.0)))
    if rank < dim:
        raise PositionError(
            f"half of an ensemble's walkers start in a subspace of {rank} of {dim} dimensions and would stay there. "
            "Start with spread walkers, start(target, like, chains)."
        )
