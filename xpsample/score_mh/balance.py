"""Score balance matching: an acceptance function learned from scores (Score-MH, Sections 3.3 and 4)."""

from collections.abc import Callable, Mapping
from typing import Any

from array_api_compat import array_namespace

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.checks import given
from xpsample.core.errors import HyperparameterError
from xpsample.core.fields import FrozenDataclass, function, instance, number, numbers
from xpsample.core.specs import Normal, Specs
from xpsample.score_mh.activations import log_sigmoid
from xpsample.score_mh.derivatives import value_and_gradient
from xpsample.score_mh.losses import TrainingLoss
from xpsample.score_mh.networks import acceptance_network
from xpsample.score_mh.proposals import Proposal


class ScoreBalance(TrainingLoss, FrozenDataclass, eq=True):
    """``E |grad [log a(x', x) - log a(x, x') - log r(x', x)]|^2 + lambda E [a log a + (1 - a) log(1 - a)]`` (Eq. 10).

    r is the Metropolis-Hastings ratio ``p(x') q(x | x') / (p(x) q(x' | x))``, the gradient is in both points, and a in
    the second term is a(x', x). Pairs are ``x' = alpha v + (1 - alpha) y`` with v drawn from ``q(. | y)`` (Algorithms 1
    and 2).

    Parameters
    ----------
    proposal : Proposal
        q.
    score : callable
        ``score(x)``, or ``score(x, score_parameters)`` if those are set: (*rows, dim) to the same.
    score_parameters : tree of arrays, optional
        Parameters of a network that is already trained; they do not change.
    network : callable
        ``network(x_new, x, parameters)``: the logit of a, (*rows).
    regularization : float
        lambda, at least 0. It keeps a away from 0, since any solution a divided by a constant is a solution (Prop. 3).
    max_norm : float, optional
        C: each gradient (of the log acceptances, scores and log proposals, in both points) is scaled down to this
        Euclidean norm if it exceeds it. If it does, the exact acceptance function no longer has loss 0. No scaling when
        not given.
    pairs : {"global", "local"}
        y is another row of the batch, independent of x (Algorithm 2), or x itself (Eq. 7 if alpha is 1).
    alpha : (float, float)
        In the first and the last epoch, in [0, 1]; linear in between.

    Notes
    -----
    Algorithm 1 does not say which norm is clipped, nor the paper what C, lambda and the schedule of alpha are.
    """

    proposal: Proposal = instance(Proposal, "RandomWalk(0.5)")
    score: Callable[..., Array] = function("(x)")
    score_parameters: tree.Tree = None
    network: Callable[..., Array] = function("(x_new, x, parameters)", default=acceptance_network)
    regularization: float = number(default=0.0, ge=0)
    max_norm: float | None = number(default=None, gt=0)
    pairs: str = "global"
    alpha: tuple[float, float] = numbers(default=(0.0, 1.0), ge=0, le=1, least=2)

    def __check_init__(self) -> None:
        if not isinstance(self.pairs, str) or self.pairs not in ("global", "local"):
            raise HyperparameterError(f"pairs is 'global' or 'local'; got {given(self.pairs)}")
        if len(self.alpha) > 2:
            raise HyperparameterError(f"alpha is (first, last); got {given(self.alpha)}")

    @property
    def constants(self) -> tree.Tree:
        """The parameters of the score."""
        return self.score_parameters

    def noise(self, rows: int, dim: int) -> Specs:
        return {"proposal": Normal((rows, dim))}

    def __call__(
        self, parameters: tree.Tree, x: Array, noise: Mapping[str, Array], constants: tree.Tree, progress: Array
    ) -> Array:
        xp = array_namespace(x)
        # Rows are independent draws, so the next row is independent of a row.
        y = xp.roll(x, 1, axis=0) if self.pairs == "global" else x
        known = () if constants is None else (constants,)
        drawn = self.proposal.draw(y, noise["proposal"], self.score(y, *known) if self.proposal.needs_score else None)
        first, last = self.alpha
        alpha = first + (last - first) * progress
        x_new = alpha * drawn + (1.0 - alpha) * y

        def log_acceptance(x_new: Array, x: Array, parameters: tree.Tree) -> Array:
            return log_sigmoid(self.network(x_new, x, parameters))

        residual = balance_residual(
            log_acceptance, x_new, x, (parameters,), self.score, known, self.proposal, self.max_norm
        )
        loss = xp.mean(xp.sum(residual * residual, axis=-1))
        if self.regularization:
            loss = loss + self.regularization * xp.mean(negative_entropy(self.network(x_new, x, parameters)))
        return loss


def balance_residual(
    log_acceptance: Callable[..., Array],
    x_new: Array,
    x: Array,
    arguments: tuple[Any, ...],
    score: Callable[..., Array],
    score_arguments: tuple[Any, ...],
    proposal: Proposal,
    max_norm: float | None = None,
) -> Array:
    """The gradient of ``log a(x', x) - log a(x, x') - log r(x', x)`` in x', followed by that in x (Eqs. 6 and 7).

    Parameters
    ----------
    log_acceptance : callable
        ``log_acceptance(x_new, x, *arguments)``, (*rows).
    x_new, x : array, shape (*rows, dim)
    arguments, score_arguments : tuple
        Trees of arrays. Arrays with a row axis must broadcast against a further axis in front of it.
    score : callable
        ``score(x, *score_arguments)``.
    proposal : Proposal
    max_norm : float, optional
        Each gradient is clipped to it.

    Returns
    -------
    array, shape (*rows, 2 dim)
        0 for all pairs if and only if a satisfies detailed balance with the distribution of this score (Prop. 1).
    """
    xp = array_namespace(x)

    def both_ways(pair: tuple[Array, Array], *arguments: Any) -> Array:
        return log_acceptance(*pair, *arguments)

    # Both directions in one call, along a leading axis of two.
    there_and_back = xp.stack([x_new, x]), xp.stack([x, x_new])
    to, at = value_and_gradient(both_ways, there_and_back, *arguments)[1]
    back_at, back_to = proposal.gradients(x, x_new, score, *score_arguments)
    zero = xp.zeros_like(x)
    terms = (
        (1.0, to[0, ...], at[0, ...]),
        (-1.0, at[1, ...], to[1, ...]),
        (-1.0, score(x_new, *score_arguments), zero),
        (1.0, zero, score(x, *score_arguments)),
        (-1.0, back_to, back_at),
        (1.0, *proposal.gradients(x_new, x, score, *score_arguments)),
    )
    residual = xp.zeros_like(xp.concat([x_new, x], axis=-1))
    for sign, in_new, in_old in terms:
        residual = residual + sign * _clip(xp.concat([in_new, in_old], axis=-1), max_norm)
    return residual


def negative_entropy(logit: Array) -> Array:
    """``a log a + (1 - a) log(1 - a)`` of a probability a from its logit, elementwise: -log 2 at logit 0, up to 0."""
    xp = array_namespace(logit)
    yes, no = log_sigmoid(logit), log_sigmoid(-logit)
    return xp.exp(yes) * yes + xp.exp(no) * no


def _clip(gradient: Array, max_norm: float | None) -> Array:
    if max_norm is None:
        return gradient
    xp = array_namespace(gradient)
    square = xp.sum(gradient * gradient, axis=-1, keepdims=True)
    long = square > max_norm**2
    return xp.where(
        long, max_norm * gradient / xp.sqrt(xp.where(long, square, 1.0)), gradient
    )  # finite slope at 0, too
