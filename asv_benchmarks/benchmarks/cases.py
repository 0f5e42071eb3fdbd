"""What is benchmarked: every kernel by the name of its file, with a target and start positions of any size."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import xpsample as xps
from xpsample.kernels import Cosine, Kernel
from xpsample.srld import Rolling
from xpsample.targets import AbstractTarget
from xpsample.zoo.ising import ising_lattice
from xpsample.zoo.logistic import logistic_regression
from xpsample.zoo.tsp import tsp

LADDER = tuple(np.linspace(0, 1, 21))


class Case(NamedTuple):
    """A kernel, and what it samples: a "gaussian", also with "walkers" or as a "bridge", "spins", or "tours" of cities.

    The kernel is made when it is asked for: an older library that lacks one still runs the others.
    """

    make: Callable[[], Kernel]
    family: str = "gaussian"

    @property
    def kernel(self) -> Kernel:
        """A new one."""
        return self.make()

    def target(self, dim: int) -> AbstractTarget:
        """The target in `dim` dimensions, with analytic derivatives: what is timed is the sampler."""
        if self.family == "spins":
            return ising_lattice((dim // 5, 5), 0.3)
        if self.family == "tours":
            return tsp(np.random.default_rng(1).random((dim, 2)), 0.1)
        if self.family == "bridge":
            return xps.Bridge(gaussian(dim), gaussian(dim))
        return gaussian(dim)

    def start(self, chains: int, dim: int) -> np.ndarray:
        """Start positions (chains, dim), float64; of walkers as many as an ensemble takes at least."""
        generator = np.random.default_rng(0)
        if self.family == "walkers":
            return generator.standard_normal((max(chains, 2 * (dim + 1)), dim))
        if self.family == "spins":
            return generator.choice([-1.0, 1.0], size=(chains, dim))
        if self.family == "tours":
            return np.argsort(generator.random((chains, dim)), axis=-1).astype(np.float64)
        return generator.standard_normal((chains, dim))


def gaussian(dim: int = 10) -> xps.Target:
    """A correlated Gaussian with all derivatives given."""
    root = np.random.default_rng(1).normal(size=(dim, dim)) / dim**0.5
    precision = root @ root.T + np.eye(dim)
    return xps.Target(
        lambda x, p: -0.5 * ((x @ p) * x).sum(-1),
        score=lambda x, p: -(x @ p),
        hvp=lambda x, v, p: -(v @ p),
        data=precision,
    )


def logistic() -> xps.Target:
    """The logistic regression of the peers: 100 made-up rows of 10 features, all derivatives given."""
    generator = np.random.default_rng(1)
    features = generator.standard_normal((100, 10))
    chance = 1 / (1 + np.exp(-features @ generator.standard_normal(10)))
    return logistic_regression(features, generator.random(100) < chance)


CASES = {
    "rwm": Case(lambda: xps.RWM(0.3)),
    "pcn": Case(lambda: xps.PCN(0.3)),
    "independent": Case(lambda: xps.IndependentMH(0.0)),
    "elliptical": Case(lambda: xps.EllipticalSlice()),
    "slice": Case(lambda: xps.Slice(2.0)),
    "ensemble": Case(lambda: xps.Ensemble(), "walkers"),
    "ula": Case(lambda: xps.ULA(0.05)),
    "myula": Case(lambda: xps.MYULA(0.05, xps.L1(), 0.1)),
    "mala": Case(lambda: xps.MALA(0.1)),
    "hmc": Case(lambda: xps.HMC(0.2, 5)),
    "nuts": Case(lambda: xps.NUTS(0.2)),
    "mams": Case(lambda: xps.MAMS(0.5, 3.0)),
    "mclmc": Case(lambda: xps.MCLMC(0.5, 3.0)),
    "underdamped": Case(lambda: xps.UnderdampedLangevin(0.2)),
    "delayed": Case(lambda: xps.DelayedAcceptance(xps.RWM(0.3), 3), "bridge"),
    "sgnht": Case(lambda: xps.SGNHT(0.2)),
    "tempering": Case(lambda: xps.ParallelTempering(xps.RWM(0.3), (1.0, 0.3))),
    "srmc": Case(lambda: xps.SRMC(xps.MALA(0.1), alpha=0.5, tilt=xps.Exact())),
    "srld": Case(lambda: xps.SRLD(xps.ULA(0.05), 0.5, Rolling(5, 5))),
    "svgd": Case(lambda: xps.SVGD(0.05)),
    "gibbs": Case(lambda: xps.Gibbs(), "spins"),
    "colors": Case(lambda: xps.ChromaticGibbs((0, 1, 0, 1, 2, 1, 2, 1, 2, 0)), "spins"),  # of the lattice of 10 spins
    "sweep": Case(lambda: xps.Sweep(), "spins"),
    "swendsen_wang": Case(lambda: xps.SwendsenWang(), "spins"),
    "balanced": Case(lambda: xps.LocallyBalanced(), "spins"),
    "gwg": Case(lambda: xps.GWG(), "spins"),
    "dlp": Case(lambda: xps.DMALA(0.4), "spins"),
    "acs": Case(lambda: xps.ACS(Cosine(0.4, 10)), "spins"),
    "hiss": Case(lambda: xps.HiSS(xps.GWG(), 1.0, 2, 2), "spins"),
    "ais": Case(lambda: xps.AIS(xps.GWG(), LADDER), "spins"),
    "smc": Case(lambda: xps.TemperedSMC(xps.GWG(), LADDER, moves=1), "spins"),
    "two_opt": Case(lambda: xps.TwoOpt(), "tours"),
    "swap": Case(lambda: xps.Swap(), "tours"),
}
"""By file of the kernel; of wrappers, over one base. SOSMC has benchmarks of its own."""

FEW = ["rwm", "mala", "hmc", "srmc", "gwg", "hiss"]
"""Where every kernel would take too long."""
