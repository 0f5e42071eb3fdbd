"""Are the steps of a repellent kernel right? Each is made again from the equations, without the code of SRMC and SRLD.

For SRMC, a step under the history theta_n must be the base kernel's step on log pi(x) - alpha theta_n . s(x)
(Eqs. 2, 5), which is written here as a plain target. theta_{n+1} must follow from theta_n and the score of pi (Eq. 1).
The check finds a history that is updated before the transition, a tilt of the wrong sign, and a history of tilted
scores.

For SRLD, a step must be the base kernel's on the score s(x) + alpha mean_j [K(a_j, x) s(a_j) + grad_{a_j} K(a_j, x)]
(Eq. 3), with the a_j from a list of all past positions. The check finds a force of the wrong sign, a past that is off
by a step or begins too early, and scores of other positions.
"""

from typing import Any

import numpy as np

from xpsample.conformance.scenario import Scenario
from xpsample.core.arrays import Array
from xpsample.core.devices import DeviceDtype
from xpsample.core.registry import to_host
from xpsample.kernels import Kernel, with_position
from xpsample.sampling.noise import Portable
from xpsample.spaces import Discrete
from xpsample.srld import SRLD, Thinned
from xpsample.targets import AbstractTarget, BoundTarget, Capability, Ratio, Target, Tilt, Untilted


def repellence(scenario: Scenario, device: DeviceDtype, x0: Array, steps: int = 20) -> float:
    """The largest deviation of a wrapper's positions and history from steps made by the equations.

    Each step starts where the wrapper is, at first at x0, (chains, dim), so deviations do not add up.
    """
    assert scenario.base is not None
    kernel, base, tilt = scenario.kernel(device.array), scenario.base(device.array), scenario.tilt
    target = scenario.target(device.array)
    bound, plain = target.prepare(x0, kernel.requires), _plain(target, x0, base)
    state = kernel.init(bound, x0)
    tilted = _tilted(plain, tilt, {"theta": state.theta, "alpha": state.alpha}).prepare(x0, base.requires)
    noise = Portable(4).block(device.backend, kernel.noise(x0), 0, steps, x0)
    largest = 0.0
    for i in range(steps):
        z = {name: rows[i, ...] for name, rows in noise.items()}
        here, x = tilted.with_data({"theta": state.theta, "alpha": state.alpha}), state.point.x
        with np.errstate(all="ignore"):
            new, _ = kernel.advance(bound, state, z)
            moved, _ = base.advance(here, with_position(state.base, here.evaluate(x)), z)
            x = moved.point.x
            theta = state.theta + new.gamma[..., None] * (_feature(plain, x, tilt) - state.theta)
        for ours, theirs in ((x, new.point.x), (theta, new.theta)):
            deviation = np.abs(to_host(ours) - to_host(theirs)).max()
            largest = max(largest, float(deviation)) if np.isfinite(deviation) else np.inf
        state = new
    return largest


def _tilted(plain: BoundTarget, tilt: Tilt, data: dict[str, Array]) -> Target:
    """log pi(x) - alpha theta . s(x) as a target whose data are theta and alpha.

    Its proposals are the plain target's if the tilt leaves them so. All steps share it: a new target would be compiled
    at every step.
    """

    def log_density(x: Array, d: dict[str, Array]) -> Array:
        return plain.evaluate(x).log_density - d["alpha"] * plain.xp.sum(d["theta"] * _feature(plain, x, tilt), axis=-1)

    def score(x: Array, d: dict[str, Array]) -> Array:
        return plain.score(x) - d["alpha"][..., None] * plain.hvp(x, d["theta"])

    if isinstance(tilt, (Untilted, Ratio)):
        proposals: dict[str, Any] = {
            "score": lambda x, d: plain.score(x),
            "differences": lambda x, d: plain.evaluate(x).differences,
        }
    else:
        proposals = {"score": score}  # and differences of the tilted density
    return Target(log_density, **proposals, data=data, space=plain.space)


