"""The srld-mixtures experiment in its quick size, through the command line, its targets, and its common noise."""

import itertools
import json

import numpy as np
import pytest

from xpsample import ULA, sample
from xpsample.cli import main
from xpsample.core.specs import Normal
from xpsample.experiments.srld.matched import SETTINGS, CommonNoise
from xpsample.experiments.srld.mixtures import FULL, PAPERS, PROBLEMS, QUICK

RUN = "srld-mixtures"


def test_table(rows):
    by = {(row["problem"], row["setting"], row["sampler"], row["alpha"]): row for row in rows}
    assert len(by) == len(rows)
    for name, setting in itertools.product(PROBLEMS, SETTINGS):
        problem = PROBLEMS[name]
        ld, exact = by[name, setting, "LD", 0.0], by[name, setting, "exact", None]
        assert ld["eta"] == problem.eta and exact["eta"] is None
        # Six standard errors and the scatter of the 200 draws that they are compared with.
        assert abs(exact["mmd2_median"]) < 6 * exact["mmd2_median_se"] + 0.02 and ld["mmd2_median"] > 0.02
        assert abs(exact["square"] - 1) < 6 * exact["square_se"] + 0.01
        for alpha in problem.alphas[:-1]:
            srld, scaled = by[name, setting, "SRLD", alpha], by[name, setting, "LD scaled", alpha]
            assert scaled["eta"] > srld["eta"] == problem.eta
            for key in ("mmd2", "mmd2_median", "marginal_w1", "square", "ess", "acf1", "acf10"):
                gain, fast = by[name, setting, "SRLD - LD", alpha], by[name, setting, "SRLD - LD scaled", alpha]
                assert gain[key] == pytest.approx(srld[key] - ld[key], abs=1e-12)
                assert fast[key] == pytest.approx(srld[key] - scaled[key], abs=1e-12)


def test_repulsion_grows_with_alpha(rows):
    """In 100 dimensions the drift that it adds is far above the noise of three repeats."""
    rows = [row for row in rows if row["sampler"] == "LD scaled" and row["problem"] == "Gaussian, d = 100"]
    etas = {row["alpha"]: row["eta"] for row in rows if row["setting"] == "authors' code"}
    assert [etas[alpha] for alpha in (10.0, 20.0, 50.0, 100.0)] == sorted(etas.values())


def test_problems_are_chosen(tmp_path):
    assert main(["run", "srld-mixtures", "--quick", "--problem", "mixture-20", "--out", str(tmp_path)]) == 0
    assert {row["problem"] for row in json.loads((tmp_path / "results.json").read_text())} == {"mixture, d = 20"}


def test_the_slow_bandwidth_is_left_to_the_papers_size():
    assert FULL.settings == ("authors' code",)
    assert PAPERS.settings == QUICK.settings == tuple(SETTINGS)


@pytest.mark.parametrize("name", PROBLEMS)
def test_exact_draws_are_the_targets(name):
    """E x.s(x) = -dim and E s = 0 under the target (Stein's identity), each within 5 standard errors."""
    problem = PROBLEMS[name]
    x = problem.exact(20_000, np.random.default_rng(1))
    assert x.shape == (20_000, problem.dim)
    score = problem.target().prepare(x, ULA(1.0).requires).score(x)
    along = np.sum(x * score, axis=-1) / problem.dim
    assert abs(along.mean() + 1) < 5 * along.std() / np.sqrt(len(x))
    across = score.mean(axis=1)
    assert abs(across.mean()) < 5 * across.std() / np.sqrt(len(x))
    squares = np.mean(x**2, axis=1)
    assert abs(squares.mean() - problem.square) < 5 * squares.std() / np.sqrt(len(x))


def test_the_modes_in_20_dimensions_are_two_root_two_apart():
    problem = PROBLEMS["mixture, d = 20"]
    a, b = (m * np.ones(problem.dim) for m in problem.means)
    assert np.linalg.norm(a - b) == pytest.approx(2 * np.sqrt(2))


def test_the_first_axis_shares_its_noise(library):
    x0 = library.array(np.zeros((3, 2, 4)))
    kernel = CommonNoise(ULA(library.array([[0.1], [0.1], [0.4]])))
    assert kernel.noise(x0) == {"proposal": Normal((1, 2, 4))}
    draws = library.host(sample(PROBLEMS["mixture, d = 2"].target(), kernel, x0[..., :2], 20, seed=1).draws)
    np.testing.assert_array_equal(draws[:, 0], draws[:, 1])
    assert np.all(draws[:, 0] != draws[:, 2])
    assert np.all(draws[:, 0, 0] != draws[:, 0, 1])
