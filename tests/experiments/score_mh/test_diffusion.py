"""The score-mh-diffusion experiment: its quick size through the command line."""

import re

import numpy as np
import pytest

from xpsample.experiments.score_mh.diffusion import QUICK, SCHEDULE
from xpsample.experiments.score_mh.unet import init_unet, unet
from xpsample.score_mh import diffusion_target, load_parameters
from xpsample.spaces import Real

RUN = "score-mh-diffusion"


def test_rows(out, rows):
    held_out, ula, mala = rows
    assert [row["method"] for row in (held_out, ula, mala)] == ["held-out images", "ULA", "MALA, line integral"]
    assert held_out["w1"] < min(ula["w1"], mala["w1"])  # hardly trained
    assert ula["accepted"] == pytest.approx(1.0) and 0.3 < mala["accepted"] < 1.0


def test_training_lowers_the_loss(out):
    text = (out / "report.txt").read_text()
    first, best = map(float, re.search(r"of a pixel ([\d.]+) after 50 updates, ([\d.]+) at best", text).groups())
    assert best < first < 1.0  # which is that of no guess at all


def test_files(out):
    with np.load(out / "images.npz", allow_pickle=False) as images:
        for name in ("training_images", "ULA", "MALA_line_integral"):
            assert images[name].shape == (QUICK.chains, 64) and np.all(np.isfinite(images[name]))
    parameters = load_parameters(out / "network.npz", like=init_unet(1, QUICK.width, 0))
    target = diffusion_target(unet, SCHEDULE, parameters=parameters, space=Real(1, 8, 8))
    score = target.score(np.zeros((2, 1, 8, 8)), target.data)
    assert score.shape == (2, 1, 8, 8) and np.any(score != 0)
