"""JAX's native noise: the generator, and that a step's numbers are the same wherever they are drawn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.conftest import x64
from xpsample.core.specs import Normal, Uniform

jax = pytest.importorskip("jax")

from jax.extend.random import threefry2x32_p  # noqa: E402
from xpsample_jax import backend as driver  # noqa: E402
from xpsample_jax import noise  # noqa: E402

pytestmark = pytest.mark.first_tier

THREEFRY = jax.jit(noise.threefry)


@pytest.fixture(params=["float32", "float64"])
def like(request):
    with x64("jax", request.param):
        yield jax.numpy.zeros(2, dtype=request.param)


words = st.integers(0, 2**32 - 1)


@pytest.mark.slow
@settings(deadline=None)  # JAX compiles in the first
@given(st.tuples(words, words), st.lists(st.tuples(words, words), min_size=16, max_size=16))
def test_threefry_is_that_of_jax(key, counters):
    high, low = (np.array(column, dtype=np.uint32) for column in zip(*counters, strict=True))
    ours = THREEFRY(np.array(key, dtype=np.uint32), high, low)
    theirs = threefry2x32_p.bind(*(np.full(len(counters), k, dtype=np.uint32) for k in key), high, low)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_threefry_known_answers():
    # Of 20 rounds: Random123 (Salmon et al. 2011), tests/kat_vectors.
    ones, pi = 0xFFFFFFFF, (0x13198A2E, 0x03707344)
    for key, counter, expected in [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((ones, ones), (ones, ones), (0x1CB996FC, 0xBB002BE7)),
        (pi, (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ]:
        drawn = noise.threefry(*(jax.numpy.asarray(word, dtype=np.uint32) for word in (key, *counter)))
        assert tuple(map(int, drawn)) == expected


@pytest.mark.parametrize("word", [0, 1, 2**31, 2**32 - 1])
def test_uniforms_have_neither_end_and_normals_are_finite_and_symmetric(word, like):
    wide = like.dtype == np.float64
    bits, opposite = np.array([word], dtype=np.uint32), np.array([2**32 - 1 - word], dtype=np.uint32)
    u, v = (np.asarray(noise._uniform(jax.numpy.asarray(b), jax.numpy.asarray(b), wide)) for b in (bits, opposite))
    assert 0 < u < 1
    assert u == 1 - v
    z, minus = (float(jax.lax.erf_inv(2 * jax.numpy.asarray(x) - 1)[0]) for x in (u, v))
    assert np.isfinite(z)
    assert z == -minus


SPECS = [Normal((3, 2)), Uniform((3, 2)), Normal(()), Uniform((5,)), Normal((2, 1, 3)), Normal((0, 2))]


@pytest.mark.sampled(4)
@pytest.mark.first_cases(4)
@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_noise_drawn_ahead_is_that_drawn_in_its_place(spec, spread, like, monkeypatch):
    monkeypatch.setattr(noise, "GROUP", 2)
    keys = noise.Keys.of(4, {"name": spec}, like, 0)
    keys.spread = spread
    expected = jax.jit(jax.vmap(lambda t: keys.draw({"name": spec}, t)["name"]))(np.arange(6, 11))
    drawn = driver.BACKEND.noise(4, {"name": spec}, 6, 11, like)["name"]
    assert drawn.shape == (5, *spec.shape)
    assert drawn.dtype == like.dtype
    # To rounding: erf_inv may be compiled in two ways.
    few = 64 * np.finfo(like.dtype).eps
    np.testing.assert_allclose(drawn, expected, rtol=few, atol=few)
    assert np.unique(drawn).size == drawn.size  # no step and no place has the number of another


@pytest.mark.slow
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
    rows = rows.reshape(length, 2)
    expected = driver.BACKEND.noise(4, specs, origin, origin + length, like)["name"]
    np.testing.assert_allclose(rows[first:stop], expected[first:stop], rtol=1e-5, atol=1e-6)
    part = length // noise.PARTS
    drawn = np.flatnonzero(rows.any(axis=1))
    assert first - part < drawn[0] and drawn[-1] < stop + part


@pytest.mark.slow
@pytest.mark.first_cases(1)
@pytest.mark.parametrize("ahead", [True, False])
def test_noise_is_normal_and_independent_over_steps_places_and_streams(ahead, like):
    # Moments of 2^22 numbers, and correlations of 64 rows with each other, of neighboring steps, places and streams:
    # within 6 standard errors, by chance outside with probability 4e-6 for some 2,100 correlations.
    # Kolmogorov-Smirnov at 1e-6.
    specs = {"one": Normal((2**10, 2**6)), "two": Normal((2**10, 2**6))}
    if ahead:
        drawn = noise.draw_rows(1, specs, 0, 64, like, 0, 64)
    else:
        drawn = jax.jit(jax.vmap(lambda t: noise.Keys.of(1, specs, like, 0).draw(specs, t)))(np.arange(64))
    x, y = (np.asarray(drawn[name]).astype(np.float64).reshape(64, -1) for name in ("one", "two"))
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((x**power).mean() - mean) < 6 * (variance / x.size) ** 0.5
    assert stats.kstest(x[:, ::64].ravel(), "norm").pvalue > 1e-6
    correlations = x @ x.T / x.shape[1]
    assert np.abs(correlations - np.diag(np.diag(correlations))).max() < 6 / x.shape[1] ** 0.5
    for other in (y, np.roll(x, 1, axis=1), np.roll(x, 2**6, axis=1), np.roll(x, 2**9, axis=1)):
        assert abs((x * other).mean()) < 6 / x.size**0.5


@pytest.mark.parametrize("kind", [Normal, Uniform])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_noise_of_narrow_dtypes(kind, dtype):
    like, specs = jax.numpy.zeros(1, dtype=dtype), {"name": kind((2**16,))}
    drawn = driver.BACKEND.noise(2, specs, 0, 1, like)["name"]
    assert drawn.dtype == like.dtype
    x = np.asarray(drawn).astype(np.float64)
    if kind is Uniform:
        assert x.min() > 0 and x.max() < 1
        x = (x - 0.5) * 12**0.5
    assert abs(x.mean()) < 6 / 2**8  # an error probability of 2e-9
    assert abs((x**2).mean() - 1) < 6 * 2**0.5 / 2**8
