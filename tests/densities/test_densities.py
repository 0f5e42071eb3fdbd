"""Log densities against SciPy and mpmath: values, derivatives, tails, float32, broadcasting and supports."""

import itertools

import mpmath
import numpy as np
import pytest
from scipy import special, stats

from xpsample import densities as d
from xpsample.core.errors import BackendError, HyperparameterError
from xpsample.core.registry import backend_of
from xpsample.core.special import log_bessel_i0e, log_beta, log_gamma, log_ndtr

REAL = np.asarray([-1e6, -40.0, -7.0, -0.3, 0.2, 3.0, 38.0, 1e6])
POSITIVE = np.asarray([1e-8, 0.02, 0.7, 3.0, 45.0, 1e4])
COUNTS = np.asarray([0.0, 1.0, 4.0, 17.0, 300.0, 20_000.0])
INSIDE = np.asarray([1e-9, 0.01, 0.4, 0.97, 1.0 - 1e-9])


def by_scale(law):
    return lambda x, *given: law.logpdf(x, *given[:-1], scale=given[-1])


def by_rate(law):
    return lambda x, *given: law.logpdf(x, *given[:-1], scale=1 / given[-1])


def laplace(x, location, scale):
    return -np.abs(x - location) / scale - np.log(2 * scale)


def von_mises(x, location, kappa):
    return kappa * (np.cos(x - location) - 1) - np.log(2 * np.pi * special.i0e(kappa))


def uniform(x, low, high):
    return stats.uniform.logpdf(x, low, high - low)


def log_normal(x, mean, sd):
    return stats.norm.logpdf(np.log(x), mean, sd) - np.log(x)


def bernoulli(x, logit):
    return -np.logaddexp(0, np.where(x == 1, -logit, logit))


def binomial(x, number, logit):
    return stats.binom.logpmf(x, number, special.expit(logit))


def poisson(x, log_rate):
    return stats.poisson.logpmf(x, np.exp(log_rate))


def negative_binomial(x, mean, dispersion):
    return stats.nbinom.logpmf(x, dispersion, dispersion / (mean + dispersion))


BITS = np.asarray([0.0, 1.0])
ANGLES = [(0.3, 1e-3), (0.2, 4.0), (0.1, 19.5), (0.1, 20.5), (0.1, 300.0)]
TRIALS, MEANS = [(20_000.0, 0.3), (20_000.0, -9.0), (30_000.0, 3.0)], [(0.2, 0.1), (7.0, 3.0), (2e4, 50.0)]
# Density, SciPy's, values of x, sets of parameters, values outside of the support.
TABLE = {
    "normal": (d.normal, stats.norm.logpdf, REAL, [(0.3, 1.0), (-5.0, 0.01)], []),
    "student_t": (d.student_t, stats.t.logpdf, REAL, [(0.5, 0.1, 1.0), (4.0, 0.0, 2.5), (1e6, 0.1, 1.0)], []),
    "cauchy": (d.cauchy, stats.cauchy.logpdf, REAL, [(0.1, 1.0), (3.0, 0.01)], []),
    "laplace": (d.laplace, laplace, REAL, [(0.1, 1.0), (3.0, 0.01)], []),
    "logistic": (d.logistic, stats.logistic.logpdf, REAL, [(0.1, 1.0), (3.0, 0.02)], []),
    "von_mises": (d.von_mises, von_mises, REAL[1:-1], ANGLES, []),
    "uniform": (d.uniform, uniform, INSIDE, [(0.0, 1.0), (-3.0, 4.0)], [-4.0, 5.0]),
    "beta": (d.beta, stats.beta.logpdf, INSIDE, [(0.5, 0.5), (2.0, 30.0), (4e3, 5e3)], [-1.0, 0.0, 1.0, 2.0]),
    "half_normal": (d.half_normal, by_scale(stats.halfnorm), POSITIVE, [(1.0,), (30.0,)], [-1.0]),
    "half_cauchy": (d.half_cauchy, by_scale(stats.halfcauchy), POSITIVE, [(1.0,), (30.0,)], [-1.0]),
    "log_normal": (d.log_normal, log_normal, POSITIVE, [(0.2, 1.0), (3.0, 0.1)], [-1.0, 0.0]),
    "exponential": (d.exponential, by_rate(stats.expon), POSITIVE, [(1.0,), (0.02,)], [-1.0]),
    "gamma": (d.gamma, by_rate(stats.gamma), POSITIVE, [(0.3, 1.0), (9.0, 2.0), (1e4, 3e3)], [-1.0, 0.0]),
    "inverse_gamma": (d.inverse_gamma, by_scale(stats.invgamma), POSITIVE[1:], [(0.3, 1.0), (9.0, 2.0)], [-1.0, 0.0]),
    "weibull": (d.weibull, by_scale(stats.weibull_min), POSITIVE, [(0.5, 1.0), (1.0, 3.0), (3.0, 20.0)], [-1.0, 0.0]),
    "bernoulli": (d.bernoulli, bernoulli, BITS, [(0.3,), (-50.0,), (50.0,)], [-1.0, 0.5, 2.0]),
    "binomial": (d.binomial, binomial, COUNTS, TRIALS, [-1.0, 0.5, 4e4]),
    "poisson": (d.poisson, poisson, COUNTS, [(-5.0,), (1.2,), (9.9,)], [-1.0, 0.5]),
    "negative_binomial": (d.negative_binomial, negative_binomial, COUNTS, MEANS, [-1.0, 0.5]),
}
DENSITY = pytest.mark.parametrize("name", TABLE)


