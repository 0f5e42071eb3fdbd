"""Parts broken on purpose that more than one file of tests wants to see caught."""

from dataclasses import dataclass

from xpsample.targets import Exact, Tilt


@dataclass(frozen=True)
class WrongDrift(Tilt):
    """The surrogate's score of the wrong sign, under a density that is right."""

    needs = Exact.needs
    requires = Exact.requires
    needs_score = True
    moves = True

    def feature(self, target, point):
        return point.score

    def cost(self, costs):
        return costs.hvp

    def score(self, tilted, x, own):
        return (tilted.target.score(x) if own is None else own) - tilted.target.hvp(x, tilted.shift)
