"""The breast-cancer experiment in its quick size, through the command line."""

import numpy as np

from xpsample import load
from xpsample.experiments.breast_cancer.breast_cancer import held_out_log_density
from xpsample.zoo.logistic import load_breast_cancer

KERNELS = ["MALA", "SR-MALA", "HMC", "SR-HMC"]


RUN = "breast-cancer"


def test_table_has_sane_numbers(rows):
    assert [row["kernel"] for row in rows] == KERNELS
    for row in rows:
        assert (row["backend"], row["device"], row["dtype"]) == ("numpy", "cpu", "float64")
        numbers = [v for v in row.values() if isinstance(v, (int, float))]
        assert len(numbers) == 13 and np.all(np.isfinite(numbers))
        assert row["divergences"] == 0 and 0.5 < row["acceptance"] < 0.95
        assert row["rhat"] < 1.05 and row["ess"] > 200
        assert row["error"] < 0.1 and row["chain_error"] < 0.25
        assert -0.11 < row["held_out_log_density"] < -0.05
        assert (row["hvps"] > 0) == row["kernel"].startswith("SR-")


def test_repellence_lowers_the_error_of_a_chain(rows):
    error = {row["kernel"]: row["chain_error"] for row in rows}
    assert error["SR-MALA"] < error["MALA"] and error["SR-HMC"] < error["HMC"]


def test_draws_are_the_coefficients_and_read_back(out):
    trace = load(out / "draws-numpy-cpu-float64-SR-MALA.npz")
    assert trace.draws.shape == (100, 16, 31)
    assert trace.statistics["log_density"].shape == (100, 16)
    assert trace.metadata["names"] == list(load_breast_cancer().names)
    summary = trace.summary()
    assert summary.mean[summary.names.index("worst texture")] > 0.5


def test_held_out_density_is_the_log_of_the_mean():
    data = load_breast_cancer()
    draws = np.random.default_rng(0).standard_normal((3, 2, 31))
    p = 1 / (1 + np.exp(-np.einsum("dcj,nj->dcn", draws, data.test_features)))
    p = np.where(data.test_labels == 1, p, 1 - p)
    np.testing.assert_allclose(held_out_log_density(draws, data), np.log(p.mean(axis=(0, 1))).mean())
