"""The score-mh-toys experiment in its quick size, its starts and measures, and networks that are trained together."""

import json
from argparse import Namespace

import numpy as np
import pytest

from tests.experiments.quick_runs import LIBRARY
from xpsample.cli import main
from xpsample.core import tree
from xpsample.core.devices import device_dtypes
from xpsample.core.registry import to_host
from xpsample.experiments.runner import Run, float32
from xpsample.experiments.score_mh.models import (
    FLAT,
    Training,
    mean_and_range,
    range_text,
    train_columns,
    train_scores,
)
from xpsample.experiments.score_mh.toys import FULL, PAPER, PAPERS, PARTS, QUICK, asymmetry, methods
from xpsample.experiments.toys import TOYS
from xpsample.score_mh import ExactTrace, score_network
from xpsample.zoo.networks import Dense

RUN = "score-mh-toys"


def test_rows(rows):
    assert [part for part in PARTS if any(row["part"] == part for row in rows)] == list(PARTS)
    by = {(row["sampler"], row["acceptance"]): row for row in rows if row["part"] == "table"}
    assert len(by) == 3 + 3 * 4
    for kind in ("RW", "MALA", "pCN"):
        direct, ratio = by[kind, "direct"], by[kind, "ratio"]
        assert direct["accept"] < ratio["accept"] <= 1  # a is never above the ratio's acceptance
        assert by[kind, "line"]["scores"] == by[kind, "ratio"]["scores"] + 8
        assert (direct["paper_w1"], direct["paper_w2"], direct["paper_mmd"]) == PAPER["moons"][kind]
        assert ratio["paper_w1"] is None and ratio["training_seconds"] > 0
    for row in by.values():
        assert row["w1_normal"] <= row["w2_normal"]  # Jensen's inequality
        assert row["half_w2_squared_normal"] >= 0.5 * row["w2_normal"] ** 2 - 1e-12
    # Normal starts have the data's first moments only.
    assert by["starts", ""]["w1_normal"] > 1.4 * by["floor", ""]["w1_normal"]
    steps = [row for row in rows if row["part"] == "steps"]
    assert [row["epsilon"] for row in steps if row["acceptance"] == "line"] == [0.05, 0.2]
    forms = {(row["acceptance"], row["epsilon"]): row for row in rows if row["part"] == "taylor"}
    assert len(forms) == 2 * 5
    # Plain order 1 leaves out tau' H tau / 2, which is negative where the density is log-concave.
    assert forms["Taylor 1", 0.2]["accept"] > forms["Taylor 1, averaged", 0.2]["accept"]
    for form in ("Taylor 1, averaged", "Taylor 2", "Taylor 2, averaged"):
        assert forms[form, 0.05]["accept"] == pytest.approx(forms["line", 0.05]["accept"], abs=1e-3)
    lambdas = [row["lambda"] for row in rows if row["part"] == "lambda" and row["acceptance"] == "direct"]
    assert lambdas == [0.0, 4.0]
    assert [row["acceptance"] for row in rows if row["part"] == "lambda"][:3] == ["line", "direct", "ratio"]
    settings = [row for row in rows if row["part"] == "settings" and row["acceptance"] == "direct"]
    found = [(row["lambda"], row["max_norm"], row["pairs"]) for row in settings]
    assert found == [(1.0, 100.0, "global"), (0.0, None, "global"), (0.0, None, "local"), (1.0, None, "local")]


def test_parts(tmp_path):
    """One part of one data set; what it has no rows for is not drawn."""
    options = ["--quick", "--backend", LIBRARY, "--part", "steps", "--data", "moons", "--out", str(tmp_path)]
    assert main(["run", "score-mh-toys", *options]) == 0
    rows = json.loads((tmp_path / "results.json").read_text())
    assert {(row["dataset"], row["part"]) for row in rows} == {("moons", "steps")}
    assert not (tmp_path / "plot.png").exists() and not (tmp_path / "maps.png").exists()


def test_a_part_of_the_table_that_the_paper_calls_w2_is_below_w1():
    """So it is no W2; half its square fits all rows: x = W2^2 / 2 with W2 at least W1."""
    found = [(w1, w2) for row in PAPER.values() for w1, w2, _ in row.values()]
    assert sum(w2 < w1 for w1, w2 in found) == 12
    assert all((2 * w2) ** 0.5 >= w1 for w1, w2 in found)


def test_proposals_are_those_of_the_kernels():
    for method in methods(0.3).values():
        proposal, kernel = method
        setting = "beta" if hasattr(proposal, "beta") else "step_size"
        assert getattr(proposal, setting) == getattr(kernel, setting)


@pytest.fixture
def run(tmp_path):
    return Run(QUICK, Namespace(seed=0, out=tmp_path), float32(device_dtypes([LIBRARY])))


@pytest.mark.parametrize(("matrix", "wanted"), [([[2.0, 1.0], [1.0, -3.0]], 0.0), ([[0.0, 1.0], [-1.0, 0.0]], 2**0.5)])
def test_asymmetry_of_a_linear_score(run, matrix, wanted):
    """0 for a symmetric Jacobian, and |J_12 - J_21| / |J| = 2 / sqrt(2) for a rotation."""
    linear = (Dense(run.devices[0].array(np.asarray(matrix)[None]), run.devices[0].array(np.zeros((1, 1, 2)))),)
    x = np.random.default_rng(0).standard_normal((1, 50, 2))
    assert asymmetry(x, linear) == pytest.approx(wanted, abs=1e-5)


