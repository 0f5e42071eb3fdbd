"""A tilt of a user's own: one of another shape is refused, also where it would broadcast; one may hold an array."""

from dataclasses import dataclass

import numpy as np
import pytest

from tests.own_tilts import ByIdentity, ByValue, Changeable
from xpsample import MALA, SRMC, Exact, Target, backend_of, sample
from xpsample.core.errors import FunctionError
from xpsample.core.registry import to_host
from xpsample.gradients.choices import Evaluations
from xpsample.targets import Capability
from xpsample.targets.tilted import ScoreTilt


@dataclass(frozen=True, eq=False)
class Wrong(ScoreTilt):
    """The whole score, but for a sum over the coordinates of one of the two that a tilt gives."""

    of: str
    requires = Capability.SCORE
    needs_score = True
    moves = True

    def cost(self, costs):
        return Evaluations()

    def feature(self, target, point):
        return target.xp.sum(point.score, axis=-1) if self.of == "feature" else point.score

    def score(self, tilted, x, own):
        own = tilted.target.score(x) if own is None else own
        return tilted.xp.sum(own, axis=-1) if self.of == "score" else own + tilted.shift


@pytest.mark.parametrize("of", ["feature", "score"])
def test_a_tilt_of_another_shape_is_refused(of, library):
    """With as many chains as coordinates, so that (chains) broadcasts to (chains, dim)."""
    target = Target(lambda x: -0.5 * library.backend.xp.sum(x**2, axis=-1), score=lambda x: -x)
    x0 = library.array(np.random.default_rng(0).normal(size=(3, 3)))
    kernel = SRMC(MALA(0.1), alpha=0.5, tilt=Wrong(of))
    with pytest.raises(FunctionError, match=rf"{of} of Wrong.* must return an array of shape \(3, 3\); got shape"):
        sample(target, kernel, x0, 2, seed=1)


def curved(tilt, x0):
    """A run on a standard Gaussian, whose Hessian's diagonal is -1."""
    xp = backend_of(x0).xp
    target = Target(lambda x: -0.5 * xp.sum(x * x, axis=-1), score=lambda x: -x, hvp=lambda x, v: -v)
    return sample(target, SRMC(MALA(0.3), alpha=0.5, tilt=tilt), x0, 20, burn_in=0, seed=1)


@pytest.mark.filterwarnings("ignore::xpsample.core.errors.RepellenceWarning")  # runs of 20 draws
@pytest.mark.parametrize("tilt", [ByValue, Changeable, ByIdentity])
def test_a_tilt_that_holds_an_array_is_as_good_as_the_exact_one(tilt, library):
    x0 = library.array(np.ones((3, 2)))
    own = curved(tilt(-library.backend.xp.ones_like(x0[0, :])), x0)
    np.testing.assert_allclose(to_host(own.draws), to_host(curved(Exact(), x0).draws), rtol=1e-5)
