"""Does a kernel leave a distribution invariant? Start from exact draws, make a few steps, test the draws again."""

import numpy as np

from xpsample.conformance.distributions import Invariance
from xpsample.conformance.scenario import Scenario
from xpsample.core.backend import Schedule, StopFlag
from xpsample.core.devices import DeviceDtype
from xpsample.core.registry import to_host
from xpsample.sampling.noise import Native
from xpsample.sampling.program import Carry, Program


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
    program = Program(kernel, target, (), Schedule(steps))
    others = generator.standard_normal((chains, stationary.dim))
    state = scenario.with_exact_state(program.init(x0).state, others, device.array)
    carry, *_ = device.backend.drive(program, Carry(state, ()), None, Native(seed), 0, steps, StopFlag())
    x = np.reshape(to_host(carry.state.point.x), (chains, stationary.dim))
    return stationary.compare(x.astype(np.float64))
