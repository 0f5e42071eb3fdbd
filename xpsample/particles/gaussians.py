"""Positions drawn from a mixture of Gaussians, one per optimization path, and weighted by the target."""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from array_api_compat import device as device_of

from xpsample.core import tree
from xpsample.core.arrays import Array, Tree
from xpsample.core.checks import check_seed
from xpsample.core.covariance import DenseCovariance, LowRankCovariance, dense_covariance
from xpsample.core.devices import current_device
from xpsample.core.errors import LogDensityError, PositionError
from xpsample.core.fields import FrozenDataclass, count
from xpsample.core.registry import backend_of, compiled, to_host
from xpsample.core.special import logsumexp
from xpsample.densities.real import normal
from xpsample.diagnostics.diagnosis import warn
from xpsample.diagnostics.findings import Finding
from xpsample.gradients.choices import Evaluations
from xpsample.optimize.lbfgs import Ascent
from xpsample.particles.ais import log_normalizer
from xpsample.particles.errors import FEWEST_IN_TAIL, LARGEST_INDEX, tail_index
from xpsample.particles.weights import LogNormalizer
from xpsample.spaces.space import check_positions
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability
from xpsample.targets.shaped import positions
from xpsample.targets.start import Plain, StartMethod, chain_axes
from xpsample.targets.target import AbstractTarget, check_target

NORMALS_OF_PATHS, NORMALS_OF_DRAWS, CHOICE = range(3)  # Streams drawn from one seed, independent of each other


class Gaussians(NamedTuple):
    """One for each path: means ``(paths, 1, dim)``, what their covariances are made of, half the logarithms of the
    determinants of these, and evidence lower bounds, both ``(paths, 1)``: -inf where a path has none.

    The covariances are of the arrays of a `LowRankCovariance`, or of one root.
    """

    mean: Array
    covariance: tuple[Array, ...]
    log_scale: Array
    elbo: Array

    def covariances(self) -> LowRankCovariance | DenseCovariance:
        """Covariances of all paths."""
        return LowRankCovariance(*self.covariance) if len(self.covariance) > 1 else dense_covariance(self.covariance[0])


