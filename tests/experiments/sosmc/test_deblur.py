"""The deblurring experiment in its quick size, through the command line."""

import numpy as np
import pytest

from xpsample.experiments.sosmc.deblur import METHODS, SETUPS

RUN = "sosmc-deblur"


@pytest.fixture
def rows(rows):
    return {row["method"].removesuffix(" numpy"): row for row in rows}


def test_rows(rows):
    assert list(rows) == ["the observation", *METHODS]
    blurred = rows.pop("the observation")
    assert blurred["theta"] is None
    for row in rows.values():
        # The prior is negligible yet, so theta goes up by its rate.
        assert row["theta"] == pytest.approx(-15 + 150 * 0.01, abs=1e-3)
        assert row["mse_mean"] <= row["mse"] < blurred["mse"]
        assert 1.0 <= row["ess"] <= 20.0
        assert row["gap"] < 1e-6
    assert rows["SOSMC"]["ess"] < 20.0 == rows["MYPGD"]["ess"]


def test_steps(rows):
    assert rows["MYPGD"]["step"] == rows["SOSMC"]["step"] == 0.01
    for name in ("MYPGD, grown", "SOSMC, grown"):
        assert rows[name]["step"] == pytest.approx(0.01 * 1.01**150, rel=1e-4)
    assert rows["SOSMC, by ESS"]["step"] < 0.01
    # More time has passed with the larger step.
    assert rows["MYPGD, grown"]["mse"] < rows["MYPGD"]["mse"] < rows["SOSMC, by ESS"]["mse"]


def test_files(out):
    with np.load(out / "images.npz", allow_pickle=False) as images:
        assert set(images.files) == {f"A: {name}" for name in ("truth", "observation", *METHODS)}
        assert all(images[name].shape == (32, 32) for name in images.files)


def test_a_patch_size_is_a_window_of_half_of_it_and_one():
    assert (SETUPS["A"].half_width, SETUPS["C"].half_width) == (5 // 2, 10 // 2)
