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
from xpsample.core.errors import CapabilityError
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
    """NumPy data goes to the library, device and (floats only) dtype of the positions."""
    data = {"weights": [np.arange(3.0)], "counts": np.arange(3), "n": 5, "name": "a"}
    x = typed_library.array(POINTS)
    bound = Target(linear, data=data).prepare(x, DENSITY)
    weights, counts = bound.data["weights"][0], bound.data["counts"]
    assert typed_library.backend.owns(weights) and weights.dtype == x.dtype and device(weights) == device(x)
    assert typed_library.backend.owns(counts) and typed_library.xp.isdtype(counts.dtype, "integral")
    assert bound.data["n"] == 5 and bound.data["name"] == "a"
    expected = POINTS.astype(typed_library.dtype) @ np.arange(3.0, dtype=typed_library.dtype)
    np.testing.assert_allclose(typed_library.host(bound.evaluate(x).log_density), expected, rtol=1e-5)


def test_one_recipe_serves_several_libraries_and_dtypes(library):
    target = Target(linear, data={"weights": [np.arange(3.0)]})
    for x in (POINTS, POINTS.astype("float32"), library.array(POINTS)):
        bound = target.prepare(x, DENSITY)
        assert bound.evaluate(x).log_density.dtype == x.dtype
        assert bound.data["weights"][0].dtype == x.dtype
    assert target.data["weights"][0].dtype == np.float64


def test_data_of_the_positions_library_is_taken_as_it_is(differentiating):
    weights = differentiating.array(np.arange(3.0))
    bound = Target(linear, data={"weights": [weights]}).prepare(differentiating.array(POINTS), DENSITY)
    assert bound.data["weights"][0] is weights


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


@pytest.mark.first_tier
def test_data_that_change_between_runs_are_those_of_the_run(library):
    weights, x = np.ones(3), library.array(POINTS)
    target = Target(linear, data={"weights": [weights]})
    once = library.host(target.prepare(x, DENSITY).evaluate(x).log_density)
    weights *= 2
    np.testing.assert_array_equal(library.host(target.prepare(x, DENSITY).evaluate(x).log_density), 2 * once)


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


def test_a_target_with_a_part_replaced_is_another_target():
    """It takes nothing over from the runs of the first."""
    target = Target(lambda x: -np.sum(x * x, axis=-1))
    first = target.prepare(POINTS, DENSITY).evaluate(POINTS).log_density
    second = replace(target, log_density=narrow).prepare(POINTS, DENSITY).evaluate(POINTS).log_density
    np.testing.assert_allclose(second, 2 * first)


def test_other_data_of_the_same_structure(library):
    x = library.array(POINTS)
    bound = Target(linear, data={"weights": [np.ones(3)]}).prepare(x, DENSITY)
    other = bound.with_data({"weights": [library.array(2 * np.ones(3))]})
    once, twice = (library.host(b.evaluate(x).log_density) for b in (bound, other))
    np.testing.assert_array_equal(2 * once, twice)


def test_at_evaluates_what_is_required_and_nothing_else(calling):
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
        assert counting.per_chain() == bound.costs.evaluate == expected
        assert (point.log_density is None) == (DENSITY not in requires)
        assert (point.score is None) == (Capability.SCORE not in requires)
        assert point.base is None


def test_a_fixed_target_refreshes_for_nothing():
    counting = Counting()
    bound = counting.target().prepare(POINTS, ALL)
    point = bound.evaluate(POINTS)
    counting.reset()
    assert bound.refresh(point) is point
    assert counting.per_chain() == bound.costs.refresh == Evaluations()


def test_discrete_kernels_are_refused_on_a_real_space():
    with pytest.raises(CapabilityError, match=r"discrete space and the target's space is Real\(\)"):
        Counting().target().prepare(POINTS, DENSITY | Capability.DISCRETE)


# ---- tempered --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "beta", [0.0, 0.3, 1, np.asarray([[0.5], [2.0]]), np.linspace(0, 1, 8).reshape(2, 4), np.asarray(0.7)]
)
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


def test_another_temperature_refreshes_for_nothing(library):
    counting = Counting()
    x = library.array(POINTS)
    cold, hot = (Tempered(counting.target(), beta).prepare(x, ALL) for beta in (1.0, 0.25))
    point = cold.evaluate(x)
    counting.reset()
    refreshed = hot.refresh(point)
    assert counting.per_chain() == hot.costs.refresh == Evaluations()
    assert_points_equal(library, refreshed, hot.evaluate(x))


def test_tempering_twice_is_tempering_by_the_product(library):
    x = library.array(POINTS)
    twice = Tempered(Tempered(Counting().target(), 0.5), 0.25).prepare(x, FIRST).evaluate(x)
    once = Tempered(Counting().target(), 0.125).prepare(x, FIRST).evaluate(x)
    assert_points_equal(library, twice._replace(base=None), once._replace(base=None))
    assert twice.base.base.base is None


