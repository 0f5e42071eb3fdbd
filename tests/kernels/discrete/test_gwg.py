"""Gibbs with gradients against its transition matrix."""

import numpy as np

from tests.kernels.discrete.discrete_support import assert_proposals, every_problem, uniform
from xpsample import GWG
from xpsample.kernels.discrete.common import choose, log_probability


@every_problem
def test_at_temperature_zero_all_moves_are_alike(problem):
    """Also where variables have different numbers of values."""
    assert_proposals(problem, GWG(0.0), uniform(problem))


def test_choices_by_hand_however_far_their_weights_are_from_one(library):
    """Rows of weights from exp(-3000) to exp(3000), each its own softmax."""
    rng = np.random.default_rng(8)
    logits = rng.normal(size=(60, 4)) + np.linspace(-3000, 3000, 60)[:, None]
    away = logits - logits.max(axis=-1, keepdims=True)
    log_p = away - np.log(np.sum(np.exp(away), axis=-1, keepdims=True))
    uniform = rng.random(60)
    expected = np.sum(np.cumsum(np.exp(log_p), axis=-1) < uniform[:, None], axis=-1)
    found = choose(library.xp, library.array(logits), library.array(uniform))
    assert found.dtype == library.xp.int32
    np.testing.assert_array_equal(library.host(found), expected)
    chosen = library.host(log_probability(library.xp, library.array(logits), found))
    np.testing.assert_allclose(chosen, log_p[np.arange(60), expected], rtol=1e-9, atol=1e-9)
