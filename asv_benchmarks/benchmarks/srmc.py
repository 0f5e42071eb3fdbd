"""What score repellence costs: CPU time of SRMC over that of its base, in turns.

``python -m asv_benchmarks.benchmarks.srmc`` prints a table.
"""

import xpsample as xps
from xpsample.kernels import Kernel

from .cases import Case, logistic
from .common import DEVICES, device_or_skip, put, ratio, start, step_seconds


def _cases() -> dict[str, tuple[Case, Kernel]]:
    """Base and SRMC over it, by name: analytic hvp for Langevin and Hamiltonian bases, the proxy for GWG."""
    mala, hmc, gwg = xps.MALA(0.03), xps.HMC(0.12, 10), xps.GWG()
    return {
        "mala": (Case(lambda: mala), xps.SRMC(mala, alpha=0.5, tilt=xps.Exact())),
        "hmc": (Case(lambda: hmc), xps.SRMC(hmc, alpha=0.5, tilt=xps.Exact())),
        "gwg": (Case(lambda: gwg, "spins"), xps.SRMC(gwg, alpha=0.5, tilt=xps.Untilted())),
    }


CASES = _cases()


class Overhead:
    """SRMC over its base: the ratio of CPU times of a step, the median of five."""

    params = (list(CASES), DEVICES, [1, 100])
    param_names = ("base", "device", "chains")
    unit = "times the base"
    timeout = 180

    def setup(self, base: str, device: str, chains: int) -> None:
        device_or_skip(device)

    def track_overhead(self, base: str, device: str, chains: int) -> float:
        return overhead(base, device, chains)


def overhead(base: str, device: str, chains: int, seconds: float = 0.3, rounds: int = 5) -> float:
    """The ratio, in runs of about `seconds`; on a logistic regression with N = 100 and d = 10, or 10 x 10 spins."""
    case, repellent = CASES[base]
    if case.family == "spins":
        target, x0 = case.target(100), start(case, device, chains, 100)
    else:
        target, x0 = logistic(), put(device, case.start(chains, 10))
    plain, repelled = step_seconds([(target, kernel, x0) for kernel in (case.kernel, repellent)], seconds, rounds)
    return ratio(repelled, plain)


if __name__ == "__main__":
    print("| SRMC over | chains | " + " | ".join(DEVICES[:3]) + " |\n" + "| --- " * 5 + "|")
    for base in CASES:
        for chains in (1, 10, 100, 1000):
            told = [f"{overhead(base, device, chains):.2f}" for device in DEVICES[:3]]
            print(f"| {base} | {chains:,} | " + " | ".join(told) + " |", flush=True)
