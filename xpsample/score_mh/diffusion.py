"""Networks of diffusion models as scores of data with noise added: schedules, a target, and the loss that trains them.

Sources: Ho, Jain & Abbeel, "Denoising diffusion probabilistic models" (2020); Song et al., "Score-based generative
modeling through stochastic differential equations" (2021), which names the two kinds of schedules; Nichol & Dhariwal
(2021) for the cosine one; Salimans & Ho (2022) for the prediction of velocities.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from array_api_compat import device as device_of

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.checks import check_count, check_function, check_instance, check_number, check_numbers, given
from xpsample.core.errors import HyperparameterError, LogDensityError
from xpsample.core.fields import FrozenDataclass, checked, function, instance, numbers
from xpsample.core.specs import Normal, Specs, Uniform
from xpsample.particles.batches import take_rows
from xpsample.score_mh.losses import TrainingLoss, per_row, shaped, squares
from xpsample.spaces.space import Real
from xpsample.targets.acceptance import Acceptance, LineIntegral
from xpsample.targets.target import Target

VECTORS, BY_SCORE = Real(), LineIntegral()

NOISE: Mapping[str, Callable[..., Array]] = {
    "noise": lambda out, x, a, sigma: out,
    "data": lambda out, x, a, sigma: (x - a * out) / sigma,
    "velocity": lambda out, x, a, sigma: (a * out + sigma * x) / (a * a + sigma * sigma),
}
"""The noise in ``x = a x_0 + sigma noise``, computed from a network's prediction."""

PREDICTED: Mapping[str, Callable[..., Array]] = {
    "noise": lambda noise, x_0, a, sigma: noise,
    "data": lambda noise, x_0, a, sigma: x_0,
    "velocity": lambda noise, x_0, a, sigma: a * noise - sigma * x_0,
}
"""Prediction target of a network, computed from the noise and the data."""


class DiffusionSchedule(FrozenDataclass, eq=True):
    """The noised data ``x_t = a_t x_0 + sigma_t noise`` of a diffusion model at its timesteps.

    Parameters
    ----------
    signals : sequence of float
        a_t, positive.
    sigmas : sequence of float
        sigma_t, positive, in units of x_0. The noise level ``sigma_t / a_t`` must rise, or fall, with t.
    times : sequence of float, optional
        What the network is given as t, rising or falling; 0, 1, 2, ... when not given.
    """

    signals: Sequence[float] = numbers(gt=0, least=2)
    sigmas: Sequence[float] = numbers(gt=0, least=2)
    times: Sequence[float] | None = checked(
        partial(check_numbers, least=2),
        default=None,
        factory=lambda schedule: tuple(map(float, range(len(schedule.signals)))),
    )

    def __check_init__(self) -> None:
        assert self.times is not None
        counts = len(self.signals), len(self.sigmas), len(self.times)
        if len(set(counts)) > 1:
            raise HyperparameterError(
                f"there must be a signal, a sigma and a time for each timestep; got {counts[0]}, {counts[1]} and "
                f"{counts[2]}"
            )
        for name, values in (("sigmas / signals", self._levels), ("times", np.asarray(self.times))):
            steps = np.diff(values)
            if not (np.all(steps > 0) or np.all(steps < 0)):
                raise HyperparameterError(f"{name} must rise, or fall, all along the timesteps; got {given(values)}")

    @property
    def levels(self) -> tuple[float, ...]:
        """The noise levels of the timesteps, ``sigma_t / a_t``, from the largest to the smallest, in units of x_0.

        A ladder of `Annealed` may take some of them, such as ``schedule.levels[::10]``.
        """
        return tuple(sorted(self._levels.tolist(), reverse=True))

    @cached_property
    def table(self) -> dict[str, np.ndarray]:
        """Levels, times, and logarithms of signals, from the smallest level to the largest, each (timesteps,)."""
        order = np.argsort(self._levels)
        columns = {"levels": self._levels, "times": np.asarray(self.times), "log_signals": np.log(self.signals)}
        return {name: column[order] for name, column in columns.items()}

    @property
    def _levels(self) -> np.ndarray:
        return np.asarray(self.sigmas) / np.asarray(self.signals)


def variance_preserving(betas: Sequence[float]) -> DiffusionSchedule:
    """The schedule of DDPM: ``a_t^2 = prod_(s <= t) (1 - beta_s)`` and ``sigma_t^2 = 1 - a_t^2``.

    Parameters
    ----------
    betas : sequence of float
        Between 0 and 1, one for each timestep; such as `linear_betas` or `cosine_betas`.
    """
    logs = np.cumsum(np.log1p(-np.asarray(check_numbers("betas", betas, 0, 1, least=2, below=True))))
    return DiffusionSchedule(tuple(np.exp(0.5 * logs)), tuple(np.sqrt(-np.expm1(logs))))


