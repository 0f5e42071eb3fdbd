"""Models of score-mh-digits: networks that know the noise level, a balance loss over levels, and an ULA
whose steps are measured by the norm of the score."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from array_api_compat import device as device_of

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.errors import DataError
from xpsample.core.fields import FrozenDataclass
from xpsample.core.hyperparameters import per_coordinate
from xpsample.core.specs import Normal, Specs, Uniform
from xpsample.experiments.digits import Digits, load_digits
from xpsample.gradients.choices import Evaluations
from xpsample.kernels.kernel import ChainState, Info, MemorylessKernel, normal_like
from xpsample.score_mh import LangevinProposal, TrainingLoss, balance_residual, gelu, log_sigmoid, negative_entropy
from xpsample.score_mh.matching import drawn_level
from xpsample.targets import Acceptance
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability
from xpsample.zoo.networks import Dense, init_mlp

FREQUENCIES = (0.25, 0.5, 1.0, 2.0)


def load_small_digits() -> tuple[Digits, Digits]:
    """1,297 training and 500 test images of scikit-learn's 8x8 digits, in [-1, 1]."""
    try:
        from sklearn.datasets import load_digits as load
    except ImportError as error:
        raise DataError('the 8x8 digits need scikit-learn: pip install "xpsample[data]"') from error
    images, labels = load(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    images, labels = (images[order] / 8.0 - 1.0).astype(np.float32), labels[order].astype(np.int64)
    return Digits(images[:1297], labels[:1297]), Digits(images[1297:], labels[1297:])


DATA = {"mnist": load_digits, "small": load_small_digits}


# ---- the networks ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Networks:
    """A score and an acceptance function that know the noise level, for principal components of variances `spectrum`.

    Positions have shape (*chains, dim); noise levels sigma broadcast against the chain axes.
    """

    spectrum: tuple[float, ...]

    def init_score(self, hidden: int, seed: int) -> tuple[Dense, ...]:
        """Random parameters of `score` on the host, float64."""
        dim = len(self.spectrum)
        return init_mlp((dim + 2 * len(FREQUENCIES), hidden, hidden, dim), seed)

    def score(self, x: Array, sigma: Array, parameters: Sequence[Dense]) -> Array:
        """The score of the data with noise N(0, sigma^2 I): (D - x) / sigma^2, D a guess of the clean image.

        D is the best linear guess, plus a perceptron in the scale of its error (Karras et al. 2022, for
        each component). Its last hidden layer is bounded: far from the data the linear part carries x back.
        """
        xp, noise = array_namespace(x), per_coordinate(sigma)
        spectrum = self._spectrum(x)
        whole = spectrum + noise * noise
        hidden = xp.concat([x * xp.sqrt(spectrum) / whole, _waves(xp, sigma, x)], axis=-1)
        first, second, last = parameters
        hidden = xp.tanh(gelu(hidden @ first.weight + first.bias) @ second.weight + second.bias)
        return (hidden @ last.weight + last.bias) * xp.sqrt(spectrum / whole) / noise - x / whole

    def score_at_level(self, x: Array, data: Mapping[str, Any]) -> Array:
        """The score of a target whose data are "sigma" and "layers"."""
        return self.score(x, data["sigma"], data["layers"])

    def scaled_score(self, y: Array, sigma: Array, parameters: Sequence[Dense]) -> Array:
        """The score in units of the level, sigma s(sigma y)."""
        noise = per_coordinate(sigma)
        return noise * self.score(noise * y, sigma, parameters)

    def init_acceptance(self, hidden: int, seed: int) -> tuple[Dense, ...]:
        """Random parameters of `logit`: a linear layer, two residual ones, and the last one."""
        inputs = 2 * len(self.spectrum) + 2 * len(FREQUENCIES) + 1
        return init_mlp((inputs, hidden, hidden, hidden, 1), seed)

    def logit(self, y_new: Array, y: Array, sigma: Array, tau: Array, parameters: Sequence[Dense]) -> Array:
        """The logit of a(y', y) at a noise level and a step size, (*chains); positions in units of the level."""
        xp, level = array_namespace(y), per_coordinate(sigma)
        scale = level / xp.sqrt(self._spectrum(y) + level * level)
        log_tau = xp.broadcast_to(xp.log(tau), y.shape[:-1])[..., None]
        hidden = xp.concat([y_new * scale, y * scale, _waves(xp, sigma, y), log_tau], axis=-1)
        first, *inner, last = parameters
        hidden = hidden @ first.weight + first.bias
        for layer in inner:
            hidden = hidden + gelu(hidden) @ layer.weight + layer.bias
        return (gelu(hidden) @ last.weight + last.bias)[..., 0]

    def log_acceptance(self, y_new: Array, y: Array, *settings: Any) -> Array:
        """log a(y', y); sigma, tau and parameters as for `logit`."""
        return log_sigmoid(self.logit(y_new, y, *settings))

    def _spectrum(self, x: Array) -> Array:
        return array_namespace(x).asarray(self.spectrum, dtype=x.dtype, device=device_of(x))


def _waves(xp: Any, sigma: Array, x: Array) -> Array:
    logs = xp.log(sigma)
    waves = xp.stack([f(k * logs) for k in FREQUENCIES for f in (xp.sin, xp.cos)], axis=-1)
    return xp.broadcast_to(waves, (*x.shape[:-1], waves.shape[-1]))


# ---- the acceptance --------------------------------------------------------------------------------------------------


class LevelBalance(TrainingLoss, FrozenDataclass):
    """Score balance matching (Eq. 10) for MALA at noise levels and step sizes drawn for each row.

    Everything is in units of the level: y = x / sigma, steps 2 tau^2, and pairs y' drawn from q(. | y) (Eq. 7).
    The score's parameters are trained; `regularization` is lambda, and `max_norm` is C, to which gradients are clipped.
    """

    sigmas: tuple[float, ...]
    taus: tuple[float, ...]
    networks: Networks
    score_parameters: Sequence[Dense]
    regularization: float
    max_norm: float

    @property
    def constants(self) -> tree.Tree:
        """The score's parameters."""
        return self.score_parameters

    def noise(self, rows: int, dim: int) -> Specs:
        both = Normal((rows, dim))
        return {"added": both, "proposal": both, "level": Uniform((rows,)), "tau": Uniform((rows,))}

    def __call__(
        self, parameters: tree.Tree, x: Array, noise: Mapping[str, Array], constants: tree.Tree, progress: Array
    ) -> Array:
        xp, networks = array_namespace(x), self.networks
        sigma, tau = drawn_level(self.sigmas, noise["level"]), drawn_level(self.taus, noise["tau"])
        proposal = LangevinProposal(2.0 * tau * tau)
        y = x / sigma[:, None] + noise["added"]
        y_new = proposal.draw(y, noise["proposal"], networks.scaled_score(y, sigma, constants))
        settings, known = (sigma, tau, parameters), (sigma, constants)
        residual = balance_residual(
            *(networks.log_acceptance, y_new, y, settings, networks.scaled_score, known, proposal, self.max_norm)
        )
        balance = xp.mean(xp.sum(residual * residual, axis=-1))
        return balance + self.regularization * xp.mean(negative_entropy(networks.logit(y_new, y, *settings)))


class LearnedAtLevels(Acceptance, FrozenDataclass):
    """By an acceptance function that knows the noise level and tau: its parameters are "layers" and "tau".

    Accepts with probability a(x', x), as the paper does, or where not `direct`, with min(1, a(x', x) / a(x, x')).
    """

    parameters: tree.Tree = field()
    networks: Networks = field()
    direct: bool = True
    whole = True
    needs_score = False

    def acceptance_correction(self, target: Any, proposal: Any, current: Any, parameters: Any = None) -> Array:
        sigma, log_acceptance = target.data.own["sigma"], self.networks.log_acceptance
        y_new, y, settings = proposal.x / sigma, current.x / sigma, (sigma, parameters["tau"], parameters["layers"])
        log_a = log_acceptance(y_new, y, *settings)
        return log_a if self.direct else log_a - log_acceptance(y, y_new, *settings)

    def cost(self, score: Evaluations, hvp: Evaluations) -> Evaluations:
        return Evaluations()


# ---- steps by the norm of the score ----------------------------------------------------------------------------------


class NormULA(MemorylessKernel[Info]):
    """ULA whose step size is ``2 (tau sqrt(dim) / |s(x)|)^2``, measured in each chain.

    The Langevin corrector of Song et al. (2021), which averages the norms over the batch. The step depends on x, so
    that no law is known to be left invariant, whatever the size.
    """

    tau: Any
    requires = Capability.SCORE

    def noise(self, x: Array) -> Specs:
        return {"proposal": normal_like(x)}

    def step(self, target: BoundTarget, state: ChainState, noise: dict[str, Array]) -> tuple[ChainState, Info]:
        xp, current = target.xp, state.point
        x, s = current.x, current.score
        eta = 2.0 * self.tau**2 * x.shape[-1] / xp.sum(s * s, axis=-1)
        point = target.evaluate(x + eta[..., None] * s + xp.sqrt(2.0 * eta)[..., None] * noise["proposal"])
        finite = xp.all(xp.isfinite(point.x), axis=-1)
        spent = target.costs.evaluate
        return ChainState(point), Info(xp.ones_like(eta), finite, ~finite, spent)
