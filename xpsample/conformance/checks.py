"""The checks: each takes a scenario and a device with a dtype, and gives an outcome."""

import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device as device_of

from xpsample.conformance.counting import loops_are_plain, miscounted
from xpsample.conformance.repellence import repellence, self_repulsion
from xpsample.conformance.scenario import Scenario, invariance
from xpsample.core import tree
from xpsample.core.arrays import Array, is_array
from xpsample.core.backend import Schedule, StopFlag
from xpsample.core.declared import declared
from xpsample.core.devices import DeviceDtype, current_device, device_dtypes
from xpsample.core.errors import ConvergenceWarning, RepellenceWarning
from xpsample.core.registry import backend_of, to_host
from xpsample.core.specs import Specs
from xpsample.core.tree import dtype_name
from xpsample.kernels import Kernel
from xpsample.kernels.compose import on_target, unset_inside
from xpsample.kernels.traits import Trait
from xpsample.sampling.checkpoint import SavedRun
from xpsample.sampling.eager import eager_repeat
from xpsample.sampling.identity import identity
from xpsample.sampling.noise import Native, Portable, Replay
from xpsample.sampling.program import Program
from xpsample.sampling.sampler import sample
from xpsample.sampling.totals import Totals
from xpsample.spaces.space import as_floating
from xpsample.srld import SRLD
from xpsample.targets import AbstractTarget, BoundTarget, Capability
from xpsample.trace.recorders import Draws, Statistics
from xpsample.trace.trace import Trace

STEPS = 100
RECORDERS = (Draws(), Statistics())


class Outcome(NamedTuple):
    """The outcome of a check: passed or not, or None if it does not apply; and what was seen."""

    passed: bool | None
    detail: str


def reference() -> DeviceDtype:
    """NumPy float64, with which the chains of all other devices and dtypes are compared."""
    return next(device for device in device_dtypes([np.__name__]) if device.dtype == "float64")


class _Setting(NamedTuple):
    """A scenario on a device; made once, so that checks share what a driver compiles."""

    target: AbstractTarget
    kernel: "_Guarded"
    x0: Array


@lru_cache(maxsize=1)
def _setting(scenario: Scenario, device: DeviceDtype) -> _Setting:
    return _Setting(scenario.target(device.array), _Guarded(scenario.kernel(device.array)), _start(scenario, device))


def _start(scenario: Scenario, device: DeviceDtype, chains: int = 6) -> Array:
    return device.array(scenario.stationary.draw(np.random.default_rng(3), chains))


@lru_cache(maxsize=1)
def _run(scenario: Scenario, device: DeviceDtype) -> Trace:
    return sample(*_setting(scenario, device), STEPS, seed=Portable(1), recorders=RECORDERS, progress=False)


@lru_cache(maxsize=128)
def _reference(scenario: Scenario) -> np.ndarray:
    device = reference()
    kernel = scenario.kernel(device.array)
    run = sample(
        scenario.target(device.array), kernel, _start(scenario, device), STEPS, seed=Portable(1), progress=False
    )
    return to_host(run.draws)


def same_chain(scenario: Scenario, device: DeviceDtype, quick: bool) -> Outcome:
    """The chain equals NumPy's in float64 under the same noise, or a second run's if NumPy has none."""
    run = _run(scenario, device)
    if not runs_on(scenario, reference()):
        again = _run.__wrapped__(scenario, device)
        deviation = float(np.abs(to_host(again.draws) - to_host(run.draws)).max())
        return Outcome(deviation == 0, f"{deviation:.1e}")
    dtype = dtype_name(run.statistics["acceptance_probability"])  # dtype of the arithmetic; positions may be integers
    deviations = np.abs(to_host(run.draws).astype(np.float64) - _reference(scenario)).max(axis=(0, 2))
    largest = {"float64": 1e-10, "float32": 2e-2}[dtype]  # over STEPS steps, float32 may lose digits and no more
    if not scenario.stationary.finite:
        return Outcome(bool(np.all(deviations <= largest)), f"{deviations.max():.1e}")
    parted = int(np.sum(~(deviations <= largest)))
    # In float32 one of the 6 chains may part from NumPy's on a discrete space: a choice differs if a uniform is within
    # rounding, about 1e-6, of a boundary. Over 600 steps of a few choices each, this happens in about one scenario of
    # two hundred, and to a second chain in about one of forty thousand. After it, a chain tells nothing.
    return Outcome(parted <= (1 if dtype == "float32" else 0), f"{len(deviations) - parted}/{len(deviations)}")


