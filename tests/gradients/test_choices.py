"""Every gradient choice against closed forms, at points and in parameters, and what each costs."""

import math
from typing import ClassVar

import numpy as np
import pytest
from array_api_compat import array_namespace, device

import xpsample as xps
from xpsample.core import tree
from xpsample.core.errors import CapabilityError, GradientError, LogDensityError
from xpsample.gradients import Auto, FiniteDifference, NativeGradient, Via
from xpsample.gradients.choices import Evaluations
from xpsample.targets import Capability, Parametric, check_gradient
from xpsample.zoo.logistic import logistic_regression

FIRST = Capability.LOG_DENSITY | Capability.SCORE
ALL = FIRST | Capability.HVP
DESIGN = np.asarray([[1.0, -0.5, 0.2], [0.3, 0.8, -1.0], [-1.2, 0.1, 0.4], [0.5, 0.5, 0.5]])
LABELS = np.asarray([1.0, 0.0, 1.0, 0.0])
POINTS = np.random.default_rng(1).normal(size=(2, 4, 3))
VECTORS = np.random.default_rng(2).normal(size=(2, 4, 3))


# ---- two densities with their closed forms, in NumPy and in the array API --------------------------------------------


class Banana:
    """-(1 - x0)^2 / 2 - 2 (x1 - x0^2)^2 - x2^2 / 2."""

    data: ClassVar = None

    @staticmethod
    def log_density(x):
        return -0.5 * (1 - x[..., 0]) ** 2 - 2 * (x[..., 1] - x[..., 0] ** 2) ** 2 - 0.5 * x[..., 2] ** 2

    @staticmethod
    def score(x):
        bend = x[..., 1] - x[..., 0] ** 2
        parts = [(1 - x[..., 0]) + 8 * bend * x[..., 0], -4 * bend, -x[..., 2]]
        return array_namespace(x).stack(parts, axis=-1)

    @staticmethod
    def hvp(x, v):
        first = (-1 + 8 * x[..., 1] - 24 * x[..., 0] ** 2) * v[..., 0] + 8 * x[..., 0] * v[..., 1]
        parts = [first, 8 * x[..., 0] * v[..., 0] - 4 * v[..., 1], -v[..., 2]]
        return array_namespace(x).stack(parts, axis=-1)


LOGISTIC = logistic_regression(DESIGN, LABELS)
DENSITIES = [Banana, LOGISTIC]


def closed_form(density):
    data = () if density.data is None else (density.data,)
    return density.log_density(POINTS, *data), density.score(POINTS, *data), density.hvp(POINTS, VECTORS, *data)


def assert_derivatives(library, density, gradient, tolerance, **own):
    """Density, score and hvp of a target with this choice, batched over two chain axes, against the closed forms."""
    target = xps.Target(density.log_density, gradient=gradient, data=density.data, **own)
    x, v = library.array(POINTS), library.array(VECTORS)
    bound = target.prepare(x, ALL)
    point = bound.evaluate(x)
    value, score, hvp = closed_form(density)
    found = {
        "log density": (point.log_density, value),
        "score at a point": (point.score, score),
        "score": (bound.score(x), score),
        "hvp": (bound.hvp(x, v), hvp),
    }
    for what, (mine, expected) in found.items():
        assert mine.dtype == x.dtype and device(mine) == device(x), what
        np.testing.assert_allclose(library.host(mine), expected, rtol=tolerance, atol=tolerance, err_msg=what)
    return bound


@pytest.mark.parametrize("density", DENSITIES, ids=["Banana", "logistic"])
def test_the_users_own(library, density):
    bound = assert_derivatives(library, density, Auto(), 1e-12, score=density.score, hvp=density.hvp)
    assert bound.costs.evaluate == Evaluations(log_density=1, score=1)
    assert bound.costs.score == Evaluations(score=1)
    assert bound.costs.hvp == Evaluations(hvp=1)
    assert bound.costs.refresh == Evaluations()


@pytest.mark.parametrize("density", DENSITIES, ids=["Banana", "logistic"])
def test_native(differentiating, density):
    """Also of the user's own score."""
    assert Auto.resolve(differentiating.backend) == NativeGradient()
    bound = assert_derivatives(differentiating, density, NativeGradient(), 1e-12)
    assert bound.costs.score == Evaluations(score=1) and bound.costs.hvp == Evaluations(hvp=1)
    assert_derivatives(differentiating, density, NativeGradient(), 1e-12, score=density.score)


