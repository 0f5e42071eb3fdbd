"""Does a kernel leave a law invariant? Start from exact draws, take a few steps, test that they still are."""

import numpy as np

from xpsample.backend import to_host
from xpsample.conformance.laws import Invariance
from xpsample.conformance.scenario import Scenario
from xpsample.noise import Native
from xpsample.places import Place
from xpsample.sampling import Carry, Program


def invariance(scenario: Scenario, place: Place, chains: int = 100_000, steps: int = 4, seed: int = 0) -> Invariance:
    """Run a scenario's kernel from exact draws and test that they stay draws of its law.

    Parameters
    ----------
    scenario : Scenario
    place : Place
    chains : int
        Independent chains, each giving one final draw.
    steps : int
        Steps of each.
    seed : int
        Of the exact draws (on the host) and of the library's own noise.

    Returns
    -------
    Invariance
    """
    generator = np.random.default_rng(seed)
    if scenario.frozen is None:
        kernel, law = scenario.kernel(place.array), scenario.law
    else:
        kernel, law = scenario.frozen(place.array, generator, chains)
    x0 = place.array(law.draw(generator, chains))
    target = scenario.target(place.array).prepare(x0, kernel.requires)
    program = Program(kernel, target, (), 0, 1, steps)
    others = generator.standard_normal((chains, law.dim))
    state = scenario.dress(program.init(x0).state, others, place.array)
    carry, _, _ = place.backend.drive(program, Carry(state, ()), None, Native(seed), 0, steps)
    return law.compare(to_host(carry.state.point.x).astype(np.float64))
