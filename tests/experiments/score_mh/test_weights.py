"""The score-mh-weights experiment in its quick size, and what it counts."""

import numpy as np
import pytest

from xpsample.experiments.score_mh.weights import QUICK, STARTS, draw, is_heavy, mixture, samplers, starts
from xpsample.kernels import MALA

RUN = "score-mh-weights"


@pytest.fixture
def rows(rows):
    return {row["sampler"]: row for row in rows}


def test_local_samplers_keep_the_weights_of_their_starts(rows):
    for name, row in rows.items():
        if name.startswith(("ULA", "MALA", "RW, sd 1,")):
            assert row["crossed"] == 0 and row["heavy mode"] == 1 and row["both modes"] == 0.5, name


def test_only_wide_proposals_cross(rows):
    assert rows["RW wide, density"]["crossed"] > 0.2
    assert len(rows) == len(samplers(QUICK)) + 2
    # Eight nodes cannot see where along 14 length scales the score turns over.
    assert rows["RW wide, line 8"]["acceptance_probability"] > 1.3 * rows["RW wide, density"]["acceptance_probability"]


def test_starts_are_what_they_are_called():
    """Weights 1, 1/2, near 1/2 and near 0.8: 5 standard errors of 400 chains are 0.1 and less."""
    x = starts(400, np.random.default_rng(0))
    assert x.shape == (len(STARTS), 400, 2)
    shares = np.mean(is_heavy(x), axis=1)
    assert shares[0] == 1 and shares[1] == 0.5
    assert abs(shares[2] - 0.5) < 0.125 and abs(shares[3] - 0.8) < 0.1


def test_draws_are_the_targets():
    """Stein's identity E x.s(x) = -2 within 5 standard errors."""
    x = draw(20_000, np.random.default_rng(1))
    found = np.sum(x * mixture().prepare(x, MALA(1.0).requires).score(x), axis=-1)
    assert abs(np.mean(found) + 2) < 5 * np.std(found) / np.sqrt(len(x))
