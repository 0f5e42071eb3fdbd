"""How the cost of a step grows with chains and with dim, where arithmetic dominates.

``python -m asv_benchmarks.on_demand.growth`` prints a table.

The target is a product of one-dimensional densities, whose own cost is linear in both, and moments alone are kept.
"""

import numpy as np
from array_api_compat import array_namespace

import xpsample as xps
from asv_benchmarks.benchmarks.common import DEVICES, device_or_skip, in_turns, put, runner

KERNELS = {
    "rwm": xps.RWM(0.1),
    "mala": xps.MALA(0.1),
    "hmc": xps.HMC(0.1, 5),
    "srmc": xps.SRMC(xps.MALA(0.1), 0.1, tilt=xps.Exact()),
}
CHAINS, DIMS = [1_000, 3_000, 10_000], [10, 30, 100]


def quartic() -> xps.Target:
    """log density sum_i (-x_i^2 / 2 - x_i^4 / 4), with its derivatives."""

    def both(x):
        square = x * x
        return -array_namespace(x).sum(square * (0.5 + 0.25 * square), axis=-1), -x * (1 + square)

    return xps.Target(
        lambda x: both(x)[0],
        score=lambda x: both(x)[1],
        hvp=lambda x, v: -v * (1 + 3 * x * x),
        log_density_and_score=both,
    )


class Slope:
    """Slope of log CPU time of a step against log chains (10 dimensions) and log dim (1000 chains)."""

    params = (["rwm", "mala", "srmc"], DEVICES, ["chains", "dim"])
    param_names = ("kernel", "device", "in")
    unit = "log-log slope"
    timeout = 180

    def setup(self, kernel: str, device: str, along: str) -> None:
        device_or_skip(device)

    def track_slope(self, kernel: str, device: str, along: str) -> float:
        sizes = [(c, 10) for c in CHAINS] if along == "chains" else [(1000, d) for d in DIMS]
        return slope(sizes, step_times(kernel, device, sizes))


def step_times(kernel: str, device: str, sizes: list[tuple[int, int]], work: int = 1_000_000) -> list[float]:
    """CPU seconds of a step at each (chains, dim), by which a longer run takes more; medians of five in turns.

    The shorter run moves `work` numbers and has four steps at least, the longer one five times as many.
    """
    runs, steps = [], []
    for chains, dim in sizes:
        x0 = put(device, np.random.default_rng(0).standard_normal((chains, dim)) / 2)
        steps.append(max(4, work // (chains * dim)))
        target = quartic()
        runs += [runner(target, KERNELS[kernel], x0, n) for n in (steps[-1], 5 * steps[-1])]
    spent = in_turns(runs)
    return list(np.median(spent[1::2] - spent[::2], axis=1) / (4 * np.asarray(steps)))


def slope(sizes: list[tuple[int, int]], times: list[float]) -> float:
    """Of log time against log size, the size being chains times dim."""
    return float(np.polyfit(np.log([c * d for c, d in sizes]), np.log(times), 1)[0])


if __name__ == "__main__":
    along = {
        "chains, 100 dim": [(c, 100) for c in (1_000, 10_000, 100_000)],
        "dim, 100,000 chains": [(100_000, d) for d in (1, 10, 100)],
    }
    print("| kernel | device | along | ns per chain and coordinate | slope |\n" + "| --- " * 5 + "|")
    for kernel in KERNELS:
        for device in DEVICES[:3]:
            for told, sizes in along.items():
                times = step_times(kernel, device, sizes, 20_000_000)
                each = ", ".join(f"{1e9 * t / (c * d):.1f}" for (c, d), t in zip(sizes, times, strict=True))
                print(f"| {kernel} | {device} | {told} | {each} | {slope(sizes, times):.2f} |", flush=True)
