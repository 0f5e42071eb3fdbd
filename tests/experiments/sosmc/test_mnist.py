"""sosmc-mnist in its quick size, and its rewards against loops over the pixels."""

import numpy as np
import pytest

from xpsample.experiments.sosmc.mnist import METHODS, REWARDS

RUN = "sosmc-mnist"


def test_table(out, rows):
    rows = {r["method"]: r for r in rows}
    assert list(rows) == list(METHODS)
    for row in rows.values():
        assert np.isfinite(row["fresh"]) and row["diverged"] == 0 and row["reward"] == "bright"
    assert rows["ImpDiff"]["ess"] == pytest.approx(1) and rows["ImpDiff"]["gamma"] == 3e-3
    assert 1 / 8 <= rows["SOSMC-ULA"]["ess"] < 1 and rows["SOSMC-ULA"]["gamma"] != 3e-3
    assert rows["ImpDiff"]["resampled"] == 0 < rows["SOSMC-ULA"]["resampled"]
    kept = np.load(out / "curves.npz")
    changed = kept["bright 0.1 SOSMC-ULA images"] - kept["pretrained"]
    assert np.max(np.abs(changed)) > 1e-3  # other parameters, under the same noise
    for name in ("pretrained", "bright 0.1 SOSMC-ULA"):
        way, end = kept[f"{name} way"], kept["pretrained" if name == "pretrained" else f"{name} images"]
        assert way.shape == (10, 8, 784)
        np.testing.assert_array_equal(way[-1], end)
        assert np.all(np.max(np.abs(np.diff(way, axis=0)), axis=(1, 2)) > 0)


def test_rewards(library):
    images = np.random.default_rng(0).uniform(-1.5, 1.5, (2, 3, 784))
    clamped = np.clip(images, -1, 1).reshape(2, 3, 28, 28)
    lower, upper = clamped[..., 14:, :].sum(axis=(-1, -2)) / 392, clamped[..., :14, :].sum(axis=(-1, -2)) / 392
    expected = {"bright": (lower + upper) / 2, "dark": -(lower + upper) / 2, "half": (lower - upper) / 2}
    for name, reward in REWARDS.items():
        np.testing.assert_allclose(library.host(reward(library.array(images))), expected[name], rtol=1e-12, atol=1e-14)