def test_networks_trained_together_learn_a_normal_score_each(run):
    """Of N(0, I) the score is -x: within 0.25 in the root mean square, and the networks are not the same."""
    data = np.random.default_rng(0).standard_normal((2000, 2))
    trained = train_scores(run, data, 2, Training(16, 0, 300, 128, 1e-2))
    x = np.random.default_rng(1).standard_normal((2, 500, 2))
    found = score_network(x, tree.map(lambda leaf: to_host(leaf).astype(np.float64), trained.parameters))
    error = np.sqrt(np.mean((found + x) ** 2, axis=(1, 2)))
    assert np.all(error < 0.25)
    again = score_network(x[::-1], tree.map(lambda leaf: to_host(leaf).astype(np.float64), trained.parameters))
    assert np.max(np.abs(found[0] - again[1])) > 1e-3


def test_columns_are_data_sets_of_their_own(run):
    """N(0, 1) and N(3, 0.5^2): at 0 and 3 the scores are 0, and the slopes -1 and -4."""
    data = np.random.default_rng(0).standard_normal((4000, 2)) * [1.0, 0.5] + [0.0, 3.0]
    trained = train_columns(run, data, 1, Training(16, 0, 400, 256, 1e-2))
    parameters = tree.map(lambda leaf: to_host(leaf).astype(np.float64), trained.parameters)
    z = np.array([-1.0, 0.0, 1.0])
    x = np.stack([z, 3.0 + 0.5 * z])[..., None]
    found = score_network(x, parameters)[..., 0]
    np.testing.assert_allclose(found, [-z, -2 * z], atol=0.5)


@pytest.mark.parametrize("name", TOYS)
def test_an_epoch_is_a_pass_over_the_data(name):
    for how in (FULL.score(name), FULL.acceptance(name), PAPERS.acceptance(name)):
        assert how.updates == 10_000 // how.batch
    paper = PAPERS.score(name)
    assert (paper.epochs, paper.rate) == ((5000, 1e-3) if name == "moons" else (2000, 5e-4)) and paper.cycles is None


def test_a_training_ends_where_the_loss_of_new_data_is_flat(run):
    """Of N(0, I) from 64 rows, which are soon learned by heart; the parameters are those of the best epoch."""
    rng = np.random.default_rng(0)
    data, new = rng.standard_normal((64, 2)), rng.standard_normal((400, 2))
    trained = train_scores(run, data, 2, Training(16, 0, 20, 32, 0.05, updates=2, cycles=30), new)
    ends = np.minimum.accumulate(trained.validation)[19::20]
    gains = (ends[:-1] - ends[1:]) / (trained.validation[0] - ends[1:])
    assert 2 <= len(ends) < 30 and trained.gain == pytest.approx(gains[-1])
    assert gains[-1] <= FLAT and np.all(gains[:-1] > FLAT)
    found = ExactTrace(score_network)(
        tree.map(lambda leaf: to_host(leaf).astype(np.float64)[0], trained.parameters), new[:200], {}, None, 1.0
    )
    other = ExactTrace(score_network)(
        tree.map(lambda leaf: to_host(leaf).astype(np.float64)[1], trained.parameters), new[200:], {}, None, 1.0
    )
    assert 0.5 * (found + other) == pytest.approx(ends[-1], abs=1e-4)


def test_a_training_that_still_falls_says_so(run):
    """The data are far from what the first networks give, and the steps are few."""
    rng = np.random.default_rng(0)
    data = 0.1 * rng.standard_normal((64, 2))
    trained = train_scores(run, data, 2, Training(16, 0, 2, 32, 0.05, updates=2, cycles=2), data)
    assert len(trained.validation) == 4 and trained.gain > FLAT
    run.close()
    assert "still falling: the last of 2 cycles" in (run.out / "report.txt").read_text()


def test_options_that_make_it_shorter(tmp_path):
    limits = ["--chains", "10", "--epochs", "1", "--acceptance-epochs", "1"]
    options = ["--quick", "--backend", LIBRARY, "--part", "table", "--out", str(tmp_path)]
    assert main(["run", "score-mh-toys", *options, *limits]) == 0
    text = (tmp_path / "report.txt").read_text()
    assert "10 chains of 20 steps" in text
    assert "score networks of width 16, 2 epochs of 15 updates" in text and "blocks of 8, 2 epochs" in text


def test_ranges_by_hand():
    row = mean_and_range("gain", np.asarray([1.0, 3.0, -1.0]))
    assert (row["gain"], row["gain_low"], row["gain_high"]) == (1.0, -1.0, 3.0)
    assert range_text(row, "gain") == "1.000 (-1.000 to 3.000)" and range_text({}, "gain") == ""


@pytest.mark.parametrize("name", TOYS)
def test_every_data_set_has_its_settings(name):
    assert QUICK.score(name).hidden == 16 and QUICK.acceptance(name).hidden == 8
    assert QUICK.acceptance(name).blocks == (3 if name == "moons" else 4)
