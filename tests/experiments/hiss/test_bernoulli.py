"""What is special to hiss-bernoulli; see `test_samplers.py` for what it shares with hiss-ising."""

import numpy as np

from xpsample.cli import main
from xpsample.experiments.hiss.bernoulli import SCALES, random_bits


def test_report_has_a_row_for_each_scale(tmp_path):
    assert main(["run", "hiss-bernoulli", "--quick", "--out", str(tmp_path)]) == 0
    lines = (tmp_path / "report.txt").read_text().splitlines()
    begin = lines.index("HiSS with other scales, 10 chains, 40 draws") + 3
    assert [float(line.split()[0]) for line in lines[begin : begin + len(SCALES)]] == list(SCALES)


def test_random_bits():
    bits = random_bits(0, 100, 4)
    assert bits.shape == (100, 4) and set(np.unique(bits)) == {0.0, 1.0}
    assert abs(np.mean(bits) - 0.5) < 5 * 0.5 / 20
