"""Does a step spend what it says? Calls of a target's functions, counted as they happen."""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from xpsample.conformance.scenario import Scenario
from xpsample.core.devices import DeviceDtype
from xpsample.core.hyperparameters import settings
from xpsample.core.registry import to_host
from xpsample.gradients.choices import Evaluations, Functions
from xpsample.kernels.compose import on_target
from xpsample.sampling.noise import Portable
from xpsample.spaces.space import as_floating
from xpsample.targets import BoundTarget
from xpsample.targets.prepared import PreparedTarget

NONE = Evaluations(0, 0, 0)


class Counter:
    """The evaluations of a target's functions, over all rows of the positions that they are called with.

    A call counts as what the target says that one evaluation of it costs: a score by differences as densities.
    """

    def __init__(self) -> None:
        self.spent = NONE

    def counted(self, target: BoundTarget) -> Any:
        """The target, with functions that are counted."""
        if not isinstance(target, PreparedTarget):
            inner = {f.name: part for f, part in settings(target) if f.init and isinstance(part, BoundTarget)}
            known = {name: self.counted(part) for name, part in inner.items()}
            return replace(target, **known)  # type: ignore[type-var]
        costs, density = target.costs, Evaluations(log_density=1)
        costs_of = Functions(
            density,
            costs.score,
            costs.hvp,
            costs.score if costs.score.log_density else costs.score.plus(density),
            costs.score.plus(costs.hvp),
        )
        functions = Functions(*(self._counting(f, cost) for f, cost in zip(target.functions, costs_of, strict=True)))
        return replace(
            target,
            functions=functions,
            differences=self._counting(target.differences, Evaluations(score=1)),
            differences_of_one=self._counting_variables(target.space, target.differences_of_one),
        )

    def _counting_variables(self, space: Any, function: Callable[..., Any] | None) -> Any:
        """Count the differences of all variables together as one call of the differences of all moves."""

        def counting(x: Any, i: Any, *args: Any) -> Any:
            assert function is not None
            share = Fraction(math.prod(x.shape[:-1]), space.variables(x.shape[-1]))
            self.spent = self.spent.plus(Evaluations(score=share))
            return function(x, i, *args)

        return None if function is None else counting

    def _counting(self, function: Callable[..., Any] | None, cost: Evaluations) -> Any:
        if function is None:
            return None

        def counting(x: Any, *args: Any) -> Any:
            self.spent = self.spent.plus(cost.times(math.prod(x.shape[:-1])))
            return function(x, *args)

        return counting


def stated(evaluations: Evaluations, chains: int) -> Evaluations:
    """Total of an `Info` over all chains: each count holds for every chain, or has one entry for each."""

    def total(count: Any) -> int:
        each = to_host(count) if getattr(count, "ndim", 0) else count
        return int(each.sum()) if getattr(each, "ndim", 0) else int(each) * chains

    return Evaluations(*(total(count) for count in evaluations))


def miscounted(scenario: Scenario, device: DeviceDtype, x0: Any, steps: int = 8) -> str:
    """The first step whose `Info` says something else than was called, in words; empty if there is none."""
    counter = Counter()
    bound = scenario.target(device.array)
    kernel = scenario.kernel(device.array)
    target = counter.counted(bound.prepare(x0, kernel.requires))
    kernel = on_target(kernel, target, x0)
    state = kernel.init(target, x0)
    noise = Portable(11).block(device.backend, kernel.noise(x0), 0, steps, as_floating(device.backend.xp, x0))
    for i in range(steps):
        counter.spent = NONE
        state, info = kernel.advance(target, state, {name: block[i, ...] for name, block in noise.items()})
        said = stated(info.evaluations, math.prod(x0.shape[:-1]))
        if said != counter.spent:
            return f"step {i + 1} says {_shown(said)} and evaluates {_shown(counter.spent)}"
    return ""


def _shown(evaluations: Evaluations) -> str:
    counts = zip(("log densities", "scores", "hvps"), evaluations, strict=True)
    return ", ".join(f"{count} {name}" for name, count in counts)


def loops_are_plain(device: DeviceDtype) -> bool:
    """Return whether the library's loops call their body once a round, so that calls can be counted."""
    calls = []

    def body(i: Any, carry: Any) -> Any:
        calls.append(i)
        return carry

    device.backend.repeat(3, body, device.array(0.0))
    return len(calls) == 3
