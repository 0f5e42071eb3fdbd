"""Data that are part of a compiled program, and noise drawn ahead of it: never those of another run."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xpsample as xps
from xpsample.noise import Native, Normal, Uniform
from xpsample.sampling import Program

jax = pytest.importorskip("jax")

from xpsample_jax import backend as driver  # noqa: E402
from xpsample_jax import noise  # noqa: E402

ROWS = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
KERNEL = xps.MALA(0.1)


def log_density(x, rows):
    return -0.5 * ((x @ rows.T) ** 2).sum(-1)


def score(x, rows):
    return -(x @ rows.T) @ rows


def bind(rows, chains=1):
    x = jax.numpy.ones((chains, 3), dtype=np.float32)
    return xps.Target(log_density, score=score, data=rows).prepare(x, KERNEL.requires), x


def walk(bound, x, steps=20):
    program = Program(KERNEL, bound, (xps.Draws(),), 0, 1, steps)
    carry = program.init(x)
    _, rows, _ = bound.backend.drive(program, carry, None, Native(5), 0, steps)
    return np.asarray(rows[0])


def constants(bound):
    return [key[-1] for key in bound.compiled]


@pytest.mark.parametrize("chains", [1, driver.FEW])
def test_few_chains_have_their_data_in_the_program_and_other_data_are_not_mixed_up(chains):
    bound, x = bind(ROWS, chains)
    first = walk(bound, x)
    assert constants(bound) == [x.device.platform == "cpu"]
    for factor in (3.0, 0.5):
        other = walk(bound.with_data(bound.data * np.float32(factor)), x)
        expected = walk(*bind(ROWS * np.float32(factor), chains))
        # Float32 and 20 steps of a chain that contracts: rounding stays below 1e-4, other data change the first digit.
        np.testing.assert_allclose(other, expected, rtol=0, atol=1e-4)
        assert np.abs(other - first).max() > 0.1
    assert constants(bound)[1:] == [False]  # one program for all data that come later
    assert np.array_equal(walk(bound, x), first)


def test_more_chains_and_large_data_are_arguments(monkeypatch):
    several, x = bind(ROWS, chains=driver.FEW + 1)
    walk(several, x)
    assert constants(several) == [False]
    monkeypatch.setattr(driver, "CONSTANT", ROWS.nbytes - 1)
    large, x = bind(ROWS)
    walk(large, x)
    assert constants(large) == [False]


@pytest.mark.parametrize("spec", [Normal((3, 2)), Uniform((3, 2)), Normal(())], ids=str)
def test_noise_drawn_ahead_is_that_of_a_key_for_each_step(spec):
    like = jax.numpy.zeros(2, dtype=np.float32)
    key = jax.random.wrap_key_data(noise.Keys.of(4, {"name": spec}, like).keys["name"])
    expected = [np.asarray(noise.draw_step(key, spec, like.dtype, t)) for t in range(6, 11)]
    drawn = driver.BACKEND.noise(4, {"name": spec}, 6, 11, like)["name"]
    assert drawn.shape == (5, *spec.shape)
    assert np.array_equal(drawn, np.stack(expected))


@settings(deadline=None, max_examples=40)  # JAX compiles in some
@given(
    st.sampled_from([16, 64, 100]).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1), st.integers(1, n))),
    st.integers(0, 3),
)
def test_the_rows_that_a_block_needs_are_drawn_and_no_others(span, segment):
    length, one, other = span
    first, stop = sorted((one, other)) if one != other else (one, one + 1)
    like, specs, origin = jax.numpy.zeros(2, dtype=np.float32), {"name": Normal((2,))}, segment * length
    rows = np.asarray(noise.draw_rows(4, specs, origin, length, like, origin + first, origin + stop)["name"])
    key, steps = jax.random.wrap_key_data(noise.Keys.of(4, specs, like).keys["name"]), origin + jax.numpy.arange(length)
    expected = jax.vmap(lambda t: noise.draw_step(key, specs["name"], like.dtype, t))(steps)
    assert np.array_equal(rows[first:stop], expected[first:stop])
    part = length // noise.PARTS
    drawn = np.flatnonzero(rows.any(axis=1))
    assert first - part < drawn[0] and drawn[-1] < stop + part


@pytest.mark.parametrize(
    ("shape", "groups"),
    [((6, 4), 6), ((14,), 7), ((9, 2), 9), ((25,), 1), ((5, 3, 4), 1), ((4,), 1), ((1, 100), 1), ((), 1)],
    ids=str,
)
@pytest.mark.parametrize("kind", [Normal, Uniform])
def test_large_noise_is_drawn_in_groups_the_same_in_every_layout(kind, shape, groups, monkeypatch):
    monkeypatch.setattr(noise, "GROUP", 4)
    key, dtype, spec = jax.random.key(3), np.dtype(np.float32), kind(shape)
    assert noise._groups(shape) == groups
    whole = np.asarray(noise.draw_step(key, spec, dtype, 5))
    assert whole.shape == shape
    assert np.unique(whole).size == whole.size  # no group has the numbers of another
    for flat in (True, False):
        for each in (jax.vmap, noise._in_turn):
            np.testing.assert_array_equal(noise.draw_step(key, spec, dtype, 5, flat, each), whole)
    np.testing.assert_array_equal(noise._row(key, spec, dtype, 5), whole.reshape(-1))


def test_noise_in_groups_is_independent_and_normal():
    # Within 6 standard errors, the moments and the correlations of 64 groups: by chance outside with probability 5e-6.
    spec = Normal((2**16, 2**7))
    assert noise._groups(spec.shape) == 64
    keys = noise.Keys.of(1, {"name": spec}, jax.numpy.zeros(1, dtype=np.float32))
    x = np.asarray(jax.jit(lambda t: keys.draw({"name": spec}, t))(7)["name"]).astype(np.float64).reshape(64, -1)
    assert abs(x.mean()) < 6 / x.size**0.5
    assert abs((x**2).mean() - 1) < 6 * (2 / x.size) ** 0.5
    products = x @ x.T / x.shape[1]
    assert np.abs(products - np.diag(np.diag(products))).max() < 6 / x.shape[1] ** 0.5


@pytest.mark.parametrize("source", [Native(5), xps.Portable(5)], ids=["native", "portable"])
def test_a_block_that_reaches_into_a_second_chunk_of_noise_has_that_chunk_too(source):
    # 100,000 chains: a chunk is one step. Where its numbers were used again the chains of these blocks would differ.
    chains, steps = 100_000, 3
    bound, x = bind(ROWS, chains)
    program = Program(KERNEL, bound, (), 0, 1, steps)
    at_once, one_by_one = program.init(x), program.init(x)
    at_once, _, _ = bound.backend.drive(program, at_once, None, source, 0, steps)
    for t in range(steps):
        one_by_one, _, _ = bound.backend.drive(program, one_by_one, None, source, t, t + 1)
    np.testing.assert_allclose(at_once.state.point.x, one_by_one.state.point.x, rtol=0, atol=1e-4)
