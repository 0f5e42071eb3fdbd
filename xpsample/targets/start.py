"""Initial positions of chains: random points, spread more widely than the target."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.backend import Backend
from xpsample.core.checks import check_count, check_instance, check_seed, given, is_numerical, is_of_a_function
from xpsample.core.devices import current_device
from xpsample.core.errors import CapabilityError, LogDensityError, PositionError, XpsampleError
from xpsample.core.hyperparameters import check_array, check_range
from xpsample.core.registry import backend_of, to_host
from xpsample.spaces.discrete import Discrete
from xpsample.spaces.space import Real, Space, check_positions
from xpsample.targets.bound import BoundTarget
from xpsample.targets.bridge import Ends
from xpsample.targets.contract import failed, suspect_data
from xpsample.targets.point import Capability
from xpsample.targets.shaped import coordinates, values
from xpsample.targets.target import AbstractTarget, Target, check_target

PILOTS = 100  # Chains of a pilot, in each group

TRIES = 100  # Draws of a start position, at most

HALVES = 1000  # Evaluations that find the positions at which a function raises, at most

Plain = Callable[[int | tuple[int, ...]], Array]
"""Random positions ``(*chains, dim)`` of so many chains."""


class StartMethod(ABC):
    """Methods by which `start` improves on random positions, such as `Pathfinder`."""

    @abstractmethod
    def starts(self, target: AbstractTarget, plain: Plain, chains: tuple[int, ...], seed: int) -> Array:
        """Start positions ``(*chains, dim)``, made of random ones, or these where it finds none."""


def start(
    target: AbstractTarget,
    like: Array,
    chains: int | tuple[int, ...] = 4,
    *,
    scale: Any = 2.0,
    seed: int,
    method: StartMethod | None = None,
) -> Array:
    """Random start positions, ``like + scale * z`` with standard normals z, where log density and score are finite.

    Chains that start further apart than the target is wide show, by R-hat, whether they have found the same. A position
    is drawn again if the log density is not finite there or raises an error, or if the score is not finite. If the
    score is finite nowhere, or would be borrowed from another library, the log density alone decides.

    Parameters
    ----------
    target : AbstractTarget
        On real positions.
    like : array, shape (dim,), or that of the target's space
        The middle, with the library, dtype and device for the positions.
    chains : int or tuple of int
        Chains, or the chain axes of a sweep, such as ``(groups, chains)``.
    scale : float, or array of the shape of `like`
        Standard deviation about the middle, in units of x: some times the target's, if known.
    seed : int
        The same positions on every library, to the rounding of the dtype.
    method : StartMethod, optional
        `Pathfinder` or `Laplace`, which begin at such random positions and find better ones.

    Returns
    -------
    array, shape (*chains, dim), or (*chains, *shape)

    Raises
    ------
    LogDensityError
        If a position has no finite log density after 100 draws.

    See Also
    --------
    sample : Runs a kernel from these positions.
    Model.start : The same for a model.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: np.sum(np.log(x) - x, axis=-1), score=lambda x: 1 / x - 1, constrained=True)
    >>> with np.errstate(invalid="ignore"):
    ...     x0 = xps.start(target, np.ones(2), chains=3, seed=1)
    >>> x0.shape, bool(np.all(x0 > 0))
    ((3, 2), True)
    """
    check_target("target", target)
    backend = check_positions(like)
    own, like = like, coordinates(target, like)
    Real().check(backend.xp, like)
    if like.ndim != 1:
        raise PositionError(f"like has shape (dim,), the middle of the start positions; got {given(like)}")
    if isinstance(target, Target) and isinstance(target.space, Discrete):
        raise PositionError("start is for real positions: draw values of a discrete space with your library")
    check_range("scale", scale, 0)
    if hasattr(scale, "shape") and scale.shape:
        scale = coordinates(target, scale)
        check_array("scale", scale, like, {"coordinates": (1,)})
    spread = np.asarray(to_host(scale) if hasattr(scale, "shape") else scale)
    x = found(method, target, lambda n: around(target, to_host(like), spread, like, n, seed), chains, seed)
    return values(tuple(own.shape), x)


def found(
    method: StartMethod | None, target: AbstractTarget, plain: Plain, chains: int | tuple[int, ...], seed: int
) -> Array:
    """Start positions by a method, or random ones without any."""
    if check_instance("method", method, StartMethod, "Pathfinder()", optional=True) is None:
        return plain(chains)
    assert method is not None
    return method.starts(target, plain, chain_axes(chains), seed)


def chain_axes(chains: int | tuple[int, ...]) -> tuple[int, ...]:
    """The axes of so many chains."""
    return tuple(check_count("chains", n) for n in (chains if isinstance(chains, tuple) else (chains,)))


def around(
    target: AbstractTarget,
    middle: np.ndarray,
    spread: np.ndarray,
    like: Array,
    chains: int | tuple[int, ...],
    seed: int,
    positions: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Array:
    """Positions ``middle + spread * z`` as `start` draws them; `positions` makes positions of these, on the host."""
    backend, axes, seed = backend_of(like), chain_axes(chains), check_seed("seed", seed)
    shape, missing = (*axes, middle.shape[-1]), np.ones(axes, dtype=bool)
    raised: list[LogDensityError] = []

    def drawn(*requires: Capability) -> Array | None:
        generator, host, at = np.random.default_rng(seed), np.empty(shape, middle.dtype), None
        missing[...] = True
        for _ in range(TRIES):
            new = (middle + spread * generator.standard_normal(shape)).astype(middle.dtype)
            host[missing] = (new if positions is None else positions(new))[missing]
            x = backend.from_host(host, like)
            at = _prepared(target, x, requires, raised) if at is None else at
            if at is not None:
                missing[missing] = ~_usable(*at, x)[missing]
            if not missing.any():
                return x
        return None

    with current_device(like):
        x = None
        if _has_score(target, backend):
            with suppress(XpsampleError):  # then the density alone decides, or has the same error
                x = drawn(Capability.LOG_DENSITY | Capability.SCORE)
        x = drawn(Capability.LOG_DENSITY, Capability.SCORE) if x is None else x
    if x is not None:
        return x
    if raised:
        raise raised[0]
    why = suspect_data(getattr(target, "data", None)) if missing.all() else ""
    raise LogDensityError(
        f"{why}{'; ' if why else ''}{int(missing.sum())} of {missing.size} start positions have no finite log density "
        f"after {TRIES} draws. Use another middle or a smaller scale."
    )


def pilot_starts(target: AbstractTarget, space: Space, x0: Array, seed: int) -> Array:
    """Random positions for a pilot, (*groups, PILOTS, dim), whatever the run's positions (*groups, chains, dim) are.

    Standard normals where the log density is finite; on a discrete space, which is bound to x0, uniform draws.
    """
    if x0.ndim < 2:
        raise PositionError("the kernel is tuned for groups of chains, so that a chain needs an axis: pass x0[None, :]")
    xp, groups = backend_of(x0).xp, tuple(x0.shape[:-2])
    if not isinstance(space, Discrete):
        middle = xp.zeros_like(xp.reshape(x0, (-1, x0.shape[-1]))[0, :])
        return start(target, middle, (*groups, PILOTS), scale=1.0, seed=seed)
    sizes = np.asarray(space.sizes(x0.shape[-1]))
    moves = np.random.default_rng(seed).integers(0, sizes, (*groups, PILOTS, len(sizes))).astype(np.int32)
    # A uniform choice of the moves leads to a uniform position, from wherever it is made.
    anywhere = xp.broadcast_to(x0[..., :1, :], (*groups, PILOTS, x0.shape[-1]))
    return space.move(xp, anywhere, backend_of(x0).from_host(moves, x0))


def _has_score(target: AbstractTarget, backend: Backend) -> bool:
    """Return whether a target has a score without the derivatives of another library."""
    own = getattr(target, "target", target)
    given = isinstance(own, Target) and (own.score is not None or own.log_density_and_score is not None)
    return given or backend.autodiff is not None


def _prepared(
    target: AbstractTarget, x: Array, requires: tuple[Capability, ...], raised: list[LogDensityError]
) -> tuple[BoundTarget, np.ndarray] | None:
    """Prepare a target at all positions or, if it cannot be, with one of the first four in the place of all.

    Their shape stays, since data may have axes of groups and chains. Returns the target and these positions on the
    host, or None if the target is finite at none of them. Errors of arithmetic are added to `raised`: other positions
    may have none.
    """
    xp, refused = backend_of(x).xp, None
    flat = xp.reshape(x, (-1, x.shape[-1]))
    for at in (x, *(xp.broadcast_to(flat[i, ...], x.shape) for i in range(min(4, flat.shape[0])))):
        try:
            for capability in requires:
                with suppress(*([CapabilityError] if capability != requires[-1] else [])):
                    return target.prepare(at, capability), to_host(at)
        except LogDensityError as found:
            if is_numerical(found.__cause__):
                raised.append(found)
            elif "not finite" not in str(found):
                refused = refused or found
    if refused is not None:
        raise refused
    return None


def _usable(target: BoundTarget, fine: np.ndarray, x: Array) -> np.ndarray:
    """Return which positions have a finite log density and score, (*chains).

    If a function raises, the positions where it does are found by halves, with positions of `fine` in place of the
    others.
    """
    host, left = to_host(x), [np.ones(x.shape[:-1], dtype=bool)]
    usable = np.zeros(x.shape[:-1], dtype=bool)
    for _ in range(HALVES):
        among = left.pop()
        try:
            usable |= among & _finite(target, backend_of(x).from_host(np.where(among[..., None], host, fine), x))
        except Exception as error:
            if not is_of_a_function(error):
                raise
            places = np.flatnonzero(among)
            for half in np.array_split(places, 2) if len(places) > 1 else ():
                left.append(np.zeros_like(among))
                left[-1].flat[half] = True
            last = error
        if not left:
            return usable
    raise failed("log density", last, x, target.space) from last


def _finite(target: BoundTarget, x: Array) -> np.ndarray:
    """Return which positions have a finite log density and, if the target has one, score, (*chains)."""
    point = target.evaluate(x)
    found = [np.all(np.isfinite(to_host(point.score)), axis=-1)] if point.score is not None else []
    if point.log_density is not None:
        ends = point.base if isinstance(point.base, Ends) else (point,)
        found += [np.isfinite(to_host(end.log_density)) for end in ends]
    return np.all(found, axis=0)
