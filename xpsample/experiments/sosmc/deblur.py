"""Deblurring with a total-variation prior of unknown strength (SOSMC, Section 5.4 and Appendix E.4).

SOSMC-MYULA against MYPGD, its baseline without weights, in one driver and with the same noise. The public run of SOSMC
lets the image step grow forty-fold and keeps MYPGD's, so both methods run with both steps here, to separate the gain
of the weights from the gain of the step.
"""

import argparse
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.devices import DeviceDtype
from xpsample.core.registry import backend_of, to_host
from xpsample.experiments.data import load_dataset
from xpsample.experiments.figures import tidy
from xpsample.experiments.runner import Experiment, Run, float32
from xpsample.experiments.sosmc.deblurring import UniformBlur, deblurring, likelihood_gradient, strength
from xpsample.experiments.sosmc.methods import THRESHOLD, Method
from xpsample.experiments.table import Row, columns
from xpsample.kernels import MYULA
from xpsample.optimize.optimizers import SGD
from xpsample.particles.resampling import Systematic
from xpsample.prox import AnisotropicTV, IsotropicTV, TotalVariation
from xpsample.sosmc import Adaptation, Expectation, LangevinMove, Move, SOSMCHistory, Unweighted

SMOOTHING = 0.4
STEP, LARGEST_STEP = 0.01, 0.99 * SMOOTHING
RATE = 0.01
THETA_0 = -15.0
PARTICLES = 20
CLOUD, ENLARGED = 5, 48
"""Particles that are shown, and the side of the middle part that is."""
ROWS = 150
"""Equally spaced iterations at which the course is kept."""
GROWS = Adaptation(threshold=0.0, factor=1.01, most=LARGEST_STEP)
BY_ESS = Adaptation(threshold=0.95, factor=1.01, least=1e-4, most=LARGEST_STEP)
PROXES: dict[str, Any] = {
    "isotropic": lambda shape: IsotropicTV(shape, 5),
    "anisotropic": lambda shape: AnisotropicTV(shape, 10),
}

COLUMNS = columns(
    "setup | method | theta .2f | mse .1f MSE | ssim .2f SSIM | mse_mean .1f MSE mean | "
    "ssim_mean .2f SSIM mean | ess .2f ESS | step .4f last step | gap .1e gap/pixel | seconds .0f s"
)
LEGEND = f"""\
MSE, SSIM  of the particles, averaged under their weights (as the paper has them); "mean": of the weighted mean image
ESS        of the weights, median over the second half of the run; at most {PARTICLES}
grown      the image step times 1.01 at each iteration, from {STEP} to {LARGEST_STEP:g}, as in the public run of SOSMC
by ESS     the image step by the rule of Remark 4: divided by 1.01 while the ESS is below 0.95 N, else multiplied
gap/pixel  duality gap of the prox of a last particle, in float64: its error is at most sqrt(2 gap) gray levels, rms"""
PAPER = """\
Table 3, of whole images, is in the rows "paper". It has MYPGD with the first step and SOSMC with the grown one: what
the weights gain shows between methods with the same step"""


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
"""Flag of weighted particles, and change of the image step. The paper's are the first and the third."""


class Size(NamedTuple):
    """Iterations, and the part of the image that is used (None: all)."""

    iterations: int
    crop: tuple[slice, slice] | None


PAPER_SIZE = Size(3000, None)
FULL = Size(3000, (slice(100, 196), slice(12, 108)))
QUICK = Size(150, (slice(138, 170), slice(48, 80)))


class ImageCourse(NamedTuple):
    """Displayed results of a run: the weighted mean image, curves (row,) by name, and some of the last particles."""

    image: np.ndarray
    curves: dict[str, np.ndarray]
    cloud: np.ndarray | None = None


# Okabe-Ito colors, safe for color-blind readers; without weights broad and pale, since the others lie on top of them.
STYLES: dict[str, dict[str, Any]] = {
    "MYPGD": {"color": "#E69F00", "lw": 5.0, "alpha": 0.45},
    "MYPGD, grown": {"color": "#56B4E9", "lw": 5.0, "alpha": 0.45},
    "SOSMC, grown": {"color": "#00568A", "lw": 1.2},
    "SOSMC": {"color": "#B3440A", "lw": 1.2},
    "SOSMC, by ESS": {"color": "#000000", "lw": 1.2, "ls": "--"},
}
CURVES = {
    "theta": "theta",
    "mse": "MSE of the particles",
    "weight_ess": "ESS of the weights",
    "step": "image step",
}


def options(parser: argparse.ArgumentParser) -> None:
    """Which setups and methods, and the prox."""
    parser.add_argument(
        "--setup", action="append", choices=list(SETUPS), help="may be given several times (default: A and C)"
    )
    parser.add_argument(
        "--method", action="append", choices=list(METHODS), help="may be given several times (default: all)"
    )
    parser.add_argument(
        "--prox", choices=list(PROXES), default="isotropic", help="total variation in the prox (default: %(default)s)"
    )


