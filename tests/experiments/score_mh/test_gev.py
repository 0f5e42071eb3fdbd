"""The score-mh-gev experiment in its quick size, and the score that its training sees."""

import numpy as np
import pytest

from xpsample import ULA
from xpsample.experiments.score_mh.gev import BOUND, QUICK, bounded
from xpsample.experiments.score_mh.gev_problem import gev

METHODS = ("MALA direct", "MALA ratio", "MALA line", "MALA Taylor")


RUN = "score-mh-gev"


def test_rows(rows):
    by = {(row["eta"], row["shape"], row["sampler"], row["score"]): row for row in rows}
    assert len(by) == len(rows) == len(QUICK.etas) * len(QUICK.shapes) * (1 + 2 + 1 + 2 * len(METHODS))
    for eta in QUICK.etas:
        for shape in QUICK.shapes:
            exact, line = (by[eta, shape, name, "true"] for name in ("MALA", "MALA line"))
            assert line["accept"] == pytest.approx(exact["accept"], abs=0.02)
            assert line["w1"] == pytest.approx(exact["w1"], rel=0.3)
            for score in ("true", "learned"):
                assert by[eta, shape, "MALA direct", score]["accept"] < by[eta, shape, "MALA ratio", score]["accept"]
                assert by[eta, shape, "ULA", score]["accept"] >= 1 - by[eta, shape, "ULA", score]["frozen"]


def test_the_score_in_training_is_finite_everywhere(library):
    """Outside of the support 0, next to its edge (-2 for xi = 0.5) the bound, and elsewhere itself."""
    target = gev(np.array([0.5]))
    x = library.array(np.array([[-2.5], [-1.9], [0.0], [3.0]]))
    bound = target.prepare(x[1:, ...], ULA(1.0).requires)
    found = library.host(bounded(bound.score)(x))[:, 0]
    wanted = library.host(bound.score(x))[:, 0]
    np.testing.assert_array_equal(found[:2], [0.0, BOUND])
    np.testing.assert_array_equal(found[2:], wanted[2:])
