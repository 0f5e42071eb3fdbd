"""Score-MH: quick runs on toys, weights and GEV, and their targets."""

from argparse import Namespace

import numpy as np
import pytest

from tests.experiments.quick_runs import LIBRARY
from xpsample import SRMC, ULA, Exact
from xpsample.core import tree
from xpsample.core.devices import device_dtypes
from xpsample.core.registry import to_host
from xpsample.experiments.runner import Run, float32
from xpsample.experiments.score_mh.gev import BOUND, bounded
from xpsample.experiments.score_mh.gev import QUICK as GEV_QUICK
from xpsample.experiments.score_mh.gev_problem import gev, gev_quantile
from xpsample.experiments.score_mh.models import FLAT, Training, mean_and_range, range_text, train_columns, train_scores
from xpsample.experiments.score_mh.toys import FULL, PAPER, PAPERS, PARTS, QUICK, asymmetry, methods
from xpsample.experiments.score_mh.weights import QUICK as WEIGHTS_QUICK
from xpsample.experiments.score_mh.weights import STARTS, draw, is_heavy, mixture, samplers, starts
from xpsample.experiments.toys import TOYS
from xpsample.kernels import MALA
from xpsample.score_mh import ExactTrace, score_network
from xpsample.zoo.networks import Dense

# ---- toys ------------------------------------------------------------------------------------------------------------


def test_toy_rows(quick):
    rows, _ = quick("score-mh-toys")
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


def test_parts_and_options_that_make_it_shorter(rows_of, tmp_path):
    """One part of one data set; what it has no rows for is not drawn."""
    rows, _ = rows_of("score-mh-toys", "--backend", LIBRARY, "--part", "steps", "--data", "moons")
    assert {(row["dataset"], row["part"]) for row in rows} == {("moons", "steps")}
    assert not (tmp_path / "plot.png").exists() and not (tmp_path / "maps.png").exists()
    limits = ["--chains", "10", "--epochs", "1", "--acceptance-epochs", "1"]
    _, text = rows_of("score-mh-toys", "--backend", LIBRARY, "--part", "table", *limits)
    assert "10 chains of 20 steps" in text
    assert "score networks of width 16, 2 epochs of 15 updates" in text and "blocks of 8, 2 epochs" in text


def test_a_part_of_the_table_that_the_paper_calls_w2_is_below_w1():
    """So it is no W2; half its square fits all rows: x = W2^2 / 2 with W2 at least W1."""
    found = [(w1, w2) for row in PAPER.values() for w1, w2, _ in row.values()]
    assert sum(w2 < w1 for w1, w2 in found) == 12
    assert all((2 * w2) ** 0.5 >= w1 for w1, w2 in found)


def test_proposals_are_those_of_the_kernels():
    for proposal, kernel in methods(0.3).values():
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


def host(tree_of_arrays):
    return tree.map(lambda leaf: to_host(leaf).astype(np.float64), tree_of_arrays)


def test_networks_trained_together_learn_a_normal_score_each(run):
    """Of N(0, I) the score is -x: within 0.25 in the root mean square, and the networks are not the same."""
    data = np.random.default_rng(0).standard_normal((2000, 2))
    parameters = host(train_scores(run, data, 2, Training(16, 0, 300, 128, 1e-2)).parameters)
    x = np.random.default_rng(1).standard_normal((2, 500, 2))
    found, again = score_network(x, parameters), score_network(x[::-1], parameters)
    assert np.all(np.sqrt(np.mean((found + x) ** 2, axis=(1, 2))) < 0.25)
    assert np.max(np.abs(found[0] - again[1])) > 1e-3


def test_columns_are_data_sets_of_their_own(run):
    """N(0, 1) and N(3, 0.5^2): at 0 and 3 the scores are 0, and the slopes -1 and -4."""
    data = np.random.default_rng(0).standard_normal((4000, 2)) * [1.0, 0.5] + [0.0, 3.0]
    parameters = host(train_columns(run, data, 1, Training(16, 0, 400, 256, 1e-2)).parameters)
    z = np.array([-1.0, 0.0, 1.0])
    found = score_network(np.stack([z, 3.0 + 0.5 * z])[..., None], parameters)[..., 0]
    np.testing.assert_allclose(found, [-z, -2 * z], atol=0.5)