def measure(run: Run[Size]) -> Iterator[Row]:
    """All setups and methods; images and courses are left for the figure."""
    shown: dict[str, dict[str, ImageCourse]] = run.shown
    for name in run.args.setup or ["A", "C"]:
        setup = SETUPS[name]
        truth = load_dataset("deblur_images")[setup.image].astype(np.float64)
        truth = truth if run.size.crop is None else truth[run.size.crop]
        blurred = _observe(truth, setup, run.seed)
        run.say(
            f"setup {name}: {setup.image}, {truth.shape[0]} x {truth.shape[1]}, windows of {2 * setup.half_width + 1}, "
            f"sigma = {setup.noise}, N = {PARTICLES}, {run.size.iterations} iterations, {run.args.prox} prox"
        )
        yield {"setup": name, "method": "the observation", "theta": None} | _errors(truth, blurred[None], np.zeros(1))
        shown[name] = {"truth": ImageCourse(truth, {}), "observation": ImageCourse(blurred, {})}
        for device in run.devices:
            for method in run.args.method or METHODS:
                row, course = _estimated(run, device, setup, truth, blurred, method, f"{device} {name}: {method}")
                yield {"setup": name, "method": f"{method} {device.backend.name}"} | row
                if device is run.devices[0]:
                    shown[name][method] = course
    run.save("images", **{f"{s}: {m}": course.image for s, part in shown.items() for m, course in part.items()})


def _observe(truth: np.ndarray, setup: Setup, seed: int) -> np.ndarray:
    """The blurred and noisy image."""
    noise = setup.noise * np.random.default_rng([seed, 1]).standard_normal(truth.shape)
    return UniformBlur(truth.shape, setup.half_width).apply(truth.ravel()).reshape(truth.shape) + noise


