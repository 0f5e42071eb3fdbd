"""Binary networks: by a loop over rows and units, derivatives, both forms of the output, the paper's measures."""

import math

import numpy as np
import pytest

from tests.zoo.enumeration import check_between, check_states
from xpsample.experiments.hiss.binary_network import binary_network, dimension, fit, predict

RNG = np.random.default_rng(0)
INPUTS, OUTPUTS, HIDDEN = RNG.standard_normal((7, 2)), RNG.random(7), 2
DIM = 9


def output(x, row, squashed):
    """One network, one row, unit by unit."""
    total = x[8]
    for j in range(HIDDEN):
        total += x[6 + j] * math.tanh(row[0] * x[j] + row[1] * x[2 + j] + x[4 + j])
    return 1 / (1 + math.exp(-total)) if squashed else total


@pytest.mark.parametrize("squashed", [True, False])
def test_every_state_on_every_library(squashed, typed_library):
    def direct(x):
        return -3.0 * np.mean([(output(x, row, squashed) - y) ** 2 for row, y in zip(INPUTS, OUTPUTS, strict=True)])

    target = binary_network(INPUTS, OUTPUTS, HIDDEN, 3.0, squashed)
    check_states(target, DIM, direct, typed_library)
    check_between(target, np.random.default_rng(3).standard_normal((4, DIM)), typed_library)


def test_rows_with_equal_inputs_are_computed_once():
    """COMPAS has 2,169 different inputs in 4,937 rows. The density is that of all rows, outputs equal or not."""
    x, inputs = np.random.default_rng(2).choice([-1.0, 1.0], size=(5, DIM)), INPUTS[[0, 1, 0, 2, 1, 0]]
    outputs = np.array([0.0, 1.0, 1.0, 0.5, 1.0, 0.0])
    target = binary_network(inputs, outputs, HIDDEN, 6.0)
    assert target.data["inputs"].shape == (3, 2)
    errors = np.array([[output(n, row, True) for row in inputs] for n in x]) - outputs
    values = target.log_density(x, target.data)
    np.testing.assert_allclose(values, -np.sum(errors**2, axis=-1), rtol=1e-12)


def test_predictions(library):
    x = np.random.default_rng(1).choice([-1.0, 1.0], size=(2, 3, DIM))
    expected = [[[output(n, row, True) for row in INPUTS] for n in networks] for networks in x]
    predictions = predict(library.array(x), library.array(INPUTS), HIDDEN)
    np.testing.assert_allclose(library.host(predictions), expected, rtol=1e-12)
    measured = fit(predictions, library.array(OUTPUTS))
    rmse = np.sqrt(np.mean((np.array(expected) - OUTPUTS) ** 2, axis=-1))
    np.testing.assert_allclose(library.host(measured.rmse), rmse, rtol=1e-12)
    np.testing.assert_allclose(library.host(measured.log_likelihood), -(rmse**2), rtol=1e-12)


def test_the_papers_dimensions():
    """Appendix D.5: breast cancer, COMPAS, HIV and Blog."""
    assert [dimension(features) for features in (30, 13, 160, 280)] == [3201, 1501, 16201, 28201]
