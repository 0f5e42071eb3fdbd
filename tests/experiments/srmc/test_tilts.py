"""The srmc-tilts experiment in its quick size, and what it says of a setting."""

import numpy as np
import pytest

from xpsample.experiments.srmc.tilts import ALPHAS, GUARDS, QUICK, SETTINGS, TILTS, summary

RUN = "srmc-tilts"


def test_a_row_for_every_setting(rows):
    def count(target, starts, tilts):
        return sum(
            starts * (len(scales) * tilts + len(GUARDS)) * len(ALPHAS) for _, scales in SETTINGS[target].values()
        )

    assert len(rows) == count("logistic", 2, len(TILTS)) + count("gaussian", 1, 2)
    assert {row["draws"] for row in rows} == {QUICK.draws}
    for row in rows:
        assert row["least"] <= row["low"] <= row["ratio"] <= row["high"] <= row["largest"]


def test_costs_are_those_of_the_tilts(rows):
    costs = {(row["kernel"], row["tilt"]): row["cost"] for row in rows}
    assert [costs["MALA", tilt] for tilt in ("Exact", "Shift", "Untilted", "capped")] == [3, 3, 1, 4]
    assert [costs["HMC", tilt] for tilt in ("Exact", "Shift", "Untilted", "capped")] == [21, 12, 10, 22]


def test_a_tilt_of_the_accept_step_alone_breaks_no_chain_where_others_break_all(rows):
    strong = [row for row in rows if row["target"] == "logistic" and row["alpha"] == 30 and row["scale"] == 1]
    broken = {(row["kernel"], row["start"], row["tilt"]): row["broken"] for row in strong}
    for kernel in ("MALA", "HMC"):
        for start in ("target", "prior"):
            assert broken[kernel, start, "Exact"] == 1 and broken[kernel, start, "Untilted"] == 0


def test_summary_by_hand():
    broken = np.zeros((4, 5), dtype=bool)
    broken[1, :2] = True
    found = summary(np.asarray([0.5, 0.7, 2.0, 0.1]), broken)
    assert found["ratio"] == pytest.approx(0.6) and (found["least"], found["largest"]) == (0.1, 2.0)
    assert (found["below"], found["draws"], found["draws_broken"]) == (3, 4, 1)
    assert (found["broken"], found["most_broken"]) == (0.1, 0.4)


def test_ratios_are_saved(out):
    assert np.load(out / "ratios.npz")["logistic MALA 1 prior Exact"].shape == (QUICK.draws, len(ALPHAS))