def _estimated(
    run: Run[Size],
    device: DeviceDtype,
    setup: Setup,
    truth: np.ndarray,
    blurred: np.ndarray,
    method: str,
    label: str,
) -> tuple[Row, ImageCourse]:
    """The row of a method, and its course."""
    (weighted, adapt), shape, flat = METHODS[method], truth.shape, device.array(truth.ravel())
    variation = IsotropicTV(shape)  # in the density and in the gradient, whatever the prox
    in_prox: TotalVariation = PROXES[run.args.prox](shape)
    target = deblurring(
        device.array(blurred.ravel()), UniformBlur(shape, setup.half_width), setup.noise, variation, THETA_0
    )
    move: Move = LangevinMove(STEP, drift=MYULA(STEP, in_prox, SMOOTHING, strength).drift)
    kind = Method(move, THRESHOLD, adapt) if weighted else Method(Unweighted(move), 0.0, adapt)
    kernel = kind.kernel(Expectation(likelihood_gradient(variation)), SGD(RATE), Systematic())
    start = np.random.default_rng([run.seed, 2]).standard_normal((PARTICLES, truth.size))

    def squared_error(x: Any) -> Any:
        return device.backend.xp.mean((x - flat) ** 2, axis=-1)

    trace = run.sample(
        *(target, kernel, device.array(50.0 + setup.spread * start), ROWS),
        thinning=run.size.iterations // ROWS,
        recorders=(SOSMCHistory({"mse": squared_error}),),
        label=label,
    )
    state, history = trace.state, trace.recorded["history"]
    x, logs = to_host(state.point.x).astype(np.float64), to_host(state.weights.logs).astype(np.float64)
    curves = {key: to_host(history[key]) for key in ("mse", "weight_ess")}
    curves["theta"] = to_host(history["parameters"]["theta"])
    curves["step"] = to_host(history["step_size"]) if adapt is not None else np.full(ROWS, STEP)
    scale = SMOOTHING * float(np.exp(curves["theta"][-1]))
    u = in_prox.prox(backend_of(x), x[:1], scale)
    row = {"theta": curves["theta"][-1]} | _errors(truth, x.reshape(-1, *shape), logs)
    row |= {
        "ess": np.median(curves["weight_ess"][ROWS // 2 :]) if weighted else float(PARTICLES),
        "step": curves["step"][-1],
        "gap": np.max(in_prox.gap(np, x[:1], u, scale)) / truth.size,
        "seconds": trace.metadata["seconds"],
    }
    return row, ImageCourse(_mean_image(x, logs).reshape(shape), curves, x[:CLOUD].reshape(-1, *shape))


def _mean_image(x: np.ndarray, logs: np.ndarray) -> np.ndarray:
    weights = np.exp(logs - np.max(logs))
    return np.tensordot(weights / np.sum(weights), x, axes=1)


def _errors(truth: np.ndarray, images: np.ndarray, logs: np.ndarray) -> Row:
    """Errors of weighted images (particle, height, width): mean squared, and the SSIM of Wang et al. (2004).

    Without scikit-image the similarities are nan.
    """
    truth = truth.astype(np.float64)
    every = np.concatenate([images, _mean_image(images, logs)[None]])
    squared, similar = np.mean((every - truth) ** 2, axis=(-2, -1)), np.full(len(every), np.nan)
    with suppress(ImportError):
        from skimage.metrics import structural_similarity

        similar = np.asarray([structural_similarity(truth, one, data_range=np.ptp(truth)) for one in every])
    return {
        "mse": float(_mean_image(squared[:-1], logs)),
        "ssim": float(_mean_image(similar[:-1], logs)),
        "mse_mean": float(squared[-1]),
        "ssim_mean": float(similar[-1]),
    }


def tell(run: Run[Size], rows: list[Row]) -> None:
    """The table, with the paper's rows."""
    paper = [
        {"setup": name, "method": f"paper: {method}", "theta": theta, "mse": mse, "ssim": ssim}
        for name in run.shown
        for method, theta, mse, ssim in SETUPS[name].paper
    ]
    run.table([*rows, *paper], COLUMNS, ("setup", "method"), legend=LEGEND)
    if any(np.isnan(row["ssim"]) for row in rows):
        run.say('no SSIM: it needs scikit-image, pip install "xpsample[metrics]"')


def conclude(run: Run[Size], rows: list[Row]) -> str:
    """By setup, the error with weights divided by that without, with either step."""
    lines = []
    for name in run.shown:
        own = {row["method"].rpartition(" ")[0]: row for row in rows if row["setup"] == name}
        for weighted, plain in (("SOSMC", "MYPGD"), ("SOSMC, grown", "MYPGD, grown")):
            if weighted in own and plain in own:
                ratio = own[weighted]["mse"] / own[plain]["mse"]
                of_mean = own[weighted]["mse_mean"] / own[plain]["mse_mean"]
                lines.append(
                    f"setup {name}: MSE of {weighted} over {plain} {ratio:.2f}, of the mean image {of_mean:.2f}"
                )
    return "\n".join(lines) or "no two methods with the same step to compare"


def plot(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """For each setup, a row of images and a row of curves against iterations."""
    shown: dict[str, dict[str, ImageCourse]] = run.shown
    height = max(course.image.shape[0] / course.image.shape[1] for part in shown.values() for course in part.values())
    figure.set_size_inches(13, len(shown) * (3.2 + 1.7 * height))
    parts = figure.subfigures(2 * len(shown), 1, squeeze=False, height_ratios=[1.7 * height, 3.0] * len(shown)).ravel()
    for i, (setup, courses) in enumerate(shown.items()):
        top = float(np.max(courses["truth"].image))
        for axes, (name, course) in zip(parts[2 * i].subplots(1, len(courses)), courses.items(), strict=True):
            axes.imshow(course.image, cmap="gray", vmin=0, vmax=top)
            axes.set_title(name if name != "truth" else f"setup {setup}: truth", fontsize=9)
            axes.axis("off")
        for axes, (key, label) in zip(parts[2 * i + 1].subplots(1, len(CURVES)), CURVES.items(), strict=True):
            for name, course in courses.items():
                if course.curves:
                    values = course.curves[key]
                    axes.plot(np.arange(1, len(values) + 1) / len(values), values, label=name, **STYLES[name])
            axes.set(title=label, xlabel="share of the iterations")
            if key in ("mse", "step"):
                axes.set_yscale("log")
            tidy(axes)
            if key == "theta":
                axes.legend(frameon=False, fontsize=7)


def plot_clouds(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """Figs. A.17, A.21 and A.22: the middle of the truth and of some particles, a row for each method."""
    shown = [(f"{s}: {m}", part["truth"].image, c) for s, part in run.shown.items() for m, c in part.items()]
    clouds = [(name, truth, course.cloud) for name, truth, course in shown if course.cloud is not None]
    figure.set_size_inches(1.6 * (CLOUD + 1), 1.8 * len(clouds))
    for axes, (name, truth, cloud) in zip(figure.subplots(len(clouds), CLOUD + 1, squeeze=False), clouds, strict=True):
        top, left = ((side - ENLARGED) // 2 for side in truth.shape)
        for one, image in zip(axes, (truth, *cloud), strict=True):
            part = image[top : top + ENLARGED, left : left + ENLARGED]
            one.imshow(part, cmap="gray", vmin=0, vmax=np.max(truth))
            one.axis("off")
        axes[0].set_title("truth", fontsize=8)
        axes[1].set_title(name, fontsize=8, loc="left")


EXPERIMENT = Experiment(
    name="sosmc-deblur",
    title="Deblurring with a total-variation prior of unknown strength; SOSMC paper, Section 5.4 and Appendix E.4",
    settings={"full": FULL, "quick": QUICK, "paper": PAPER_SIZE},
    measure=measure,
    tell=tell,
    conclude=conclude,
    paper=PAPER,
    figures={"plot": plot, "clouds": plot_clouds},
    options=options,
    devices=float32,
)
