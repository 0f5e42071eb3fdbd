"""The srld-bnn experiment in its quick size, through the command line, its rows and its choice of step sizes."""

import argparse
import json

import numpy as np
import pytest

from xpsample.cli import main
from xpsample.core.devices import device_dtypes
from xpsample.experiments.runner import Run
from xpsample.experiments.srld import bnn as srld_bnn
from xpsample.experiments.srld.bnn import ADAGRAD_STEPS, PROBLEMS, QUICK, STEPS, methods, split_rows

NUMPY = next(device for device in device_dtypes(["numpy"]) if device.dtype == "float32")
SHAPES = {"boston": 13, "yacht": 6, "energy": 8, "concrete": 8, "naval": 16, "wine-red": 11, "wine-white": 11}


RUN = "srld-bnn"


def test_table(rows):
    rows = {row["sampler"]: row for row in rows if row["draws"] is None}
    assert list(rows) == ["LD", "SRLD 10", "SRLD 1", "SVGD", "SRLD 10 - LD", "SRLD 1 - LD"]
    for name in ("LD", "SRLD 10", "SRLD 1", "SVGD"):
        assert rows[name]["step"] in (ADAGRAD_STEPS if name == "SVGD" else STEPS)
        assert rows[name]["frozen"] == 0 and rows[name]["spread"] > 0
        assert 0.5 < rows[name]["rmse"] < 30 and 0 <= rows[name]["coverage"] <= 1
    for name in ("SRLD 10", "SRLD 1"):
        for key in ("rmse", "log_likelihood", "spread"):
            assert rows[f"{name} - LD"][key] == pytest.approx(rows[name][key] - rows["LD"][key], abs=1e-9)


def test_the_first_draws_are_compared_too(rows):
    whole = {row["sampler"]: row for row in rows if row["draws"] is None}
    parts = {(row["sampler"], row["draws"]): row for row in rows if row["draws"]}
    pairs = [f"{sampler} - {other}, first draws" for sampler in ("SRLD 10", "SRLD 1") for other in ("LD", "SVGD")]
    counts = [round(share * 12) for share in srld_bnn.PARTS]
    assert list(parts) == [(pair, n) for n in counts for pair in pairs]
    for pair in pairs:
        own, _, other = pair.removesuffix(", first draws").partition(" - ")
        for key in ("rmse", "log_likelihood"):
            assert parts[pair, 12][key] == pytest.approx(whole[own][key] - whole[other][key], abs=1e-9)
            assert parts[pair, 2][key] != parts[pair, 12][key]


def test_the_conclusion_names_the_best(out, rows):
    best = max(rows[:4], key=lambda row: row["log_likelihood"])
    told = f"yacht, numpy: highest log lik. {best['log_likelihood']:.3f} ({best['sampler']}); SRLD 10 - LD: "
    assert told + f"{rows[4]['log_likelihood']:.3f} (" in (out / "report.txt").read_text()


def test_the_step_size_of_the_best_validation_score_is_taken(out, rows):
    text, rows = (out / "report.txt").read_text(), rows
    for row in rows[:4]:
        (line,) = (line for line in text.splitlines() if line.startswith(f"  {row['sampler']}: validation "))
        scores = dict(pair.split(": ") for pair in line.partition("validation ")[2].split(", "))
        assert row["step"] == float(max(scores, key=lambda step: float(scores[step])))


def test_a_step_size_that_is_given_is_taken(tmp_path, data_folder):
    options = ["--step", "0.03", "--alpha", "2", "--scaled", "--data", "boston"]
    assert main(["run", "srld-bnn", "--quick", *options, "--out", str(tmp_path)]) == 0
    rows = json.loads((tmp_path / "results.json").read_text())
    assert [(row["sampler"], row["step"]) for row in rows[:2]] == [("LD", 0.03), ("SRLD 2", 0.03)]
    text = (tmp_path / "report.txt").read_text()
    assert "LD: validation" not in text and "SVGD: validation" in text and "outputs standardized" in text