@pytest.fixture(autouse=True)
def quiet():
    """As in a run, in which NumPy does not warn of log(0)."""
    with np.errstate(all="ignore"):
        yield


@DENSITY
def test_values_are_scipys(name, library):
    """And minus infinity outside the support."""
    density, reference, x, sets, outside = TABLE[name]
    for parameters in sets:
        wanted = reference(x, *parameters)
        found = library.host(density(library.array(x), *parameters))
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=3e-11)
        columns = [library.array(np.asarray([[p], [p]])) for p in parameters]
        rows = library.host(density(library.array(x), *columns))  # parameters of two chains, against all x
        np.testing.assert_allclose(rows, np.stack([wanted, wanted]), rtol=1e-12, atol=3e-11)
    if outside:
        assert np.all(library.host(density(library.array(np.asarray(outside)), *sets[0])) == -np.inf)


@DENSITY
def test_float32(name, library32):
    """Errors are a few roundings of the largest term that a user would write down, times those of the parameters."""
    density, reference, x, sets, _ = TABLE[name]
    x = x[np.abs(x) < 1e5].astype(np.float32)
    x = x[(x < 1.0) & (x > 1e-8)] if name in ("beta", "uniform") else x
    for parameters in sets:
        parameters = [float(np.float32(p)) for p in parameters]
        found = library32.host(density(library32.array(x), *parameters))
        assert found.dtype == np.float32
        wanted = reference(x.astype(np.float64), *parameters)
        slope = np.abs(reference(x.astype(np.float64) * (1 + 1e-6), *parameters) - wanted) / 1e-6  # from rounding x
        for i, p in enumerate(parameters):
            moved = [*parameters[:i], p * (1 + 1e-6), *parameters[i + 1 :]]
            slope += np.abs(reference(x.astype(np.float64), *moved) - wanted) / 1e-6
        assert np.all(np.abs(found - wanted) <= 4e-6 * (1 + np.abs(wanted) + np.nan_to_num(slope, posinf=0.0)))


def derivative(f, a, i):
    """By central differences of third order, of the i-th argument."""
    step = 1e-4 * max(1e-3, abs(a[i]))
    at = [f(*a[:i], a[i] + k * step, *a[i + 1 :]) for k in (-2, -1, 1, 2)]
    return (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * step)


DISCRETE = {"bernoulli", "binomial", "poisson", "negative_binomial"}


@DENSITY
def test_derivatives(name, differentiating):
    """In x, if it is continuous, and all parameters: those of SciPy's values; and finite outside the support, too."""
    density, reference, values, sets, outside = TABLE[name]
    xp, grad = differentiating.xp, differentiating.backend.autodiff.value_and_grad
    first = 1 if name in DISCRETE else 0
    for parameters in sets:
        for x in (*values[1:-1], *outside):
            x0 = np.asarray([x, *parameters])

            def alone(p):
                return xp.sum(density(*(p[..., j] for j in range(p.shape[-1]))))

            found = differentiating.host(grad(alone)(differentiating.array(x0))[1])
            assert np.all(np.isfinite(found))
            if x in outside or (name == "laplace" and x == parameters[0]):  # a kink has no derivative
                continue
            scale = 1 + abs(reference(x, *parameters))
            for i in range(first, len(x0)):
                wanted = derivative(reference, list(x0), i)
                size = scale / max(1e-3, abs(x0[i]))
                assert found[i] == pytest.approx(wanted, rel=1e-6, abs=1e-7 * size), (x, parameters, i)


