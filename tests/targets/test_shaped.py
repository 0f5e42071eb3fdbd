"""Positions that are no vectors: functions of images run as the same functions of vectors do, and give images back."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from array_api_compat import array_namespace

import xpsample as xps
from xpsample.core.errors import HyperparameterError, LogDensityError, PositionError
from xpsample.core.registry import to_host
from xpsample.experiments.breast_cancer.affine import affine
from xpsample.optimize.optimizers import SGD
from xpsample.particles.batches import RowBatches
from xpsample.particles.pcd import PCD
from xpsample.score_mh import Denoising, ExactTrace, LangevinProposal, Learned, fit
from xpsample.targets import LineIntegral, check_gradient

SHAPE, DIM, CHAINS = (2, 2, 3), 12, (3, 4)
SPACE = xps.Real(*SHAPE)
X0 = np.random.default_rng(0).standard_normal((*CHAINS, *SHAPE))
SCALE = np.random.default_rng(1).uniform(0.5, 2.0, SHAPE)
SILENT = {"progress": False, "seed": 1}


def summed(a):
    return array_namespace(a).sum(a, axis=(-3, -2, -1))


def log_density(x, scale):
    """Neighbors in a row pull at each other, so that the order of the axes matters."""
    assert x.shape[-3:] == SHAPE
    near = x[..., 1:] - x[..., :-1]
    return -0.5 * summed(scale * x * x) - summed(near**4) / 4


def force(x, near):
    xp = array_namespace(x)
    zero = xp.zeros_like(x[..., :1])
    return xp.concat([near, zero], axis=-1) - xp.concat([zero, near], axis=-1)


def score(x, scale):
    return -scale * x + force(x, (x[..., 1:] - x[..., :-1]) ** 3)


def hvp(x, v, scale):
    assert v.shape == x.shape
    return -scale * v + force(x, 3 * (x[..., 1:] - x[..., :-1]) ** 2 * (v[..., 1:] - v[..., :-1]))


def flat(f):
    """The same function of vectors, by hand."""

    def of_vectors(*args):
        xp, n = array_namespace(args[0]), len(args) - 1
        found = f(*(xp.reshape(a, (*a.shape[:-1], *SHAPE)) for a in args[:n]), args[-1])
        return xp.reshape(found, args[0].shape) if f in (score, hvp) else found

    return of_vectors


IMAGES = xps.Target(log_density, score=score, hvp=hvp, data=SCALE, space=SPACE)
VECTORS = xps.Target(flat(log_density), score=flat(score), hvp=flat(hvp), data=SCALE)
BY_SCORE = {"acceptance": LineIntegral(3)}
PLUS = replace(IMAGES, score_plus_hvp=lambda x, v, s: score(x, s) + hvp(x, v, s))
TOGETHER = replace(IMAGES, log_density_and_score=lambda x, s: (log_density(x, s), score(x, s)))
MEMBERS = (
    xps.Parametric(log_density, SCALE, score=score, space=SPACE),
    xps.Parametric(flat(log_density), SCALE, score=flat(score)),
)
SCORES = replace(IMAGES, log_density=None, **BY_SCORE), replace(VECTORS, log_density=None, **BY_SCORE)
PAIRS = {
    "HMC": (xps.HMC(0.2, 3), IMAGES, VECTORS),
    "its density alone": (xps.RWM(0.3), replace(IMAGES, score=None, hvp=None), VECTORS),
    "SRMC, with an hvp": (xps.SRMC(xps.MALA(0.1), 0.5, tilt=xps.Exact()), IMAGES, VECTORS),
    "the score plus an hvp": (xps.SRMC(xps.HMC(0.1, 2), 0.5, tilt=xps.Exact()), PLUS, VECTORS),
    "its score alone": (xps.MALA(0.1), *SCORES),
    "both at once": (xps.MALA(0.1), TOGETHER, VECTORS),
    "tempered": (xps.MALA(0.1), xps.Tempered(IMAGES, 0.5), xps.Tempered(VECTORS, 0.5)),
    "a bridge": (xps.MALA(0.1), xps.Bridge(IMAGES, IMAGES), xps.Bridge(VECTORS, VECTORS)),
    "a family": (xps.ULA(0.1), *MEMBERS),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_the_chain_is_that_of_vectors(library, pair):
    kernel, images, vectors = pair
    settings = SILENT | {"seed": xps.Portable(2)}
    found = xps.sample(images, kernel, library.array(X0), 3, **settings)
    expected = xps.sample(vectors, kernel, library.array(X0.reshape(*CHAINS, DIM)), 3, **settings)
    np.testing.assert_array_equal(library.host(found.draws), library.host(expected.draws))
    assert found["x"].shape == (3, *CHAINS, *SHAPE) and found.draws.shape == (3, *CHAINS, DIM)
    np.testing.assert_array_equal(library.host(found["x"]).reshape(3, *CHAINS, DIM), library.host(found.draws))


def test_by_autodiff(differentiating):
    target = xps.Target(log_density, data=SCALE, space=SPACE)
    x = differentiating.array(X0)
    assert check_gradient(target, x) < 1e-8  # against differences
    rows = differentiating.array(X0.reshape(*CHAINS, DIM))
    found = target.prepare(rows, xps.targets.Capability.SCORE).score(rows)
    np.testing.assert_allclose(differentiating.host(found).reshape(X0.shape), score(X0, SCALE), rtol=1e-10, atol=1e-12)


def test_learned_acceptances_see_images(library):
    seen = []

    def network(x_new, x, p):
        seen.append((tuple(x_new.shape), tuple(x.shape)))
        return summed(x_new - x)

    def draws(network, own, space, x0):
        acceptance = Learned(network, np.zeros(1), LangevinProposal(0.1))
        target = xps.Target(None, score=own, data=SCALE, space=space, acceptance=acceptance)
        return library.host(xps.sample(target, xps.MALA(0.1), library.array(x0), 2, **SILENT).draws)

    found = draws(network, score, SPACE, X0)
    assert set(seen) == {((*CHAINS, *SHAPE),) * 2}

    def of_vectors(x_new, x, p):
        return array_namespace(x).sum(x_new - x, axis=-1)

    expected = draws(of_vectors, flat(score), xps.Real(), X0.reshape(*CHAINS, DIM))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_pcd_of_images():
    """Buffer, data and energy are images; parameters and particles are those of the vectors."""

    def energy(x, m):
        return -0.5 * summed((x - m) ** 2)

    def trained(energy, rows, buffer, space):
        family = xps.Parametric(energy, np.zeros(SHAPE), gradient=xps.FiniteDifference(1e-4), space=space)
        return xps.sample(family, PCD(RowBatches(rows, 10), SGD(0.1), 0.1, blocks=2), buffer, 5, **SILENT)

    data = np.random.default_rng(3).standard_normal((50, *SHAPE)) + 1
    buffer = np.random.default_rng(4).standard_normal((20, *SHAPE))
    found = trained(energy, data, buffer, SPACE)
    expected = trained(flat(energy), data.reshape(-1, DIM), buffer.reshape(-1, DIM), xps.Real())
    assert found["x"].shape == (5, 20, *SHAPE)
    np.testing.assert_array_equal(found.state.parameters, expected.state.parameters)
    np.testing.assert_array_equal(found.draws, expected.draws)


def test_denoising_of_images():
    """A network of images learns what one of vectors does; a loss that makes vectors of its own refuses images."""
    data = np.random.default_rng(5).standard_normal((30, *SHAPE))
    settings = {"epochs": 2, "batch_size": 10, **SILENT}
    found = fit(Denoising(0.3, lambda x, p: -p * x), np.ones(SHAPE), data, validation=data[:5], **settings)
    rows = data.reshape(-1, DIM)
    expected = fit(Denoising(0.3, lambda x, p: -p * x), np.ones(DIM), rows, validation=rows[:5], **settings)
    np.testing.assert_allclose(found.parameters.ravel(), expected.parameters, rtol=1e-12)
    np.testing.assert_allclose(found.validation_losses, expected.validation_losses, rtol=1e-12)
    with pytest.raises(HyperparameterError, match="ExactTrace takes rows that are vectors"):
        fit(ExactTrace(lambda x, p: -p * x), np.ones(SHAPE), data, **settings)


# ---- traces ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trace():
    with pytest.warns(xps.core.errors.ConvergenceWarning):
        return xps.sample(IMAGES, xps.HMC(0.2, 3), X0[0], 20, **SILENT)


def test_summaries_and_files(trace, tmp_path):
    assert trace.parameters == ()
    assert trace.map(lambda x: x.shape) == (20, 4, *SHAPE)
    assert "x[1, 0, 2]" in str(trace.summary())
    trace.save(tmp_path / "trace.npz")
    np.testing.assert_array_equal(xps.load(tmp_path / "trace.npz")["x"], trace["x"])
    again = pickle.loads(pickle.dumps(IMAGES))
    np.testing.assert_array_equal(*(xps.sample(t, xps.MALA(0.1), X0, 2, **SILENT)["x"] for t in (again, IMAGES)))


def test_to_arviz(trace):
    pytest.importorskip("arviz_base")
    posterior = trace.to_arviz().posterior["x"]
    assert posterior.dims == ("chain", "draw", "x_dim_0", "x_dim_1", "x_dim_2")
    np.testing.assert_array_equal(posterior[1, 2], trace["x"][2, 1])


def test_a_run_resumes(tmp_path):
    run = {"checkpoint": tmp_path, **SILENT}
    xps.sample(IMAGES, xps.MALA(0.1), X0, 3, **run)
    more = xps.sample(IMAGES, xps.MALA(0.1), X0, 6, **run)
    whole = xps.sample(IMAGES, xps.MALA(0.1), X0, 6, **SILENT)
    np.testing.assert_array_equal(more["x"], whole["x"])
    # On from the state's coordinates, too.
    xps.sample(IMAGES, whole.kernel, whole.state.point.x, 1, **SILENT)


def test_start(library):
    def start(target, at, scale):
        return xps.start(target, library.array(at), 5, scale=library.array(scale), seed=1)

    x0 = start(IMAGES, np.zeros(SHAPE), SCALE)
    assert x0.shape == start(IMAGES, np.zeros(SHAPE), np.asarray(0.5)).shape == (5, *SHAPE)
    of_vectors = library.host(start(VECTORS, np.zeros(DIM), SCALE.ravel()))
    np.testing.assert_allclose(library.host(x0).reshape(5, DIM), of_vectors, rtol=1e-12)


# ---- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(4, 2, 3), (4, 6), (4, 3, 2, 2), (), (2, 2, 4)])
def test_positions_of_another_shape(library, shape):
    with pytest.raises(PositionError, match=r"on Real\(2, 2, 3\) have shape \(\*chains, 2, 2, 3\)"):
        xps.sample(IMAGES, xps.RWM(0.1), library.array(np.zeros(shape)), 1, **SILENT)


def test_a_score_of_another_shape(library):
    target = xps.Target(None, score=lambda x: -array_namespace(x).reshape(x, (*x.shape[:-3], DIM)), space=SPACE)
    with pytest.raises(LogDensityError, match="the score must have shape"):
        xps.sample(target, xps.ULA(0.1), library.array(X0), 1, **SILENT)


def test_what_takes_vectors():
    with pytest.raises(HyperparameterError, match=r"affine takes targets of vectors; this one is on Real\(2, 2, 3\)"):
        affine(IMAGES, np.zeros(DIM), np.eye(DIM))


def test_vectors_are_what_they_were():
    """A space of one axis, and the positions of those."""
    target = xps.Target(lambda x: -0.5 * np.sum(x * x, axis=-1), space=xps.Real(5))
    found = xps.sample(target, xps.RWM(0.5), np.zeros((4, 5)), 3, **SILENT)
    assert found["x"] is found.draws and to_host(found.draws).shape == (3, 4, 5)