@dataclass(frozen=True, eq=False)
class Approximation:
    """Gaussians that stand for a target, and weighted draws from their mixture: what `Pathfinder` and `Laplace` find.

    Positions are in unconstrained coordinates.

    Attributes
    ----------
    means : array, shape (paths, dim)
        Mean of the Gaussian of each path that led to one.
    covariances : LowRankCovariance or DenseCovariance
        Their covariances, ``(paths, ...)``.
    elbos : numpy.ndarray, shape (paths,)
        The evidence lower bound of each: a log normalizing constant that is too small by the divergence of the Gaussian
        from the target. If some draws have density 0, it refers to the Gaussian restricted to the others.
    draws : array, shape (n, dim)
        The same number of draws from each Gaussian.
    log_weights : numpy.ndarray, shape (n,)
        Log density of the target minus the log density of the mixture.
    evaluations : Evaluations
        Evaluations of the user's functions, all paths and draws together.
    left_out : int
        Paths that led to no Gaussian.
    """

    means: Array
    covariances: LowRankCovariance | DenseCovariance
    elbos: np.ndarray
    draws: Array
    log_weights: np.ndarray
    evaluations: Evaluations
    left_out: int

    @property
    def mean(self) -> Array:
        """Mean of the Gaussian with the largest ELBO, (dim,)."""
        return self.means[int(np.argmax(self.elbos)), :]

    @property
    def covariance(self) -> Any:
        """Covariance of the Gaussian with the largest ELBO: a `LowRankCovariance`, or an array (dim, dim)."""
        best, every = int(np.argmax(self.elbos)), self.covariances
        if isinstance(every, LowRankCovariance):
            return LowRankCovariance(every.sd[best, 0, :], every.vectors[best, :, :], every.values[best, 0, :])
        return every.matrix[best, :, :]

    @property
    def mass(self) -> Any:
        """The inverse of `covariance`, for ``HMC(mass=...)``."""
        own = self.covariance
        with current_device(self.means):
            return own.inverse() if isinstance(own, LowRankCovariance) else backend_of(own).xp.linalg.inv(own)

    @property
    def usable(self) -> int:
        """Draws whose density under the target is positive."""
        return int(np.sum(self.log_weights > -math.inf))

    @property
    def k_hat(self) -> float:
        """The index of the tail of the weights: above 0.7 they, and what is computed with them, are not to be trusted.

        It is -inf where all weights are alike, and inf with fewer than 25 usable draws.
        """
        return tail_index(self.log_weights) if self.usable >= 5 * FEWEST_IN_TAIL else math.inf

    @property
    def log_normalizer(self) -> LogNormalizer:
        """The log normalizing constant of the target, by the mean weight: as `xpsample.log_normalizer` gives it."""
        return log_normalizer(self.log_weights)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Paths that led to no Gaussian, and weights that are not to be trusted."""
        k, paths = self.k_hat, self.left_out + len(self.elbos)
        found = [no_gaussian(self.left_out, paths)] if self.left_out else []
        if k > LARGEST_INDEX:
            found.append(
                Finding(
                    "weights",
                    f"the Gaussians of {paths} paths miss part of the target: the k-hat of the start positions' "
                    f"weights is {k:.2g}, above 0.7",
                    k,
                    "warm up from these positions as from any others, but do not use the weights or log_normalizer as "
                    "a result. More paths, or a wider scale of their initial positions, may find the rest",
                )
            )
        return tuple(found)

    def starts(self, chains: int | tuple[int, ...], *, seed: int) -> Array:
        """Draws chosen by their weights, none of them twice (by the largest of Gumbel variables).

        Parameters
        ----------
        chains : int or tuple of int
        seed : int

        Returns
        -------
        array, shape (*chains, dim)

        Raises
        ------
        PositionError
            If fewer draws than that are usable.
        """
        axes = chain_axes(chains)
        if self.usable < math.prod(axes):
            raise PositionError(
                f"{math.prod(axes)} chains need as many draws of positive density, and {self.usable} of "
                f"{len(self.log_weights)} are. Use a method with more draws."
            )
        keys = self.log_weights + _generator(seed, CHOICE).gumbel(size=len(self.log_weights))
        chosen = np.argsort(-keys, kind="stable")[: math.prod(axes)]
        backend = backend_of(self.draws)
        with current_device(self.draws):
            x = backend.xp.take(self.draws, backend.from_host(chosen, self.draws), axis=0)
            return backend.xp.reshape(x, (*axes, x.shape[-1]))


class ByGaussians(StartMethod, FrozenDataclass, eq=True):
    """Start positions from Gaussians, one per optimization path."""

    paths: int = count(default=8)
    steps: int = count(default=200)
    history: int = count(default=6)
    draws: int = count(default=1000, ge=2)

    requires: ClassVar[Capability] = Capability.LOG_DENSITY | Capability.SCORE | Capability.REAL

    def fit(self, target: AbstractTarget, x0: Any, *, seed: int) -> Approximation:
        """Approximate a target by Gaussians.

        Parameters
        ----------
        target : AbstractTarget
        x0 : array, shape (paths, dim), or mapping
            Initial positions of the paths, as for `sample`. Their number overrides `paths`.
        seed : int
            The same approximation on every library, to rounding.

        Returns
        -------
        Approximation

        Raises
        ------
        LogDensityError
            If log density or score are not finite at a start, or no path leads to a Gaussian.
        CapabilityError
            If the target has no log density or score. The message says what would supply it.
        """
        x0 = positions(check_target("target", target), x0)
        check_positions(x0)
        found = self._fit(target, x0, self.draws, seed)
        if found is None:
            raise LogDensityError(str(no_gaussian(x0.shape[0], x0.shape[0])))
        return found

    def starts(self, target: AbstractTarget, plain: Plain, chains: tuple[int, ...], seed: int) -> Array:
        found = self._fit(target, plain(self.paths), max(self.draws, 10 * math.prod(chains)), seed)
        warn([no_gaussian(self.paths, self.paths)] if found is None else found.findings)
        return plain(chains) if found is None else found.starts(chains, seed=seed)

    def _fit(self, target: AbstractTarget, x0: Array, draws: int, seed: int) -> Approximation | None:
        """None where no path leads to a Gaussian."""
        if x0.ndim != 2:
            raise PositionError(f"x0 has shape (paths, dim), where each path begins; got {tuple(x0.shape)}")
        with current_device(x0), np.errstate(all="ignore"):  # line searches go where densities are not finite
            bound, x = target.prepare(x0[:, None, :], self.requires), x0[:, None, :]
            found, spent = self._gaussians(bound, x, seed)
            kept = np.flatnonzero(to_host(found.elbo)[:, 0] > -math.inf)
            if not len(kept):
                return None
            kept_there = bound.backend.from_host(kept, x0)
            found = tree.map(lambda a: bound.xp.take(a, kept_there, axis=0), found)
            normals = normals_like(x0, (x0.shape[0], -(-draws // len(kept))), seed, NORMALS_OF_DRAWS)
            return _weighed(bound, found, bound.xp.take(normals, kept_there, axis=0), spent, x0.shape[0] - len(kept))

    @abstractmethod
    def _gaussians(self, bound: BoundTarget, x: Array, seed: int) -> tuple[Gaussians, Evaluations]:
        """Return the Gaussians of paths that begin at x, ``(paths, 1, dim)``, and the evaluations used."""


def _weighed(bound: BoundTarget, found: Gaussians, normals: Array, spent: Evaluations, left_out: int) -> Approximation:
    """Draws of each Gaussian by normals (paths, n, dim), with their weights under the mixture of all.

    A draw without a finite score has weight 0, since no chain of a kernel that uses scores starts there.
    """
    xp, (paths, n, dim) = bound.xp, normals.shape

    def weigh(found: Gaussians, normals: Array, data: Tree) -> tuple[Array, Array, Array]:
        covariances, rows = found.covariances(), xp.arange(paths, device=device_of(normals))[:, None]
        x = found.mean + covariances.root(normals)
        point = bound.with_data(data).evaluate(x)
        log_p = xp.where(xp.all(xp.isfinite(point.score), axis=-1), point.log_density, -math.inf)

        def under_all(i: Any, logs: tuple[Array, Array]) -> tuple[Array, Array]:
            """The draws of path i, one path after another: an array of all draws for all Gaussians may be large."""
            white = covariances.whiten(x[i, ...][None, ...] - found.mean)
            log_q = xp.sum(normal(white, 0.0, 1.0), axis=-1) - found.log_scale
            mixture = logsumexp(log_q, axis=-2) - math.log(paths)
            return xp.where(rows == i, mixture, logs[0]), xp.where(rows == i, log_q, logs[1])

        mixture, own = bound.backend.repeat(paths, under_all, (xp.zeros_like(log_p), xp.zeros_like(log_p)))
        weights = xp.where(xp.isfinite(log_p), log_p - mixture, -math.inf)
        return xp.reshape(x, (paths * n, dim)), xp.reshape(weights, (-1,)), lower_bound(xp, log_p, own)

    draws, log_weights, elbos = compiled(bound.backend, weigh)(found, normals, bound.data)
    return Approximation(
        found.mean[:, 0, :],
        found.covariances(),
        to_host(elbos)[:, 0],
        draws,
        to_host(log_weights).astype(np.float64),
        spent.plus(bound.costs.evaluate.times(paths * n)),
        left_out,
    )


def lower_bound(xp: Any, log_p: Array, log_q: Array) -> Array:
    """The evidence lower bound of each path, ``(paths, 1)``, by draws from q with their log densities ``(paths, n)``.

    If p is 0 at some draws, the bound refers to q restricted to the others, whose share compensates for its larger
    density.
    """
    inside = xp.isfinite(log_p)
    count = xp.sum(xp.astype(inside, log_p.dtype), axis=-1, keepdims=True)
    total = xp.sum(xp.where(inside, log_p - log_q, 0.0), axis=-1, keepdims=True)
    some = xp.where(count > 0, count, 1.0)
    return xp.where(count > 0, total / some + xp.log(some / log_p.shape[-1]), -math.inf)


def normals_like(x: Array, shape: tuple[int, ...], seed: int, what: int) -> Array:
    """Standard normals ``(*shape, dim)``, drawn on the host, so that they are the same on every library."""
    host = _generator(seed, what).standard_normal((*shape, x.shape[-1]))
    return backend_of(x).from_host(host.astype(to_host(x).dtype), x)


def ascent(bound: BoundTarget) -> Callable[[Array], Ascent]:
    """Return the function of a target that `climb` needs."""

    def evaluate(x: Array) -> Ascent:
        point = bound.evaluate(x)
        return Ascent(point.x, point.log_density, point.score)

    return evaluate


def no_gaussian(left_out: int, paths: int) -> Finding:
    """Finding that paths led to no Gaussian."""
    rest = "the start positions are random ones" if left_out == paths else "the other paths found the start positions"
    return Finding(
        "paths",
        f"{left_out} of {paths} paths of a start method led to no Gaussian, because along them the log density is "
        f"flat, or rises without end or to a bound; {rest}",
        float(left_out),
        "set a prior for every parameter, start closer, or use Pathfinder instead of Laplace, which needs a mode",
    )


def _generator(seed: int, what: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(check_seed("seed", seed), spawn_key=(what,)))
