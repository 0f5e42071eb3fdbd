"""The sampler that energy models of images are trained and sampled with (Du & Mordatch 2019)."""

from dataclasses import field
from typing import Any, ClassVar

from xpsample.core.arrays import Array
from xpsample.core.hyperparameters import PER_CHAIN, per_coordinate
from xpsample.core.specs import Specs
from xpsample.kernels.kernel import ChainState, Info, MemorylessKernel, normal_like
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability


class ClippedLangevin(MemorylessKernel[Info]):
    """x <- clip(x + step clip(s(x), -limit, limit)), then x <- clip(x + noise xi), clipped to [-1, 1].

    Not Langevin: its noise is far below sqrt(2 step), and neither that nor the clipping leaves the density invariant.
    It is nearly a gradient ascent. States are recorded after the noise, so a step needs one score; the order of noise
    and gradient makes no other difference. All three broadcast against the chain axes, and the MNIST model of
    `xpsample.experiments.mnist_ebm` was trained with the defaults.
    """

    step_size: Any = field(default=10.0, metadata=PER_CHAIN)
    noise_sd: Any = field(default=0.005, metadata=PER_CHAIN)
    limit: Any = field(default=0.03, metadata=PER_CHAIN)

    requires: ClassVar[Capability] = Capability.SCORE

    def noise(self, x: Array) -> Specs:
        return {"noise": normal_like(x)}

    def step(self, target: BoundTarget, state: ChainState, noise: dict[str, Array]) -> tuple[ChainState, Info]:
        xp = target.xp
        current, limit = state.point, per_coordinate(self.limit)
        force = xp.minimum(xp.maximum(current.score, -limit), limit)
        moved = xp.clip(current.x + per_coordinate(self.step_size) * force, -1.0, 1.0)
        new = target.evaluate_lazily(xp.clip(moved + per_coordinate(self.noise_sd) * noise["noise"], -1.0, 1.0))
        ones = xp.ones_like(new.x[..., 0])
        spent = target.costs.evaluate_lazily
        return ChainState(new), Info(ones, ones > 0, ones < 0, spent)
