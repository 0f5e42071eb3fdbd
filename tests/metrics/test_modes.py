"""Modes visited, against sets and distances written out."""

import numpy as np
import pytest

from xpsample.metrics import modes_discovered, nearest_centre


def test_the_nearest_centre_is_that_of_all_distances(typed_library):
    rng = np.random.default_rng(0)
    x, centres = rng.standard_normal((3, 7, 5)), rng.standard_normal((11, 5))
    expected = np.argmin(np.linalg.norm(x[..., None, :] - centres, axis=-1), axis=-1)
    found = typed_library.host(nearest_centre(typed_library.array(x), typed_library.array(centres)))
    np.testing.assert_array_equal(found, expected)


def test_an_offset_far_larger_than_the_distances_does_not_matter_in_float32(library32):
    # |x|^2 - 2 x.c + |c|^2 with no origin loses everything here: the squares are 1e10 and the differences 1.
    rng = np.random.default_rng(1)
    centres = 1e4 + rng.integers(-3, 4, (20, 100)).astype(float)
    x = centres[[4, 17, 4]] + 0.25
    found = library32.host(nearest_centre(library32.array(x), library32.array(centres)))
    np.testing.assert_array_equal(found, [4, 17, 4])


def test_discovered_modes_are_those_of_a_set(library):
    modes = np.random.default_rng(2).integers(-1, 40, (30, 2, 3, 4))
    expected = np.zeros((30, 2, 3), dtype=int)
    for group in np.ndindex(2, 3):
        seen: set[int] = set()
        for n in range(30):
            seen |= {int(k) for k in modes[(n, *group)] if k >= 0}
            expected[(n, *group)] = len(seen)
    np.testing.assert_array_equal(library.host(modes_discovered(library.array(modes))), expected)


def test_each_chain_for_itself_and_one_pool():
    modes = np.array([[3, 3], [5, 3], [3, 7]])
    np.testing.assert_array_equal(modes_discovered(modes[..., None]), [[1, 1], [2, 1], [2, 2]])
    np.testing.assert_array_equal(modes_discovered(modes), [1, 2, 3])
    np.testing.assert_array_equal(modes_discovered(np.full((2, 3), -1)), [0, 0])
    assert modes_discovered(np.zeros((0, 2, 3), dtype=int)).shape == (0, 2)


def test_traces_under_jit():
    jax = pytest.importorskip("jax")
    modes = np.random.default_rng(3).integers(0, 9, (20, 5))
    np.testing.assert_array_equal(jax.jit(modes_discovered)(jax.numpy.asarray(modes)), modes_discovered(modes))


def test_bad_shapes():
    with pytest.raises(ValueError, match=r"\(draw, \*groups, chain\), not \(3,\)"):
        modes_discovered(np.zeros(3, dtype=int))
    with pytest.raises(ValueError, match=r"not \(3,\) and \(2, 4\)"):
        nearest_centre(np.zeros(3), np.zeros((2, 4)))
