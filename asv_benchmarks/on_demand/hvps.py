"""What a Hessian-vector product costs, by the way to get it: over an analytic score.

``python -m asv_benchmarks.on_demand.hvps`` prints a table.

Inside runs, as kernels call them: a step takes the score and the product at a few positions, as under a tilt. Where
both share something (data times positions), a product costs that less.
"""

import functools
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

import xpsample as xps
from asv_benchmarks.benchmarks.cases import logistic
from asv_benchmarks.benchmarks.common import DEVICES, device_or_skip, put, ratio, step_seconds
from xpsample.core.registry import installed_backends
from xpsample.gradients import GradientChoice, NativeGradient
from xpsample.kernels import ChainState, Info, Kernel
from xpsample.kernels.kernel import normal_like
from xpsample.targets import Capability, Point
from xpsample.zoo.logistic import breast_cancer

PROBLEMS: dict[str, tuple[Callable[[], xps.Target], int]] = {
    "logistic": (logistic, 10),
    "breast cancer": (breast_cancer, 31),
}
"""Targets with all derivatives given, and their dim: 100 and 455 rows of data."""

CALLS = 4
"""Positions that a step takes, so that little of its time is the sampler's."""


WAYS = [
    "analytic",
    "forward",
    "reverse",
    "forward over reverse",
    "reverse over reverse",
    "autodiff of torch",
    "autodiff of jax",
    "central differences",
    "forward differences",
]
"""Forward and reverse mode through the analytic score, the same over a score by autodiff, the analytic score's
derivative by a lender (reverse mode by torch, forward mode by JAX), and differences of the analytic score."""


class Flow(Kernel):
    """Moves along v, the score and H v, each where it is asked for: `CALLS` little moves a step, v standard normal."""

    score: bool
    hvp: bool
    requires = Capability.SCORE | Capability.HVP

    def init(self, target: Any, x: Any) -> ChainState:
        return ChainState(Point(x, None, None))

    def noise(self, x: Any) -> dict:
        return {"v": normal_like(x)}

    def step(self, target: Any, state: ChainState, noise: dict[str, Any]) -> tuple[ChainState, Info]:
        v = noise["v"]

        def move(_: Any, x: Any) -> Any:
            # x for what is not asked for, so that a difference of two runs has no addition in it.
            ahead = v + (target.score(x) if self.score else x)
            return x + 1e-6 * (ahead + (target.hvp(x, v) if self.hvp else x))

        x = target.backend.repeat(CALLS, move, state.point.x)
        one = target.xp.ones_like(x[..., 0])
        return ChainState(Point(x, None, None)), Info(one, one > 0, one < 0, target.costs.evaluate)


EMPTY, SCORE, BOTH = Flow(False, False), Flow(True, False), Flow(True, True)


def ways(device: str, target: xps.Target) -> dict[str, xps.Target]:
    """The target with its hvp in every way that its library has, by name; the first is its own."""
    name = device.partition("-")[0]

    def by(gradient: GradientChoice, **own: Any) -> xps.Target:
        return replace(target, hvp=None, gradient=gradient, **own)

    def own(hvp: Callable[..., Any]) -> xps.Target:
        return replace(target, hvp=hvp)

    found = {"analytic": target}
    plain = {"score": None, "log_density_and_score": None}
    if name == "torch":
        forward = functools.partial(_torch_forward, target.score)
        score = _torch_score(target.log_density)
        found |= {
            "reverse": by(NativeGradient()),
            "forward": own(forward),
            "reverse over reverse": by(NativeGradient(), **plain),
            "forward over reverse": replace(
                by(NativeGradient(), **plain), hvp=functools.partial(_torch_forward, score)
            ),
        }
    elif name == "jax":
        score = _jax_score(target.log_density)
        found |= {
            "reverse": own(functools.partial(_jax_reverse, target.score)),
            "forward": by(NativeGradient()),
            "reverse over reverse": replace(by(NativeGradient(), **plain), hvp=functools.partial(_jax_reverse, score)),
            "forward over reverse": by(NativeGradient(), **plain),
        }
    else:
        installed = installed_backends()
        found |= {f"autodiff of {lender}": by(xps.Via(lender)) for lender in ("torch", "jax") if lender in installed}
    found["central differences"] = by(xps.FiniteDifference(1e-2))
    found["forward differences"] = by(xps.FiniteDifference(1e-2, "forward"))
    return found