@pytest.mark.parametrize("density", DENSITIES, ids=["Banana", "logistic"])
@pytest.mark.parametrize("lender", ["torch", "jax"])
def test_borrowed(borrowing, density, lender):
    pytest.importorskip(lender)
    library, switch = borrowing
    with switch(lender):
        bound = assert_derivatives(library, density, Via(lender), 1e-12)
        assert_derivatives(library, density, Via(lender), 1e-12, score=density.score)
    assert bound.costs.score == Evaluations(score=1) and bound.costs.hvp == Evaluations(hvp=1)


@pytest.mark.parametrize("lender", ["torch", "jax"])
def test_borrowed_in_float32(lender):
    pytest.importorskip(lender)
    x = POINTS.astype("float32")
    bound = xps.Target(Banana.log_density, gradient=Via(lender)).prepare(x, ALL)
    assert bound.score(x).dtype == np.float32
    np.testing.assert_allclose(bound.score(x), closed_form(Banana)[1], rtol=1e-4, atol=1e-4)


def test_borrowed_from_arrays_that_dlpack_refuses():
    """NumPy marks broadcast and read-only arrays; they cross by a copy."""
    pytest.importorskip("torch")
    x = np.broadcast_to(np.asarray([0.3, -0.2, 0.1]), (4, 3))
    bound = xps.Target(Banana.log_density, gradient=Via("torch")).prepare(x, ALL)
    np.testing.assert_allclose(bound.score(x), Banana.score(x), rtol=1e-12)


@pytest.mark.parametrize("density", DENSITIES, ids=["Banana", "logistic"])
@pytest.mark.parametrize(("scheme", "tolerance"), [("central", 1e-6), ("forward", 1e-3)])
def test_finite_differences(library, density, scheme, tolerance):
    # Errors: eps^2 / 6 times third derivatives (below 100) or eps / 2 times second ones, and the hvp's on top of it.
    choice, x = FiniteDifference(1e-5, scheme), library.array(POINTS)
    bound = assert_derivatives(library, density, choice, tolerance, score=density.score)
    assert bound.costs.hvp == Evaluations(score=2)
    bound = xps.Target(density.log_density, gradient=choice, data=density.data).prepare(x, FIRST)
    np.testing.assert_allclose(library.host(bound.score(x)), closed_form(density)[1], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("scheme", "calls"), [("central", 2 * 3), ("forward", 3)])
def test_finite_differences_count_their_log_densities(scheme, calls):
    evaluated = []

    def counting(x):
        evaluated.append(math.prod(x.shape[:-1]))
        return Banana.log_density(x)

    target = xps.Target(counting, gradient=FiniteDifference(scheme=scheme))
    bound = target.prepare(POINTS, FIRST)
    evaluated.clear()
    bound.evaluate(POINTS)
    chains = math.prod(POINTS.shape[:-1])
    assert bound.costs.evaluate.log_density * chains == sum(evaluated) == (1 + calls) * chains
    assert bound.costs.evaluate.score == 0


def test_the_error_of_a_central_difference_falls_with_the_square_of_eps():
    exact = closed_form(Banana)[2]

    def error(eps, scheme):
        return np.max(np.abs(FiniteDifference(eps, scheme).along(Banana.score, POINTS, VECTORS) - exact))

    assert error(1e-2, "central") / error(1e-3, "central") == pytest.approx(100, rel=0.05)
    assert error(1e-2, "forward") / error(1e-3, "forward") == pytest.approx(10, rel=0.05)


def test_a_forward_difference_reuses_the_score_at_the_point():
    calls = []

    def counting(x):
        calls.append(1)
        return Banana.score(x)

    FiniteDifference(scheme="forward").along(counting, POINTS, VECTORS, Banana.score(POINTS))
    assert len(calls) == 1


@pytest.mark.parametrize("density", DENSITIES, ids=["Banana", "logistic"])
def test_auto(borrowing, density):
    """Native where the library differentiates, else borrowed: with nothing given, all derivatives are there."""
    library, switch = borrowing
    with switch("jax"):
        assert_derivatives(library, density, Auto(), 1e-12)