def variance_exploding(sigmas: Sequence[float], times: Sequence[float] | None = None) -> DiffusionSchedule:
    """Noise added to data as they are: a_t = 1.

    Parameters
    ----------
    sigmas : sequence of float
        Standard deviation of the noise at each timestep, in units of x_0; all rising or all falling.
    times : sequence of float, optional
        What the network is given as t: 0, 1, 2, ... when not given, `sigmas` for a network of noise levels.
    """
    return DiffusionSchedule((1.0,) * len(check_numbers("sigmas", sigmas, 0, least=2)), sigmas, times)


def linear_betas(timesteps: int = 1000, first: float = 1e-4, last: float = 0.02) -> tuple[float, ...]:
    """Betas in equal steps (Ho, Jain & Abbeel 2020).

    Parameters
    ----------
    timesteps : int
    first, last : float
        Between 0 and 1.
    """
    first, last = (check_number(name, b, 0, 1, below=True) for name, b in (("first", first), ("last", last)))
    return tuple(np.linspace(first, last, check_count("timesteps", timesteps, 2)).tolist())


def cosine_betas(timesteps: int = 1000, offset: float = 0.008) -> tuple[float, ...]:
    """Betas whose signal falls like a cosine, at most 0.999 (Nichol & Dhariwal 2021).

    Parameters
    ----------
    timesteps : int
    offset : float
        Positive, at most 1; keeps the first betas from being tiny.
    """
    t = np.linspace(0.0, 1.0, check_count("timesteps", timesteps, 2) + 1)
    offset = check_number("offset", offset, 0, 1)
    kept = np.cos((t + offset) / (1.0 + offset) * (math.pi / 2.0)) ** 2
    return tuple(np.minimum(1.0 - kept[1:] / kept[:-1], 0.999).tolist())


def diffusion_target(
    network: Callable[..., Array],
    schedule: DiffusionSchedule,
    *,
    parameters: tree.Tree = None,
    prediction: str = "noise",
    space: Real = VECTORS,
    acceptance: Acceptance = BY_SCORE,
) -> Target:
    """The data with noise added, as a diffusion model's network knows them: a target with a score, for `Annealed`.

    With x_0 the data and ``y = x_0 + s noise``, the network is called at ``x_t = a_t y`` for the t whose noise level
    ``sigma_t / a_t`` is s, and the score of y is minus the noise that it finds, divided by s. Between timesteps, t and
    log a_t are linear in log s.

    Parameters
    ----------
    network : callable
        ``network(x, t)``, or ``network(x, t, parameters)`` when `parameters` are given: of x, ``(batch, *shape)``, and
        timesteps, ``(batch)`` of x's dtype, to x's shape. All chain axes are one axis for it.
    schedule : DiffusionSchedule
        That of its training.
    parameters : tree of arrays, optional
    prediction : {"noise", "data", "velocity"}
        What the network gives: the noise, x_0, or ``a_t noise - sigma_t x_0``.
    space : Real
        ``Real(channels, height, width)`` for images; vectors when not given.
    acceptance : Acceptance
        As for `Target`: there is no log density.

    Returns
    -------
    Target
        Positions y, in units of x_0, at the noise level in its data, ``"sigma"``, which `Annealed` sets; the smallest
        level of the schedule at first. A level beyond the schedule has no score: it is nan.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> from xpsample import score_mh as smh
    >>> schedule = smh.variance_preserving(smh.linear_betas(100, 1e-4, 0.2))
    >>> of_noise = np.asarray(schedule.sigmas)  # of standard normal data, x_t is standard normal at every t
    >>> target = smh.diffusion_target(lambda x, t: of_noise[t.astype(int), None] * x, schedule)
    >>> x0 = schedule.levels[0] * np.random.default_rng(0).standard_normal((1000, 2))
    >>> kernel = xps.Annealed(xps.MALA(0.5), schedule.levels, units=np.hypot(1, schedule.levels))
    >>> trace = xps.sample(target, kernel, x0, 1, seed=1, burn_in=99)
    >>> bool(abs(trace.draws.std() - 1) < 0.1)
    True
    """
    check_function("network", network, "(x, t)")
    check_instance("schedule", schedule, DiffusionSchedule, "variance_preserving(linear_betas())")
    check_prediction(prediction)
    check_instance("space", space, Real, "Real(1, 28, 28)")
    score = DiffusionScore(network, prediction, len(space.shape) or 1, parameters is not None)
    data = {"sigma": np.asarray(schedule.levels[-1]), **schedule.table, "network": parameters}
    return Target(None, score=score, data=data, space=space, acceptance=acceptance)


