"""Parts broken on purpose that more than one file of tests wants to see caught."""

from dataclasses import dataclass

from xpsample.targets import Exact, Tilt


@dataclass(frozen=True)
class WrongDrift(Tilt):
    """The surrogate's score of the wrong sign, under a density that is right."""

    requires = Exact.requires
    needs_score = True

    def cost(self, costs):
        return costs.hvp

    def score(self, target, x, score, theta, alpha):
        return score + alpha * target.hvp(x, theta)