def stays_home(scenario: Scenario, device: DeviceDtype, quick: bool) -> Outcome:
    """Arrays of the results and of the state keep library, device and (floating ones) dtype."""
    trace, x0 = _run(scenario, device), _start(scenario, device)
    real = as_floating(device.backend.xp, x0)
    strays = []
    for path, leaf in tree.items({"draws": trace.draws, "statistics": trace.statistics, "state": trace.state}):
        if not is_array(leaf) or backend_of(leaf) is not device.backend:
            strays.append(f"{path} is {type(leaf).__name__}")
        elif device_of(leaf) != device_of(x0):
            strays.append(f"{path} is on {device_of(leaf)}")
        elif "float" in dtype_name(leaf) and leaf.dtype != real.dtype:
            strays.append(f"{path} is {dtype_name(leaf)}")
    return Outcome(not strays, "; ".join(strays))


_EXITS = (
    "__array__",
    "__bool__",
    "__float__",
    "__int__",
    "__index__",
    "__complex__",
    "__dlpack__",
    "get",
    "item",
    "tolist",
    "numpy",
)


class HostTransfer(Exception):
    """An array's values were read on the host inside a step."""


@contextmanager
def _no_way_out(kind: type) -> Iterator[bool]:
    """Make arrays of a type refuse to give values to the host; gives False if the type cannot be changed.

    But for `eager_repeat`, which has to know how often it goes round.
    """
    saved: dict[str, Any] = {}
    answering = False

    def closed(name: str) -> Callable[..., Any]:
        own = getattr(kind, name)

        def refuse(*args: Any, **kwargs: Any) -> Any:
            nonlocal answering
            if not answering and sys._getframe(1).f_code is not eager_repeat.__code__:
                raise HostTransfer(name)
            before, answering = answering, True  # one way out may lead through another
            try:
                return own(*args, **kwargs)
            finally:
                answering = before

        return refuse

    try:
        for name in _EXITS:
            if hasattr(kind, name):
                own = kind.__dict__.get(name, _EXITS)
                setattr(kind, name, closed(name))
                saved[name] = own
    except TypeError:  # a built-in type, whose arrays live on the host anyway
        yield False
        return
    try:
        yield True
    finally:
        for name, own in saved.items():
            if own is _EXITS:
                delattr(kind, name)
            else:
                setattr(kind, name, own)


class _Guarded(Kernel[Any, Any]):
    """A kernel during whose steps no value may leave the device."""

    kernel: Kernel

    @declared
    def requires(self) -> Capability:
        return self.kernel.requires

    def init(self, target: BoundTarget, x: Array) -> Any:
        return self.kernel.init(target, x)

    def noise(self, x: Array) -> Specs:
        return self.kernel.noise(x)

    def step(self, target: BoundTarget, state: Any, noise: dict[str, Array]) -> tuple[Any, Any]:
        with _no_way_out(type(state.point.x)):
            return self.kernel.advance(target, state, noise)


def no_host_transfer(scenario: Scenario, device: DeviceDtype, quick: bool) -> Outcome:
    """No step asks for a value on the host. (A tracer refuses it anyway.)"""
    with _no_way_out(type(_start(scenario, device))) as possible:
        pass
    if not possible:
        return Outcome(None, "arrays live on the host")
    try:
        _run(scenario, device)
    except HostTransfer as error:
        return Outcome(False, f"a step called {error}")
    return Outcome(True, "")


