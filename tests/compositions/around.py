"""A kernel that does what another one does, for tests that change a part of it."""

from xpsample.kernels import Kernel
from xpsample.targets import Capability


class Around(Kernel):
    """Another kernel, with the same requirements, noise and steps, that claims nothing."""

    kernel: Kernel

    @property
    def requires(self):
        return self.kernel.requires

    def init(self, target, x):
        return self.kernel.init(target, x)

    def noise(self, x):
        return self.kernel.noise(x)

    def step(self, target, state, noise):
        return self.kernel.step(target, state, noise)


class Anywhere(Around):
    """One that takes positions of other spaces than the kernel's, too."""

    @property
    def requires(self):
        return self.kernel.requires & ~(Capability.REAL | Capability.ORDERED)
