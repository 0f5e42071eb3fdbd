"""Critical 24 x 24 Ising model of the HiSS paper's Appendix D.2, with the exact energy of the finite lattice."""

import math
from typing import Any

import numpy as np

from xpsample.core.devices import DeviceDtype
from xpsample.core.registry import to_host
from xpsample.experiments.hiss.samplers import BETAS
from xpsample.experiments.runner import Run
from xpsample.experiments.table import Row, columns, mean_and_error
from xpsample.hiss.kernel import HiSS
from xpsample.kernels import DMALA, Kernel, ParallelTempering, SingleFlip
from xpsample.trace.recorders import Record
from xpsample.zoo.ising import internal_energy, ising_lattice

SIDE, BETA = 24, 0.4407
CHAINS = 8
"""Half of them start with all spins up, half from random spins."""
COLUMNS = columns(
    "sampler | inner d inner steps | all .4f+- energy | cold .4f+- from all up | hot .4f+- from random | accept .4f"
)


def log_partition(k: float, rows: int, columns: int) -> float:
    """log Z of a periodic lattice with coupling k > 0 (Kaufman 1949)."""

    def gamma(j: int) -> float:
        if j == 0:
            return 2.0 * k + math.log(math.tanh(k))  # with its sign
        c = math.cosh(2.0 * k) ** 2 / math.sinh(2.0 * k) - math.cos(math.pi * j / columns)
        return math.acosh(c)

    terms = []
    for first in (1, 0):
        half = np.array([0.5 * rows * gamma(first + 2 * r) for r in range(columns)])
        size = np.abs(half)
        terms.append((1.0, float(np.sum(size + np.log1p(np.exp(-2.0 * size))))))
        terms.append((float(np.prod(np.sign(half))), float(np.sum(size + np.log(-np.expm1(-2.0 * size))))))
    top = max(log for _, log in terms)
    total = sum(sign * math.exp(log - top) for sign, log in terms)
    return -math.log(2.0) + 0.5 * rows * columns * math.log(2.0 * math.sinh(2.0 * k)) + top + math.log(total)


def exact_energy(k: float, rows: int, columns: int, step: float = 1e-4) -> float:
    """Mean energy per site, minus the derivative of log Z by k, by central differences."""
    return -(log_partition(k + step, rows, columns) - log_partition(k - step, rows, columns)) / (
        2.0 * step * rows * columns
    )


def start(seed: int) -> np.ndarray:
    """Spins of half of the chains up, of the others random."""
    spins = np.random.default_rng(seed).integers(0, 2, (CHAINS, SIDE * SIDE)) * 2.0 - 1.0
    spins[: CHAINS // 2] = 1.0
    return spins


def critical(run: Run[Any], device: DeviceDtype, draws: int) -> list[Row]:
    """Run the samplers for their energies; a third of the draws come before and are discarded."""
    base, shape = DMALA(0.8), (SIDE, SIDE)
    kernels: dict[str, tuple[Kernel, int]] = {
        "DMALA": (base, 20),
        "HiSS": (HiSS(base, 4.0, 10, 2), 1),
        "PT+DMALA": (ParallelTempering(base, BETAS, 2), 20),
        "single flip": (SingleFlip(), 200),
    }
    energy = Record("energy", lambda state: internal_energy(state.point.x, shape))
    rows: list[Row] = []
    for name, (kernel, thinning) in kernels.items():
        trace = run.sample(
            *(ising_lattice(shape, BETA), kernel, device.array(start(run.seed)), draws),
            thinning=thinning,
            burn_in=thinning * (draws // 2),
            recorders=(energy,),
            label=f"{device} critical lattice, {name}",
        )
        # One batch a chain: chains are independent, batches of one slow chain would not be.
        means = np.mean(to_host(trace.recorded["energy"]).astype(np.float64), axis=0)
        row: Row = {"sampler": name, "inner": draws * (20 if thinning == 1 else thinning)}
        row |= mean_and_error("all", means)
        row |= mean_and_error("cold", means[: CHAINS // 2]) | mean_and_error("hot", means[CHAINS // 2 :])
        rows.append(row | {"accept": np.mean(trace.run_statistics.acceptance_probability)})
    return rows


def tell_energies(run: Run[Any], rows: list[Row]) -> None:
    """Print the table of energies, with the exact energy."""
    run.table(
        rows,
        COLUMNS,
        title=f"Energy per site of the periodic {SIDE} x {SIDE} lattice, beta = {BETA}, {CHAINS} chains",
        legend=f"exact (Kaufman 1949): {exact_energy(BETA, SIDE, SIDE):.4f}; of the infinite lattice at its critical "
        f"beta: {-math.sqrt(2):.4f}",
    )
