"""Fig. 1 of the SRMC paper over many chains: does score repellence help ULA out of a narrow well, and what is left?

The paper shows one chain of each sampler. Here ULA (alpha = 0) and SR-ULA (alpha = 3) make one batched run of many
chains for each tilt, with the settings of the paper's Appendix A.
"""

import argparse
import math
import time
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.devices import DeviceDtype, device_dtypes, missing, widest
from xpsample.core.registry import to_host
from xpsample.experiments.report import Report, add_common_arguments, one_thread, table
from xpsample.kernels import ULA
from xpsample.run.recorders import Moments, Record
from xpsample.run.sampling import sample
from xpsample.srmc import SRMC, PowerLaw
from xpsample.targets import Exact, Shift, Target, Tilt
from xpsample.zoo.mixture import gaussian_mixture

WEIGHTS, SDS = np.array([0.8, 0.2]), np.array([0.18, 1.0])
MEANS = np.array([[-2.0, 0.0], [2.0, 0.0]])
ALPHAS = (0.0, 3.0)
ETA = 0.01
SCHEDULE = PowerLaw(rho=0.6, scale=0.1, offset=2.0)
THINNING = 50
RADIUS = math.sqrt(-2.0 * math.log(0.05))
"""95 % of the wide component lie within this distance of its centre."""
TILTS: dict[str, Tilt] = {"Exact": Exact(), "Shift": Shift()}

LEGEND = f"""\
by 1k ...   share of chains that have been in the wide well by then, with a 95 % Wilson interval: found with
            responsibility of the wide component > 0.5, within {RADIUS:.2f} of its centre and beyond it (x1 > 2), at
            one of every {THINNING} steps. A chain that is in the wide well goes beyond its centre soon
naive       the same with x1 > 0 only
in wide     share of kept steps of the second half of the run with responsibility of the wide component > 0.5
near 1      of those, share with 0.5 < x1 < 1.5
mean x1     over the whole run from X0 on, mean over chains +- its standard error; rmse is a chain's error"""


class Size(NamedTuple):
    """Chains for each alpha, and steps of each."""

    chains: int
    steps: int


FULL = Size(chains=1000, steps=100_000)
QUICK = Size(chains=50, steps=4000)


def wells() -> Target:
    """0.8 N((-2, 0), 0.18^2 I) + 0.2 N((2, 0), I), Eq. 18."""
    return gaussian_mixture(WEIGHTS, MEANS, SDS)


def responsibility(x: np.ndarray) -> np.ndarray:
    """Probability of the wide component given the position, (..., 2) to (...)."""
    squared = np.sum((x[..., None, :] - MEANS) ** 2, axis=-1)
    logs = np.log(WEIGHTS / SDS**2) - 0.5 * squared / SDS**2
    return 1.0 / (1.0 + np.exp(np.clip(logs[..., 0] - logs[..., 1], -700, 700)))


def escaped(x: np.ndarray) -> np.ndarray:
    """Whether positions are in the wide well, beyond its centre (see the legend), (..., 2) to (...)."""
    near = np.sum((x - MEANS[1]) ** 2, axis=-1) < RADIUS**2
    return (responsibility(x) > 0.5) & near & (x[..., 0] > MEANS[1, 0])