# ---- parametric ------------------------------------------------------------------------------------------------------


def family(x, parameters):
    """N(mean, 1 / precision) with the parameters in a dict."""
    return -0.5 * parameters["precision"] * array_namespace(x).sum((x - parameters["mean"]) ** 2, axis=-1)


PARAMETERS = {"mean": np.asarray([0.5, 0.0, -0.5]), "precision": np.asarray(2.0)}


def family_score(x, parameters):
    return -parameters["precision"] * (x - parameters["mean"])


def test_a_member_of_a_family(library):
    x = library.array(POINTS)
    bound = Parametric(family, PARAMETERS, score=family_score).prepare(x, FIRST)
    np.testing.assert_allclose(library.host(bound.evaluate(x).log_density), family(POINTS, PARAMETERS), rtol=1e-12)
    np.testing.assert_allclose(library.host(bound.evaluate(x).score), family_score(POINTS, PARAMETERS), rtol=1e-12)
    np.testing.assert_allclose(library.host(bound.score(x)), family_score(POINTS, PARAMETERS), rtol=1e-12)


def test_moving_the_parameters_re_evaluates_a_point_where_it_is(library):
    x = library.array(POINTS)
    bound = Parametric(family, PARAMETERS, score=family_score).prepare(x, FIRST)
    moved = bound.with_data({"mean": library.array(np.ones(3)), "precision": library.array(0.5)})
    assert_points_equal(library, moved.refresh(bound.evaluate(x)), moved.evaluate(x))
    there = {"mean": np.ones(3), "precision": 0.5}
    np.testing.assert_allclose(library.host(moved.evaluate(x).log_density), family(POINTS, there), rtol=1e-12)
    assert bound.costs.refresh == bound.costs.evaluate == Evaluations(log_density=1, score=1)


def test_the_score_of_a_member_by_autodiff(differentiating):
    x = differentiating.array(POINTS)
    bound = Parametric(family, PARAMETERS).prepare(x, ALL)
    moved = bound.with_data({"mean": differentiating.array(np.ones(3)), "precision": differentiating.array(0.5)})
    np.testing.assert_allclose(differentiating.host(moved.score(x)), -0.5 * (POINTS - 1), rtol=1e-12)
    np.testing.assert_allclose(differentiating.host(moved.hvp(x, x)), -0.5 * POINTS, rtol=1e-12)


def test_a_family_samples_like_the_target_it_holds(library):
    x0 = library.array(np.zeros((4, 3)))
    member = xps.sample(Parametric(family, PARAMETERS), xps.RWM(0.5), x0, 20, seed=xps.Portable(1)).draws
    fixed = xps.sample(Target(family, data=PARAMETERS), xps.RWM(0.5), x0, 20, seed=xps.Portable(1)).draws
    np.testing.assert_array_equal(library.host(member), library.host(fixed))


# ---- tilted ----------------------------------------------------------------------------------------------------------

TILTS = {
    "exact": (Exact(), Evaluations(hvp=1)),
    "shift": (Shift(), Evaluations(score=1)),
    "central": (Difference(FiniteDifference(1e-5)), Evaluations(score=2)),
    "forward": (Difference(FiniteDifference(1e-7, "forward")), Evaluations(score=1)),
}
tilts = pytest.mark.parametrize(("tilt", "extra"), TILTS.values(), ids=TILTS)


def tilted(counting, x, theta, tilt, requires=FIRST, alpha=0.3):
    return Tilted(
        counting.target().prepare(x, requires | Capability.SCORE | Capability.HVP), theta, alpha, tilt, requires
    )


@tilts
def test_retilting_spends_no_density_and_equals_evaluating_afresh(calling, tilt, extra):
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


@tilts
def test_evaluating_a_tilt_costs_what_it_says(tilt, extra):
    counting = Counting()
    bound = tilted(counting, POINTS, THETA, tilt)
    counting.reset()
    bound.evaluate(POINTS)
    assert counting.per_chain() == bound.costs.evaluate == Evaluations(1, 1).plus(extra)
    counting.reset()
    bound.score(POINTS)
    # The shifted score takes the place of the untilted one; the others come on top of it.
    own = Evaluations(score=0 if isinstance(tilt, Shift) else 1)
    assert counting.per_chain() == bound.costs.score == own.plus(extra)


@tilts
def test_a_kernel_that_needs_no_score_pays_for_no_tilt_of_it(tilt, extra):
    counting = Counting()
    bound = tilted(counting, POINTS, THETA, tilt, requires=DENSITY)
    counting.reset()
    point = bound.evaluate(POINTS)
    assert point.score is None
    assert counting.per_chain() == bound.costs.evaluate == Evaluations(log_density=1, score=1)
    counting.reset()
    bound.refresh(point)
    assert counting.per_chain() == bound.costs.refresh == Evaluations()


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
        np.testing.assert_allclose(
            library.host(there.log_density), library.host(expected.log_density) + constant, rtol=1e-12
        )
        np.testing.assert_array_equal(library.host(there.score), library.host(expected.score))


