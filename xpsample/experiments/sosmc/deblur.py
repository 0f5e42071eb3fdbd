"""Deblurring with a total-variation prior of unknown strength (SOSMC, Section 5.4 and Appendix E.4).

SOSMC-MYULA against MYPGD, its baseline without weights, in one driver and with the same noise. The public run of SOSMC
lets the image step grow forty-fold and keeps that of MYPGD, so both methods run with both steps here: what the weights
gain is told from what the step gains.
"""

import argparse
import time
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.devices import DeviceDtype, device_dtypes, missing
from xpsample.core.registry import backend_of, to_host
from xpsample.experiments.report import Report, add_common_arguments, one_thread, table
from xpsample.kernels import MYULA
from xpsample.metrics import mean_squared_error, structural_similarity
from xpsample.optimize.optimizers import SGD
from xpsample.particles.resampling import Systematic
from xpsample.prox import AnisotropicTV, IsotropicTV, TotalVariation
from xpsample.run.sampling import sample
from xpsample.sosmc import SOSMC, Adaptation, Expectation, LangevinMove, Move, SOSMCHistory, Unweighted
from xpsample.zoo.data import load_dataset
from xpsample.zoo.deblurring import UniformBlur, deblurring, likelihood_gradient, strength

SMOOTHING = 0.4
STEP, LARGEST_STEP = 0.01, 0.99 * SMOOTHING
RATE = 0.01
THETA_0 = -15.0
PARTICLES = 20
ROWS = 150
"""Equally spaced iterations at which the course is kept."""
GROWS = Adaptation(threshold=0.0, factor=1.01, most=LARGEST_STEP)
BY_ESS = Adaptation(threshold=0.95, factor=1.01, least=1e-4, most=LARGEST_STEP)
PROXES = {"isotropic": lambda shape: IsotropicTV(shape, 5), "anisotropic": lambda shape: AnisotropicTV(shape, 2)}

COLUMNS = {
    "setup": ("setup", "s"),
    "method": ("method", "s"),
    "theta": ("theta", ".2f"),
    "mse": ("MSE", ".1f"),
    "ssim": ("SSIM", ".2f"),
    "mse_mean": ("MSE mean", ".1f"),
    "ssim_mean": ("SSIM mean", ".2f"),
    "ess": ("ESS", ".2f"),
    "step": ("last step", ".4f"),
    "gap": ("gap/pixel", ".1e"),
    "seconds": ("s", ".0f"),
}
LEGEND = f"""\
MSE, SSIM  of the particles, averaged under their weights (as the paper has them); "mean": of the weighted mean image
ESS        of the weights, median over the second half of the run; at most {PARTICLES}
grown      the image step times 1.01 at each iteration, from {STEP} to {LARGEST_STEP:g}, as in the public run of SOSMC
by ESS     the image step by the rule of Remark 4: divided by 1.01 while the ESS is below 0.95 N, else multiplied
gap/pixel  duality gap of the prox of a last particle, in float64: its error is at most sqrt(2 gap) grey levels, rms"""


class Setup(NamedTuple):
    """The image's name in the data set, half the width of the window, noise, spread of the start, and Table 3."""

    image: str
    half_width: int
    noise: float
    spread: float
    paper: tuple[tuple[str, float, float, float], ...]


# "Patch size P" of the paper is a window of half-width P // 2.
SETUPS = {
    "A": Setup("guitar", 2, 0.47, 10.0, (("MYPGD", -3.30, 312.71, 0.74), ("SOSMC-MYULA", -3.48, 215.47, 0.80))),
    "B": Setup(
        "flower_substitute", 2, 0.47, 10.0, (("MYPGD", -3.18, 220.42, 0.75), ("SOSMC-MYULA", -3.23, 136.63, 0.81))
    ),
    "C": Setup("guitar", 5, 1.0, 30.0, (("MYPGD", -3.94, 1520.36, 0.22), ("SOSMC-MYULA", -3.78, 1030.20, 0.41))),
}


METHODS: dict[str, tuple[bool, Adaptation | None]] = {
    "MYPGD": (False, None),
    "MYPGD, grown": (False, GROWS),
    "SOSMC, grown": (True, GROWS),
    "SOSMC": (True, None),
    "SOSMC, by ESS": (True, BY_ESS),
}
"""Whether the particles are weighted, and how the image step changes. The paper's are the first and the third."""


