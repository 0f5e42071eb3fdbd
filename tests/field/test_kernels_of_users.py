"""Kernels and wrappers that users write: what goes wrong in them is said, and not sampled."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import xpsample as xps
from tests.field.support import NORMAL
from xpsample.core.errors import FunctionError, HyperparameterError
from xpsample.kernels import ADJUSTED, Kernel, MemorylessKernel, instance, metropolis, normal_like, uniform_per_chain
from xpsample.targets import Capability


class CountingState(NamedTuple):
    base: Any
    n: Any

    @property
    def point(self):
        return self.base.point


class Counting(Kernel):
    """A wrapper whose kernel moves on its own target."""

    base: Kernel = instance(Kernel, "RWM(1.0)")
    traits = ADJUSTED
    requires = Capability.LOG_DENSITY | Capability.SCORE

    def init(self, target, x):
        return CountingState(self.base.init(target, x), target.xp.zeros_like(x[..., 0]))

    def noise(self, x):
        return self.base.noise(x)

    def step(self, target, state, noise):
        base, info = self.base.advance(target, state.base, noise)
        return CountingState(base, state.n + 1), info


@pytest.mark.parametrize("base", [xps.RWM(1.0), xps.MALA(0.4), xps.HMC(0.5, 3)])
def test_a_wrapper_on_the_same_target_changes_no_chain_of_a_ladder(base):
    """Swapped positions were taken with the densities of before: standard deviations of 1.9 to 3.3 for 1, unsaid."""
    around, plain = (
        xps.sample(NORMAL, xps.ParallelTempering(of, (1.0, 0.3)), np.zeros((4, 2)), 200, seed=1, progress=False)
        for of in (Counting(base), base)
    )
    np.testing.assert_array_equal(around.draws, plain.draws)


class InnerState(NamedTuple):
    inner: Any

    @property
    def point(self):
        return self.inner.point


class Unnamed(Counting):
    """Its state has no field `base`."""

    def init(self, target, x):
        return InnerState(self.base.init(target, x))

    def step(self, target, state, noise):
        inner, info = self.base.advance(target, state.inner, noise)
        return InnerState(inner), info


def test_a_state_that_cannot_be_moved_is_named():
    with pytest.raises(HyperparameterError, match="InnerState has no field point or base"):
        xps.sample(NORMAL, xps.ParallelTempering(Unnamed(xps.RWM(1.0)), (1.0, 0.3)), np.zeros((4, 2)), 10, seed=1)


class Walk(MemorylessKernel):
    """A walk whose step `scale` may be wrong, and whose ratio may be one for all chains."""

    scale: Any
    axis: Any = -1
    rooted: bool = False
    requires = Capability.LOG_DENSITY
    traits = ADJUSTED

    def noise(self, x):
        return {"proposal": normal_like(x), "accept": uniform_per_chain(x)}

    def step(self, target, state, noise):
        current = state.point
        scale = np.sqrt(self.scale) if self.rooted else self.scale
        proposal = target.evaluate(current.x + scale * noise["proposal"])
        log_ratio = np.sum((current.x**2 - proposal.x**2) / 2, axis=self.axis)
        point, info = metropolis(target, log_ratio, noise["accept"], proposal, current)
        return state._replace(point=point), info


def test_a_log_ratio_of_another_shape_is_refused():
    """One ratio for all chains gave standard deviations of 0.98 for 1, and passed conformance."""
    with pytest.raises(FunctionError, match=r"log ratio of a kernel must have the shape of the chains, \(4,\); got np"):
        xps.sample(NORMAL, Walk(1.0, None), np.zeros((4, 2)), 10, seed=1)


@pytest.mark.parametrize("possible", [lambda x: x.x > 0, lambda x: x.x[..., :1] > 0, lambda x: True])
def test_possible_moves_of_another_shape_are_refused(possible, library):
    """The density was blamed, and on NumPy one value was used for all chains."""
    target = xps.Target(lambda x: -0.5 * library.xp.sum(x**2, axis=-1))
    bound = target.prepare(library.array(np.zeros((4, 2))), Capability.LOG_DENSITY)
    point = bound.evaluate(library.array(np.ones((4, 2))))
    ratio = library.array(np.zeros(4))
    with pytest.raises(FunctionError, match=r"the possible= of a kernel must have the shape of the chains, \(4,\)"):
        metropolis(bound, ratio, ratio, point, point, possible=possible(point))


def test_a_step_that_changes_the_dtype_is_refused():
    x0 = np.zeros((4, 2), dtype=np.float32)
    assert xps.sample(NORMAL, Walk(0.5), x0, 10, seed=1, progress=False).draws.dtype == np.float32
    with pytest.raises(FunctionError, match="a step of the kernel changed the positions from float32 to float64"):
        xps.sample(NORMAL, Walk(0.5, rooted=True), x0, 10, seed=1)
