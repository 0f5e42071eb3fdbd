"""The score-mh-gaussian experiment in its quick size."""

import pytest

RUN = "score-mh-gaussian"


def test_rows(rows):
    by = {(row["score"], row["acceptance"]): row for row in rows}
    assert len(by) == len(rows) == 2 + 2 * 3
    density = by["", "density"]
    # The integral of the true score is the log ratio of the density itself.
    for key in ("mean", "sd", "w1", "accept"):
        assert by["true", "line"][key] == pytest.approx(density[key], rel=1e-4)
    for score in ("true", "learned"):
        assert by[score, "direct"]["accept"] < by[score, "ratio"]["accept"] <= 1
    # A random walk of 2.4 standard deviations accepts 2 / pi * atan(2 / 2.4) = 0.442 in stationarity.
    assert density["accept"] == pytest.approx(0.442, abs=0.04)
