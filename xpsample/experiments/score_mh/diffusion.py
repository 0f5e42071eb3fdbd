"""Digits by a diffusion model's network: a U-Net that predicts noise, annealed by ULA, and by MALA with its score.

The network learns as in DDPM (Ho, Jain & Abbeel 2020), on the spot. Its predictions at timesteps are scores at noise
levels, on which annealed Langevin dynamics (Song & Ermon 2019) and annealed Score-MALA (Score-MH, Section 5) run.
"""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from xpsample.core import tree
from xpsample.core.devices import DeviceDtype
from xpsample.core.registry import to_host
from xpsample.experiments.classes import class_shares, classes_covered, tv_to_uniform
from xpsample.experiments.digits import CLASSES, Digits, classify
from xpsample.experiments.runner import Experiment, Run, one_float32
from xpsample.experiments.score_mh.digits import options
from xpsample.experiments.score_mh.digits_models import DATA
from xpsample.experiments.score_mh.unet import init_unet, unet
from xpsample.experiments.table import Row, columns
from xpsample.experiments.transport import wasserstein
from xpsample.kernels import MALA, ULA, Kernel
from xpsample.optimize.optimizers import Adam
from xpsample.particles.annealed import Annealed
from xpsample.score_mh import (
    NoisePrediction,
    diffusion_target,
    geometric_noise_levels,
    linear_betas,
    save_parameters,
    variance_preserving,
)
from xpsample.spaces import Real
from xpsample.targets import LineIntegral

SCHEDULE = variance_preserving(linear_betas(1000, 1e-4, 0.01))
"""Noise levels from 0.01 to 12.5, in units of pixels in [-1, 1]."""
LARGEST, SMALLEST = 12.0, 0.03
"""Noise levels at the ends of the ladder."""
RATES = (2e-3, 5e-4)
"""Adam's, each for half of the training."""
UPDATES, BATCH = 50, 32
"""Updates of an epoch, images of each."""

COLUMNS = columns(
    "method | tau g | w1 .2f W1 | distance .2f nearest | classes .1f | tv .2f TV | accepted .3f | seconds .0f s"
)
LEGEND = """\
tau        steps are 2 (tau sigma)^2
W1         to held-out images, in pixels from -1 to 1
nearest    mean distance to the nearest training image
classes    of the images, by the nearest training images; TV their shares' total variation from uniform
accepted   mean acceptance probability"""


class Size(NamedTuple):
    """Data, channels of the U-Net, epochs, images to make, levels; tau and steps at a level, of ULA and of MALA."""

    data: str
    width: int
    epochs: int
    chains: int
    levels: int
    ula: tuple[float, int]
    mala: tuple[float, int]


FULL = Size("mnist", 16, 60, 50, 60, (0.5, 3), (0.25, 8))
SMALL = FULL._replace(data="small")
QUICK = Size("small", 4, 2, 10, 8, (0.5, 2), (0.25, 2))


def measure(run: Run[Size]) -> Iterator[Row]:
    """Train, then make images by both methods; rows of held-out images first."""
    if run.args.data == "small" and not run.args.quick:
        run.size = SMALL
    size, (known, tested) = run.size, DATA[run.size.data]()
    order = np.random.default_rng(run.seed).permutation(len(tested.images))
    held_out, others = np.split(tested.images[order], 2)
    rest = {"tau": 0.0, "accepted": 1.0, "seconds": 0.0}
    shown = run.shown["images"] = {"training images": known.images[: size.chains]}
    yield {"method": "held-out images"} | measured(others[: size.chains], known, held_out) | rest
    for device in run.devices:
        target = train(run, device, known, held_out)
        for name, base, (tau, steps) in (("ULA", ULA, size.ula), ("MALA, line integral", MALA, size.mala)):
            began = time.perf_counter()
            with run.step(f"{device} {name}"):
                images, accepted = anneal(run, device, target, base(2.0 * tau**2), steps, known.images.shape[-1])
            shown[name] = images
            row = {"method": name, "tau": tau, "accepted": accepted, "seconds": time.perf_counter() - began}
            yield row | measured(images, known, held_out)
    run.save("images", **{name.replace(", ", "_").replace(" ", "_"): images for name, images in shown.items()})