@pytest.mark.parametrize("name", TOYS)
def test_settings_of_a_data_set(name):
    """An epoch is a pass over the data."""
    for how in (FULL.score(name), FULL.acceptance(name), PAPERS.acceptance(name)):
        assert how.updates == 10_000 // how.batch
    paper = PAPERS.score(name)
    assert (paper.epochs, paper.rate) == ((5000, 1e-3) if name == "moons" else (2000, 5e-4)) and paper.cycles is None
    assert QUICK.score(name).hidden == 16 and QUICK.acceptance(name).hidden == 8
    assert QUICK.acceptance(name).blocks == (3 if name == "moons" else 4)


def test_a_training_ends_where_the_loss_of_new_data_is_flat(run):
    """Of N(0, I) from 64 rows, which are soon learned by heart; the parameters are those of the best epoch."""
    rng = np.random.default_rng(0)
    data, new = rng.standard_normal((64, 2)), rng.standard_normal((400, 2))
    trained = train_scores(run, data, 2, Training(16, 0, 20, 32, 0.05, updates=2, cycles=30), new)
    ends = np.minimum.accumulate(trained.validation)[19::20]
    gains = (ends[:-1] - ends[1:]) / (trained.validation[0] - ends[1:])
    assert 2 <= len(ends) < 30 and trained.gain == pytest.approx(gains[-1])
    assert gains[-1] <= FLAT and np.all(gains[:-1] > FLAT)
    losses = [
        ExactTrace(score_network)(tree.map(lambda leaf, i=i: leaf[i], host(trained.parameters)), part, {}, None, 1.0)
        for i, part in enumerate((new[:200], new[200:]))
    ]
    assert np.mean(losses) == pytest.approx(ends[-1], abs=1e-4)


def test_a_training_that_still_falls_says_so(run):
    """The data are far from what the first networks give, and the steps are few."""
    rng = np.random.default_rng(0)
    data = 0.1 * rng.standard_normal((64, 2))
    trained = train_scores(run, data, 2, Training(16, 0, 2, 32, 0.05, updates=2, cycles=2), data)
    assert len(trained.validation) == 4 and trained.gain > FLAT
    run.close()
    assert "still falling: the last of 2 cycles" in (run.out / "report.txt").read_text()


def test_ranges_by_hand():
    row = mean_and_range("gain", np.asarray([1.0, 3.0, -1.0]))
    assert (row["gain"], row["gain_low"], row["gain_high"]) == (1.0, -1.0, 3.0)
    assert range_text(row, "gain") == "1.000 (-1.000 to 3.000)" and range_text({}, "gain") == ""


# ---- weights ---------------------------------------------------------------------------------------------------------


def test_local_samplers_keep_the_weights_of_their_starts(quick):
    """Only wide proposals cross."""
    rows = {row["sampler"]: row for row in quick("score-mh-weights")[0]}
    for name, row in rows.items():
        if name.startswith(("ULA", "MALA", "RW, sd 1,")):
            assert row["crossed"] == 0 and row["heavy mode"] == 1 and row["both modes"] == 0.5, name
    assert rows["RW wide, density"]["crossed"] > 0.2 and len(rows) == len(samplers(WEIGHTS_QUICK)) + 2
    # Eight nodes cannot see where along 14 length scales the score turns over.
    assert rows["RW wide, line 8"]["acceptance_probability"] > 1.3 * rows["RW wide, density"]["acceptance_probability"]


def test_starts_are_what_they_are_called():
    """Weights 1, 1/2, near 1/2 and near 0.8: 5 standard errors of 400 chains are 0.1 and less."""
    x = starts(400, np.random.default_rng(0))
    assert x.shape == (len(STARTS), 400, 2)
    shares = np.mean(is_heavy(x), axis=1)
    assert shares[0] == 1 and shares[1] == 0.5
    assert abs(shares[2] - 0.5) < 0.125 and abs(shares[3] - 0.8) < 0.1


def test_draws_are_the_targets():
    """Stein's identity E x.s(x) = -2 within 5 standard errors."""
    x = draw(20_000, np.random.default_rng(1))
    found = np.sum(x * mixture().prepare(x, MALA(1.0).requires).score(x), axis=-1)
    assert abs(np.mean(found) + 2) < 5 * np.std(found) / np.sqrt(len(x))


# ---- Gaussian --------------------------------------------------------------------------------------------------------


def test_gaussian_rows(quick):
    rows, _ = quick("score-mh-gaussian")
    by = {(row["score"], row["acceptance"]): row for row in rows}
    assert len(by) == len(rows) == 2 + 2 * 3
    density = by["", "density"]
    # The integral of the true score is the log ratio of the density itself.
    for key in ("mean", "sd", "w1", "accept"):
        assert by["true", "line"][key] == pytest.approx(density[key], rel=1e-4)
    for score in ("true", "learned"):
        assert by[score, "direct"]["accept"] < by[score, "ratio"]["accept"] <= 1
    # A random walk of 2.4 standard deviations accepts 2 / pi * atan(2 / 2.4) = 0.442 in stationarity.
    assert density["accept"] == pytest.approx(0.442, abs=0.04)