def test_auto_borrows_from_a_library_that_is_imported_before_one_that_is_not(monkeypatch):
    from xpsample.core.registry import backend_named
    from xpsample.gradients import choices

    for name in ("torch", "jax"):
        pytest.importorskip(name)
    for name, other in (("torch", "jax"), ("jax", "torch")):
        modules = {k: v for k, v in choices.sys.modules.items() if k != other}
        monkeypatch.setattr(choices, "sys", type("", (), {"modules": modules}))
        assert Auto.resolve(backend_named("numpy")) == Via(name)
        monkeypatch.undo()


# ---- the user's own --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", [Auto(), FiniteDifference()])
def test_the_users_own_derivatives_win(library, choice):
    target = xps.Target(Banana.log_density, score=lambda x: 2 * x, hvp=lambda x, v: 3 * v, gradient=choice)
    x = library.array(POINTS)
    bound = target.prepare(x, ALL)
    np.testing.assert_array_equal(library.host(bound.evaluate(x).score), 2 * POINTS)
    np.testing.assert_array_equal(library.host(bound.score(x)), 2 * POINTS)
    np.testing.assert_array_equal(library.host(bound.hvp(x, x)), 3 * POINTS)


def test_density_and_score_at_once_win_over_both_apart(library):
    calls = []

    def both(x):
        calls.append(1)
        return Banana.log_density(x), Banana.score(x)

    def never(x):
        raise AssertionError("the joint function was given")

    x = library.array(POINTS)
    bound = xps.Target(never, log_density_and_score=both).prepare(x, FIRST)
    calls.clear()
    np.testing.assert_allclose(library.host(bound.evaluate(x).score), closed_form(Banana)[1], rtol=1e-12)
    np.testing.assert_allclose(library.host(bound.score(x)), closed_form(Banana)[1], rtol=1e-12)
    # JAX compiles the point and the score apart, and calls what it compiled.
    assert len(calls) == (1 if library.backend.name == "jax" else 2)


def test_a_score_alone_has_no_density_to_differentiate(differentiating):
    target = xps.Target(None, score=Banana.score)
    x, v = differentiating.array(POINTS), differentiating.array(VECTORS)
    bound = target.prepare(x, Capability.SCORE | Capability.HVP)
    np.testing.assert_allclose(differentiating.host(bound.hvp(x, v)), closed_form(Banana)[2], rtol=1e-12)
    with pytest.raises(CapabilityError, match="the target has only a score"):
        target.prepare(x, ALL)
    flat = xps.Target(lambda x: 0.0 * x[..., 0]).prepare(x, ALL)
    np.testing.assert_array_equal(differentiating.host(flat.score(x)), np.zeros_like(POINTS))
    np.testing.assert_array_equal(differentiating.host(flat.hvp(x, x)), np.zeros_like(POINTS))


# ---- parameters ------------------------------------------------------------------------------------------------------


def mean_energy(parameters, x):
    """A scalar loss of a tree: mean over the points of (b . x)^2 + s, with b in a list and s in a dict."""
    xp = array_namespace(x)
    return xp.mean((x @ parameters["linear"][0]) ** 2) + xp.sum(parameters["shift"]["s"]) ** 3


PARAMETERS = {"linear": [np.asarray([0.5, -1.0, 2.0])], "shift": {"s": np.asarray([[0.3, 0.1]])}}


def assert_parameter_gradient(library, choice, tolerance):
    target = Parametric(lambda x, p: -((x @ p["linear"][0]) ** 2), PARAMETERS, gradient=choice)
    x, b, s = library.array(POINTS), PARAMETERS["linear"][0], PARAMETERS["shift"]["s"]
    bound = target.prepare(x, Capability.LOG_DENSITY)
    value, gradient = bound.family.parameter_gradient(mean_energy)(bound.data, x)
    assert float(library.host(value)) == pytest.approx(float(mean_energy(PARAMETERS, POINTS)), rel=1e-12)
    flat = POINTS.reshape(-1, 3)
    expected = [2 * np.mean((flat @ b)[:, None] * flat, axis=0), 3 * np.sum(s) ** 2 * np.ones_like(s)]
    for mine, theirs in zip((gradient["linear"][0], gradient["shift"]["s"]), expected, strict=True):
        assert device(mine) == device(x)
        np.testing.assert_allclose(library.host(mine), theirs, rtol=tolerance, atol=tolerance)


