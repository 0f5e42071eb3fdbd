"""Bridges: what is impossible at one end is impossible in between, and what holds for either end holds for both."""

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import CapabilityError
from xpsample.gradients.choices import Evaluations
from xpsample.targets import Capability
from xpsample.targets.bridge import annealed

FULL = xps.Target(lambda x: -0.5 * np.sum(x * x, axis=-1), score=lambda x: -x)


def positive(constrained):
    return xps.Target(
        lambda x: np.where(np.all(x > 0, axis=-1), -np.sum(x, axis=-1), -np.inf),
        score=lambda x: -np.ones_like(x),
        constrained=constrained,
    )


ENDS = [(positive(True), FULL), (FULL, positive(True))]


@pytest.mark.parametrize("ends", ENDS, ids=["initial", "target"])
@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_what_is_impossible_at_an_end_is_so_on_the_whole_bridge(ends, beta):
    x, at = np.array([[0.5], [2.0]]), np.array([[1.5], [-1.0]])
    bridge = xps.Bridge(*ends).prepare(x, Capability.LOG_DENSITY | Capability.SCORE)
    member = annealed(bridge, beta)
    for found in (member.evaluate(at).log_density, member.log_density(at)):
        assert found[1] == -np.inf and np.isfinite(found[0])
    assert bridge.constrained
    free = xps.Bridge(*(positive(False) if end is not FULL else end for end in ends))
    assert not free.prepare(x, Capability.LOG_DENSITY).constrained


def test_a_call_on_the_bridge_costs_both_ends():
    bound = xps.Bridge(FULL, FULL).prepare(np.zeros((1, 1)), Capability.LOG_DENSITY | Capability.SCORE)
    assert annealed(bound, 0.5).costs.evaluate == Evaluations(log_density=2, score=2)
    assert annealed(bound, 0.5).costs.score == Evaluations(score=2)
    assert bound.costs.evaluate == Evaluations(log_density=2, score=2)
    assert bound.costs.score == Evaluations(score=1)  # the target's own


def model(**spaces):
    return xps.Model(lambda p: -0.5 * sum(value**2 for value in p), gradient=xps.FiniteDifference(), **spaces)


@pytest.mark.parametrize(
    ("initial", "target"),
    [
        (model(a=xps.Real(), b=xps.Real()), model(b=xps.Real(), a=xps.Real())),
        (model(a=xps.Real()), model(a=xps.Positive())),
        (model(a=xps.Real()), model(c=xps.Real())),
        (xps.Target(FULL.log_density, space=xps.Binary()), xps.Target(FULL.log_density, space=xps.Spins())),
        (FULL, xps.Target(FULL.log_density, space=xps.Binary())),
    ],
    ids=["order", "spaces", "names", "values", "kinds"],
)
def test_ends_on_different_spaces_are_refused(initial, target):
    """Coordinates that mean different things at the two ends gave an evidence that was of neither."""
    with pytest.raises(CapabilityError, match="both ends on the same space"):
        xps.Bridge(initial, target)


def test_labels_of_the_axes_may_differ():
    ends = [model(a=xps.Real(2)), xps.Model(lambda p: 0 * p.a[..., 0], a=xps.Real(2), dims={"a": "place"})]
    assert xps.Bridge(*ends).space.names == ("a",)
