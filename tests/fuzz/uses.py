"""What the calls of the fuzz are made of: arguments, the tags that they take, and uses of what was made."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np
from array_api_compat import array_namespace

import xpsample as xps
from tests.bad_input_support import gaussian, score
from tests.bad_input_support import log_density as density
from tests.conftest import Library
from xpsample import score_mh, sosmc, srmc
from xpsample.sosmc import LangevinMove, Multinomial, RowBatches, SingleChain

GROUPS = {
    "NUMBER": "one, float one, whole, share, above",
    "PER_CHAIN": "NUMBER, huge, number, chains, integers, integer",
    "POSITIVE": "NUMBER, huge",
    "ZERO": "zero, float zero, zeros",
    "SHARE": "share, number, chains",
    "UP_TO_ONE": "share, one, float one",
    "BELOW_ONE": "share, zero, float zero",
    "COUNT": "one, whole",
    "MATRIX": "NUMBER, none, vector, matrix, huge",
    "VECTOR": "NUMBER, none, vector, huge, negative, ZERO",
    "LADDER": "numbers, whole numbers, chains, chains32, vector, triple, integers, foreign, narrow, wide",
    "FLAG": "flag",
    "FUNCTION": "callable",
    "SAMPLE": "positions, matrix, square, rectangle",
    "DRAWS": "positions, vector, triple, chains, matrix, square, rectangle, zeros, negatives",
    "EVERY_ARRAY": "DRAWS, NUMBER, number, chains32, deep, foreign, empty, integers, integer, masked, narrow, wide, "
    "text, flag, odd array",
}
"""Tags of values that arguments of a kind take, for which an argument names the kind."""


def tags(names: str) -> set[str]:
    """The tags of a list of tags and kinds."""
    found: set[str] = set()
    for name in filter(None, names.split(", ")):
        found |= tags(GROUPS[name]) if name in GROUPS else {name}
    return found


@dataclass(frozen=True)
class Argument:
    """A good argument, by the library of the call, and the tags or kinds of other values that it may take."""

    good: Callable[[Library], Any]
    fine: str

    def takes(self, tag: str) -> bool:
        """Return whether values with a tag have a meaning."""
        return tag in tags(self.fine)


@dataclass(frozen=True)
class Call:
    """A call with good arguments.

    Parameters
    ----------
    name : str
    make : callable
        Takes the arguments by name.
    arguments : dict of Argument
    then : callable
        ``then(made, library)`` uses what was made.
    """

    name: str
    make: Callable[..., Any]
    arguments: dict[str, Argument]
    then: Callable[[Any, Library], Any]


def call(
    make: Callable[..., Any],
    then: Callable[[Any, Library], Any] = lambda made, library: made,
    /,
    *,
    called: str = "",
    **arguments: Argument | str,
) -> Call:
    """A call of a function with all parameters of its signature, under its name or another one.

    An argument that is not given is that of its name in `BY_NAME`. A text has tags that a parameter takes besides its
    default, which is the good value. A parameter without either takes no other value than its default and, if that is
    None or a bool, those of its kind.
    """
    parameters = inspect.signature(make).parameters.values()
    named = {p.name: p.default for p in parameters if p.kind is not p.VAR_KEYWORD and not p.name.startswith("_")}
    every = {name: arguments.get(name, BY_NAME.get(name, "")) for name in named.keys() - TREES} | arguments
    made = {
        name: found if isinstance(found, Argument) else arg(named[name], f"{found}, {_tags_of(named[name])}")
        for name, found in every.items()
    }
    return Call(called or make.__name__, make, made, then)


def _tags_of(default: Any) -> str:
    """The tags of values like a default."""
    assert default is not inspect.Parameter.empty, "a parameter without a default needs a good argument"
    return "none" if default is None else "flag" if isinstance(default, bool) else ""


# ---- targets and positions -------------------------------------------------------------------------------------------


def density_of_values(p: Any) -> Any:
    return density(p.x)


def potential(x: Any, parameters: Any) -> Any:
    return -0.5 * array_namespace(x).sum((x - parameters) ** 2, axis=-1)


def binary(**changes: Any) -> Any:
    return xps.Target(density, **{"score": score, "space": xps.Binary()} | changes)


def rows_posterior() -> Any:
    return xps.posterior(density, likelihood, np.ones((6, 1)), score, likelihood_score)


def likelihood(x: Any, rows: Any) -> Any:
    return -0.5 * array_namespace(x).sum((x[..., None, :] - rows) ** 2, axis=(-1, -2))


def likelihood_score(x: Any, rows: Any) -> Any:
    return array_namespace(x).sum(rows - x[..., None, :], axis=-2)


def noise_levels() -> Any:
    return xps.Target(None, score=lambda x, data: -x / data["sigma"] ** 2, data={"sigma": np.asarray(1.0)})


def real(library: Library) -> Any:
    return library.array(np.linspace(-1.0, 1.0, 8).reshape(4, 2))


def deep_draws(library: Library) -> Any:
    return library.array(np.random.default_rng(0).normal(size=(20, 4, 2)))


def walkers(library: Library) -> Any:
    return library.array(np.cos(np.arange(12.0) ** 2).reshape(6, 2))


def ones(library: Library) -> Any:
    return library.array(np.asarray([[0.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 1.0]]))


def _sampled(make_target: Callable[[], Any], x0: Callable[[Library], Any]) -> Callable[[Any, Library], Any]:
    return lambda kernel, library: xps.sample(make_target(), kernel, x0(library), 3, seed=0, progress=False)


on_reals = _sampled(gaussian, real)
on_walkers = _sampled(gaussian, walkers)
on_ones = _sampled(binary, ones)
on_rows = _sampled(rows_posterior, real)
on_levels = _sampled(noise_levels, real)
on_family = _sampled(lambda: xps.Parametric(potential, np.zeros(2)), real)
on_permutations = _sampled(
    lambda: xps.Target(density, space=xps.Permutations()), lambda lib: lib.array(np.tile(np.arange(3.0), (4, 1)))
)


def as_schedule(schedule: Any, library: Library) -> Any:
    return on_reals(xps.SRMC(xps.MALA(0.1), 1.0, schedule), library)


def as_autocorrelation(value: Any, library: Library) -> Any:
    return as_schedule(srmc.Stable(value, 1.0), library)


def as_strength(strength: Any, library: Library) -> Any:
    return on_reals(xps.SRMC(xps.MALA(0.1), strength), library)


def on_bridges(kernel: Any, library: Library) -> Any:
    return xps.sample(xps.Bridge(gaussian(), gaussian()), kernel, real(library), 2, seed=0, progress=False)


def as_tilt(tilt: Any, library: Library) -> Any:
    return on_reals(xps.SRMC(xps.MALA(0.1), 1.0, tilt=tilt), library)


def as_history(history: Any, library: Library) -> Any:
    return on_reals(xps.SRLD(xps.ULA(0.1), 1.0, history, xps.RBF(1.0)), library)


def as_pair_kernel(kernel: Any, library: Library) -> Any:
    return on_reals(xps.SVGD(0.1, kernel), library)


def as_target(target: Any, library: Library) -> Any:
    x = ones(library) if isinstance(getattr(target, "space", None), xps.Binary) else real(library)
    kernel = xps.SingleFlip() if x.shape[-1] == 3 else xps.HMC(0.1, 2)
    return xps.sample(target, kernel, x, 2, seed=0, progress=False)


def as_blocks(kernel: Any, library: Library) -> Any:
    model = xps.Model(density_of_values, x=xps.Real(2), gradient=xps.FiniteDifference())
    return xps.sample(model, kernel, real(library), 2, seed=0, progress=False)


def as_recorder(recorder: Any, library: Library) -> Any:
    return xps.sample(gaussian(), xps.RWM(0.5), real(library), 3, seed=0, recorders=[recorder], progress=False)


def scored(library: Library) -> Any:
    """A trace with scores."""
    recorders = (xps.Draws(), xps.Scores())
    return xps.sample(gaussian(), xps.MALA(0.5), real(library), 10, seed=0, recorders=recorders, progress=False)


def tempered(library: Library) -> Any:
    """A trace of tempering with the densities of its rungs."""
    kernel, recorders = xps.ParallelTempering(xps.RWM(0.5), (1.0, 0.0)), (xps.Draws(), xps.Rungs())
    bridge = xps.Bridge(gaussian(), gaussian())
    return xps.sample(bridge, kernel, real(library), 10, seed=0, recorders=recorders, progress=False)


def as_srmc_recorder(recorder: Any, library: Library) -> Any:
    kernel = xps.SRMC(xps.RWM(0.5), 1.0)
    return xps.sample(gaussian(), kernel, real(library), 3, seed=0, recorders=[recorder], progress=False)


def as_space(space: Any, library: Library) -> Any:
    target = xps.Target(density, space=space)
    kernels = {xps.Permutations: xps.TwoOpt(), xps.Integers: xps.RWM(1.0)}
    kernel = kernels.get(type(space), xps.Gibbs())
    return xps.sample(target, kernel, library.array(np.asarray([[1.0, 0.0]])), 2, seed=0, progress=False)


def as_gradient(gradient: Any, library: Library) -> Any:
    return xps.sample(xps.Target(density, gradient=gradient), xps.MALA(0.1), real(library), 2, seed=0, progress=False)


def as_acceptance(acceptance: Any, library: Library) -> Any:
    target = gaussian(log_density=None, acceptance=acceptance)
    return xps.sample(target, xps.MALA(0.1), real(library), 2, seed=0, progress=False)


def as_noise(source: Any, library: Library) -> Any:
    return xps.sample(gaussian(), xps.RWM(0.5), real(library), 2, seed=source, progress=False)


def as_regularizer(regularizer: Any, library: Library) -> Any:
    return on_reals(xps.MYULA(0.1, regularizer, 0.5), library)


def as_optimizer(optimizer: Any, library: Library) -> Any:
    loss = sosmc.MarginalLikelihood()
    return on_family(xps.SOSMC(loss, LangevinMove(0.1), optimizer), library)


def as_loss(loss: Any, library: Library) -> Any:
    return on_family(xps.SOSMC(loss, LangevinMove(0.1), sosmc.SGD(0.1)), library)


def as_move(move: Any, library: Library) -> Any:
    loss = sosmc.MarginalLikelihood()
    threshold = 0.0 if isinstance(move, SingleChain) else 0.5
    return on_family(xps.SOSMC(loss, move, sosmc.SGD(0.1), threshold), library)


# ---- arguments -------------------------------------------------------------------------------------------------------


def arg(good: Any, fine: str) -> Argument:
    """An argument whose good value is the same for all libraries."""
    return Argument(lambda library: good, fine)


def array(good: Any, fine: str) -> Argument:
    """An argument whose good value is an array."""
    return Argument(lambda library: library.array(np.asarray(good)), fine)


@wraps(xps.sample)
def sampled(**arguments: Any) -> Any:
    return xps.sample(**{"progress": False} | arguments)


@wraps(xps.steps)
def first_step(**arguments: Any) -> Any:
    return next(iter(xps.steps(**arguments)))


def saved_by(path: Any) -> Any:
    return xps.sample(gaussian(), xps.RWM(0.5), np.zeros((4, 2)), 3, seed=0, progress=False).save(path)


def checkpointed(checkpoint: Any, library: Library) -> Any:
    return xps.sample(gaussian(), xps.RWM(0.5), real(library), 3, seed=0, checkpoint=checkpoint, progress=False)


def saved(folder: str) -> str:
    """A trace in a file."""
    path = f"{folder}/saved.npz"
    saved_by(path)
    return path


@wraps(score_mh.fit)
def trained(**arguments: Any) -> Any:
    return score_mh.fit(**{"progress": False} | arguments)


def as_training_loss(loss: Any, library: Library) -> Any:
    parameters = score_mh.init_score_network(2, 4, 0)
    return score_mh.fit(loss, parameters, real(library), epochs=2, seed=0, progress=False)


def as_balance(proposal: Any, library: Library) -> Any:
    loss = score_mh.ScoreBalance(proposal, score)
    parameters = score_mh.init_acceptance_network(2, 4, 0, blocks=1)
    return score_mh.fit(loss, parameters, real(library), epochs=1, seed=0, progress=False)


STEP_SIZE = arg(0.5, "PER_CHAIN, none")
COVARIANCE = arg(None, "MATRIX")
MEAN = arg(None, "VECTOR")
RWM = arg(xps.RWM(0.5), "kernel")
TARGET = arg(gaussian(), "target")
X0 = Argument(real, "DRAWS, chains32, deep, foreign")
TREES = {"data", "parameters", "score_parameters"}
"""Names of parameters that are a tree of anything, in calls that do not give them."""

BY_NAME: dict[str, Argument | str] = {
    "bandwidth": arg(1.0, "PER_CHAIN"),
    "base": RWM,
    "betas": arg((0.0, 0.5, 1.0), "numbers"),
    "covariance": COVARIANCE,
    "decay": arg(0.9, "BELOW_ONE"),
    "every": arg(1, "COUNT"),
    "friction": STEP_SIZE,
    "initial_log_normalizer": "NUMBER, huge, negative, zero, float zero",
    "iterations": arg(2, "COUNT"),
    "kernel": RWM,
    "learning_rate": arg(0.1, "POSITIVE"),
    "length": STEP_SIZE,
    "mass": COVARIANCE,
    "mean": MEAN,
    "moves": arg(1, "COUNT"),
    "name": arg("made", "text"),
    "network": arg(score_mh.score_network, "FUNCTION"),
    "optimizer": arg(sosmc.SGD(0.1), ""),
    "preconditioner": COVARIANCE,
    "resampling": arg(Multinomial(), ""),
    "reward": arg(density, "FUNCTION"),
    "rungs": arg(3, "whole"),
    "scale": STEP_SIZE,
    "schedule": arg(xps.PowerLaw(), "schedule"),
    "seed": arg(0, "one, whole, zero, vast"),
    "shape": "whole, one, whole numbers, empty",
    "size": arg(2, "COUNT"),
    "space": "space",
    "step_size": STEP_SIZE,
    "steps": arg(2, "COUNT"),
    "target": TARGET,
    "threshold": arg(0.5, "UP_TO_ONE, ZERO"),
    "timesteps": arg(3, "whole"),
    "width": STEP_SIZE,
    "x": X0,
    "x0": X0,
}
"""Arguments of parameters that mean the same in many signatures; a call gives those in which it differs."""

ROWS = Argument(lambda library: RowBatches(real(library)), "")
