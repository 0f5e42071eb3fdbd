"""Are the steps of a self-repulsive kernel right? Each is made again from Eq. 3, with a list of all past positions.

A step must be the base kernel's on the score s(x) + alpha mean_j [K(a_j, x) s(a_j) + grad_{a_j} K(a_j, x)], with the
a_j from that list. The check finds a force of the wrong sign, a past that is off by a step or begins too early, and
scores of other positions.
"""

from typing import Any

import numpy as np

from xpsample.conformance.scenario import Scenario
from xpsample.core.arrays import Array
from xpsample.core.devices import DeviceDtype
from xpsample.core.registry import to_host
from xpsample.kernels import with_position
from xpsample.kernels.kernel import advance
from xpsample.sampling.noise import Portable
from xpsample.srld import SRLD, Thinned
from xpsample.targets import BoundTarget, Capability, Target


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
        expected, _ = advance(base, here, with_position(state.base, here.evaluate(state.point.x)), z)
        visited.append(state.point.x)
        state, _ = advance(kernel, bound, state, z)
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
    """alpha g(x), where every chain has its own past or, if `shared`, that of all chains."""
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