def test_parameter_gradients_natively(differentiating):
    assert_parameter_gradient(differentiating, NativeGradient(), 1e-12)


@pytest.mark.parametrize("lender", ["torch", "jax"])
def test_parameter_gradients_borrowed(borrowing, lender):
    pytest.importorskip(lender)
    library, switch = borrowing
    with switch(lender):
        assert_parameter_gradient(library, Via(lender), 1e-12)


@pytest.mark.parametrize(("scheme", "tolerance"), [("central", 1e-8), ("forward", 1e-3)])
def test_parameter_gradients_by_differences(library, scheme, tolerance):
    assert_parameter_gradient(library, FiniteDifference(1e-5, scheme), tolerance)


def curved_energy(x, p):
    return array_namespace(x).sum(x**2 * p["scale"] ** 3 + x * p["shift"][0], axis=-1)


@pytest.mark.parametrize("scheme", ["central", "forward"])
def test_runs_are_differenced_apart(library, scheme):
    """A run that has left the finite numbers leaves the others what they are alone, bit for bit on a CPU.

    How a GPU adds up depends on how many there are.
    """
    rounding = 1e-10 if library.name in ("cupy", "torch-cuda", "jax-cuda") else 0.0
    rng = np.random.default_rng(4)
    x, weights = rng.normal(size=(2, 3, 5, 2)), rng.normal(size=(2, 3, 5))
    parameters = {"scale": rng.normal(size=(2, 3, 1, 2)), "shift": [rng.normal(size=(2, 3, 1, 1))]}
    weights[1, 1] = np.nan
    choice = FiniteDifference(1e-4, scheme)

    def gradient(parameters, x, weights):
        x, p = library.array(x), tree.map(library.array, parameters)
        family = Parametric(curved_energy, p, gradient=choice).prepare(x, Capability.LOG_DENSITY).family
        return tree.map(library.host, family.potential_gradient(p, x, library.array(weights)))

    together = gradient(parameters, x, weights)
    assert together["scale"].shape == (2, 3, 1, 2) and together["shift"][0].shape == (2, 3, 1, 1)
    for run in np.ndindex(2, 3):
        if run == (1, 1):
            continue
        alone = gradient(tree.map(lambda leaf, run=run: leaf[run], parameters), x[run], weights[run])
        np.testing.assert_allclose(together["scale"][run], alone["scale"], rtol=0, atol=rounding)
        np.testing.assert_allclose(together["shift"][0][run], alone["shift"][0], rtol=0, atol=rounding)


def test_runs_that_share_a_parameter_add_up():
    x = np.random.default_rng(4).normal(size=(3, 5, 2))
    p = {"scale": np.asarray([0.5, -0.3]), "shift": [np.asarray([[0.2]])]}
    family = Parametric(curved_energy, p, gradient=FiniteDifference(1e-4)).prepare(x, Capability.LOG_DENSITY).family
    gradient = family.potential_gradient(p, x, np.ones((3, 5)))
    np.testing.assert_allclose(gradient["scale"], -np.sum(x**2, axis=(0, 1)) * 3 * p["scale"] ** 2, rtol=1e-6)
    np.testing.assert_allclose(gradient["shift"][0], -np.sum(x).reshape(1, 1), rtol=1e-6)


def test_derivatives_nest(differentiating):
    """The gradient, in a parameter, of a function of the score, as score matching needs it.

    The score of -a |x|^4 / 4 is -a |x|^2 x, so the sum of its squares is a^2 |x|^6 and its slope 2 a |x|^6.
    """
    library, xp = differentiating, differentiating.xp
    autodiff = library.backend.autodiff
    x = library.array(POINTS)

    def log_density(x, a):
        return -0.25 * a * xp.sum(x * x, axis=-1) ** 2

    score = autodiff.value_and_grad(log_density)

    def loss(parameters, x):
        return xp.sum(score(x, parameters["a"])[1] ** 2)

    value, gradient = autodiff.value_and_grad(loss)({"a": library.array(1.5)}, x)
    sixth = np.sum(np.sum(POINTS**2, axis=-1) ** 3)
    assert float(library.host(value)) == pytest.approx(1.5**2 * sixth, rel=1e-12)
    assert float(library.host(gradient["a"])) == pytest.approx(2 * 1.5 * sixth, rel=1e-12)


