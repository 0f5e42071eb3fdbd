"""Noise: pure functions of (seed, name, step), the same on every library where they say so, and what they say."""

from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp
from hypothesis import HealthCheck, given, settings
from scipy import stats

from xpsample import Portable, Replay
from xpsample.core.errors import NoiseError
from xpsample.core.registry import backend_named
from xpsample.core.specs import Normal, Uniform
from xpsample.sampling.noise import (
    Native,
    as_noise_source,
    chunk_steps,
    cut,
    draw_chunks,
    open_interval,
    segment_steps,
    segments,
)

SPECS = {"proposal": Normal((3, 2)), "accept": Uniform((3,))}
SOURCES = [Native, Portable]

# Hypothesis keeps a function-scoped fixture over its examples; a library is a value, so that is right.
properties = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def block(library, source, start, stop, specs=SPECS):
    like = library.array(np.zeros((3, 2)))
    return {name: library.host(a) for name, a in source.block(library.backend, specs, start, stop, like).items()}


def assert_same(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name])


# ---- purity ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", SOURCES)
def test_a_block_is_the_concatenation_of_its_parts(library, source):
    @properties
    @given(
        st.lists(st.sampled_from(range(1008, 1041, 4)), min_size=3, max_size=4, unique=True).map(sorted),
        st.integers(0, 2**70),
    )
    def check(cuts, seed):
        # The cuts lie on both sides of step 1024, where a new chunk of the generator begins.
        whole = block(library, source(seed), cuts[0], cuts[-1])
        parts = [block(library, source(seed), a, b) for a, b in pairwise(cuts)]
        assert_same(whole, {name: np.concatenate([part[name] for part in parts]) for name in whole})

    check()


@pytest.mark.parametrize("source", SOURCES)
def test_a_chunk_begins_with_the_same_numbers_however_many_are_drawn(typed_library, source):
    specs = {"one": Normal(()), "odd": Normal((3, 5)), "accept": Uniform((3,))}
    whole = block(typed_library, source(3), 0, chunk_steps(specs), specs)
    for stop in (1, 7, 17, 100):
        part = block(typed_library, source(3), 0, stop, specs)
        assert_same(part, {name: array[:stop] for name, array in whole.items()})


@pytest.mark.parametrize(
    ("start", "stop", "asked", "chunks"),
    [
        (1000, 1030, {}, [(0, 1024), (1, 1024)]),
        (1000, 1030, {"multiple": 1}, [(0, 1024), (1, 6)]),
        (1000, 1030, {"multiple": 16}, [(0, 1024), (1, 16)]),
        (2060, 2070, {"multiple": 1}, [(2, 22)]),
    ],
)
def test_of_the_last_chunk_no_more_is_drawn_than_is_needed(start, stop, asked, chunks):
    drawn = []

    def draw(name, spec, chunk, steps):
        drawn.append((chunk, steps))
        return 1024 * chunk + np.arange(steps)

    (steps,) = draw_chunks(draw, {"a": Normal(())}, start, stop, numpy_xp, **asked).values()
    np.testing.assert_array_equal(steps, np.arange(start, stop))
    assert drawn == chunks


def test_cuts_are_at_multiples():
    assert list(cut(3, 10, 4)) == [(3, 4), (4, 8), (8, 10)]
    assert list(cut(4, 8, 4)) == [(4, 8)] and list(cut(5, 5, 4)) == []
    assert all(type(step) is int for pair in cut(3, 10, 4) for step in pair)


