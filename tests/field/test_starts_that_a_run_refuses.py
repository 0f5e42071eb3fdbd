"""`start` gives positions that `sample` takes: where the score is finite, too, and where no function raises."""

import numpy as np
import pytest
from array_api_compat import array_namespace

import xpsample as xps
from xpsample.core.errors import FunctionError, LogDensityError

METHODS = {"random": None, "Pathfinder": xps.Pathfinder(), "Laplace": xps.Laplace()}


def score_with_holes(x):
    xp = array_namespace(x)
    return xp.where(x[..., :1] > 0.5, xp.nan, -x)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_the_score_is_finite_there(library, method):
    """N(0, I), whose score is nan where x[0] > 0.5."""
    target = xps.Target(lambda x: -0.5 * array_namespace(x).sum(x**2, axis=-1), score_with_holes)
    x0 = xps.start(target, library.array(np.zeros(2)), 30, seed=1, method=method)
    assert np.max(library.host(x0)[:, 0]) <= 0.5
    xps.Sampler(target, xps.HMC(), x0, 1)  # which evaluates at the start positions


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.filterwarnings("ignore::xpsample.core.errors.DiagnosisWarning")
def test_a_censored_weibull(method):
    """A derivative of log(exp(-h)) that is not selected is 0 times infinity where exp(-h) is 0."""
    torch = pytest.importorskip("torch")
    y = torch.asarray(3 * np.random.default_rng(0).weibull(1.5, size=50))
    censored = y < 0.7

    def log_density(p):
        shape, scale = p.shape[..., None], p.scale[..., None]
        h = (y / scale) ** shape
        log_f = torch.log(shape / scale) + (shape - 1) * torch.log(y / scale) - h
        return torch.where(censored, torch.log(torch.exp(-h)), log_f).sum(-1)

    model = xps.Model(log_density, shape=xps.Positive(), scale=xps.Positive())
    for seed in range(6):
        x0 = model.start(torch.zeros(0, dtype=torch.float64), 16, seed=seed, scale=2.0, method=method)
        xps.sample(model, xps.HMC(0.01, 2), x0, 2, seed=1, progress=False)


def test_a_score_that_is_finite_nowhere_is_not_asked_for():
    """A kernel without scores runs from there, and one with scores says why it does not."""
    target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: np.nan * x)
    x0 = xps.start(target, np.zeros(2), seed=1)
    np.testing.assert_array_equal(x0, xps.start(xps.Target(target.log_density), np.zeros(2), seed=1))
    xps.Sampler(target, xps.RWM(1.0), x0, 1)
    with pytest.raises(LogDensityError, match="the score is not finite"):
        xps.Sampler(target, xps.HMC(), x0, 1)


def correlated(linalg):
    """A density of a correlation, which has no Cholesky factor beyond -1 and 1."""

    def log_density(x):
        rows = 0 * x[..., None] + np.eye(2) + x[..., None] * np.eye(2)[::-1].copy()
        return -np.log(np.abs(linalg.cholesky(rows)[..., 1, 1]))

    return log_density


def test_positions_at_which_a_function_raises_are_drawn_again():
    target = xps.Target(correlated(np.linalg))
    for seed in range(5):
        x0 = xps.start(target, np.zeros(1), 200, seed=seed)
        assert np.max(np.abs(x0)) < 1
    assert np.mean(x0) == pytest.approx(0.0, abs=0.15)  # four standard errors of almost uniform draws
    rejecting = xps.Target(xps.batched(correlated(np.linalg), rejects=np.linalg.LinAlgError))
    np.testing.assert_array_equal(x0, xps.start(rejecting, np.zeros(1), 200, seed=4))


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_errors_of_linear_algebra_name_their_class(library):
    """torch's is a subclass of RuntimeError, of a name of its own."""
    xp = pytest.importorskip(library)

    def log_density(x):
        rows = xp.eye(2, dtype=x.dtype) * (1 - x[..., None] ** 2)
        return xp.linalg.cholesky(rows)[..., 1, 1]

    like = xp.zeros(1, dtype=xp.float64)
    with pytest.raises(LogDensityError, match=r"batched\(f, rejects=LinAlgError\)"):
        xps.start(xps.Target(log_density), like + 50, seed=1)
    with pytest.raises(FunctionError, match=r"batched\(f, rejects=LinAlgError\)"):
        xps.sample(xps.Target(log_density), xps.RWM(50.0), xps.start(xps.Target(log_density), like, seed=1), 99, seed=1)


def test_a_function_that_raises_at_most_positions_ends_soon():
    calls = []

    def log_density(x):
        calls.append(x)
        if np.any(np.abs(x) > 0.01):
            raise ZeroDivisionError("too far")
        return -np.sum(x**2, axis=-1)

    with pytest.raises(LogDensityError, match="too far"):
        xps.start(xps.Target(log_density), np.zeros(1), 2000, scale=0.1, seed=1)
    assert len(calls) < 2500