def wilson(count: int, total: int, z: float = 1.959964) -> tuple[float, float]:
    """95 % interval of a share (Wilson 1927)."""
    share, scale = count / total, 1.0 + z * z / total
    middle = (share + z * z / (2 * total)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return max(0.0, middle - half), min(1.0, middle + half)


def ula_sd(sd: float) -> float:
    """Stationary standard deviation of ULA on N(0, sd^2): the variance is larger by 1 / (1 - eta / (2 sd^2))."""
    return sd / math.sqrt(1.0 - ETA / (2.0 * sd * sd))


def truth() -> dict[str, float]:
    """What the target's own draws give for the columns of the table, from a fixed sample of 10^6."""
    rng = np.random.default_rng(0)
    wide = rng.random(10**6) < WEIGHTS[1]
    x = rng.standard_normal((10**6, 2)) * np.where(wide, SDS[1], SDS[0])[:, None] + MEANS[wide.astype(int)]
    inside = responsibility(x) > 0.5
    first = x[inside, 0]
    return {"in_wide": float(np.mean(inside)), "near_1": float(np.mean((first > 0.5) & (first < 1.5)))}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment."""
    add_common_arguments(parser, "srmc-wells", backends="numpy")


def run(args: argparse.Namespace) -> int:
    """Run it, print the table, and write the files."""
    with one_thread():
        return _run_all(args)


def _run_all(args: argparse.Namespace) -> int:
    began = time.perf_counter()
    size, report, names = QUICK if args.quick else FULL, Report(args.out), args.backend or ["numpy"]
    where = widest(device_dtypes(names))
    report.say("Two wells: 0.8 N((-2, 0), 0.18^2 I) + 0.2 N((2, 0), I); SRMC paper, Fig. 1 and Appendix A")
    for line in missing(names):
        report.say(line)
    report.say(
        f"{size.chains} chains of each sampler from (-2, 0), {size.steps} steps, eta = {ETA}, alpha = {ALPHAS[1]:g}, "
        f"gamma_n = 0.1 (n + 2)^-0.6, seed {args.seed}"
    )
    marks = sorted({n for n in (1000, 2000, 3000) if n < size.steps} | {size.steps})
    exact, results, shown = truth(), [], {}
    for device in where:
        for tilt_name, tilt in TILTS.items():
            seconds, x, theta, mean = _run(device, tilt, size, args.seed)
            report.say(f"  {device!s:26} {tilt_name:6} {seconds:6.1f} s")
            for i, alpha in enumerate(ALPHAS):
                if alpha == 0 and tilt_name != "Exact":
                    continue  # without repellence the tilts are one and the same
                name = "ULA" if alpha == 0 else f"SR-ULA {tilt_name}"
                row = {"backend": device.backend.name, "device": device.name, "dtype": device.dtype, "sampler": name}
                results.append(row | {"seconds": seconds} | _measure(x[:, i], mean[i], marks))
                if device is where[0]:
                    shown[name] = (x[:, i], theta[:, i])
    _tell(report, results, marks, size, exact)
    report.rows(results)
    _plot(report, shown, marks)
    report.say(f"files are in {report.out}; the whole took {time.perf_counter() - began:.0f} s")
    report.close()
    return 0


def _run(device: DeviceDtype, tilt: Tilt, size: Size, seed: int) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Seconds; every THINNING-th position (row, alpha, chain, 2); theta of chain 0 (row, alpha, 2); means over time."""
    kernel = SRMC(ULA(ETA), device.array(np.array(ALPHAS)[:, None]), SCHEDULE, tilt)
    x0 = device.array(np.broadcast_to(MEANS[0], (len(ALPHAS), size.chains, 2)))
    recorders = (
        Moments(),
        Record("x", lambda state: state.point.x),
        Record("theta", lambda state: state.theta[:, 0, :]),
    )
    trace = sample(
        wells(), kernel, x0, size.steps // THINNING, thinning=THINNING, seed=seed, recorders=recorders, progress=False
    )
    kept = trace.recorded
    x, theta, mean = (
        to_host(a).astype(np.float64, copy=False) for a in (kept["x"], kept["theta"], kept["moments"].mean)
    )
    return trace.metadata["seconds"], x, theta, mean


def _measure(x: np.ndarray, mean: np.ndarray, marks: list[int]) -> dict[str, Any]:
    """The numbers of a sampler: positions (row, chain, 2), and means over the run (chain, 2)."""
    chains, row = x.shape[1], {}
    honest, naive = (np.logical_or.accumulate(where, axis=0) for where in (escaped(x), x[..., 0] > 0))
    for n in marks:
        count = int(np.sum(honest[n // THINNING - 1]))
        row[f"escaped_{n}"] = count / chains
        row[f"escaped_{n}_low"], row[f"escaped_{n}_high"] = wilson(count, chains)
        row[f"naive_{n}"] = float(np.mean(naive[n // THINNING - 1]))
    late = x[len(x) // 2 :]
    inside = responsibility(late) > 0.5
    first, narrow = late[inside, 0], late[~inside]
    # nan becomes None: json knows no nan
    near = float(np.mean((first > 0.5) & (first < 1.5))) if len(first) else None
    centred = narrow - np.mean(narrow, axis=0) if len(narrow) else narrow
    return row | {
        "in_wide": float(np.mean(inside)),
        "in_wide_se": float(np.std(np.mean(inside, axis=0), ddof=1) / math.sqrt(chains)),
        "near_1": near,
        "narrow_sd": float(np.sqrt(np.mean(centred**2))) if len(narrow) else None,
        "mean_x1": float(np.mean(mean[:, 0])),
        "mean_x1_se": float(np.std(mean[:, 0], ddof=1) / math.sqrt(chains)),
        "mean_x1_rmse": float(np.sqrt(np.mean((mean[:, 0] - WEIGHTS @ MEANS[:, 0]) ** 2))),
    }


def _tell(report: Report, results: list[dict[str, Any]], marks: list[int], size: Size, exact: dict[str, float]) -> None:
    """Print the table, the paper's claim and the bias of the step size."""
    cells = []
    for row in results:
        cell = {"backend": row["backend"], "sampler": row["sampler"]}
        for n in marks:
            share = row[f"escaped_{n}"]
            cell[f"e{n}"] = f"{share:.3f} ({row[f'escaped_{n}_low']:.3f}-{row[f'escaped_{n}_high']:.3f})"
            cell[f"n{n}"] = f"{row[f'naive_{n}']:.3f}"
        cell["wide"] = f"{row['in_wide']:.3f} +- {row['in_wide_se']:.3f}"
        cell["near"] = "-" if row["near_1"] is None else f"{row['near_1']:.2f}"
        cell["mean"] = f"{row['mean_x1']:.3f} +- {row['mean_x1_se']:.3f}"
        cell["rmse"] = f"{row['mean_x1_rmse']:.3f}"
        cells.append(cell)
    blank = dict.fromkeys(cells[0], "")
    mean = float(WEIGHTS @ MEANS[:, 0])
    cells.append(
        blank
        | {"sampler": "target", "wide": f"{exact['in_wide']:.3f}", "near": f"{exact['near_1']:.2f}"}
        | {"mean": f"{mean:.3f}"}
    )
    label = {n: f"{n // 1000}k" for n in marks}
    columns = {"backend": ("backend", "s"), "sampler": ("sampler", "s")}
    columns |= {f"e{n}": (f"by {label[n]}", "s") for n in marks}
    report.say("\n" + table(cells, columns) + "\n")
    columns = {"backend": ("backend", "s"), "sampler": ("sampler", "s")}
    columns |= {f"n{n}": (f"naive {label[n]}", "s") for n in marks}
    columns |= {"wide": ("in wide", "s"), "near": ("near 1", "s"), "mean": ("mean x1", "s"), "rmse": ("rmse", "s")}
    report.say(table(cells, columns) + "\n\n" + LEGEND + "\n")
    report.say("the paper, one chain of each: ULA has not left after 100k steps; SR-ULA leaves by about 2k, and after")
    report.say("100k has explored both wells with theta near 0")
    report.say(
        f"bias of eta = {ETA} in the narrow well (eta / sd^2 = {ETA / SDS[0] ** 2:.2f}): ULA's standard deviation "
        f"there is {ula_sd(SDS[0]):.4f}, not {SDS[0]}; measured in the second half: "
        + ", ".join(f"{r['sampler']} {r['narrow_sd']:.4f}" for r in results if r["narrow_sd"] is not None)
    )


def _plot(report: Report, shown: dict[str, tuple[np.ndarray, np.ndarray]], marks: list[int]) -> None:
    try:
        from xpsample.experiments.srmc.wells_plot import plot
    except ImportError:
        report.say('no plot: it needs matplotlib, pip install "xpsample[plot]"')
        return
    plot(report.out / "plot.png", shown, marks)