def _walk(kernel: Kernel, target: BoundTarget, state: Any, noise: dict[str, Array], steps: int) -> np.ndarray:
    """The positions after each step, by calls of the kernel without a driver, (steps, *chains, dim)."""
    walked = []
    with np.errstate(all="ignore"):
        for i in range(steps):
            state, _ = kernel.advance(target, state, {name: block[i, ...] for name, block in noise.items()})
            walked.append(to_host(state.point.x))
    return np.stack(walked)


def driven_equals_eager(scenario: Scenario, device: DeviceDtype, quick: bool) -> Outcome:
    """The backend's driver, compiled or not, gives the same as a Python loop that calls the step."""
    steps, (target, guarded, x0) = 5, _setting(scenario, device)
    bound = target.prepare(x0, guarded.requires)
    guarded = on_target(guarded, bound, x0)
    # The program of `_run`, so that a driver does not compile another one.
    program = Program(guarded, bound, RECORDERS, Schedule(STEPS))
    carry = program.init(x0)
    noise = Portable(2).block(device.backend, program.specs(carry), 0, steps, program.like(carry))
    walked = _walk(guarded.kernel, bound, program.init(x0).state, noise, steps)
    driven, *_ = device.backend.drive(program, carry, None, Replay(noise), 0, steps, StopFlag())
    deviation = float(np.abs(to_host(driven.state.point.x) - walked[-1, ...]).max())
    return Outcome(deviation <= 100 * float(np.finfo(device.dtype).eps), f"{deviation:.1e}")


def resume_exact(scenario: Scenario, device: DeviceDtype, quick: bool) -> Outcome:
    """A run that is killed after a third of its steps and called again gives the bits of an uninterrupted one.

    The backend's own noise, drawn by a run with an integer seed, must also not depend on where a block begins.
    """
    whole, (target, kernel, x0) = _run(scenario, device), _setting(scenario, device)
    source, third = Portable(1), STEPS // 3
    # The first third is driven by the program of `_run`: a run of fewer draws would compile another one.
    bound = target.prepare(x0, kernel.requires)
    program = Program(on_target(kernel, bound, x0), bound, RECORDERS, Schedule(STEPS))
    carry, totals = program.init(x0), Totals()
    with tempfile.TemporaryDirectory() as folder:
        with SavedRun.opened(folder, program, carry, identity(target, program, x0, source), None) as saved:
            carry, buffers, sums, _ = device.backend.drive(program, carry, None, source, 0, third, StopFlag())
            totals.add(third, sums)
            saved.save(third, carry, totals, buffers, final=True)
        resumed = sample(target, kernel, x0, STEPS, seed=source, checkpoint=folder, progress=False)
    pairs = zip(
        tree.items((whole.draws, whole.statistics, whole.state)),
        tree.items((resumed.draws, resumed.statistics, resumed.state)),
        strict=True,
    )
    different = [path for (path, a), (_, b) in pairs if not np.array_equal(to_host(a), to_host(b))]
    specs, like = program.specs(carry), program.like(carry)
    every, later = (Native(1).block(device.backend, specs, start, STEPS, like) for start in (0, third))
    for name in specs:
        if not np.array_equal(to_host(every[name][third:, ...]), to_host(later[name])):
            different.append(
                f"noise(..., {third}, {STEPS}, ...) of {name} is not the end of noise(..., 0, {STEPS}, ...)"
            )
    return Outcome(not different, ", ".join(different))


def leaves_invariant(scenario: Scenario, device: DeviceDtype, quick: bool) -> Outcome:
    """Exact draws stay exact draws (see `invariance`)."""
    if scenario.biased:
        return Outcome(None, scenario.biased)
    result = invariance(scenario, device, chains=20_000 if quick else 100_000)
    return Outcome(result.passed, f"z {result.z:.1f}")