class Size(NamedTuple):
    """Iterations, and the part of the image that is used (None: all)."""

    iterations: int
    crop: tuple[slice, slice] | None


FULL = Size(3000, None)
SMALL = Size(3000, (slice(100, 196), slice(12, 108)))
QUICK = Size(150, (slice(130, 178), slice(40, 88)))


class Course(NamedTuple):
    """What is shown of a run: the weighted mean image, and curves (row,) by name."""

    image: np.ndarray
    curves: dict[str, np.ndarray]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment."""
    add_common_arguments(parser, "sosmc-deblur", backends="numpy")
    parser.add_argument(
        "--setup", action="append", choices=list(SETUPS), help="may be given several times (default: A and C)"
    )
    parser.add_argument(
        "--method", action="append", choices=list(METHODS), help="may be given several times (default: all)"
    )
    parser.add_argument(
        "--prox", choices=list(PROXES), default="isotropic", help="total variation in the prox (default: %(default)s)"
    )
    parser.add_argument("--full", action="store_true", help="whole images instead of a part of 96 x 96 pixels")


def run(args: argparse.Namespace) -> int:
    """Run it, print the table, and write the files."""
    with one_thread():
        return _run_all(args)


def _run_all(args: argparse.Namespace) -> int:
    began = time.perf_counter()
    size = QUICK if args.quick else FULL if args.full else SMALL
    report, names = Report(args.out), args.backend or ["numpy"]
    report.say("Deblurring with a total-variation prior of unknown strength; SOSMC paper, Section 5.4 and Appendix E.4")
    for line in missing(names):
        report.say(line)
    where = [device for device in device_dtypes(names) if device.dtype == "float32"]
    rows: list[dict[str, Any]] = []
    shown: dict[str, dict[str, Course]] = {}
    for name in args.setup or ["A", "C"]:
        setup = SETUPS[name]
        truth = load_dataset("deblur_images")[setup.image].astype(np.float64)
        truth = truth if size.crop is None else truth[size.crop]
        blurred = _observe(truth, setup, args.seed)
        report.say(
            f"setup {name}: {setup.image}, {truth.shape[0]} x {truth.shape[1]}, windows of {2 * setup.half_width + 1}, "
            f"sigma = {setup.noise}, N = {PARTICLES}, {size.iterations} iterations, {args.prox} prox, seed {args.seed}"
        )
        rows.append(_row(name, "the observation", truth, blurred[None], np.zeros(1)))
        shown[name] = {"truth": Course(truth, {}), "observation": Course(blurred, {})}
        for device in where:
            for method in args.method or METHODS:
                row, course = _run(device, setup, truth, blurred, method, args.prox, size, args.seed)
                rows.append(row | {"setup": name, "method": f"{method} {device.backend.name}"})
                report.say(
                    f"  {device!s:22} {method:14} {row['seconds']:6.1f} s: theta {row['theta']:.2f}, "
                    f"MSE {row['mse']:.1f}, SSIM {row['ssim']:.2f}"
                )
                if device is where[0]:
                    shown[name][method] = course
    _tell(report, rows)
    report.rows(rows)
    images: dict[str, Any] = {f"{s}: {m}": course.image for s, part in shown.items() for m, course in part.items()}
    np.savez_compressed(report.out / "images.npz", **images)
    _plot(report, shown)
    report.say(f"files are in {report.out}; the whole took {time.perf_counter() - began:.0f} s")
    report.close()
    return 0


def _observe(truth: np.ndarray, setup: Setup, seed: int) -> np.ndarray:
    """The blurred and noisy image."""
    noise = setup.noise * np.random.default_rng([seed, 1]).standard_normal(truth.shape)
    return UniformBlur(truth.shape, setup.half_width).apply(truth.ravel()).reshape(truth.shape) + noise


def _run(
    device: DeviceDtype,
    setup: Setup,
    truth: np.ndarray,
    blurred: np.ndarray,
    method: str,
    prox: str,
    size: Size,
    seed: int,
) -> tuple[dict[str, Any], Course]:
    (weighted, adapt), shape, flat = METHODS[method], truth.shape, device.array(truth.ravel())
    variation = IsotropicTV(shape)  # in the density and in the gradient, whatever the prox
    in_prox: TotalVariation = PROXES[prox](shape)
    target = deblurring(
        device.array(blurred.ravel()), UniformBlur(shape, setup.half_width), setup.noise, variation, THETA_0
    )
    drift = MYULA(STEP, in_prox, SMOOTHING, strength).drift
    move: Move = LangevinMove(STEP, drift=drift)
    kernel = SOSMC(
        Expectation(likelihood_gradient(variation)),
        move if weighted else Unweighted(move),
        SGD(RATE),
        threshold=0.9 if weighted else 0.0,
        resampling=Systematic(),
        adapt_move=adapt,
    )
    start = np.random.default_rng([seed, 2]).standard_normal((PARTICLES, truth.size))
    x0 = device.array(50.0 + setup.spread * start)

    def squared_error(x: Any) -> Any:
        return device.backend.xp.mean((x - flat) ** 2, axis=-1)

    trace = sample(
        *(target, kernel, x0, ROWS),
        thinning=size.iterations // ROWS,
        seed=seed,
        recorders=(SOSMCHistory({"mse": squared_error}),),
        progress=False,
    )
    state, history = trace.state, trace.recorded["history"]
    x, logs = to_host(state.point.x).astype(np.float64), to_host(state.weights.logs).astype(np.float64)
    row = _row("", "", truth, x.reshape(-1, *shape), logs)
    curves = {key: to_host(history[key]) for key in ("mse", "weight_ess")}
    curves["theta"] = to_host(history["parameters"]["theta"])
    curves["step"] = to_host(history["step_size"]) if adapt is not None else np.full(ROWS, STEP)
    scale = SMOOTHING * float(np.exp(curves["theta"][-1]))
    u = in_prox.prox(backend_of(x), x[:1], scale)
    row |= {
        "theta": float(curves["theta"][-1]),
        "ess": float(np.median(curves["weight_ess"][ROWS // 2 :])) if weighted else float(PARTICLES),
        "step": float(curves["step"][-1]),
        "gap": float(np.max(in_prox.gap(np, x[:1], u, scale))) / truth.size,
        "seconds": trace.metadata["seconds"],
    }
    return row, Course(_mean_image(x, logs).reshape(shape), curves)


def _mean_image(x: np.ndarray, logs: np.ndarray) -> np.ndarray:
    weights = np.exp(logs - np.max(logs))
    return np.tensordot(weights / np.sum(weights), x, axes=1)


def _row(setup: str, method: str, truth: np.ndarray, images: np.ndarray, logs: np.ndarray) -> dict[str, Any]:
    """The measures of weighted images (particle, height, width)."""
    mean = _mean_image(images, logs)
    try:
        similar = structural_similarity(np.concatenate([images, mean[None]]), truth)
    except ImportError:
        similar = np.full(len(images) + 1, np.nan)
    return {
        "setup": setup,
        "method": method,
        "theta": np.nan,
        "mse": float(_mean_image(mean_squared_error(images, truth), logs)),
        "ssim": float(_mean_image(similar[:-1], logs)),
        "mse_mean": float(mean_squared_error(mean, truth)),
        "ssim_mean": float(similar[-1]),
        "ess": np.nan,
        "step": np.nan,
        "gap": np.nan,
        "seconds": np.nan,
    }


def _tell(report: Report, rows: list[dict[str, Any]]) -> None:
    cells = list(rows)
    blank = dict.fromkeys(COLUMNS, float("nan"))
    for name in dict.fromkeys(row["setup"] for row in rows):
        for method, theta, mse, ssim in SETUPS[name].paper:
            cells.append(
                blank | {"setup": name, "method": f"paper: {method}", "theta": theta, "mse": mse, "ssim": ssim}
            )
    text = table(cells, COLUMNS).replace("nan", "  -")
    report.say("\n" + text + "\n\n" + LEGEND + "\n")
    if any(np.isnan(row["ssim"]) for row in rows):
        report.say('no SSIM: it needs scikit-image, pip install "xpsample[metrics]"')
    for row in rows:  # json knows no nan
        row.update({key: None for key, value in row.items() if isinstance(value, float) and np.isnan(value)})


def _plot(report: Report, shown: dict[str, dict[str, Course]]) -> None:
    try:
        from xpsample.experiments.sosmc.deblur_plot import plot
    except ImportError:
        report.say('no plot: it needs matplotlib, pip install "xpsample[plot]"')
        return
    plot(report.out / "plot.png", shown)
