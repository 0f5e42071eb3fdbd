"""Rewards of a contextual bandit by a network with two hidden layers of ReLU units (SRLD, Section 6.3 and Appendix D).

The data grow while the chains run. Arrays of a fixed capacity hold the rows, and a number tells how many were seen, so
that one compiled program serves all steps.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace
from array_api_compat import device as device_of

from xpsample.core.arrays import Array
from xpsample.core.declared import declared
from xpsample.core.errors import HyperparameterError
from xpsample.core.hyperparameters import check_range
from xpsample.core.specs import Specs, Uniform
from xpsample.kernels.compose import check_base
from xpsample.kernels.kernel import Kernel
from xpsample.kernels.traits import Trait
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability
from xpsample.targets.target import Target


class SeenRewards(NamedTuple):
    """Rows seen so far, in arrays of a fixed capacity; trials are the first axis of the positions.

    ``contexts`` (trials, capacity, features); ``arms`` (trials, capacity) of int32, the arms pulled; ``rewards``
    (trials, capacity). The first ``count`` (0-d, int32) rows are used; ``weight`` (0-d) multiplies their log
    likelihood.
    """

    contexts: Array
    arms: Array
    rewards: Array
    count: Any  # an array; tuples have a method of that name
    weight: Array


@dataclass(frozen=True)
class RewardNetwork:
    """The shapes of a network from contexts to the rewards of all arms, and its prior and noise.

    A position is, layer by layer, the weights (inputs, outputs) with the outputs changing fastest, then the biases.
    Each of the two hidden layers has so many `hidden` units. The prior variance is for the weights and biases into
    the output; into a hidden layer it is divided by `hidden`, as in the authors' code. The noise is the standard
    deviation of a reward around the network's output.
    """

    features: int
    arms: int
    hidden: int = 100
    prior_variance: float = 10.0
    noise: float = 0.1

    def __post_init__(self) -> None:
        for name in ("features", "arms", "hidden", "prior_variance", "noise"):
            check_range(name, getattr(self, name), 0)

    @property
    def layers(self) -> list[tuple[int, int]]:
        """(inputs + 1, outputs) of each layer; the additional input is the bias."""
        return [(self.features + 1, self.hidden), (self.hidden + 1, self.hidden), (self.hidden + 1, self.arms)]

    @property
    def dim(self) -> int:
        """Number of weights and biases."""
        return sum(math.prod(layer) for layer in self.layers)

    def prior_variances(self) -> np.ndarray:
        """Prior variance of every coordinate, (dim,)."""
        first, second, last = (math.prod(layer) for layer in self.layers)
        v = self.prior_variance
        return np.concatenate([np.full(first + second, v / self.hidden), np.full(last, v)])

    def predict(self, x: Array, contexts: Array) -> Array:
        """Rewards (*chains, rows, arms) of contexts (*chains, rows, features), chain axes broadcasting."""
        return self._forward(x, contexts)[-1]

    def target(self, seen: SeenRewards) -> Target:
        """The posterior given rows, with its score; positions (trials, *chains, dim).

        ``BoundTarget.with_data`` takes a `SeenRewards` of any capacity.
        """
        if np.shape(seen.arms) != np.shape(seen.rewards) or np.shape(seen.contexts)[:-1] != np.shape(seen.arms):
            raise HyperparameterError(f"rows do not fit together: {[np.shape(leaf) for leaf in seen]}")
        data = {"seen": seen, "variances": self.prior_variances()}

        def both(x: Array, data: Any) -> tuple[Array, Array]:
            return self._log_density_and_score(x, data["seen"], data["variances"])

        return Target(
            lambda x, data: both(x, data)[0],
            score=lambda x, data: both(x, data)[1],
            log_density_and_score=both,
            data=data,
        )

    def _weights(self, x: Array) -> list[tuple[Array, Array]]:
        """Weights (*chains, inputs, outputs) and biases (*chains, 1, outputs) of the layers."""
        xp, chains, found, start = array_namespace(x), x.shape[:-1], [], 0
        for inputs, outputs in self.layers:
            stop = start + inputs * outputs
            both = xp.reshape(x[..., start:stop], (*chains, inputs, outputs))
            found.append((both[..., :-1, :], both[..., -1:, :]))
            start = stop
        return found

    def _forward(self, x: Array, contexts: Array) -> tuple[Array, Array, Array]:
        """Activities of the two hidden layers and the output, each (*chains, rows, units)."""
        first, second, last = self._weights(x)
        one = _relu(contexts @ first[0] + first[1])
        two = _relu(one @ second[0] + second[1])
        return one, two, two @ last[0] + last[1]

    def _log_density_and_score(self, x: Array, seen: SeenRewards, variances: Array) -> tuple[Array, Array]:
        xp, inner = array_namespace(x), x.ndim - 2  # chain axes after the trials
        contexts, arms, rewards = (_inserted(leaf, inner) for leaf in (seen.contexts, seen.arms, seen.rewards))
        one, two, output = self._forward(x, contexts)
        rows = xp.arange(seen.arms.shape[-1], dtype=xp.int32, device=device_of(x))
        counted = xp.astype(rows < seen.count, x.dtype) * (seen.weight / self.noise**2)
        pulled = xp.astype(
            arms[..., None] == xp.arange(self.arms, dtype=xp.int32, device=device_of(x)), x.dtype
        )  # one-hot
        error = pulled * (rewards[..., None] - output)
        pull = counted[:, None] * error
        density = -0.5 * (xp.sum(pull * error, axis=(-2, -1)) + xp.sum(x * x / variances, axis=-1))

        _, second, last = self._weights(x)
        into_two = xp.where(two > 0, pull @ xp.matrix_transpose(last[0]), 0.0)
        into_one = xp.where(one > 0, into_two @ xp.matrix_transpose(second[0]), 0.0)
        parts = []
        for inputs, pulls in ((contexts, into_one), (one, into_two), (two, pull)):
            of_weights = xp.matrix_transpose(inputs) @ pulls
            for part in (of_weights, xp.sum(pulls, axis=-2, keepdims=True)):
                parts.append(xp.reshape(part, (*x.shape[:-1], -1)))
        return density, xp.concat(parts, axis=-1) - x / variances


class SeenMinibatch(Kernel):
    """A kernel on batches of the seen rows of a `RewardNetwork`'s target, drawn uniformly and with replacement.

    The base has no accept step. All chains of a trial see the same rows.
    """

    base: Kernel
    size: int

    def __check_init__(self) -> None:
        check_base("SeenMinibatch", self.base, {Trait.TAKES_ESTIMATES: "use a kernel without an accept step"})

    @declared
    def requires(self) -> Capability:
        return self.base.requires

    @declared
    def traits(self) -> Trait:
        return self.base.traits & ~(Trait.EXACT | Trait.TAKES_ESTIMATES)

    def init(self, target: BoundTarget, x: Array) -> Any:
        return self.base.init(target, x)

    def noise(self, x: Array) -> Specs:
        return {"rows": Uniform((x.shape[0], self.size)), **self.base.noise(x)}

    def step(self, target: BoundTarget, state: Any, noise: dict[str, Array]) -> tuple[Any, Any]:
        data = target.data
        batch = target.with_data({**data, "seen": draw_seen(target.xp, data["seen"], noise["rows"])})
        return self.base.step(batch, state, noise)


def draw_seen(xp: Any, seen: SeenRewards, uniforms: Array) -> SeenRewards:
    """The rows that uniforms (trials, n) choose among the first `count`, weighted by count / n."""
    trials, capacity = seen.arms.shape
    n = uniforms.shape[-1]
    count = xp.astype(seen.count, uniforms.dtype)
    at = xp.astype(xp.floor(uniforms * count), xp.int32)
    at = xp.where(at < seen.count, at, seen.count - 1)  # u count may round up to count
    first = xp.arange(trials, dtype=xp.int32, device=device_of(seen.arms)) * capacity
    flat = xp.reshape(at + first[:, None], (trials * n,))

    def take(leaf: Array) -> Array:
        rest = leaf.shape[2:]
        return xp.reshape(xp.take(xp.reshape(leaf, (trials * capacity, *rest)), flat, axis=0), (trials, n, *rest))

    drawn, weight = xp.zeros_like(seen.count) + n, seen.weight * count / n
    return SeenRewards(take(seen.contexts), take(seen.arms), take(seen.rewards), drawn, weight)


def _relu(a: Array) -> Array:
    return array_namespace(a).where(a > 0, a, 0.0)


def _inserted(leaf: Array, axes: int) -> Array:
    """Axes of length one after the trials."""
    return leaf[(slice(None), *(None,) * axes, ...)]
