"""Potts models: every state by the definition in both forms, and the Ising model as the case of two states."""

import numpy as np
import pytest

from tests.zoo.enumeration import NUMPY, check_between, check_states
from tests.zoo.test_ising import bonds
from xpsample import sample
from xpsample.core.errors import CapabilityError, HyperparameterError
from xpsample.kernels import GWG
from xpsample.metrics.discrete import exact_probabilities
from xpsample.zoo.ising import ising_lattice, potts


def definition(shape, periodic, coupling, field):
    pairs = list(bonds(shape, periodic))

    def log_density(x):
        x = x.astype(int)
        return coupling * sum(x[i] == x[j] for i, j in pairs) + sum(row[k] for row, k in zip(field, x, strict=True))

    return log_density


def check(shape, states, periodic, library):
    sites = int(np.prod(shape))
    field = np.random.default_rng(1).standard_normal((sites, states))
    direct = definition(shape, periodic, 0.6, field)
    check_states(potts(shape, states, 0.6, field, periodic, one_hot=False), sites, direct, library, has_score=False)
    one_hot = potts(shape, states, 0.6, field, periodic)
    check_states(one_hot, sites * states, lambda x: direct(x.reshape(sites, states).argmax(-1)), library)
    return one_hot


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize(("shape", "states"), [((2, 3), 3), ((4,), 4), ((2, 2, 2), 2)])
def test_every_state(shape, states, periodic):
    one_hot = check(shape, states, periodic, NUMPY)
    check_between(one_hot, np.random.default_rng(3).random((4, int(np.prod(shape)) * states)), NUMPY)


def test_every_library(typed_library):
    check((2, 2), 3, False, typed_library)


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