def test_the_exact_tilt_is_the_gradient_of_the_tilted_density():
    bound = tilted(Counting(), POINTS, THETA, Exact())
    eps = 1e-5
    for i in range(3):
        step = eps * np.eye(3)[i]
        slope = (bound.evaluate(POINTS + step).log_density - bound.evaluate(POINTS - step).log_density) / (2 * eps)
        np.testing.assert_allclose(bound.score(POINTS)[..., i], slope, rtol=1e-7, atol=1e-7)


def test_the_hvp_of_a_tilt_is_the_slope_of_its_score():
    bound = tilted(Counting(), POINTS, THETA, Exact())
    # Of log density -x^4/4 + alpha theta x^3 the second derivative is -3 x^2 + 6 alpha theta x.
    expected = (-3 * POINTS**2 + 6 * 0.3 * THETA * POINTS) * THETA
    np.testing.assert_allclose(bound.hvp(POINTS, THETA), expected, rtol=1e-6, atol=1e-6)


def test_differences_approach_the_exact_tilt():
    counting = Counting()
    exact = tilted(counting, POINTS, THETA, Exact()).score(POINTS)

    def error(eps, scheme):
        return np.max(
            np.abs(tilted(counting, POINTS, THETA, Difference(FiniteDifference(eps, scheme))).score(POINTS) - exact)
        )

    assert error(1e-2, "central") / error(1e-3, "central") == pytest.approx(100, rel=0.01)
    assert error(1e-3, "forward") / error(1e-4, "forward") == pytest.approx(10, rel=0.01)


def test_the_shifted_score_is_the_exact_tilt_to_first_order():
    counting = Counting()

    def gap(alpha):
        scores = [tilted(counting, POINTS, THETA, tilt, alpha=alpha).score(POINTS) for tilt in (Shift(), Exact())]
        return np.max(np.abs(scores[0] - scores[1]))

    assert gap(1e-2) / gap(1e-3) == pytest.approx(100, rel=0.05)


# ---- batched ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chains", [(), (5,), (2, 4), (2, 1, 3)])
def test_a_function_of_one_point_is_lifted_to_any_chain_axes(library, chains):
    xp = library.xp
    points = np.random.default_rng(3).normal(size=(*chains, 3))

    def one(x):
        assert x.ndim == 1
        return -0.5 * xp.sum(x**2) + x[0] * x[1]

    out = xps.batched(one)(library.array(points))
    expected = -0.5 * np.sum(points**2, axis=-1) + points[..., 0] * points[..., 1]
    assert tuple(out.shape) == chains
    np.testing.assert_allclose(library.host(out), expected, rtol=1e-12)


def test_a_lifted_function_takes_data_that_is_not_mapped(library):
    weights = library.array(np.arange(9.0).reshape(3, 3))
    out = xps.batched(lambda x, w: library.xp.sum(w @ x))(library.array(POINTS), weights)
    np.testing.assert_allclose(library.host(out), np.sum(POINTS @ np.arange(9.0).reshape(3, 3).T, axis=-1), rtol=1e-12)


def test_a_lifted_function_may_give_vectors(library):
    out = xps.batched(lambda x: 2 * x)(library.array(POINTS))
    np.testing.assert_array_equal(library.host(out), 2 * POINTS)


def test_a_lifted_function_keeps_its_name():
    def my_density(x):
        """Doc."""

    assert xps.batched(my_density).__name__ == "my_density" and xps.batched(my_density).__doc__ == "Doc."


def alone(x):
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


def test_a_lifted_density_is_sampled_like_the_batched_one(library):
    xp = library.xp
    x0 = library.array(np.zeros((2, 3, 2)))
    data = {"v": np.asarray([1.0, 2.0])}
    lifted = Target(xps.batched(lambda x, d: -0.5 * xp.sum(x * x / d["v"])), data=data)
    whole = Target(lambda x, d: -0.5 * xp.sum(x * x / d["v"], axis=-1), data=data)
    a, b = (library.host(xps.sample(t, xps.RWM(1.0), x0, 10, seed=xps.Portable(2)).draws) for t in (lifted, whole))
    np.testing.assert_allclose(a, b, rtol=1e-12)


def test_a_lifted_density_is_differentiated(differentiating):
    xp = differentiating.xp
    x = differentiating.array(POINTS)
    bound = Target(xps.batched(lambda x: -0.25 * xp.sum(x**4))).prepare(x, ALL)
    np.testing.assert_allclose(differentiating.host(bound.score(x)), -(POINTS**3), rtol=1e-12)
    np.testing.assert_allclose(differentiating.host(bound.hvp(x, x)), -3 * POINTS**3, rtol=1e-12)