class DiffusionScore(FrozenDataclass, eq=True):
    """The score of a `diffusion_target`, ``score(y, data)``, of positions with `axes` after the chains'."""

    network: Callable[..., Array]
    prediction: str
    axes: int
    has_parameters: bool

    def __call__(self, y: Array, data: Mapping[str, Any]) -> Array:
        xp, chains, shape = array_namespace(y), y.shape[: -self.axes], y.shape[-self.axes :]
        level, t, a = at_level(xp, data["sigma"], data)
        level, t, a = (xp.broadcast_to(values, chains) for values in (level, t, a))
        level, a = (xp.reshape(values, (*chains, *(1,) * self.axes)) for values in (level, a))
        x = a * y
        known = (data["network"],) if self.has_parameters else ()
        flat = xp.reshape(x, (-1, *shape))
        out = self.network(flat, xp.reshape(t, (-1,)), *known)
        if getattr(out, "shape", None) != flat.shape:
            raise LogDensityError(
                f"the network must return the shape of its input, {tuple(flat.shape)}; got {given(out)} (drop "
                "variances: lambda x, t: network(x, t)[:, :channels])"
            )
        return -NOISE[self.prediction](xp.reshape(out, x.shape), x, a, a * level) / level


EDGE = 1e-3  # Tolerance for being at a timestep, as a share of the gap to the next: rounding must not make 2.9999 of 3


def at_level(xp: Any, sigma: Array, table: Mapping[str, Array]) -> tuple[Array, Array, Array]:
    """Noise levels, nan outside of a `DiffusionSchedule`'s table, their times and signals, each as `sigma` in shape."""
    levels, logs = table["levels"], xp.log(table["levels"])
    passed = (xp.log(sigma)[..., None] - logs[:-1]) / (logs[1:] - logs[:-1])
    passed = xp.clip((passed - EDGE) / (1.0 - 2.0 * EDGE), 0.0, 1.0)  # of the way from each timestep to the next

    def along(column: Array) -> Array:
        return column[0] + xp.sum(passed * (column[1:] - column[:-1]), axis=-1)

    known = (sigma > (1.0 - EDGE) * levels[0]) & (sigma < (1.0 + EDGE) * levels[-1])
    return xp.where(known, sigma, xp.nan), along(table["times"]), xp.exp(along(table["log_signals"]))


class NoisePrediction(TrainingLoss, FrozenDataclass, eq=True):
    """``E |network(a_t x_0 + sigma_t noise, t) - noise|^2``, t uniform over the timesteps (DDPM, Eq. 14).

    Parameters
    ----------
    schedule : DiffusionSchedule
    network : callable
        ``network(x, t, parameters)``, of rows x ``(rows, *shape)`` and timesteps ``(rows)``, to x's shape.
    prediction : {"noise", "data", "velocity"}
        What the network learns to give, as for `diffusion_target`.
    """

    schedule: DiffusionSchedule = instance(DiffusionSchedule, "variance_preserving(linear_betas())")
    network: Callable[..., Array] = function("(x, t, parameters)")
    prediction: str = "noise"

    any_shape = True

    def __check_init__(self) -> None:
        check_prediction(self.prediction)

    def noise(self, rows: int, dim: int) -> Specs:
        return {"added": Normal((rows, dim)), "timestep": Uniform((rows,))}

    def __call__(
        self, parameters: tree.Tree, x: Array, noise: Mapping[str, Array], constants: tree.Tree, progress: Array
    ) -> Array:
        xp, added, schedule = array_namespace(x), shaped(noise["added"], x), self.schedule
        rows = np.asarray([schedule.signals, schedule.sigmas, schedule.times]).T
        drawn = take_rows(xp, xp.asarray(rows, dtype=x.dtype, device=device_of(x)), noise["timestep"])
        a, sigma = per_row(drawn[:, 0], x), per_row(drawn[:, 1], x)
        found = self.network(a * x + sigma * added, drawn[:, 2], parameters)
        return xp.mean(squares(found - PREDICTED[self.prediction](added, x, a, sigma)))


def check_prediction(prediction: Any) -> None:
    """Raise HyperparameterError unless it is one that is known."""
    if not isinstance(prediction, str) or prediction not in NOISE:
        raise HyperparameterError(f"prediction is 'noise', 'data' or 'velocity'; got {given(prediction)}")
