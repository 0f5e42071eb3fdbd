"""Tilts of a user's own that hold an array: one has the hash of its value, one none, one that of an object."""

from dataclasses import dataclass
from typing import Any

from xpsample.gradients.choices import Evaluations
from xpsample.targets import Capability
from xpsample.targets.tilted import ScoreTilt


class Curved(ScoreTilt):
    """With the Hessian's diagonal, given as an array."""

    requires = Capability.SCORE
    needs_score = True
    moves = True

    def cost(self, costs):
        return Evaluations()

    def score(self, tilted, x, own):
        own = tilted.target.score(x) if own is None else own
        return own + self.diagonal * tilted.shift


@dataclass(frozen=True)
class ByValue(Curved):
    diagonal: Any


@dataclass
class Changeable(Curved):
    diagonal: Any


@dataclass(frozen=True, eq=False)
class ByIdentity(Curved):
    diagonal: Any