@pytest.mark.parametrize(
    ("size", "chunk", "segment"), [(1, 1024, 4096), (2**10, 256, 256), (2**18, 1, 16), (2**19, 1, 16)]
)
def test_chunks_are_as_long_as_they_may_be(size, chunk, segment):
    """Other lengths would give other chains from the same seed."""
    specs = {"a": Normal((size,))}
    assert (chunk_steps(specs), segment_steps(specs)) == (chunk, segment)
    if chunk in (1, 256):
        assert chunk_steps({"a": Normal((size,)), "b": Normal(())}) == max(1, chunk // 2)
    assert chunk_steps(SPECS) == 1024  # which the cuts above straddle


@pytest.mark.parametrize("source", SOURCES)
def test_streams_of_two_seeds_names_or_steps_share_no_number(library, source):
    specs = {"a": Normal((5,)), "b": Normal((5,))}
    first, second = block(library, source(1), 0, 1100, specs), block(library, source(2), 0, 1100, specs)
    drawn = np.concatenate([array.ravel() for array in (*first.values(), *second.values())])
    assert np.unique(drawn).size == drawn.size == 4 * 1100 * 5


@pytest.mark.parametrize("source", SOURCES)
def test_a_stream_does_not_depend_on_the_others(library, source):
    alone = block(library, source(1), 0, 4, {"accept": SPECS["accept"]})
    np.testing.assert_array_equal(alone["accept"], block(library, source(1), 0, 4)["accept"])


@pytest.mark.parametrize("source", SOURCES)
def test_noise_has_the_dtype_and_device_of_the_positions(typed_library, source):
    like = typed_library.array(np.zeros((3, 2)))
    for name, array in source(1).block(typed_library.backend, SPECS, 0, 4, like).items():
        assert array.dtype == like.dtype
        assert typed_library.xp.zeros((), device=typed_library.device).device == array.device
        assert tuple(array.shape) == (4, *SPECS[name].shape)


@given(st.lists(st.integers(0, 10_000), max_size=3))
def test_chunks_are_powers_of_two_and_bounded(sizes):
    steps = chunk_steps({str(i): Normal((size,)) for i, size in enumerate(sizes)})
    assert 1 <= steps <= 1024 and steps & (steps - 1) == 0
    assert steps == 1 or steps * sum(sizes) <= 2**18


@given(st.integers(1, 2**20), st.integers(0, 20_000), st.integers(1, 5_000))
def test_what_is_driven_at_once_gets_longer_and_never_straddles_a_segment(size, start, steps):
    specs = {"name": Normal((size,))}
    first, most = max(16, chunk_steps(specs)), segment_steps(specs)
    parts = list(segments(specs, start, start + steps))
    assert [lo for lo, _ in parts] + [start + steps] == [start] + [hi for _, hi in parts]
    for lo, hi in parts:
        assert 0 < hi - lo <= max(first, min(most, 2 * lo))
        assert hi == start + steps or hi % first == 0
        assert lo // most == (hi - 1) // most
    middle = len(parts) // 2
    assert list(segments(specs, parts[middle][0], start + steps)) == parts[middle:]  # as a resumed run has them
    assert len(parts) <= 12 + steps // most


# ---- portable --------------------------------------------------------------------------------------------------------


def test_portable_numbers_are_the_same_on_every_library(library):
    with np.errstate(all="raise"):
        assert_same(block(library, Portable(5), 1020, 1030), reference(Portable(5), 1020, 1030))


def test_portable_float32_is_the_rounded_float64(library32):
    exact = reference(Portable(5), 0, 50)
    single = block(library32, Portable(5), 0, 50)
    for name in exact:
        assert single[name].dtype == np.float32
        np.testing.assert_array_equal(single[name], exact[name].astype(np.float32))


def reference(source, start, stop):
    return source.block(backend_named("numpy"), SPECS, start, stop, np.zeros((3, 2)))


# ---- distributions ---------------------------------------------------------------------------------------------------

KOLMOGOROV = 1e-6
"""Error probability of each test of a distribution below: ten libraries and dtypes, two sources, fixed seeds."""


@pytest.mark.parametrize("source", SOURCES)
def test_normals_are_standard_normal_and_uniforms_uniform(typed_library, source):
    z = block(typed_library, source(11), 0, 1, {"z": Normal((100_000,))})["z"].ravel().astype(np.float64)
    assert stats.kstest(z, "norm").pvalue > KOLMOGOROV
    # Standard errors of the first four moments of n normals; 5 of them are exceeded with probability 6e-7.
    for power, (moment, variance) in {1: (0, 1), 2: (1, 2), 3: (0, 15), 4: (3, 96)}.items():
        assert abs(np.mean(z**power) - moment) < 5 * np.sqrt(variance / z.size)
    u = block(typed_library, source(11), 0, 1, {"u": Uniform((100_000,))})["u"].ravel().astype(np.float64)
    assert stats.kstest(u, "uniform").pvalue > KOLMOGOROV


@pytest.mark.parametrize("source", SOURCES)
def test_chains_and_steps_are_uncorrelated(library, source):
    z = block(library, source(3), 0, 2000, {"z": Normal((20,))})["z"]
    within = np.mean(z[1:] * z[:-1], axis=0) * np.sqrt(1999)
    between = np.mean(z[:, 1:] * z[:, :-1], axis=0) * np.sqrt(2000)
    # 39 numbers that are nearly standard normal: one above 5.5 has probability 1.5e-6.
    assert np.max(np.abs(np.concatenate([within, between]))) < 5.5


@pytest.mark.parametrize("source", SOURCES)
def test_uniforms_lie_strictly_inside_the_unit_interval(typed_library, source):
    # In float32 a uniform of 2^20 that is rounded to 24 bits is 0 or 1 with probability about 0.1.
    drawn = block(typed_library, source(2), 0, 4, {"u": Uniform((2**18,))})["u"]
    assert drawn.min() > 0 and drawn.max() < 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_ends_of_the_unit_interval_are_moved_inside(dtype):
    ends = np.asarray([0.0, 1.0], dtype=dtype)
    inside = open_interval(ends)
    assert inside.dtype == ends.dtype
    assert 0 < inside[0] < 1e-30 and 1 - 1e-7 < inside[1] < 1
    assert np.all(np.isfinite(np.log(inside)))


# ---- replay ----------------------------------------------------------------------------------------------------------


def test_replay_gives_back_what_it_was_given(library):
    given_arrays = block(library, Portable(1), 0, 20)
    replay = Replay({name: library.array(a) for name, a in given_arrays.items()}, first=100)
    assert_same(block(library, replay, 105, 110), {name: a[5:10] for name, a in given_arrays.items()})


PROPOSAL, ACCEPT = np.zeros((4, 3, 2)), np.zeros((4, 3))


@pytest.mark.parametrize(
    ("proposal", "accept", "first", "message"),
    [
        (PROPOSAL, None, 0, r"asks for noise 'accept'; Replay holds \['proposal'\]"),
        (
            np.zeros((4, 3, 5)),
            ACCEPT,
            0,
            r"'proposal' has shape \(4, 3, 5\); the kernel asks for \(steps, \*\(3, 2\)\)",
        ),
        (PROPOSAL, ACCEPT[:3], 0, r"holds steps 0 to 3 of noise 'accept'; steps 0 to 4 were requested"),
        (PROPOSAL, ACCEPT, 1, r"holds steps 1 to 5 of noise 'proposal'; steps 0 to 4"),
    ],
)
def test_replay_says_what_it_lacks(proposal, accept, first, message):
    arrays = {"proposal": proposal} | ({} if accept is None else {"accept": accept})
    with pytest.raises(NoiseError, match=message):
        Replay(arrays, first).block(backend_named("numpy"), SPECS, 0, 4, np.zeros((3, 2)))


# ---- seeds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("seed", [-1, True, 1.5, None, "1"])
def test_a_seed_is_a_non_negative_integer(source, seed):
    with pytest.raises(NoiseError, match="non-negative integer"):
        source(seed)


def test_an_integer_stands_for_the_native_source():
    assert as_noise_source(3) == Native(3)
    portable = Portable(3)
    assert as_noise_source(portable) is portable


def test_what_checkpoints_keep_of_a_source():
    assert Native(1).describe() == {"source": "Native", "seed": 1}
    assert Portable(2).describe() == {"source": "Portable", "seed": 2}
    replay = Replay({"b": np.zeros((1, 1)), "a": np.zeros((1, 1))}, first=3)
    described = replay.describe()
    assert (described["source"], described["first"], list(described["arrays"])) == ("Replay", 3, ["a", "b"])
