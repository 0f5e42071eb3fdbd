"""What is special to hiss-ising; see `test_samplers.py` for what it shares with hiss-bernoulli."""

import json

import numpy as np

from xpsample.cli import main
from xpsample.experiments.hiss.ising import model
from xpsample.metrics.discrete import exact_probabilities, prominent_states


def test_report_has_all_three_tables(tmp_path):
    assert main(["run", "hiss-ising", "--quick", "--critical-draws", "3", "--out", str(tmp_path)]) == 0
    text = (tmp_path / "report.txt").read_text()
    assert "Kaufman" in text and "HiSS with G L = 50" in text and "coverage is of the 32 prominent states" in text
    lattice = text[text.index("Energy per site") :]
    assert [line.split()[1] for line in lattice.splitlines() if line.startswith("DMALA")] == ["60"]  # 3 draws of 20
    assert len(json.loads((tmp_path / "results.json").read_text())) == 15


def test_the_model_has_32_prominent_states():
    exact = exact_probabilities(model(), 9)
    among = prominent_states(exact)
    assert np.sum(among) == 32 and np.sum(exact[among]) > 0.999
