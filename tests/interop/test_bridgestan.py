"""Models with BridgeStan's interface: a stand-in, since building Stan's own needs a download."""

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import BackendError, CapabilityError, PositionError
from xpsample.interop import stan_parameters, stan_target


class Stan:
    """mu ~ Normal(1, 2), tau ~ Gamma(3, 2) with z = log tau, and a matrix a of 2 x 3 standard normals."""

    def __init__(self):
        self._gradient = np.empty(8)  # one buffer for all calls, as BridgeStan's `out` would be

    def param_unc_num(self):
        return 8

    def param_names(self, *, include_tp=False, include_gq=False):
        matrix = [f"a.{i}.{j}" for j in (1, 2, 3) for i in (1, 2)]  # the first index runs fastest
        return ["mu", "tau", *matrix, *["log_tau"] * include_tp, *["twice.1", "twice.2"] * include_gq]

    def param_constrain(self, z, *, include_tp=False, include_gq=False):
        extra = [[z[1]] if include_tp else [], [2 * z[0], 2 * z[1]] if include_gq else []]
        return np.concatenate([[z[0], np.exp(z[1])], z[2:], *extra])

    def log_density(self, z, *, propto=True, jacobian=True):
        return self.log_density_gradient(z, propto=propto, jacobian=jacobian)[0]

    def log_density_gradient(self, z, *, propto=True, jacobian=True):
        assert z.dtype == np.float64 and z.shape == (8,)
        if z[1] > 50:
            raise RuntimeError("gamma_lpdf: Random variable is inf")
        tau, power = np.exp(z[1]), 2.0 + jacobian
        density = -0.5 * ((z[0] - 1) / 2) ** 2 + power * z[1] - 2 * tau - 0.5 * np.sum(z[2:] ** 2)
        self._gradient[:] = np.concatenate([[-(z[0] - 1) / 4, power - 2 * tau], -z[2:]])
        return density, self._gradient


def test_density_and_score_are_stans():
    x = np.random.default_rng(0).normal(size=(3, 2, 8))
    prepared = stan_target(Stan())
    density, score = prepared.log_density_and_score(x)
    assert density.shape == (3, 2) and score.shape == (3, 2, 8)
    for i in np.ndindex(3, 2):
        value, gradient = Stan().log_density_gradient(x[i])
        assert density[i] == value and np.all(score[i] == gradient)
    assert np.all(prepared.log_density(x) == density)
    small = 1e-6 * np.eye(8)
    slopes = [(prepared.log_density(x + h) - prepared.log_density(x - h)) / 2e-6 for h in small]
    assert np.allclose(np.stack(slopes, axis=-1), score, atol=1e-7)


@pytest.mark.slow
def test_moments_and_names_of_a_run():
    x0 = np.random.default_rng(1).normal(size=(20, 8)).astype(np.float32)
    trace = xps.sample(stan_target(Stan()), xps.NUTS(), x0, 400, seed=2, progress=False)
    values = trace.map(stan_parameters(Stan(), transformed=True, generated=True))
    shapes = {"mu": (), "tau": (), "a": (2, 3), "log_tau": (), "twice": (2,)}
    assert {name: value.shape[2:] for name, value in values.items()} == shapes
    # 8,000 draws with an ESS of 2,000 or more: 5 standard errors; Gamma(3, 2) has mean 1.5 and variance 0.75.
    assert abs(values["mu"].mean() - 1.0) < 5 * 2 / 2000**0.5
    assert abs(values["tau"].mean() - 1.5) < 5 * (0.75 / 2000) ** 0.5
    assert np.all(values["a"][..., 1, 0] == trace.draws[..., 3])
    assert np.all(values["a"][..., 0, 2] == trace.draws[..., 6])
    assert np.array_equal(values["log_tau"], trace.draws[..., 1])


def test_where_stan_raises_the_density_is_minus_infinity():
    x = np.zeros((2, 8))
    x[1, 1] = 60.0
    density, score = stan_target(Stan()).log_density_and_score(x)
    assert np.isfinite(density[0]) and density[1] == -np.inf and np.all(np.isfinite(score[0]))
    assert np.array_equal(stan_target(Stan()).log_density(x), density)


def test_what_is_refused():
    with pytest.raises(CapabilityError, match="a Stan model has a method log_density"):
        stan_target("model.stan")
    with pytest.raises(PositionError, match="8 unconstrained coordinates"):
        xps.sample(stan_target(Stan()), xps.RWM(0.1), np.zeros((2, 7)), 2, seed=0)
    torch = pytest.importorskip("torch")
    with pytest.raises(BackendError, match="NumPy"):
        xps.sample(stan_target(Stan()), xps.RWM(0.1), torch.zeros(2, 8), 2, seed=0)