def train(run: Run[Size], device: DeviceDtype, known: Digits, held_out: np.ndarray) -> Any:
    """The target of a U-Net that was trained to predict noise."""
    size, side = run.size, round(known.images.shape[-1] ** 0.5)
    images, validation = (device.array(a.reshape(-1, 1, side, side)) for a in (known.images, held_out[:200]))
    parameters: tree.Tree = init_unet(1, size.width, run.seed)
    run.say(f"a U-Net of {sum(leaf.size for leaf in tree.leaves(parameters)):,} parameters")
    losses: list[float] = []
    with run.step(f"{device} training, {size.epochs * UPDATES} updates of {BATCH} images"):
        for stage, rate in enumerate(RATES):
            found = run.fit(
                NoisePrediction(SCHEDULE, unet),
                parameters,
                images,
                epochs=size.epochs // len(RATES),
                steps_per_epoch=UPDATES,
                batch_size=BATCH,
                optimizer=Adam(rate),
                validation=validation,
                seed=run.seed + stage,
            )
            parameters, losses = found.parameters, [*losses, *np.asarray(found.validation_losses).tolist()]
    of_pixels = [loss / side**2 for loss in losses]
    run.say(f"  held-out loss of a pixel {of_pixels[0]:.3f} after {UPDATES} updates, {min(of_pixels):.3f} at best")
    save_parameters(run.file("network.npz"), parameters)
    space = Real(1, side, side)
    return diffusion_target(unet, SCHEDULE, parameters=parameters, space=space, acceptance=LineIntegral(2))


def anneal(
    run: Run[Size], device: DeviceDtype, target: Any, base: Kernel, steps: int, dim: int
) -> tuple[np.ndarray, float]:
    """Images (chains, dim) at the end of the ladder, and the mean acceptance probability."""
    size, side = run.size, round(dim**0.5)
    noise = np.random.default_rng(run.seed).standard_normal((size.chains, 1, side, side))
    kernel = Annealed(base, geometric_noise_levels(LARGEST, SMALLEST, size.levels), steps)
    trace = run.sample(target, kernel, device.array(LARGEST * noise), 1, thinning=size.levels)
    images = to_host(trace["x"])[0].reshape(size.chains, dim)
    return images, float(np.mean(to_host(trace.run_statistics.acceptance_probability)))


def measured(images: np.ndarray, known: Digits, held_out: np.ndarray) -> Row:
    """Measures of images (chains, dim)."""
    found = classify(images, known)
    shares = class_shares(found.labels[None], CLASSES)
    return {
        "w1": float(wasserstein(images[None].astype(np.float64), held_out[None].astype(np.float64))[0]),
        "distance": np.mean(found.distance),
        "classes": np.mean(classes_covered(shares)),
        "tv": np.mean(tv_to_uniform(shares)),
    }


def conclude(run: Run[Size], rows: list[Row]) -> str:
    """Distances of other held-out images, and of each method's images, from the data."""
    found = [f"{row['method']}: W1 {row['w1']:.2f}, nearest training image at {row['distance']:.2f}" for row in rows]
    return "\n".join(found)


def plot(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """Images of the data and of both methods."""
    shown = run.shown["images"]
    figure.set_size_inches(8.0, 1.9 * len(shown))
    for axes, (name, images) in zip(figure.subplots(len(shown), 1, squeeze=False)[:, 0], shown.items(), strict=True):
        side = round(images.shape[-1] ** 0.5)
        across = min(10, len(images))
        grid = np.clip(images[: across * min(3, len(images) // across)], -1, 1).reshape(-1, across, side, side)
        axes.imshow(grid.transpose(0, 2, 1, 3).reshape(-1, across * side), cmap="gray_r")
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_title(name, fontsize=9, loc="left")


EXPERIMENT = Experiment(
    name="score-mh-diffusion",
    title="Digits by a U-Net that predicts noise: annealed ULA, and annealed MALA with a line integral of the score",
    settings={"full": FULL, "quick": QUICK},
    measure=measure,
    columns=COLUMNS,
    legend=LEGEND,
    conclude=conclude,
    figures={"images": plot},
    options=options,
    trains=True,
    devices=one_float32,
)
