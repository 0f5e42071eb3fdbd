"""What a case of the suite is."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xpsample.conformance.distributions import Distribution
from xpsample.core.arrays import Array
from xpsample.kernels import Kernel
from xpsample.targets import AbstractTarget, Exact, Tilt

AsArray = Callable[[Any], Array]


def _as_it_is(state: Any, normals: np.ndarray, asarray: AsArray) -> Any:
    """Nothing beside the positions to put exact draws into."""
    return state


@dataclass(frozen=True)
class Scenario:
    """A kernel on a target, and the law that the kernel leaves invariant.

    Parameters
    ----------
    name : str
        Of the kernel; also its docs page and test.
    target : callable
        ``target(asarray) -> AbstractTarget``, `asarray` putting host arrays where the test runs.
    kernel : callable
        ``kernel(asarray) -> Kernel``.
    law : Law
        What the kernel, as it is run for the invariance check, leaves invariant.
    base : callable, optional
        The base kernel of a wrapper that must equal it at alpha = 0 (`kernel` is then called with ``alpha=0.0`` too).
    frozen : callable, optional
        ``frozen(asarray, generator, chains) -> (Kernel, Law)`` where the invariance check needs others than `kernel`
        and `law`: a wrapper with its history held at one drawn from `generator`, and what that leaves invariant.
    tilt : Tilt
        What a wrapper's steps are compared with; `Exact` for those that approximate it.
    with_exact_state : callable, optional
        ``with_exact_state(state, normals, asarray)``: puts exact draws into the parts of a state beside the positions.
    biased : str
        Why the kernel leaves no known law invariant, where it does not: that check is then skipped, and `law` only
        gives start positions.
    """

    name: str
    target: Callable[[AsArray], AbstractTarget]
    kernel: Callable[..., Kernel]
    stationary: Distribution
    base: Callable[[AsArray], Kernel] | None = None
    frozen: Callable[[AsArray, np.random.Generator, int], tuple[Kernel, Distribution]] | None = None
    tilt: Tilt = Exact()
    with_exact_state: Callable[[Any, np.ndarray, AsArray], Any] = field(default=_as_it_is)
    biased: str = ""
