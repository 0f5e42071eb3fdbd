"""Families whose members are known, and optimisers that move the parameters along a given path."""

from dataclasses import dataclass

import numpy as np
from array_api_compat import array_namespace

from xpsample import Portable
from xpsample.core.registry import backend_named
from xpsample.sosmc import LangevinMove
from xpsample.targets import Parametric


def shifted(runs=(), dim=2):
    """N(theta, I): U = |x - theta|^2 / 2."""
    start = np.zeros((*runs, *(1,) * bool(runs), dim))

    def log_density(x, theta):
        return -0.5 * array_namespace(x).sum((x - theta) ** 2, axis=-1)

    return Parametric(log_density, start, score=lambda x, theta: theta - x)


def scaled(runs=()):
    """N(0, exp(-theta)) in one dimension, not normalised: log Z = (log 2 pi - theta) / 2."""
    start = np.zeros((*runs, *(1,) * bool(runs), 1))

    def log_density(x, theta):
        xp = array_namespace(x)
        return -0.5 * xp.sum(xp.exp(theta) * x * x, axis=-1)

    return Parametric(log_density, start, score=lambda x, theta: -array_namespace(x).exp(theta) * x)


@dataclass(frozen=True, eq=False)
class Swapped(LangevinMove):
    """Forward and backward kernels of the weight swapped."""

    def step(self, before, after, state, noise):
        new, increments, info = super().step(before, after, state, noise)
        plain = new.point.log_density - state.point.log_density
        return new, 2 * plain - increments, info


@dataclass(frozen=True)
class Along:
    """Adds the same to every parameter at every iteration, whatever the gradient."""

    velocity: float

    def init(self, parameters):
        return None

    def update(self, gradients, state, parameters):
        return 0 * parameters + self.velocity, state


def nothing(x, theta):
    """An H that is not looked at."""
    return 0.0 * x[..., :1] + 0.0 * theta


def noise_of(kernel, x, steps, seed=1):
    """Host noise of some steps for particles x."""
    return Portable(seed).block(backend_named("numpy"), kernel.noise(x), 0, steps, np.asarray(x))


def walk(library, kernel, target, x, noise):
    """The states after every step, and the bound target."""
    x = library.array(x)
    bound = target.prepare(x, kernel.requires)
    states = [kernel.init(bound, x)]
    for t in range(len(next(iter(noise.values())))):
        one = {name: library.array(rows[t]) for name, rows in noise.items()}
        states.append(kernel.step(bound, states[-1], one)[0])
    return states, bound
