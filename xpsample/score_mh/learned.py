"""A learned acceptance function in the place of a density ratio."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.errors import CapabilityError
from xpsample.gradients.choices import Evaluations
from xpsample.score_mh.activations import log_sigmoid
from xpsample.score_mh.proposals import Proposal
from xpsample.targets.acceptance import Acceptance


@dataclass(frozen=True, eq=False)
class Learned(Acceptance):
    """By an acceptance function a that was trained for a proposal q (Score-MH).

    The density ratio that a stands for is ``a(x', x) / a(x, x')`` over ``q(x | x') / q(x' | x)`` (Eq. 6). With it any
    kernel accepts with its own proposal's ratio, and one that proposes from q with ``min(1, a(x', x) / a(x, x'))``,
    which is never below a(x', x) and does not change when a is divided by a constant (Prop. 3).

    Parameters
    ----------
    network : callable
        ``network(x_new, x, parameters)``: the logit of a, (*chains), such as `acceptance_network`.
    parameters : tree of arrays
        Of the network; NumPy arrays are put into the positions' library.
    proposal : Proposal
        q, as in training: of the same step size, and with the score of the target that it is used for.
    direct : bool
        Accept with probability a(x', x) itself, as the paper does. For a kernel that proposes from q and runs on the
        target itself: not on a tilted or tempered one.
    """

    network: Callable[..., Array]
    parameters: tree.Tree = field()
    proposal: Proposal = field()
    direct: bool = False

    @property
    def needs_score(self) -> bool:  # type: ignore[override]
        """Where the ratio of q is made of scores."""
        return self.proposal.needs_score and not self.direct

    def acceptance_correction(
        self,
        target: Any,
        proposal: Any,
        current: Any,
        log_proposal_ratio: Array | float | None = None,
        parameters: tree.Tree = None,
    ) -> Array:
        x_new, x = proposal.x, current.x
        accept = log_sigmoid(self.network(x_new, x, parameters))
        if self.direct:
            if log_proposal_ratio is None:
                raise CapabilityError(
                    "Learned(direct=True) is the probability to accept a move on its own target and has no meaning on "
                    "one that is made from it (SRMC, Tempered, ...): pass direct=False"
                )
            return accept - log_proposal_ratio  # which the kernel's cancels
        back = log_sigmoid(self.network(x, x_new, parameters))
        q = self.proposal
        return (accept - back) - (q.log_density(x, x_new, proposal.score) - q.log_density(x_new, x, current.score))

    def cost(self, score: Evaluations, hvp: Evaluations) -> Evaluations:
        return Evaluations()
