"""The exact energy of the critical lattice against a sum over all states."""

import itertools

import numpy as np
import pytest

from xpsample.experiments.hiss.criticality import exact_energy, log_partition, start
from xpsample.zoo.ising import internal_energy


@pytest.mark.parametrize("k", [0.2, 0.4407, 0.7])
def test_kaufman_is_the_sum_over_states(k):
    spins = np.array(list(itertools.product((-1.0, 1.0), repeat=12)))
    energies = 12 * internal_energy(spins, (3, 4))
    weights = np.exp(-k * energies)
    np.testing.assert_allclose(log_partition(k, 3, 4), np.log(np.sum(weights)), rtol=1e-10)
    np.testing.assert_allclose(exact_energy(k, 3, 4), np.sum(weights * energies) / np.sum(weights) / 12, rtol=1e-6)


def test_start_is_half_cold():
    energy = internal_energy(start(0), (24, 24))
    np.testing.assert_array_equal(energy[:4], -2.0)
    assert np.all(np.abs(energy[4:]) < 5 * np.sqrt(2 / 576))
