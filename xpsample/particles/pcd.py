"""Persistent contrastive divergence with a replay buffer: maximum likelihood for energy models.

Source: Tieleman (2008); Du & Mordatch, "Implicit generation and generalization in energy-based models" (2019); the
SOSMC paper, App. E.2.1.
"""

import math
from typing import Any, ClassVar, NamedTuple

from array_api_compat import array_namespace
from array_api_compat import device as device_of

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.checks import errors_of_functions
from xpsample.core.errors import HyperparameterError
from xpsample.core.fields import FrozenDataclass, checked, count, instance, number
from xpsample.core.registry import to_host
from xpsample.core.specs import Normal, Specs, Uniform
from xpsample.diagnostics.findings import Finding
from xpsample.diagnostics.trainings import judge_training
from xpsample.gradients.choices import Evaluations
from xpsample.kernels.kernel import Info, Kernel
from xpsample.kernels.traits import Trait
from xpsample.optimize.optimizers import Optimizer, check_optimizer, first_parameters
from xpsample.particles.batches import Batches, batch_specs, draw_batch
from xpsample.targets.bound import BoundTarget
from xpsample.targets.parametric import family_of
from xpsample.targets.point import Capability, Point
from xpsample.targets.prepared import PreparedTarget


class PCDState(NamedTuple):
    """Buffer of positions, (buffer, dim), as ``point``; parameters; state of the optimizer; loss of the last update."""

    point: Point
    parameters: tree.Tree
    optimizer: tree.Tree
    loss: Array

    def findings(self) -> list[Finding]:
        """Check if the training has diverged."""
        leaves = [to_host(leaf) for _, leaf in tree.items(self.parameters)]
        return judge_training(leaves, to_host(self.point.x), float(to_host(self.loss)))