# ---- generalized extreme values --------------------------------------------------------------------------------------


def test_gev_rows(quick):
    rows, _ = quick("score-mh-gev")
    by = {(row["eta"], row["shape"], row["sampler"], row["score"]): row for row in rows}
    assert len(by) == len(rows) == len(GEV_QUICK.etas) * len(GEV_QUICK.shapes) * (1 + 2 + 1 + 2 * 4)
    for eta in GEV_QUICK.etas:
        for shape in GEV_QUICK.shapes:
            exact, line = (by[eta, shape, name, "true"] for name in ("MALA", "MALA line"))
            assert line["accept"] == pytest.approx(exact["accept"], abs=0.02)
            assert line["w1"] == pytest.approx(exact["w1"], rel=0.3)
            for score in ("true", "learned"):
                assert by[eta, shape, "MALA direct", score]["accept"] < by[eta, shape, "MALA ratio", score]["accept"]
                assert by[eta, shape, "ULA", score]["accept"] >= 1 - by[eta, shape, "ULA", score]["frozen"]


def test_the_score_in_training_is_finite_everywhere(library):
    """Outside of the support 0, next to its edge (-2 for xi = 0.5) the bound, and elsewhere itself."""
    target = gev(np.array([0.5]))
    x = library.array(np.array([[-2.5], [-1.9], [0.0], [3.0]]))
    bound = target.prepare(x[1:, ...], ULA(1.0).requires)
    found = library.host(bounded(bound.score)(x))[:, 0]
    wanted = library.host(bound.score(x))[:, 0]
    np.testing.assert_array_equal(found[:2], [0.0, BOUND])
    np.testing.assert_array_equal(found[2:], wanted[2:])


EVERYTHING = SRMC(MALA(0.1), alpha=1.0, tilt=Exact()).requires
SHAPES = np.array([-0.4, -1e-9, 0.0, 1e-9, 0.3, 1.2])
LOCATION, SCALE = 0.5, 2.0


def inner(shape, count=30):
    """Positions (shapes, count, 1) of each law's support."""
    return gev_quantile(np.linspace(0.001, 0.999, count), shape[:, None], LOCATION, SCALE)[..., None]


def bound_to(library, x):
    return gev(SHAPES[:, None], LOCATION, SCALE).prepare(x, EVERYTHING)


def test_density_is_scipys(library):
    stats = pytest.importorskip("scipy.stats")
    x = inner(SHAPES)
    found = library.host(bound_to(library, library.array(x)).evaluate(library.array(x)).log_density)
    wanted = stats.genextreme.logpdf(x[..., 0], -SHAPES[:, None], LOCATION, SCALE)
    # SciPy's own formula loses digits for shapes next to 0.
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
    quantiles = stats.genextreme.ppf(np.linspace(0.001, 0.999, 30), -SHAPES[:, None], LOCATION, SCALE)
    np.testing.assert_allclose(x[..., 0], quantiles, rtol=1e-6)


def test_derivatives_are_differences(library):
    host = inner(SHAPES)
    x, h = library.array(host), 1e-6
    bound = bound_to(library, x)
    up, down = (library.array(host + step) for step in (h, -h))
    slope = library.host(bound.evaluate(up).log_density - bound.evaluate(down).log_density) / (2 * h)
    np.testing.assert_allclose(library.host(bound.score(x))[..., 0], slope, rtol=1e-5, atol=1e-6)
    bend = library.host(bound.score(up) - bound.score(down)) / (2 * h)
    v = library.array(np.full_like(host, 3.0))
    np.testing.assert_allclose(library.host(bound.hvp(x, v)), 3.0 * bend, rtol=1e-5, atol=1e-5)


def test_nothing_is_outside_of_the_support(library):
    inside, outside = np.array([[[1.0]], [[1.0]]]), np.array([[[4.1]], [[-4.1]]])  # bounds of xi = -0.5, 0.5: 4, -4
    target = gev(np.array([[-0.5], [0.5]]), 0.0, 2.0).prepare(library.array(inside), EVERYTHING)
    point = target.evaluate(library.array(outside))
    np.testing.assert_array_equal(library.host(point.log_density), -np.inf)
    assert np.all(np.isnan(library.host(point.score)))
    assert np.all(np.isfinite(library.host(target.evaluate(library.array(inside)).score)))