def _torch_score(log_density: Callable[..., Any]) -> Callable[..., Any]:
    torch = import_module("torch")
    return torch.func.grad(lambda x, rows: torch.sum(log_density(x, rows)))


def _torch_forward(score: Callable[..., Any], x: Any, v: Any, rows: Any) -> Any:
    return import_module("torch").func.jvp(lambda y: score(y, rows), (x,), (v,))[1]


def _jax_score(log_density: Callable[..., Any]) -> Callable[..., Any]:
    return import_module("jax").grad(lambda x, rows: log_density(x, rows).sum())


def _jax_reverse(score: Callable[..., Any], x: Any, v: Any, rows: Any) -> Any:
    return import_module("jax").vjp(lambda y: score(y, rows), x)[1](v)[0]


# ---- what is measured ------------------------------------------------------------------------------------------------


class Hvp:
    """A step with scores and Hessian-vector products over one with analytic scores alone, the ratio of CPU times.

    The difference of two times, which is the product's own, is too noisy to be tracked.
    """

    params = (WAYS, DEVICES, [10])
    param_names = ("way", "device", "chains")
    unit = "times the scores"
    timeout = 180

    def setup(self, way: str, device: str, chains: int) -> None:
        device_or_skip(device)
        if way not in ways(device, logistic()):
            raise NotImplementedError(f"{device} has no {way}")

    def track_hvp(self, way: str, device: str, chains: int) -> float:
        return with_products(way, device, chains)


def with_products(way: str, device: str, chains: int, seconds: float = 0.05, rounds: int = 3) -> float:
    """The ratio, on the smaller problem."""
    targets, x0 = ways(device, logistic()), _start(device, chains, 10)
    score, both = step_seconds([(targets["analytic"], SCORE, x0), (targets[way], BOTH, x0)], seconds, rounds)
    return ratio(both, score)


def _start(device: str, chains: int, dim: int) -> Any:
    return put(device, 0.1 * np.random.default_rng(0).standard_normal((chains, dim)))


def costs(
    problem: str, device: str, chains: int, names: list[str] | None = None, seconds: float = 0.05, rounds: int = 5
) -> dict[str, float]:
    """CPU seconds of the analytic ``"score"`` of all chains, of that by autodiff where a way takes it, and of hvps.

    Medians of differences of runs in turns.
    """
    make, dim = PROBLEMS[problem]
    x0 = _start(device, chains, dim)
    targets = ways(device, make())
    names = list(targets) if names is None else names
    # By autodiff the score costs more; what is left of the pair is the product's.
    autodiff = next((targets[name] for name in names if targets[name].score is None), None)
    runs = [(targets["analytic"], EMPTY), (targets["analytic"], SCORE)]
    runs += [(targets[name], BOTH) for name in names]
    if autodiff is not None:
        runs.append((autodiff, SCORE))
    spent = step_seconds([(target, kernel, x0) for target, kernel in runs], seconds, rounds) / CALLS
    empty, score, both, by_autodiff = spent[0], spent[1], spent[2 : 2 + len(names)], spent[-1]
    found = {"score": score - empty}
    if autodiff is not None:
        found["score by autodiff"] = by_autodiff - empty
    for name, time in zip(names, both, strict=True):
        found[name] = time - (score if targets[name].score is not None else by_autodiff)
    return {name: float(np.median(times)) for name, times in found.items()}


if __name__ == "__main__":
    chains = (1, 10, 100, 1000)
    print("| problem | device | way | " + " | ".join(f"{c:,}" for c in chains) + " |\n" + "| --- " * 7 + "|")
    for problem in PROBLEMS:
        for device in DEVICES[:3]:
            columns = [costs(problem, device, c) for c in chains]
            for way in columns[0]:
                cells = [
                    f"{1e6 * found[way]:,.1f} us" if way == "score" else f"{found[way] / found['score']:.1f}"
                    for found in columns
                ]
                print(f"| {problem} | {device} | {way} | " + " | ".join(cells) + " |", flush=True)