class PCD(Kernel[PCDState, Info]):
    """One update of the parameters of a `Parametric`, from persistent chains.

    The positions are the replay buffer, (buffer, dim). An update takes a random block of it, replaces some of its
    positions by uniform draws from the box, makes ``steps`` steps of ULA clamped to the box (Eq. 34) and writes the
    block back. The parameters descend along the gradient of ``mean U(data) - mean U(block)`` with the regularization of
    Eq. 33. The paper draws single positions of the buffer; a block has no position twice.

    Parameters
    ----------
    data : Batches
        Batches of the data; each update draws one.
    optimizer : Optimizer
        An optimizer of `xpsample.optimize`, an optax optimizer for JAX arrays, or one of `from_optim` for torch
        tensors.
    step_size : float
        gamma, in units of x squared.
    steps : int
        Steps of ULA in an update.
    blocks : int
        Blocks of the buffer; it must divide the buffer's length.
    refresh : float
        rho, the probability that a position of the block is replaced, in [0, 1].
    low, high : float
        The box, the same in all coordinates.
    energy_penalty : float
        Factor of the mean of U^2 over the data plus its mean over the block.
    gradient_penalty : float
        Factor of the mean of ``(|score| - 1)^2`` over the data. If it is positive, the gradient in the parameters goes
        through the score, which is best analytic.

    Notes
    -----
    Without penalties, a constant added to U changes neither the density nor the gradient; the energy penalty fixes the
    constant.
    """

    data: Batches = instance(Batches, "RowBatches(rows)")
    optimizer: Optimizer = checked(check_optimizer)
    step_size: Any = number(default=None, gt=0)
    steps: int = count(default=1)
    blocks: int = count(default=1)
    refresh: float = number(default=0.0, ge=0, le=1)
    low: float = number(default=-math.inf, infinite=True)
    high: float = number(default=math.inf, infinite=True)
    energy_penalty: float = number(default=0.0, ge=0)
    gradient_penalty: float = number(default=0.0, ge=0)

    requires: ClassVar[Capability] = Capability.LOG_DENSITY | Capability.SCORE | Capability.REAL
    traits = Trait.NONE  # it moves parameters

    def __check_init__(self) -> None:
        if self.step_size is None:
            raise HyperparameterError(
                "PCD needs a step_size: its target changes at every update, so no warm-up can tune it. Start with "
                "ULA's: sample(target, ULA(), ...).kernel.step_size"
            )
        if not self.low < self.high or (self.refresh and not math.isfinite(self.high - self.low)):
            raise HyperparameterError(
                f"low must be below high, and both finite where refresh > 0; got {self.low}, {self.high}"
            )

    def init(self, target: BoundTarget, x: Array) -> PCDState:
        family_of(target)
        if x.ndim != 2 or x.shape[0] % self.blocks:
            raise HyperparameterError(f"{self.blocks} blocks do not divide a buffer of shape {tuple(x.shape)}")
        parameters = first_parameters(target.data)
        with errors_of_functions("optimizer.init failed"):
            optimizer = self.optimizer.init(parameters)
        return PCDState(Point(x, None, None), parameters, optimizer, target.xp.sum(x) * 0.0)

    def noise(self, x: Array) -> Specs:
        size, dim = x.shape[0] // self.blocks, x.shape[-1]
        own: dict[str, Normal | Uniform] = {"proposal": Normal((self.steps, size, dim))}
        if self.blocks > 1:
            own["block"] = Uniform((1,))
        if self.refresh:
            own |= {"replaced": Uniform((size,)), "fresh": Uniform((size, dim))}
        return {**own, **batch_specs(self.data, x)}

    def step(self, target: BoundTarget, state: PCDState, noise: dict[str, Array]) -> tuple[PCDState, Info]:
        assert isinstance(target, PreparedTarget)
        xp, buffer = target.xp, state.point.x
        blocks = xp.reshape(buffer, (self.blocks, -1, buffer.shape[-1]))
        chosen = xp.ones_like(blocks[:, :1, :1]) > 0.0
        if self.blocks > 1:
            block = xp.floor(noise["block"] * self.blocks)
            block = xp.where(block < self.blocks, block, self.blocks - 1.0)  # u blocks may round up to blocks
            chosen = (xp.arange(self.blocks, dtype=buffer.dtype, device=device_of(buffer)) == block)[:, None, None]
        start = xp.sum(xp.where(chosen, blocks, 0.0), axis=0)
        if self.refresh:
            fresh = self.low + (self.high - self.low) * noise["fresh"]
            start = xp.where((noise["replaced"] < self.refresh)[:, None], fresh, start)

        member, root = target.member(state.parameters), (2.0 * self.step_size) ** 0.5

        def move(i: Any, x: Array) -> Array:
            new = x + self.step_size * member.score(x) + root * noise["proposal"][i, ...]
            if not math.isfinite(self.low) and not math.isfinite(self.high):
                return new
            return xp.clip(new, self.low, self.high)

        x = target.backend.repeat(self.steps, move, start)
        data = draw_batch(self.data, xp, buffer, noise)
        objective = family_of(target).parameter_gradient(_Objective(target, self.energy_penalty, self.gradient_penalty))
        loss, gradient = objective(state.parameters, data, x)
        updates, optimizer = self.optimizer.update(gradient, state.optimizer, state.parameters)
        parameters = tree.map(lambda a, b: a + b, state.parameters, updates)

        buffer = xp.reshape(xp.where(chosen, x[None, ...], blocks), buffer.shape)
        finite = xp.all(xp.isfinite(x), axis=-1)
        info = Info(xp.astype(finite, x.dtype), finite, ~finite, Evaluations(score=self.steps))
        return PCDState(Point(buffer, None, None), parameters, optimizer, loss), info


class _Objective(FrozenDataclass, eq=True):
    """Eq. 33, the loss of an update. Objectives that are equal are differentiated once."""

    target: PreparedTarget
    energy_penalty: float
    gradient_penalty: float

    def __call__(self, parameters: tree.Tree, data: Array, x: Array) -> Array:
        xp = array_namespace(data)
        both = [-family_of(self.target).log_density(rows, parameters) for rows in (data, x)]
        loss = xp.mean(both[0]) - xp.mean(both[1])
        if self.energy_penalty:
            loss = loss + self.energy_penalty * (xp.mean(both[0] ** 2) + xp.mean(both[1] ** 2))
        if self.gradient_penalty:
            score = self.target.member(parameters).score(data)
            norm = xp.sqrt(xp.sum(score * score, axis=-1) + 1e-12)  # so that its slope is 0 where the score is 0
            loss = loss + self.gradient_penalty * xp.mean((norm - 1.0) ** 2)
        return loss
