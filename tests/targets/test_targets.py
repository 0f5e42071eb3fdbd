"""Targets: where their data goes, what refreshing spends, and that a target made from another is what it says."""

import copy
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from array_api_compat import array_namespace, device

import xpsample as xps
from xpsample.core import tree
from xpsample.core.describe import describe
from xpsample.gradients import FiniteDifference
from xpsample.gradients.choices import Evaluations
from xpsample.targets import Capability, Exact, Parametric, Shift, Target, Tempered, Tilted
from xpsample.targets.bridge import Bridge
from xpsample.targets.tilted import Difference

DENSITY = Capability.LOG_DENSITY
FIRST = DENSITY | Capability.SCORE
ALL = FIRST | Capability.HVP
POINTS = np.random.default_rng(1).normal(size=(2, 4, 3))
THETA = np.random.default_rng(2).normal(size=(2, 4, 3))


class Counting:
    """The quartic density -sum x^4 / 4 with its derivatives, counting its evaluations by chain."""

    def __init__(self):
        self.spent = {"log_density": 0, "score": 0, "hvp": 0}

    def log_density(self, x):
        self.spent["log_density"] += math.prod(x.shape[:-1])
        return -0.25 * array_namespace(x).sum(x**4, axis=-1)

    def score(self, x):
        self.spent["score"] += math.prod(x.shape[:-1])
        return -(x**3)

    def hvp(self, x, v):
        self.spent["hvp"] += math.prod(x.shape[:-1])
        return -3 * x * x * v

    def target(self):
        return Target(self.log_density, score=self.score, hvp=self.hvp)

    def reset(self):
        self.spent = dict.fromkeys(self.spent, 0)

    def per_chain(self):
        """Evaluations since the last reset, per chain of `POINTS`."""
        chains = math.prod(POINTS.shape[:-1])
        assert all(count % chains == 0 for count in self.spent.values())
        return Evaluations(**{name: count // chains for name, count in self.spent.items()})


@pytest.fixture
def calling(library):
    """Every library that calls the user's functions whenever they are needed: JAX does so to compile them only."""
    if library.backend.name == "jax":
        pytest.skip("a compiled function counts no calls")
    return library


def assert_points_equal(library, a, b, exactly=True):
    compare = np.testing.assert_array_equal if exactly else np.testing.assert_allclose
    settings = {} if exactly else {"rtol": 1e-12, "atol": 1e-14}
    assert [path for path, _ in tree.items(a)] == [path for path, _ in tree.items(b)]
    for mine, other in zip(tree.leaves(a), tree.leaves(b), strict=True):
        compare(library.host(mine), library.host(other), **settings)


# ---- data ------------------------------------------------------------------------------------------------------------


def linear(x, data):
    return array_namespace(x).sum(x * data["weights"][0], axis=-1)


def test_numpy_data_follows_the_positions(typed_library):
    """To the library, device and (floats only) dtype of the positions; the recipe serves others, too."""
    target = Target(linear, data={"weights": [np.arange(3.0)], "counts": np.arange(3), "n": 5, "name": "a"})
    x = typed_library.array(POINTS)
    bound = target.prepare(x, DENSITY)
    weights, counts = bound.data["weights"][0], bound.data["counts"]
    assert typed_library.backend.owns(weights) and weights.dtype == x.dtype and device(weights) == device(x)
    assert typed_library.backend.owns(counts) and typed_library.xp.isdtype(counts.dtype, "integral")
    assert bound.data["n"] == 5 and bound.data["name"] == "a"
    expected = POINTS.astype(typed_library.dtype) @ np.arange(3.0, dtype=typed_library.dtype)
    np.testing.assert_allclose(typed_library.host(bound.evaluate(x).log_density), expected, rtol=1e-5)
    assert target.data["weights"][0].dtype == target.prepare(POINTS, DENSITY).data["weights"][0].dtype == np.float64
    own = Target(linear, data={"weights": [weights]}).prepare(x, DENSITY)  # taken as they are
    assert own.data["weights"][0] is weights


@pytest.mark.first_cases(1)
@pytest.mark.first_tier
def test_what_a_function_sees_is_that_of_the_run(library):
    """JAX compiles what it saw at the first."""
    scale = 1.0
    target, x = Target(lambda x: linear(x, {"weights": [scale]})), library.array(POINTS)

    def draws():
        run = xps.sample(target, xps.MALA(0.5), x, 5, seed=xps.Portable(1), progress=False)
        return library.host(run.draws)

    first = draws()
    np.testing.assert_array_equal(draws(), first)
    scale = -3.0
    anew = Target(lambda x: linear(x, {"weights": [-3.0]}))
    expected = xps.sample(anew, xps.MALA(0.5), x, 5, seed=xps.Portable(1), progress=False).draws
    np.testing.assert_allclose(draws(), library.host(expected), rtol=1e-12)


def narrow(x):
    return -2.0 * array_namespace(x).sum(x * x, axis=-1)


TARGETS = {
    "Target": lambda: Target(narrow, data=None),
    "Tempered": lambda: Tempered(Target(narrow), 0.5),
    "Parametric": lambda: Parametric(linear, {"weights": [np.ones(3)]}),
    "Bridge": lambda: Bridge(Target(narrow), Target(narrow)),
}


@pytest.mark.first_tier
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
@pytest.mark.parametrize("make", TARGETS.values(), ids=TARGETS)
def test_targets_can_be_copied_and_pickled_after_a_run(library, make, copied):
    target, x = make(), library.array(POINTS)
    before = target.prepare(x, DENSITY).evaluate(x).log_density
    after = copied(target).prepare(x, DENSITY).evaluate(x).log_density
    np.testing.assert_array_equal(library.host(after), library.host(before))


def test_at_evaluates_what_is_required_and_nothing_else(calling):
    """And refreshes a fixed target for nothing."""
    x = calling.array(POINTS)
    for requires, expected in {
        DENSITY: Evaluations(log_density=1),
        Capability.SCORE: Evaluations(score=1),
        FIRST: Evaluations(log_density=1, score=1),
        ALL: Evaluations(log_density=1, score=1),
    }.items():
        counting = Counting()
        bound = counting.target().prepare(x, requires)
        counting.reset()
        point = bound.evaluate(x)
        assert bound.refresh(point) is point and bound.costs.refresh == Evaluations()
        assert counting.per_chain() == bound.costs.evaluate == expected
        assert (point.log_density is None) == (DENSITY not in requires)
        assert (point.score is None) == (Capability.SCORE not in requires)
        assert point.base is None


# ---- tempered --------------------------------------------------------------------------------------------------------


BETAS = [0.0, 0.3, 1, np.asarray([[0.5], [2.0]]), np.linspace(0, 1, 8).reshape(2, 4), np.asarray(0.7)]


@pytest.mark.parametrize("beta", BETAS)
def test_tempering_multiplies_the_log_density_and_its_derivatives(library, beta):
    counting = Counting()
    x, theta = library.array(POINTS), library.array(THETA)
    power = library.array(beta) if isinstance(beta, np.ndarray) else beta
    bound = Tempered(counting.target(), power).prepare(x, ALL)
    point = bound.evaluate(x)
    scale = np.broadcast_to(np.asarray(beta, dtype=float), (2, 4))
    for mine, expected in [
        (point.log_density, scale * counting.log_density(POINTS)),
        (point.score, scale[..., None] * counting.score(POINTS)),
        (bound.score(x), scale[..., None] * counting.score(POINTS)),
        (bound.hvp(x, theta), scale[..., None] * counting.hvp(POINTS, THETA)),
        (point.base.log_density, counting.log_density(POINTS)),
    ]:
        np.testing.assert_allclose(library.host(mine), expected, rtol=1e-12)


def test_other_temperatures(library):
    """Tempering twice is tempering by the product; another temperature refreshes for nothing."""
    counting, x = Counting(), library.array(POINTS)
    half, hot = (Tempered(counting.target(), beta).prepare(x, FIRST) for beta in (0.5, 0.125))
    twice = Tempered(Tempered(counting.target(), 0.5), 0.25).prepare(x, FIRST).evaluate(x)
    point, expected = half.evaluate(x), hot.evaluate(x)
    counting.reset()
    refreshed = hot.refresh(point)
    assert counting.per_chain() == hot.costs.refresh == Evaluations()
    assert_points_equal(library, refreshed, expected)
    assert_points_equal(library, twice._replace(base=None), expected._replace(base=None))
    assert twice.base.base.base is None


# ---- parametric ------------------------------------------------------------------------------------------------------


def family(x, parameters):
    """N(mean, 1 / precision) with the parameters in a dict."""
    return -0.5 * parameters["precision"] * array_namespace(x).sum((x - parameters["mean"]) ** 2, axis=-1)


PARAMETERS = {"mean": np.asarray([0.5, 0.0, -0.5]), "precision": np.asarray(2.0)}


def family_score(x, parameters):
    return -parameters["precision"] * (x - parameters["mean"])


def test_a_member_of_a_family(library):
    """Its density and score; when its parameters move, a point is evaluated again where it is."""
    x = library.array(POINTS)
    bound = Parametric(family, PARAMETERS, score=family_score).prepare(x, FIRST)
    moved = bound.with_data({"mean": library.array(np.ones(3)), "precision": library.array(0.5)})
    for member, parameters in ((bound, PARAMETERS), (moved, {"mean": np.ones(3), "precision": 0.5})):
        density, score = family(POINTS, parameters), family_score(POINTS, parameters)
        np.testing.assert_allclose(library.host(member.evaluate(x).log_density), density, rtol=1e-12)
        np.testing.assert_allclose(library.host(member.evaluate(x).score), score, rtol=1e-12)
        np.testing.assert_allclose(library.host(member.score(x)), score, rtol=1e-12)
    assert_points_equal(library, moved.refresh(bound.evaluate(x)), moved.evaluate(x))
    assert bound.costs.refresh == bound.costs.evaluate == Evaluations(log_density=1, score=1)


def test_the_score_of_a_member_by_autodiff(differentiating):
    x = differentiating.array(POINTS)
    bound = Parametric(family, PARAMETERS).prepare(x, ALL)
    moved = bound.with_data({"mean": differentiating.array(np.ones(3)), "precision": differentiating.array(0.5)})
    np.testing.assert_allclose(differentiating.host(moved.score(x)), -0.5 * (POINTS - 1), rtol=1e-12)
    np.testing.assert_allclose(differentiating.host(moved.hvp(x, x)), -0.5 * POINTS, rtol=1e-12)


# ---- tilted ----------------------------------------------------------------------------------------------------------

TILTS = {
    "exact": (Exact(), Evaluations(hvp=1)),
    "shift": (Shift(), Evaluations(score=1)),
    "central": (Difference(FiniteDifference(1e-5)), Evaluations(score=2)),
    "forward": (Difference(FiniteDifference(1e-7, "forward")), Evaluations(score=1)),
}
tilts = pytest.mark.parametrize(("tilt", "extra"), TILTS.values(), ids=TILTS)


def tilted(counting, x, theta, tilt, requires=FIRST, alpha=0.3):
    return Tilted(counting.target().prepare(x, requires | ALL), theta, alpha, tilt, requires)


@tilts
def test_retilting_spends_no_density_and_equals_evaluating_afresh(calling, tilt, extra):
    """A kernel that needs no score pays for no tilt of it."""
    counting = Counting()
    x, theta = calling.array(POINTS), calling.array(THETA)
    before, after = tilted(counting, x, theta, tilt), tilted(counting, x, 0.1 * theta, tilt)
    point = before.evaluate(x)
    counting.reset()
    refreshed = after.refresh(point)
    assert counting.per_chain() == after.costs.refresh == extra
    assert counting.spent["log_density"] == 0
    assert_points_equal(calling, refreshed, after.evaluate(x))
    assert not np.array_equal(calling.host(refreshed.log_density), calling.host(point.log_density))
    for requires, expected in ((FIRST, Evaluations(1, 1).plus(extra)), (DENSITY, Evaluations(1, 1))):
        bound = tilted(counting, x, theta, tilt, requires)
        counting.reset()
        bound.evaluate(x)
        assert counting.per_chain() == bound.costs.evaluate == expected


@pytest.mark.parametrize("alpha", [0.3, np.asarray([[0.0], [2.0]])])
def test_a_tilt_is_equation_2_of_srmc_and_its_score_equation_5(library, alpha):
    counting = Counting()
    x, theta = library.array(POINTS), library.array(THETA)
    strength = library.array(alpha) if isinstance(alpha, np.ndarray) else alpha
    bound = tilted(counting, x, theta, Exact(), alpha=strength)
    point = bound.evaluate(x)
    score, scale = counting.score(POINTS), np.broadcast_to(alpha, (2, 4))
    density = counting.log_density(POINTS) - scale * np.sum(THETA * score, axis=-1)
    expected = score - scale[..., None] * counting.hvp(POINTS, THETA)
    np.testing.assert_allclose(library.host(point.log_density), density, rtol=1e-12)
    np.testing.assert_allclose(library.host(point.score), expected, rtol=1e-12)
    np.testing.assert_allclose(library.host(point.base.score), score, rtol=1e-12)


@tilts
def test_a_tilt_measured_from_a_point_is_another_by_a_constant(library, tilt, extra):
    counting = Counting()
    x, theta = library.array(POINTS), library.array(THETA)
    whole = tilted(counting, x, theta, tilt)
    origin = whole.target.evaluate(x)
    measured = replace(whole, origin=origin)
    assert measured.from_base(origin).log_density is origin.log_density
    constant = 0.3 * np.sum(THETA * counting.score(POINTS), axis=-1)
    for y in (POINTS, POINTS[::-1], 2 * POINTS + 1):
        there, expected = measured.evaluate(library.array(y)), whole.evaluate(library.array(y))
        shifted = library.host(expected.log_density) + constant
        np.testing.assert_allclose(library.host(there.log_density), shifted, rtol=1e-12)
        np.testing.assert_array_equal(library.host(there.score), library.host(expected.score))


def test_the_hvp_of_a_tilt_is_the_slope_of_its_score():
    bound = tilted(Counting(), POINTS, THETA, Exact())
    # Of log density -x^4/4 + alpha theta x^3 the second derivative is -3 x^2 + 6 alpha theta x.
    expected = (-3 * POINTS**2 + 6 * 0.3 * THETA * POINTS) * THETA
    np.testing.assert_allclose(bound.hvp(POINTS, THETA), expected, rtol=1e-6, atol=1e-6)


def test_differences_and_the_shift_approach_the_exact_tilt():
    def error(tilt, alpha=0.3):
        scores = [tilted(Counting(), POINTS, THETA, kind, alpha=alpha).score(POINTS) for kind in (tilt, Exact())]
        return np.max(np.abs(scores[0] - scores[1]))

    def difference(eps, scheme):
        return error(Difference(FiniteDifference(eps, scheme)))

    assert difference(1e-2, "central") / difference(1e-3, "central") == pytest.approx(100, rel=0.01)
    assert difference(1e-3, "forward") / difference(1e-4, "forward") == pytest.approx(10, rel=0.01)
    assert error(Shift(), 1e-2) / error(Shift(), 1e-3) == pytest.approx(100, rel=0.05)


# ---- batched ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chains", [(), (5,), (2, 4), (2, 1, 3)])
def test_a_function_of_one_point_is_lifted_to_any_chain_axes(library, chains):
    """Numbers and vectors, of data that is not mapped."""
    xp, host, weights = library.xp, library.host, np.arange(9.0).reshape(3, 3)
    points = np.random.default_rng(3).normal(size=(*chains, 3))

    def one(x, w):
        assert x.ndim == 1
        return -0.5 * xp.sum(x**2) + xp.sum(w @ x)

    x, w = library.array(points), library.array(weights)
    expected = -0.5 * np.sum(points**2, axis=-1) + np.sum(points @ weights.T, axis=-1)
    out = xps.batched(one)(x, w)
    assert tuple(out.shape) == chains and xps.batched(one).__name__ == "one"
    np.testing.assert_allclose(host(out), expected, rtol=1e-12)
    np.testing.assert_array_equal(host(xps.batched(lambda x: 2 * x)(x)), 2 * points)


def alone(x):
    """Doc."""
    return -0.5 * x @ x


@xps.batched
def decorated(x):
    return -0.5 * x @ x


@pytest.mark.parametrize("lifted", [decorated, xps.batched(alone)], ids=["decorated", "called"])
def test_a_lifted_function_can_be_sent_to_other_processes(lifted):
    before = describe(lifted)
    sent = pickle.loads(pickle.dumps(lifted))
    np.testing.assert_array_equal(sent(POINTS), lifted(POINTS))
    assert describe(lifted) == describe(sent) == before  # as a checkpoint knows it
    assert xps.batched(alone).__doc__ == "Doc."


def test_a_lifted_density_is_differentiated(differentiating):
    xp = differentiating.xp
    x = differentiating.array(POINTS)
    bound = Target(xps.batched(lambda x: -0.25 * xp.sum(x**4))).prepare(x, ALL)
    np.testing.assert_allclose(differentiating.host(bound.score(x)), -(POINTS**3), rtol=1e-12)
    np.testing.assert_allclose(differentiating.host(bound.hvp(x, x)), -3 * POINTS**3, rtol=1e-12)
