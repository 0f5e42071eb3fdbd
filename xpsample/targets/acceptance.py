"""Acceptances: how Metropolis-Hastings gets its density ratio, from the log density or from a score alone."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.fields import FrozenDataclass, count, flag
from xpsample.core.tree import Tree
from xpsample.gradients.choices import Evaluations


class Acceptance(ABC):
    """Replacement of ``log pi(x') - log pi(x)``, the same for every kernel that accepts or rejects.

    Attributes
    ----------
    exact : bool
        Whether it is the difference of log densities, so that a log density is needed, and nothing else.
    whole : bool
        Whether it is the full acceptance ratio, with the proposals' ratio included. No target can be
        made from one with such an acceptance whose density is another one.
    needs_score, needs_hvp : bool
        Whether points must carry scores; whether Hessian-vector products are taken.
    parameters : tree of arrays
        Arrays that it holds besides its settings. NumPy arrays are put into the points' library.
    only_with : Kernel, optional
        The one kernel, on the target itself, whose moves it is right for; None where it is right for all.
    """

    exact = False
    whole = False
    needs_score = True
    needs_hvp = False
    if TYPE_CHECKING:  # subclasses have them as fields or as properties

        @property
        def parameters(self) -> Tree: ...
        @property
        def only_with(self) -> Any: ...
    else:
        parameters = None
        only_with = None

    @abstractmethod
    def acceptance_correction(self, target: Any, proposal: Any, current: Any, parameters: Tree = None) -> Array | None:
        """The log ratio, ``(*chains)``, of two points of a bound target; None where their log densities tell it.

        The caller adds the kernel's ``log q(x | x') - log q(x' | x)``, unless it is the `whole` ratio; `parameters` are
        the attribute's, in the points' library.
        """

    @abstractmethod
    def cost(self, score: Evaluations, hvp: Evaluations) -> Evaluations:
        """The cost of one correction, given the costs of a score and of an hvp."""


class ByDensity(Acceptance, FrozenDataclass, eq=True):
    """By the log density."""

    exact = True
    needs_score = False

    def acceptance_correction(self, target: Any, proposal: Any, current: Any, parameters: Tree = None) -> Array | None:
        return None

    def cost(self, score: Evaluations, hvp: Evaluations) -> Evaluations:
        return Evaluations()


class Taylor(Acceptance, FrozenDataclass, eq=True):
    """By Taylor expansions of the log density (Score-MH, Appendix A), tau = x' - x, s the score and H its Jacobian.

    Order 1 is ``s(x) . tau``, and order 2 adds ``tau' H(x) tau / 2`` (Eq. 14). Averaged over the expansions around x
    and around x', order 1 is ``(s(x) + s(x')) . tau / 2``, which is the trapezoidal rule, and order 2 adds
    ``tau' (H(x) - H(x')) tau / 4`` (Eq. 17). All but plain order 1 have an error of the third order in tau.

    Parameters
    ----------
    order : int
        1, which spends nothing where the kernel has scores, or 2, with one hvp, or two averaged.
    averaged : bool
        Without it the chain depends on the direction of a move: proposals there and back disagree on their ratio.
    """

    order: int = count(default=1, ge=1, le=2)
    averaged: bool = flag(default=True)

    @property
    def needs_hvp(self) -> bool:  # type: ignore[override]
        """At order 2."""
        return self.order == 2

    def acceptance_correction(self, target: Any, proposal: Any, current: Any, parameters: Tree = None) -> Array | None:
        xp, x, y = target.xp, current.x, proposal.x
        tau = y - x
        slope = 0.5 * (current.score + proposal.score) if self.averaged else current.score
        if self.order == 2 and self.averaged:
            slope = slope + 0.25 * (target.hvp(x, tau) - target.hvp(y, tau))
        elif self.order == 2:
            slope = slope + 0.5 * target.hvp(x, tau)
        return xp.sum(slope * tau, axis=-1)

    def cost(self, score: Evaluations, hvp: Evaluations) -> Evaluations:
        return hvp.times((0, 2 if self.averaged else 1)[self.order - 1])


class LineIntegral(Acceptance, FrozenDataclass, eq=True):
    """By the integral of the score along the segment, ``int_0^1 s(x + t tau) . tau dt``, by Gauss-Legendre quadrature.

    For the score of a density it tends to the exact log ratio as the nodes grow; it is exact where the score is a
    polynomial of degree below twice their number. The same from both ends, so that the chain is reversible whenever the
    estimate is consistent around closed paths. (Ours, not the paper's.)

    Parameters
    ----------
    nodes : int
        Scores that an acceptance takes, in one batched call.
    """

    nodes: int = count(default=8)
    needs_score = False

    def acceptance_correction(self, target: Any, proposal: Any, current: Any, parameters: Tree = None) -> Array | None:
        xp, tau = target.xp, proposal.x - current.x
        nodes, weights = np.polynomial.legendre.leggauss(self.nodes)
        # A leading axis of nodes broadcasts against what the chains have: data, tilts, temperatures.
        along = xp.stack([current.x + (0.5 + 0.5 * t) * tau for t in nodes.tolist()])
        slopes = xp.sum(target.score(along) * tau, axis=-1)
        total = 0.5 * float(weights[0]) * slopes[0, ...]
        for k in range(1, self.nodes):
            total = total + 0.5 * float(weights[k]) * slopes[k, ...]
        return total

    def cost(self, score: Evaluations, hvp: Evaluations) -> Evaluations:
        return score.times(self.nodes)