TAILED = {
    "normal": (d.normal, stats.norm, (0.3, 1.1), {"loc": 0.3, "scale": 1.1}, REAL[1:-1]),
    "logistic": (d.logistic, stats.logistic, (0.3, 1.1), {"loc": 0.3, "scale": 1.1}, REAL[1:-1]),
    "log_normal": (d.log_normal, stats.lognorm, (0.2, 1.5), {"s": 1.5, "scale": np.exp(0.2)}, POSITIVE),
    "exponential": (d.exponential, stats.expon, (0.7,), {"scale": 1 / 0.7}, POSITIVE[:-1]),
    "weibull": (d.weibull, stats.weibull_min, (1.7, 2.0), {"c": 1.7, "scale": 2.0}, POSITIVE[:-1]),
}


@pytest.mark.parametrize("name", TAILED)
def test_tail_probabilities(name, typed_library):
    density, theirs, parameters, named, x = TAILED[name]
    array, host = typed_library.array(x), typed_library.host
    near = {"float64": 1e-12, "float32": 3e-5}[typed_library.dtype]
    for ours, reference in ((d.log_cdf, theirs.logcdf), (d.log_survival, theirs.logsf)):
        wanted = reference(x, **named)
        shown = np.isfinite(wanted)  # SciPy's logcdf is -0.0 or -inf in some of the tails
        found = host(ours(density, array, *parameters))
        np.testing.assert_allclose(found[shown], wanted[shown], rtol=near, atol=near)
        assert not np.any(np.isnan(found))
    ends = typed_library.array(np.asarray([-np.inf, np.inf]))
    assert host(d.log_cdf(density, ends, *parameters)).tolist() == [-np.inf, 0.0]
    assert host(d.log_survival(density, ends, *parameters)).tolist() == [0.0, -np.inf]


def test_an_interval_far_out_keeps_its_digits(typed_library):
    """In float32 the difference of two distribution functions is 0 from 6 standard deviations on."""
    low, high = np.asarray([-30.0, 5.5, 20.0, 40.0, -np.inf]), np.asarray([-29.5, 6.5, 20.5, np.inf, 0.0])
    found = d.log_interval(d.normal, typed_library.array(low), typed_library.array(high), 0.0, 1.0)
    tails = [mpmath.ncdf(-mpmath.mpf(a)) - mpmath.ncdf(-mpmath.mpf(b)) for a, b in ((29.5, 30), (5.5, 6.5), (20, 20.5))]
    wanted = [*(float(mpmath.log(tail)) for tail in tails), special.log_ndtr(-40.0), np.log(0.5)]
    rtol = {"float64": 1e-12, "float32": 3e-6}[typed_library.dtype]
    np.testing.assert_allclose(typed_library.host(found), wanted, rtol=rtol)


@pytest.mark.parametrize("name", TAILED)
def test_derivatives_of_intervals(name, differentiating):
    """With an end at infinity, or below the support, too."""
    density, _theirs, parameters, _, _ = TAILED[name]
    xp, grad = differentiating.xp, differentiating.backend.autodiff.value_and_grad
    ends = np.asarray([[0.4, 1.9], [2.5, np.inf], [-np.inf, 0.6], [-1.0, 0.7], [0.0, 0.7]])
    low, high = (differentiating.array(end) for end in ends.T)

    def total(p):
        return xp.sum(d.log_interval(density, low, high, *(p[..., i] for i in range(len(parameters)))))

    def by_numpy(*p):
        return np.sum(d.log_interval(density, *ends.T, *p))

    found = differentiating.host(grad(total)(differentiating.array(np.asarray(parameters)))[1])
    wanted = [derivative(by_numpy, list(parameters), i) for i in range(len(parameters))]
    np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-9)


def test_a_density_without_tails_is_refused():
    with pytest.raises(HyperparameterError, match=r"no tail probabilities of 'gamma'\. Use one of normal, log_normal"):
        d.log_cdf(d.gamma, np.ones(2), 1.0, 1.0)


LOGITS = np.asarray([0.3, -2.0, 1.1, 0.0])
SHARES = special.softmax(LOGITS)


