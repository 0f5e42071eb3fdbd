"""Data that are part of a compiled program, and chunks of noise: never those of another run."""

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.ending import Ending
from xpsample.core.schedule import Schedule
from xpsample.sampling.noise import Native
from xpsample.sampling.program import Program

jax = pytest.importorskip("jax")

from xpsample_jax import backend as driver  # noqa: E402

pytestmark = pytest.mark.first_tier

ROWS = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
KERNEL = xps.MALA(0.1)


def log_density(x, rows):
    return -0.5 * ((x @ rows.T) ** 2).sum(-1)


def score(x, rows):
    return -(x @ rows.T) @ rows


def bind(rows, chains=1):
    x = jax.numpy.ones((chains, 3), dtype=np.float32)
    return xps.Target(log_density, score=score, data=rows).prepare(x, KERNEL.requires), x


def walk(bound, x, constant=None, steps=20):
    """The draws; `constant` tells whether the data are a part of the program."""
    program = Program(KERNEL, bound, (xps.Draws(),), Schedule(steps))
    carry = program.init(x)
    _, rows, *_ = bound.backend.drive(program, carry, None, Native(5), 0, steps, Ending())
    if constant is not None:
        assert [key[-1] for key in program.compiled] == [constant]
    return np.asarray(rows[0])


@pytest.mark.parametrize("chains", [1, driver.FEW])
@pytest.mark.first_cases(1)
def test_few_chains_have_their_data_in_the_program_and_other_data_are_not_mixed_up(chains):
    bound, x = bind(ROWS, chains)
    first = walk(bound, x, x.device.platform == "cpu")
    for factor in (3.0, 0.5):
        other = walk(bound.with_data(bound.data * np.float32(factor)), x, False)
        expected = walk(*bind(ROWS * np.float32(factor), chains))
        # Float32 and 20 steps of a chain that contracts: rounding stays below 1e-4, other data change the first digit.
        np.testing.assert_allclose(other, expected, rtol=0, atol=1e-4)
        assert np.abs(other - first).max() > 0.1
    assert np.array_equal(walk(bound, x), first)


def test_more_chains_and_large_data_are_arguments(monkeypatch):
    several, x = bind(ROWS, chains=driver.FEW + 1)
    walk(several, x, False)
    monkeypatch.setattr(driver, "CONSTANT", ROWS.nbytes - 1)
    large, x = bind(ROWS)
    walk(large, x, False)


@pytest.mark.parametrize("source", [Native(5), xps.Portable(5)], ids=["native", "portable"])
def test_a_block_that_reaches_into_a_second_chunk_of_noise_has_that_chunk_too(source):
    # 100,000 chains: a chunk is one step. Where its numbers were used again the chains of these blocks would differ.
    chains, steps = 100_000, 3
    bound, x = bind(ROWS, chains)
    program = Program(KERNEL, bound, (), Schedule(steps))
    at_once, one_by_one = program.init(x), program.init(x)
    at_once, *_ = bound.backend.drive(program, at_once, None, source, 0, steps, Ending())
    for t in range(steps):
        one_by_one, *_ = bound.backend.drive(program, one_by_one, None, source, t, t + 1, Ending())
    np.testing.assert_allclose(at_once.state.point.x, one_by_one.state.point.x, rtol=0, atol=1e-4)