def alpha_zero(scenario: Scenario, device: DeviceDtype, quick: bool) -> Outcome:
    """The steps of a repellent kernel with alpha = 0 are its base's, bit for bit.

    Steps are called without a driver: one that compiles whole programs may round the two in different ways.
    """
    if scenario.base is None:
        return Outcome(None, "no base kernel")
    steps, target, x0 = 20, scenario.target(device.array), _start(scenario, device)

    def walk(kernel: Kernel) -> np.ndarray:
        bound = target.prepare(x0, kernel.requires)
        noise = Portable(9).block(device.backend, kernel.noise(x0), 0, steps, x0)
        return _walk(kernel, bound, kernel.init(bound, x0), noise, steps)

    deviation = float(np.abs(walk(scenario.kernel(device.array, alpha=0.0)) - walk(scenario.base(device.array))).max())
    return Outcome(deviation == 0, f"{deviation:.1e}")


def tilted_step(scenario: Scenario, device: DeviceDtype, quick: bool) -> Outcome:
    """A repellent kernel's step is its base's on the tilted target (see `repellence` and `self_repulsion`)."""
    if scenario.base is None:
        return Outcome(None, "no base kernel")
    again = self_repulsion if isinstance(scenario.kernel(device.array), SRLD) else repellence
    deviation = again(scenario, device, _start(scenario, device))
    return Outcome(deviation <= {"float64": 1e-9, "float32": 1e-3}[device.dtype], f"{deviation:.1e}")


def counts(scenario: Scenario, device: DeviceDtype, quick: bool) -> Outcome:
    """Every step's `Info` says how often the target's functions were called (see `counting`)."""
    if not loops_are_plain(device):
        return Outcome(None, "loops are compiled")
    # Chains that wait for others in one loop are evaluated, and not counted; only a set of particles needs several.
    chains = 1 if Trait.SEPARATE in scenario.kernel(device.array).traits else 6
    wrong = miscounted(scenario, device, _start(scenario, device, chains))
    return Outcome(not wrong, wrong)


CHECKS: dict[str, Callable[[Scenario, DeviceDtype, bool], Outcome]] = {
    "same chain": same_chain,
    "stays home": stays_home,
    "no host transfer": no_host_transfer,
    "driven = eager": driven_equals_eager,
    "resume exact": resume_exact,
    "invariant": leaves_invariant,
    "alpha 0 = base": alpha_zero,
    "tilted step": tilted_step,
    "counts": counts,
}


class Row(NamedTuple):
    """The outcomes of one scenario on one device with one dtype."""

    scenario: Scenario
    device: DeviceDtype
    outcomes: dict[str, Outcome]

    @property
    def passed(self) -> bool:
        """Return whether no check failed."""
        return all(outcome.passed is not False for outcome in self.outcomes.values())


def runs_on(scenario: Scenario, device: DeviceDtype) -> bool:
    """Return whether a scenario's kernel is written for a device's library."""
    return not scenario.libraries or device.backend.name in scenario.libraries


def check_all(cases: Iterable[Scenario], where: Iterable[DeviceDtype], quick: bool = False) -> Iterator[Row]:
    """Run every check for every scenario on every device and dtype of the libraries that it is written for.

    Parameters
    ----------
    cases : iterable of Scenario
    where : iterable of DeviceDtype
    quick : bool
        Fewer chains in the statistical check.

    Yields
    ------
    Row
    """
    for scenario in cases:
        for device in filter(partial(runs_on, scenario), where):
            yield Row(scenario, device, {name: run_check(name, scenario, device, quick) for name in CHECKS})


def run_check(name: str, scenario: Scenario, device: DeviceDtype, quick: bool = False) -> Outcome:
    """One check by name. A kernel that raises has failed it."""
    try:
        with current_device(device.array(0.0)), warnings.catch_warnings():
            missing = unset_inside(scenario.kernel(device.array))
            if missing:
                return Outcome(False, f"the checks make single steps and tune nothing. Set {', '.join(missing)}")
            warnings.simplefilter("ignore", ConvergenceWarning)  # the runs are short
            warnings.simplefilter("ignore", RepellenceWarning)  # and may repel more than a user would want
            passed, detail = CHECKS[name](scenario, device, quick)
            return Outcome(None if passed is None else bool(passed), detail)
    except Exception as error:
        return Outcome(False, f"{type(error).__name__}: {error}")
