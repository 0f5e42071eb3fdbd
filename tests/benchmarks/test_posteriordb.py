"""The comparison on posteriordb: reading a checkout, and judging draws beside the reference draws."""

import json
import zipfile

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from asv_benchmarks.peers import posteriordb  # noqa: E402
from asv_benchmarks.peers.posteriors import posterior, reference  # noqa: E402

NAME = "kidiq-kidscore_momiq"
BETA = np.asarray([1.0, 2.0])


def write(path, value):
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(path.stem, json.dumps(value))


@pytest.fixture
def checkout(tmp_path):
    """One with data of its own, and ten chains of reference draws."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=50)
    data = {"N": 50, "mom_iq": x.tolist(), "kid_score": (BETA[0] + BETA[1] * x).tolist()}
    write(tmp_path / "posterior_database/data/data/kidiq.json.zip", data)
    names = ("beta[1]", "beta[2]", "sigma")
    chains = [{name: (i + rng.normal(size=100)).tolist() for i, name in enumerate(names, 1)} for _ in range(10)]
    write(tmp_path / f"posterior_database/reference_posteriors/draws/draws/{NAME}.json.zip", chains)
    return tmp_path


def test_a_posterior_and_its_reference_draws(checkout):
    """Flat priors but for that of sigma: the density by hand, sigma = 1, where all residuals are 1."""
    model = posterior(checkout, NAME).model
    x = model.position({"beta": jax.numpy.asarray(BETA + [1.0, 0.0]), "sigma": jax.numpy.asarray(1.0)})
    value = float(model.target.log_density(x))
    at_the_residuals_of_2 = model.position(
        {"beta": jax.numpy.asarray(BETA + [2.0, 0.0]), "sigma": jax.numpy.asarray(1.0)}
    )
    assert value - float(model.target.log_density(at_the_residuals_of_2)) == pytest.approx(50 * 1.5, rel=1e-4)
    known = reference(checkout, NAME)
    assert list(known) == ["beta[1]", "beta[2]", "sigma"] and known["sigma"].shape == (100, 10)


def test_wrong_draws_are_seen(checkout):
    case, known = posteriordb.PosteriorCase(posterior(checkout, NAME)), reference(checkout, NAME)
    rng = np.random.default_rng(1)

    def draws(shift):
        values = np.stack([shift + 1 + rng.normal(size=(500, 4)), 2 + rng.normal(size=(500, 4))], axis=-1)
        log_sigma = np.log(np.abs(3 + rng.normal(size=(500, 4, 1))))
        return np.concatenate([values, log_sigma], axis=-1)

    right, wrong = (posteriordb.judge(case, known, lambda _, s=s: (draws(s), 4000.0, 6000.0, []), 0) for s in (0, 0.5))
    assert right["z"] < 5 < wrong["z"] and wrong["mean"] == pytest.approx(0.5, abs=0.2)
    assert right["gradients"] == pytest.approx(10_000 / right["ess"])
    row = posteriordb.row(NAME, "HMC", [right, wrong])
    assert row["most"] >= row["gradients"] >= row["least"] and row["found"] == ""
