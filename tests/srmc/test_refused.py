"""What SRMC's parts refuse: settings, kernels, recorders of others, and tilts of a user's own of another shape."""

from dataclasses import dataclass

import numpy as np
import pytest

from tests.own_tilts import ByIdentity, ByValue, Changeable
from xpsample import HMC, MALA, SRMC, ULA, Exact, Target, backend_of, sample, srmc
from xpsample.core.errors import CapabilityError, FunctionError, HyperparameterError
from xpsample.core.registry import to_host
from xpsample.gradients.choices import Evaluations
from xpsample.kernels import PolynomialDecay, UnderdampedLangevin
from xpsample.targets import Capability
from xpsample.targets.tilted import ScoreTilt
from xpsample.zoo.gaussian import gaussian

LANGEVIN = srmc.LangevinAutocorrelation(0.1)


def run(recorder):
    return sample(gaussian(np.eye(3)), MALA(0.3), np.ones((4, 3)), 5, seed=1, recorders=(recorder,))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: srmc.Stable(LANGEVIN, kappa=0.0), "kappa must be greater than 0"),
        (lambda: srmc.Stable(LANGEVIN, kappa=1.1), "kappa must be .*at most 1"),
        (lambda: srmc.Stable(LANGEVIN, -1.0), "eigenvalues"),
        (lambda: srmc.Stable(LANGEVIN, np.ones((2, 2))), "eigenvalues"),
        (lambda: srmc.LangevinAutocorrelation(-0.1), "step_size must be greater than 0"),
        (lambda: srmc.LeapfrogAutocorrelation(0.1, 0), "steps must be a positive integer"),
        (lambda: srmc.Constant(-1.0), "value must be"),
        (lambda: srmc.autocorrelation(HMC(0.3, 4, np.ones(3))), "mass"),
        (lambda: srmc.autocorrelation(ULA(0.3, np.ones(3))), "preconditioner"),
        (lambda: srmc.autocorrelation(ULA(PolynomialDecay(1.0))), "pass LangevinAutocorrelation with its"),
        (lambda: srmc.autocorrelation(UnderdampedLangevin(0.3)), "UnderdampedLangevin"),
        (lambda: srmc.Adaptive(-1.0, 10), "reference must be at least 0"),
        (lambda: srmc.Adaptive(1.0, 0), "warmup must be a positive integer"),
        (lambda: srmc.Adaptive(1.0, 2.5), "warmup must be a positive integer"),
        (lambda: srmc.Adaptive(1.0, 10, fraction=1.0), "fraction must be"),
        (lambda: srmc.Adaptive(1.0, 10, threshold=0.0), "threshold must be greater than 0"),
        (lambda: srmc.Repellence(limit=0.0), "limit must be greater than 0"),
        (lambda: srmc.Repellence(share=1.5), "share must be"),
        (lambda: run(srmc.Repellence()), "SRMC"),
        (lambda: run(srmc.Estimator()), "SRMC"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises((HyperparameterError, CapabilityError), match=message):
        make()


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
