"""The srmc-digits experiment in its quick size, through the command line."""

import importlib.util

import numpy as np

from xpsample.experiments.srmc.digits import ALPHAS

RUN = "srmc-digits"
NEEDS = ("data",)


def test_rows(rows):
    assert [row["alpha"] for row in rows] == [*ALPHAS, 0.0, 0.0, 0.0, 0.0]
    assert [row["sampler"].split()[0] for row in rows[len(ALPHAS) :]] == ["single", "PT+GWG", "model,", "model,"]
    assert rows[0]["theta"] == 0.0 and rows[3]["theta"] > rows[2]["theta"] > 0.0
    for row in rows:
        assert 0.0 <= row["kl"] <= np.log(10) + 1e-9
        assert 1.0 - 1e-6 <= row["vendi"] <= 5.0 + 1e-6  # of 5 chains
        assert row["classes"] >= 1
    assert rows[0]["same_class"] == 1.0  # 100 flips of 784 pixels


def test_files(out):
    with np.load(out / "machine.npz", allow_pickle=False) as machine:
        assert machine["weights"].shape == (784, 100)
    with np.load(out / "images.npz", allow_pickle=False) as images:
        assert images["images"].shape[1:] == (len(ALPHAS), 5, 784)
        assert set(np.unique(images["images"])) == {0.0, 1.0}
    assert (out / "plot.png").exists() == (importlib.util.find_spec("matplotlib") is not None)
    text = (out / "report.txt").read_text()
    assert "annealed from uniform bits" in text and "2.1628" in text
