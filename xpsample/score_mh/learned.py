"""A learned acceptance function in place of a density ratio."""

from collections.abc import Callable
from dataclasses import field
from typing import Any

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.fields import FrozenDataclass, flag, function, instance
from xpsample.gradients.choices import Evaluations
from xpsample.kernels.kernel import Kernel
from xpsample.score_mh.activations import log_sigmoid
from xpsample.score_mh.proposals import Proposal
from xpsample.targets.acceptance import Acceptance
from xpsample.targets.shaped import shape_of, values


class Learned(Acceptance, FrozenDataclass):
    """By an acceptance function a that was trained for a proposal q (Score-MH).

    a gives the density ratio ``a(x', x) / a(x, x')`` over ``q(x | x') / q(x' | x)`` (Eq. 6). Any kernel can combine it
    with its proposal ratio. A kernel that proposes from q then accepts with probability
    ``min(1, a(x', x) / a(x, x'))``, which is at least a(x', x) and does not change when a is divided by a constant
    (Prop. 3).

    Parameters
    ----------
    network : callable
        ``network(x_new, x, parameters)``: the logit of a, (*chains), such as `acceptance_network`. Positions have the
        shape of the target's space, such as images.
    parameters : tree of arrays
        Parameters of the network; NumPy arrays are put into the positions' library.
    proposal : Proposal
        q, as in training: with the same step size, and with the score of the target.
    direct : bool
        Accept with probability a(x', x), as the paper does. This is right for `RWM`, `MALA` or `PCN` with the numbers
        of `proposal`, on the target itself. All else is refused.
    """

    network: Callable[..., Array] = function("(x_new, x, parameters)")
    parameters: tree.Tree = field()
    proposal: Proposal = instance(Proposal, "RandomWalk(0.5)")
    direct: bool = flag(default=False)

    @property
    def only_with(self) -> Kernel | None:
        """If `direct`, the kernel that proposes from q."""
        return self.proposal.kernel if self.direct else None

    @property
    def whole(self) -> bool:  # type: ignore[override]
        """Return `direct`."""
        return self.direct

    @property
    def needs_score(self) -> bool:  # type: ignore[override]
        """Return whether the ratio of q needs scores."""
        return self.proposal.needs_score and not self.direct

    def acceptance_correction(self, target: Any, proposal: Any, current: Any, parameters: tree.Tree = None) -> Array:
        x_new, x, q = proposal.x, current.x, self.proposal
        seen_new, seen = (values(shape_of(target.space), position) for position in (x_new, x))
        accept = log_sigmoid(self.network(seen_new, seen, parameters))
        if self.direct:
            return accept
        back = log_sigmoid(self.network(seen, seen_new, parameters))
        return (accept - back) - (q.log_density(x, x_new, proposal.score) - q.log_density(x_new, x, current.score))

    def cost(self, score: Evaluations, hvp: Evaluations) -> Evaluations:
        return Evaluations()
