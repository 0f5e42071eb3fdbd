"""The time of a step and what it spends, by kernel, backend and number of chains."""

import xpsample as xps

from .common import BACKENDS, gaussian, positions

STEPS = 1024
KERNELS = {
    "rwm": xps.RWM(0.3),
    "ula": xps.ULA(0.05),
    "myula": xps.MYULA(0.05, xps.L1(), 0.1),
    "mala": xps.MALA(0.1),
    "hmc": xps.HMC(0.2, 5),
    "pcn": xps.PCN(0.3),
    "underdamped": xps.UnderdampedLangevin(0.2),
    "srmc_mala": xps.SRMC(xps.MALA(0.1), alpha=0.5),
}


class Step:
    """Seconds for `STEPS` steps that keep running moments only, compilation left out."""

    params = (list(KERNELS), BACKENDS, [1, 100])
    param_names = ("kernel", "backend", "chains")
    warmup_time = 0

    def setup(self, kernel: str, backend: str, chains: int) -> None:
        self.x0, self.target = positions(backend, chains), gaussian()
        self.recorders = (xps.Moments(),)
        self.time_steps(kernel, backend, chains)

    def time_steps(self, kernel: str, backend: str, chains: int) -> None:
        xps.sample(self.target, KERNELS[kernel], self.x0, STEPS, seed=1, recorders=self.recorders)


class Evaluations:
    """Evaluations per step and chain; a change is a change of the algorithm."""

    params = (list(KERNELS), ["log_density", "score", "hvp"])
    param_names = ("kernel", "evaluation")
    unit = "evaluations per step"

    def track_evaluations(self, kernel: str, evaluation: str) -> float:
        trace = xps.sample(gaussian(), KERNELS[kernel], positions("numpy", 4), 10, seed=1)
        return trace.tally.evaluations[evaluation]