def test_hvps_nest_in_gradients(differentiating):
    """d/da of v . H v for H of -a |x|^2 / 2 is -|v|^2."""
    library, xp = differentiating, differentiating.xp
    autodiff = library.backend.autodiff
    x, v = library.array(POINTS), library.array(VECTORS)

    def score(x, a):
        return autodiff.value_and_grad(lambda y, b: -0.5 * b * xp.sum(y * y, axis=-1))(x, a)[1]

    both = autodiff.score_and_hvp(score)
    np.testing.assert_allclose(library.host(both(x, v, library.array(2.0))[0]), -2.0 * POINTS, rtol=1e-12)
    np.testing.assert_allclose(library.host(autodiff.hvp(score)(x, v, library.array(2.0))), -2.0 * VECTORS, rtol=1e-12)
    gradient = autodiff.value_and_grad(lambda a: xp.sum(v * both(x, v, a)[1]))(library.array(2.0))[1]
    assert float(library.host(gradient)) == pytest.approx(-np.sum(VECTORS**2), rel=1e-12)


def test_hvps_nest_in_gradients_of_the_vector(differentiating):
    """d/da of sum(H (a v)) for a logistic density is sum(H v), which no derivative of H has a part in."""
    library, xp = differentiating, differentiating.xp
    autodiff = library.backend.autodiff
    x, v, data = library.array(POINTS), library.array(VECTORS), tree.map(library.array, LOGISTIC.data)
    both = autodiff.score_and_hvp(LOGISTIC.score)
    gradient = autodiff.value_and_grad(lambda a: xp.sum(both(x, a * v, data)[1]))(library.array(2.0))[1]
    assert float(library.host(gradient)) == pytest.approx(np.sum(closed_form(LOGISTIC)[2]), rel=1e-12)


def test_derivatives_leave_no_graph_behind():
    torch = pytest.importorskip("torch")
    x = torch.asarray(POINTS)
    bound = xps.Target(Banana.log_density).prepare(x, ALL)
    point = bound.evaluate(x)
    assert not any(a.requires_grad for a in (x, point.log_density, point.score, bound.hvp(x, x)))


# ---- check -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("density", DENSITIES, ids=["Banana", "logistic"])
def test_check_passes_right_derivatives_and_gives_their_deviation(typed_library, density):
    target = xps.Target(density.log_density, score=density.score, hvp=density.hvp, data=density.data)
    x, precise = typed_library.array(POINTS), typed_library.dtype == "float64"
    assert 0 <= check_gradient(target, x, against=None) < (1e-6 if precise else 2e-2)
    if precise:
        assert 0 < check_gradient(target, x, against=FiniteDifference(1e-4), hvp=True, rtol=1e-4) < 1e-4


def test_check_finds_a_wrong_score_where_it_is_wrong(typed_library):
    x = typed_library.array(POINTS)
    xp, error = typed_library.xp, 0.5 * float(np.max(np.abs(closed_form(Banana)[1])))
    target = xps.Target(
        Banana.log_density, score=lambda y: Banana.score(y) + error * xp.astype(y == x[1, 2, 0], y.dtype)
    )
    with pytest.raises(GradientError, match=r"the score disagrees with the log density's: at index \(1, 2, 0\) it is"):
        check_gradient(target, x)


def test_check_finds_a_wrong_hvp(library):
    target = xps.Target(Banana.log_density, score=Banana.score, hvp=lambda x, v: -v)
    with pytest.raises(GradientError, match="the hvp disagrees"):
        check_gradient(target, library.array(POINTS), hvp=True, against=FiniteDifference(1e-4))
    assert check_gradient(target, library.array(POINTS)) < 1e-6
    infinite = xps.Target(Banana.log_density, score=lambda x: library.xp.where(x > 1, library.xp.inf, Banana.score(x)))
    with pytest.raises(LogDensityError, match="the score is not finite"):
        check_gradient(infinite, library.array(POINTS))


def test_check_compares_any_two_choices(differentiating):
    target = xps.Target(Banana.log_density, score=Banana.score)
    assert check_gradient(target, differentiating.array(POINTS), against=NativeGradient()) < 1e-14
