"""What is special to hiss-bernoulli; see `test_samplers.py` for what it shares with hiss-ising."""

import importlib.util

import numpy as np

from xpsample.cli import main
from xpsample.experiments.hiss.bernoulli import SCALES, random_bits


def test_report_has_a_row_for_each_scale(tmp_path):
    assert main(["run", "hiss-bernoulli", "--quick", "--out", str(tmp_path)]) == 0
    lines = (tmp_path / "report.txt").read_text().splitlines()
    begin = lines.index("HiSS with other scales, 10 chains, 40 draws") + 3
    found = [[float(cell) for cell in line.replace("+-", "").split()] for line in lines[begin : begin + len(SCALES)]]
    assert [row[0] for row in found] == list(SCALES)
    acceptances = [row[3] for row in found]  # small noise is taken away again, and brings the state back
    assert 1 > acceptances[0] > 2 * acceptances[-1] > 0
    assert (tmp_path / "bridging.png").exists() == (importlib.util.find_spec("matplotlib") is not None)


def test_random_bits():
    bits = random_bits(0, 100, 4)
    assert bits.shape == (100, 4) and set(np.unique(bits)) == {0.0, 1.0}
    assert abs(np.mean(bits) - 0.5) < 5 * 0.5 / 20