def test_categories(library):
    logits, x = library.array(LOGITS), library.array(np.asarray([0.0, 2.0, 3.0, 4.0, -1.0, 0.5]))
    wanted = [*np.log(SHARES[[0, 2, 3]]), -np.inf, -np.inf, -np.inf]
    np.testing.assert_allclose(library.host(d.categorical(x, logits)), wanted, rtol=1e-13)
    chains = d.categorical(library.array(np.asarray([0, 2])), library.array(np.stack([LOGITS + 1, LOGITS])))
    np.testing.assert_allclose(library.host(chains), np.log(SHARES[[0, 2]]), rtol=1e-13)


def test_ordered_categories(library):
    cutpoints, location = np.asarray([-30.0, 0.5, 0.5 + 1e-9, 40.0]), 0.2
    with mpmath.workdps(40):
        edges = [mpmath.mpf(0), *(1 / (1 + mpmath.exp(location - mpmath.mpf(c))) for c in cutpoints), mpmath.mpf(1)]
        wanted = [float(mpmath.log(b - a)) for a, b in itertools.pairwise(edges)]
    x = library.array(np.asarray([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, -1.0]))
    found = library.host(d.ordered_logistic(x, location, library.array(cutpoints)))
    np.testing.assert_allclose(found, [*wanted, -np.inf, -np.inf], rtol=1e-12)


def test_vectors(library):
    rng = np.random.default_rng(0)
    x, concentration = rng.dirichlet([1.0, 2.0, 5.0], size=4), np.asarray([0.5, 2.0, 40.0])
    wanted = [stats.dirichlet.logpdf(row / row.sum(), concentration) for row in x]
    found = library.host(d.dirichlet(library.array(x), library.array(concentration)))
    np.testing.assert_allclose(found, wanted, rtol=1e-11)
    counts = np.asarray([[0, 3, 1, 0], [5, 0, 0, 200]])
    wanted = stats.multinomial.logpmf(counts, counts.sum(axis=-1), SHARES)
    np.testing.assert_allclose(library.host(d.multinomial(library.array(counts), library.array(LOGITS))), wanted, 1e-12)
    factor = np.tril(rng.normal(size=(3, 3))) + 3 * np.eye(3)
    x, mean = rng.normal(size=(5, 2, 3)), rng.normal(size=3)
    wanted = stats.multivariate_normal.logpdf(x, mean, factor @ factor.T)
    for chol in (factor, np.broadcast_to(factor, (5, 1, 3, 3)).copy(), np.broadcast_to(factor, (5, 2, 3, 3)).copy()):
        found = d.multivariate_normal(library.array(x), library.array(mean), library.array(chol))
        np.testing.assert_allclose(library.host(found), wanted, rtol=1e-12)
    one = d.multivariate_normal(library.array(x[0, 0]), library.array(mean), library.array(factor))
    np.testing.assert_allclose(library.host(one), wanted[0, 0], rtol=1e-12)
    outside = library.array(np.asarray([-0.1, 0.6, 0.5]))
    assert float(d.dirichlet(outside, library.array(concentration))) == -np.inf
    assert float(d.multinomial(library.array(np.asarray([0.5, 1.0, 0.0, 0.0])), library.array(LOGITS))) == -np.inf


def factors(partial):
    """Cholesky factors of 3 x 3 correlation matrices, by canonical partial correlations, and the Jacobian's log."""
    a, b, c = np.moveaxis(partial, -1, 0)
    rest = np.sqrt(1 - b**2)
    factor = np.zeros((*a.shape, 3, 3))
    factor[..., 0, 0] = 1
    factor[..., 1, 0], factor[..., 1, 1] = a, np.sqrt(1 - a**2)
    factor[..., 2, 0], factor[..., 2, 1], factor[..., 2, 2] = b, c * rest, rest * np.sqrt(1 - c**2)
    return factor, np.log(rest)


@pytest.mark.parametrize("eta", [0.7, 1.0, 4.0])
def test_lkj_integrates_to_one(eta, library):
    """Over the entries below the diagonal, by Gauss quadrature of the three partial correlations."""
    nodes, weights = np.polynomial.legendre.leggauss(30)
    nodes, weights = np.sin(0.5 * np.pi * nodes), weights * 0.5 * np.pi * np.cos(0.5 * np.pi * nodes)
    grid = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), axis=-1)
    factor, log_jacobian = factors(grid)
    found = library.host(d.lkj(library.array(factor), eta))
    total = np.einsum("ijk,i,j,k", np.exp(found + log_jacobian), weights, weights, weights)
    assert total == pytest.approx(1.0, rel=1e-4)