def _plain(target: AbstractTarget, x: Array, base: Kernel) -> BoundTarget:
    """The untilted target, with all that a tilt needs under this base kernel."""
    hvp = Capability.HVP if Capability.SCORE in base.requires else Capability.NONE
    moves = base.requires & (Capability.DISCRETE | Capability.DIFFERENCES)
    return target.prepare(x, Capability.LOG_DENSITY | Capability.SCORE | hvp | moves)


def _feature(plain: BoundTarget, x: Array, tilt: Tilt) -> Array:
    """The score that the tilt is made of: the gradient, or Eq. 17 with one variable mirrored at a time."""
    if not isinstance(tilt, Ratio):
        return plain.score(x)
    xp, space = plain.xp, plain.space
    assert isinstance(space, Discrete)
    here, mirrored, columns = plain.evaluate(x).log_density, space.mirror(xp, x), []
    for i in range(x.shape[-1]):
        y = space.move(xp, x, xp.where(space.numbers(x.shape[-1]) == i, mirrored, 0))
        columns.append(xp.expm1(plain.evaluate(y).log_density - here))
    return xp.stack(columns, axis=-1)


def self_repulsion(scenario: Scenario, device: DeviceDtype, x0: Array, steps: int = 20) -> float:
    """The largest deviation of the positions of `SRLD` with an `RBF` from steps made by the equations.

    The bandwidth must be a number and the history unpadded. Each step starts where the kernel is, at first at x0,
    (chains, dim), so deviations do not add up.
    """
    assert scenario.base is not None
    kernel, base = scenario.kernel(device.array), scenario.base(device.array)
    assert isinstance(kernel, SRLD)
    target = scenario.target(device.array)
    bound = target.prepare(x0, kernel.requires)
    plain = target.prepare(x0, Capability.LOG_DENSITY | Capability.SCORE)
    state = kernel.init(bound, x0)
    noise = Portable(4).block(device.backend, kernel.noise(x0), 0, steps, x0)

    # One target for all steps, with the past as its data: a new target would be compiled at every step.
    repelled = Target(
        lambda x, past: plain.evaluate(x).log_density,
        score=lambda x, past: plain.score(x) + _alpha_force(plain, kernel, x, past),
        data=(),
    ).prepare(x0, base.requires)
    visited: list[Array] = []
    largest = 0.0
    for i in range(steps):
        here = repelled.with_data(tuple(_repelling(kernel, visited)))
        z = {name: rows[i, ...] for name, rows in noise.items()}
        expected, _ = base.advance(here, with_position(state.base, here.evaluate(state.point.x)), z)
        visited.append(state.point.x)
        state, _ = kernel.advance(bound, state, z)
        deviation = np.abs(to_host(expected.point.x) - to_host(state.point.x)).max()
        largest = max(largest, float(deviation)) if np.isfinite(deviation) else np.inf
    return largest


def _repelling(kernel: SRLD, visited: list[Array]) -> list[Array]:
    """The past of theta_k, with `visited` = theta_0, ..., theta_{k-1}; empty before k = M c."""
    size, every, k = kernel.history.size, kernel.history.every, len(visited)
    if k < size * every:
        return []
    if isinstance(kernel.history, Thinned):
        return visited[::every][-size:]
    return [visited[k - j * every] for j in range(1, size + 1)]


def _alpha_force(plain: BoundTarget, kernel: SRLD, x: Array, past: tuple[Array, ...]) -> Array:
    """alpha g(x), where every chain has its own past or, if `shared`, the past of all chains."""
    xp, total = plain.xp, plain.xp.zeros_like(x)
    sigma: Any = kernel.kernel.bandwidth  # a number in these scenarios
    turns = range(x.shape[0]) if kernel.shared else range(1)
    for a in past:
        s = plain.score(a)
        for turn in turns:
            other, at = xp.roll(a, turn, axis=0), xp.roll(s, turn, axis=0)
            near = xp.exp(-xp.sum((other - x) ** 2, axis=-1, keepdims=True) / sigma)
            total = total + near * at - (2.0 / sigma) * (other - x) * near
    return kernel.alpha * total / max(1, len(past) * len(turns))
