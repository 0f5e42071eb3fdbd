"""Potts models: every state by the definition in both forms, and the Ising model as the case of two states."""

import numpy as np
import pytest

from tests.targets.enumeration import check_between, check_states
from tests.targets.test_ising import bonds
from xpsample import sample
from xpsample.errors import CapabilityError, HyperparameterError
from xpsample.kernels import GWG
from xpsample.metrics.discrete import exact_probabilities
from xpsample.targets.ising import ising_lattice
from xpsample.targets.potts import potts


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize(("shape", "states"), [((2, 3), 3), ((4,), 4), ((2, 2, 2), 2)])
def test_every_state(shape, states, periodic, library):
    sites, pairs = int(np.prod(shape)), list(bonds(shape, periodic))
    field = np.random.default_rng(1).standard_normal((sites, states))

    def direct(x):
        x = x.astype(int)
        return 0.6 * sum(x[i] == x[j] for i, j in pairs) + sum(field[i, x[i]] for i in range(sites))

    integers = potts(shape, states, 0.6, field, periodic, one_hot=False)
    check_states(integers, sites, direct, library, has_score=False)
    one_hot = potts(shape, states, 0.6, field, periodic)
    check_states(one_hot, sites * states, lambda x: direct(x.reshape(sites, states).argmax(-1)), library)
    check_between(one_hot, np.random.default_rng(3).random((4, sites * states)), library)


def test_float32(library32):
    def direct(x):
        return 0.5 * sum(x[i] == x[j] for i, j in bonds((2, 2), False)) + x.sum()

    check_states(potts((2, 2), 3, 0.5, np.arange(3.0), False, one_hot=False), 4, direct, library32, has_score=False)


def test_two_states_are_ising():
    p = exact_probabilities(potts((2, 3), 2, 0.8, one_hot=False), 6)
    np.testing.assert_allclose(p, exact_probabilities(ising_lattice((2, 3), 0.4), 6), rtol=1e-12)


def test_integers_have_no_score(library):
    x = library.array(np.zeros((2, 4), dtype="int64"))
    with pytest.raises(CapabilityError, match="one_hot=True"):
        sample(potts((2, 2), 3, 0.5, one_hot=False), GWG(), x, 1, seed=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((3, 1), 3, 1.0), "at least 2 sites"),
        (((3, 3), 1, 1.0), "states"),
        (((3, 3), 3, 1.0, np.ones(9)), r"\(3,\) or \(9, 3\); got \(9,\)"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(HyperparameterError, match=message):
        potts(*arguments)