def test_mixtures_and_additional_zeros(library):
    x, density = np.asarray([0.0, 0.0, 3.0]), np.asarray([-1.0, -800.0, -2.0])
    for p in (0.0, 0.3, 1e-300):
        found = library.host(d.zero_inflated(library.array(x), library.array(density), p))
        wanted = np.logaddexp(np.log(p), np.log1p(-p) + density)
        np.testing.assert_allclose(found, np.where(x == 0, wanted, np.log1p(-p) + density), rtol=1e-14)
    parts = np.asarray([[-1.0, -2.0, -900.0], [-np.inf, -5.0, -900.0]])
    for weights in ([0.2, 0.8, 0.0], [0.5, 0.25, 0.25]):
        found = library.host(d.mixture(library.array(np.asarray(weights)), library.array(parts)))
        np.testing.assert_allclose(found, special.logsumexp(parts, b=weights, axis=-1), rtol=1e-14)


def np_like(a, values):
    return backend_of(a).from_host(np.asarray(values, dtype=np.float64), a)


GAIN = (1 - np.exp(-1.0)) / (0.5 + 0.5 * np.exp(-1.0))
GRADIENTS = {
    "categorical": (lambda a: d.categorical(2.0, a), LOGITS, (np.arange(4) == 2) - SHARES),
    "multinomial": (lambda a: d.multinomial(np_like(a, [0, 3, 1, 0]), a), LOGITS, [0, 3, 1, 0] - 4 * SHARES),
    "mixture": (lambda a: d.mixture(a, np_like(a, [-1.0, -np.inf])), [0.4, 0.6], [2.5, 0.0]),
    "zero_inflated": (lambda a: d.zero_inflated(0.0, np_like(a, -1.0), a[..., 0]), [0.5], [GAIN]),
    "log_normal, outside": (lambda a: d.log_normal(-1.0, a[..., 0], a[..., 1]), [0.3, 1.0], [0.0, 0.0]),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_vectors(name, differentiating):
    f, at, wanted = GRADIENTS[name]
    xp = differentiating.xp
    gradient = differentiating.backend.autodiff.value_and_grad(lambda a: xp.sum(f(a)))
    _, found = gradient(differentiating.array(np.asarray(at, dtype=float)))
    np.testing.assert_allclose(differentiating.host(found), wanted, rtol=1e-12, atol=1e-14)


def test_special_functions(library):
    host, array = library.host, library.array
    at = np.concatenate([np.logspace(-6, 8, 29), [7.99, 8.0, 8.01]])
    exact = np.vectorize(lambda a: float(mpmath.loggamma(mpmath.mpf(a))))
    np.testing.assert_allclose(host(log_gamma(array(at))), exact(at), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(host(log_bessel_i0e(array(at))), np.log(special.i0e(at)), rtol=1e-12, atol=1e-13)
    b = at[:, None]
    with mpmath.workdps(30):
        wanted = np.vectorize(lambda a, b: float(mpmath.log(mpmath.beta(mpmath.mpf(a), mpmath.mpf(b)))))(at, b)
    np.testing.assert_allclose(host(log_beta(array(at), array(b))), wanted, rtol=1e-12, atol=1e-12)
    z = np.concatenate([np.linspace(-40, 8, 97), [-1e4]])
    np.testing.assert_allclose(host(log_ndtr(array(z))), special.log_ndtr(z), rtol=1e-12)


def test_log_gamma_of_large_numbers_in_float32(library32):
    """The product of eight of them overflowed from 6e4 on, and the log gamma was -inf."""
    at = np.asarray([1e3, 1e5, 1e8], dtype=np.float32)
    np.testing.assert_allclose(library32.host(log_gamma(library32.array(at))), special.gammaln(at), rtol=1e-6)


def test_integers_and_numbers(library):
    whole = library.array(np.asarray([0, 1, 2]))
    np.testing.assert_allclose(library.host(d.poisson(whole, 0.0))[2], -1 - np.log(2), rtol=1e-6)
    assert float(d.normal(0.0, 0.0, 1.0)) == float(d.normal(np.asarray(0.0), 0, np.float64(1.0)))


def test_arguments_that_do_not_fit():
    torch = pytest.importorskip("torch")
    with pytest.raises(BackendError, match=r"arrays of numpy and torch\. Pass data by Model"):
        d.normal(np.zeros(2), torch.zeros(2), 1.0)
    with pytest.raises(BackendError, match=r"needs arrays or numbers, got list\."):
        d.normal(np.zeros(2), [0.0, 1.0], 1.0)
