"""The loop of a backend: a count that is a number or an array, and a condition that ends it early."""

import numpy as np
import pytest

pytestmark = pytest.mark.first_tier


def doubled(i, carry):
    """The sum of the i before, and twice what there was."""
    total, x = carry
    return total + i, 2 * x


def result(library, n, until=None):
    start = library.array(np.zeros((), dtype=np.int32)), library.array(np.ones(3))
    return library.backend.repeat(n, doubled, start, until)


@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("as_array", [False, True])
def test_a_count_may_be_an_array(library, n, as_array):
    total, x = result(library, library.array(np.asarray(n)) if as_array else n)
    assert int(total) == n * (n - 1) // 2
    np.testing.assert_array_equal(library.host(x), np.full(3, 2.0**n))


@pytest.mark.parametrize(("bound", "made"), [(0.5, 0), (1.5, 1), (5.0, 3), (1e9, 6)])
def test_a_loop_ends_before_the_first_pass_whose_condition_holds(library, bound, made):
    """And with the last pass if none does, after which it is not asked."""
    asked = []
    total, x = result(library, 6, lambda carry: asked.append(1) or library.xp.all(carry[1] > bound))
    assert int(total) == made * (made - 1) // 2
    np.testing.assert_array_equal(library.host(x), np.full(3, 2.0**made))
    assert library.name.startswith("jax") or len(asked) == min(made + 1, 6)
