"""A case of the suite, and the test whether its kernel leaves a distribution invariant."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xpsample.conformance.distributions import Distribution, Invariance
from xpsample.core.arrays import Array
from xpsample.core.backend import Schedule, StopFlag
from xpsample.core.devices import DeviceDtype
from xpsample.core.registry import to_host
from xpsample.kernels import Kernel
from xpsample.kernels.compose import on_target
from xpsample.sampling.noise import Native
from xpsample.sampling.program import Carry, Program
from xpsample.targets import AbstractTarget, Exact, Tilt

AsArray = Callable[[Any], Array]


def _as_it_is(state: Any, normals: np.ndarray, asarray: AsArray) -> Any:
    """The state unchanged: only its positions need exact draws."""
    return state


@dataclass(frozen=True)
class Scenario:
    """A kernel on a target, and the distribution that the kernel leaves invariant.

    Parameters
    ----------
    name : str
        Name of the kernel; also of its docs page and test.
    target : callable
        ``target(asarray) -> AbstractTarget``; `asarray` puts host arrays on the device under test.
    kernel : callable
        ``kernel(asarray) -> Kernel``.
    stationary : Distribution
        What the kernel leaves invariant.
    base : callable, optional
        The base kernel of a wrapper that must equal it at alpha = 0; `kernel` then takes ``alpha=0.0``, too.
    frozen : callable, optional
        ``frozen(asarray, generator, chains) -> (Kernel, Distribution)``, if the invariance check needs others than
        `kernel` and `stationary`: a wrapper whose history is held at one drawn by `generator`, and the distribution
        that it leaves invariant.
    tilt : Tilt
        The tilt that a wrapper's steps are compared with; `Exact` for tilts that approximate it.
    with_exact_state : callable, optional
        ``with_exact_state(state, normals, asarray)``: puts exact draws into the parts of a state other than the
        positions.
    biased : str
        Why the kernel leaves no known distribution invariant, if so. The invariance check is then skipped, and
        `stationary` only gives start positions.
    libraries : tuple of str
        Names of the backends that the kernel is written for; all of them if empty. A kernel that NumPy is not among has
        no chain of NumPy's to be compared with, and its own second run stands for that.
    walkers : int
        Walkers of an ensemble: the invariance check makes ensembles of so many chains, to show dependence.
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
    libraries: tuple[str, ...] = ()
    walkers: int = 1


def invariance(
    scenario: Scenario, device: DeviceDtype, chains: int = 100_000, steps: int = 4, seed: int = 0
) -> Invariance:
    """Run a scenario's kernel from exact draws and test that they stay draws of its stationary distribution.

    Each of the chains makes so many steps and gives its final draw. The seed is for the exact draws, on the host, and
    for the library's own noise.
    """
    generator, chains = np.random.default_rng(seed), chains - chains % scenario.walkers
    if scenario.frozen is None:
        kernel, stationary = scenario.kernel(device.array), scenario.stationary
    else:
        kernel, stationary = scenario.frozen(device.array, generator, chains)
    shape = (chains,) if scenario.walkers == 1 else (chains // scenario.walkers, scenario.walkers)
    x0 = device.array(np.reshape(stationary.draw(generator, chains), (*shape, stationary.dim)))
    target = scenario.target(device.array).prepare(x0, kernel.requires)
    program = Program(on_target(kernel, target, x0), target, (), Schedule(steps))
    others = generator.standard_normal((chains, stationary.dim))
    state = scenario.with_exact_state(program.init(x0).state, others, device.array)
    carry, *_ = device.backend.drive(program, Carry(state, ()), None, Native(seed), 0, steps, StopFlag())
    x = np.reshape(to_host(carry.state.point.x), (chains, stationary.dim))
    return stationary.compare(x.astype(np.float64))