@pytest.mark.parametrize("name", PROBLEMS)
def test_rows(name, data_folder):
    arrays = srld_bnn.load_dataset(PROBLEMS[name].file)
    train, test = (arrays[key][:2].astype(int) for key in ("train_index", "test_index"))
    assert all(not set(a) & set(b) for a, b in zip(train, test, strict=True))
    plain, scaled = (split_rows(arrays["X"], arrays["y"], train, test, which) for which in (False, True))
    assert plain.inputs.shape == (*train.shape, SHAPES[name])
    np.testing.assert_allclose(plain.inputs.mean(axis=1), 0, atol=1e-9)
    sd = plain.inputs.std(axis=1)
    assert np.all((np.abs(sd - 1) < 1e-9) | (sd == 0))
    np.testing.assert_array_equal(plain.outputs, arrays["y"][train])
    np.testing.assert_allclose(scaled.location + scaled.scale * scaled.outputs, plain.outputs, rtol=1e-12)
    np.testing.assert_allclose(scaled.outputs.std(axis=1), 1, rtol=1e-9)
    # Test rows by the constants of the training rows, which theirs are not.
    x, rows = arrays["X"], train[1]
    varies = x[rows].std(axis=0) > 1e-9 * np.abs(x[rows].mean(axis=0))
    expected = (x[test[1]] - x[rows].mean(axis=0))[:, varies] / x[rows].std(axis=0)[varies]
    np.testing.assert_allclose(plain.test_inputs[1][:, varies], expected, rtol=1e-9, atol=1e-9)


def test_step_sizes_are_chosen_on_training_rows():
    train = np.stack([np.random.default_rng(s).permutation(50)[:40] for s in range(3)])
    kept, held = srld_bnn._held_out(train, seed=1)
    assert kept.shape == (3, 36) and held.shape == (3, 4)
    for rows, one, other in zip(train, kept, held, strict=True):
        assert sorted([*one, *other]) == sorted(rows)


def test_step_sizes_are_scored_and_a_chain_that_leaves_the_numbers_is_the_worst(tmp_path):
    """Of three: one that hardly moves, one that is fit, one that blows up."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    y = 3 * x[:, 0] + 0.1 * rng.normal(size=60)
    rows = np.stack([rng.permutation(60) for _ in range(2)])
    split = split_rows(x, y, rows[:, :50], rows[:, 50:])
    method = methods(QUICK._replace(steps=4000), [10.0])["LD"]._replace(grid=(1e-7, 0.03, 1e6))
    run = Run(QUICK, argparse.Namespace(seed=0, out=tmp_path), [NUMPY])
    scores = srld_bnn._tune(run, split, NUMPY, method, "LD")
    assert list(scores) == [1e-7, 0.03, 1e6] and scores[1e6] == -np.inf
    assert scores[0.03] > scores[1e-7] + 0.5


def test_step_sizes_are_compared_in_runs_of_the_full_length(monkeypatch, tmp_path):
    """Short runs favor large step sizes, since a chain with a small one is still in its transient phase."""
    lengths = []

    def fit(run, split, device, method, grid, label):
        lengths.append((method.steps, method.draws, method.thinning))
        return {"log_likelihood": np.zeros((1, len(grid), 2))}, np.zeros((len(grid), 2), dtype=bool), 0.0

    monkeypatch.setattr(srld_bnn, "_fit", fit)
    run = Run(QUICK, argparse.Namespace(seed=0, out=tmp_path), [NUMPY])
    for method in methods(QUICK, [10.0]).values():
        srld_bnn._tune(run, None, NUMPY, method, "sampler")
    assert lengths == [(300, 12, 5), (300, 12, 5), (20, 1, 1)]


def test_the_kernels_are_the_papers():
    found = {name: repr(method.kernel(0.01)) for name, method in methods(QUICK, [10.0, 1.0]).items()}
    assert "SRLD" not in found["LD"] and "alpha=10.0" in found["SRLD 10"] and "alpha=1.0" in found["SRLD 1"]
    assert "Rolling(size=10" in found["SRLD 10"] and "size=100" in found["LD"]
