"""Random trees of kernel x wrapper, for Hypothesis."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np

import xpsample as xps
from tests.compositions.settings import FINITE, KINDS, PERMUTATIONS, REAL, Setting
from xpsample.core import tree
from xpsample.kernels import Barker, Cosine, Kernel, Table
from xpsample.sosmc import LangevinMove, MarginalLikelihood, SingleChain, UnderdampedMove, Unweighted
from xpsample.srld import Balanced
from xpsample.srmc import Adaptive, Constant, Frozen, PowerLaw, Stable


class Place(NamedTuple):
    """What hyperparameters that are arrays must fit."""

    array: Callable[[Any], Any]
    chains: tuple[int, ...]
    dim: int


@dataclass(frozen=True)
class Onwards:
    """An optimiser that adds the same to every parameter, whatever the gradient."""

    velocity: float = 0.05

    def init(self, parameters: Any) -> None:
        return None

    def update(self, gradients: Any, state: None, parameters: Any) -> tuple[Any, None]:
        return tree.map(lambda leaf: 0.0 * leaf + self.velocity, parameters), state


class Value(NamedTuple):
    """A hyperparameter: a number, or an array over groups or chains."""

    number: float
    shape: str = "number"

    def __str__(self) -> str:
        return f"{self.number}" if self.shape == "number" else f"{self.number}[{self.shape}]"

    def at(self, place: Place) -> Any:
        """A number, an array (groups, 1) or (1,), or one of the chains' shape."""
        if self.shape == "number":
            return self.number
        if self.shape == "chains":
            return place.array(self.number * np.linspace(0.8, 1.0, np.prod(place.chains)).reshape(place.chains))
        shape = (*place.chains[:-1], 1)
        return place.array(self.number * np.linspace(0.8, 1.0, np.prod(shape)).reshape(shape))


@dataclass(frozen=True)
class Tree:
    """A kernel that is yet to be made, since making it may be refused; its name is what a failing example shows."""

    name: str
    make: Callable[[Place], Kernel]

    def __repr__(self) -> str:
        return self.name


def _base(name: str, make: Callable[..., Kernel], number: float | None = None) -> Callable[..., Any]:
    """A strategy of a base kernel whose one hyperparameter is a number or an array."""

    def build(shape: str) -> Tree:
        if number is None:
            return Tree(name, lambda place: make(place))
        return Tree(
            name if shape == "number" else f"{name}[{shape}]", lambda place: make(place, Value(number, shape).at(place))
        )

    shapes = ("number", "number", "groups", "chains") if number is not None else ("number",)
    return st.sampled_from(shapes).map(build)


def _diagonal(place: Place) -> Any:
    return place.array(np.linspace(1.2, 1.6, place.dim))


BASES = {
    "real": [
        _base("RWM", lambda p, v: xps.RWM(v), 0.9),
        _base("PCN", lambda p, v: xps.PCN(v), 0.7),
        _base("EllipticalSlice", lambda p: xps.EllipticalSlice(covariance=_diagonal(p))),
        _base("Slice", lambda p, v: xps.Slice(v), 1.0),
        _base("IndependentMH", lambda p: xps.IndependentMH(covariance=_diagonal(p))),
        _base("MALA", lambda p, v: xps.MALA(v), 0.4),
        _base("MALA, preconditioned", lambda p, v: xps.MALA(v, _diagonal(p)), 0.3),
        _base("HMC", lambda p, v: xps.HMC(v, 3), 0.4),
        _base("HMC, dense mass", lambda p: xps.HMC(0.4, 2, p.array(0.8 * np.eye(p.dim) + 0.2))),
        _base("NUTS", lambda p, v: xps.NUTS(v, max_depth=3), 0.4),
        _base("MAMS", lambda p, v: xps.MAMS(v, 2.0), 0.7),
        _base("MCLMC", lambda p, v: xps.MCLMC(v, 2.0), 0.3),
        _base("ULA", lambda p, v: xps.ULA(v), 0.1),
        _base("ULA, decaying", lambda p: xps.ULA(xps.PolynomialDecay(0.1))),
        _base("Underdamped", lambda p, v: xps.UnderdampedLangevin(v), 0.3),
        _base("SGNHT", lambda p, v: xps.SGNHT(v), 0.3),
        _base("MYULA", lambda p, v: xps.MYULA(v, xps.L1(), 0.3), 0.1),
        _base("SVGD", lambda p, v: xps.SVGD(v, xps.RBF(1.0)), 0.1),
        _base("StochasticSVGD", lambda p, v: xps.StochasticSVGD(v, xps.RBF(1.0)), 0.1),
    ],
    "finite": [
        _base("GWG", lambda p, v: xps.GWG(v), 0.5),
        _base("DMALA", lambda p, v: xps.DMALA(v), 0.8),
        _base("DULA", lambda p, v: xps.DULA(v), 0.5),
        _base("LocallyBalanced", lambda p: xps.LocallyBalanced(Barker())),
        _base("SingleFlip", lambda p: xps.SingleFlip()),
        _base("Gibbs", lambda p: xps.Gibbs()),
        _base("ACS", lambda p: xps.ACS(Cosine(0.8, 3))),
        _base("ACS, table", lambda p: xps.ACS(Table(p.array([2.0, 0.5]), p.array([0.9, 0.6])))),
    ],
    "permutations": [_base("TwoOpt", lambda p: xps.TwoOpt()), _base("Swap", lambda p: xps.Swap())],
}
TILTS = [xps.Exact(), xps.Shift(), xps.FiniteDifference(1e-3), xps.FiniteDifference(1e-3, "forward")]
TILTS += [xps.Untilted(), xps.Ratio()]


def space_of(setting: Setting) -> str:
    """Which of the kernels in `BASES` are made for a setting."""
    return "real" if setting.model in REAL else "finite" if setting.model in FINITE else "permutations"


@st.composite
def base_trees(draw: Any, setting: Setting) -> Tree:
    """A base kernel, mostly one for the setting's space."""
    kind = space_of(setting) if draw(st.integers(0, 9)) else draw(st.sampled_from(sorted(BASES)))
    return draw(draw(st.sampled_from(BASES[kind])))


SAMPLERS = {"real": ["SRMC", "PT", "SRLD", "Minibatch"], "finite": ["SRMC", "PT", "HiSS"], "permutations": ["PT"]}
"""Wrappers that sample the target that they are given, by the spaces that they are for."""
OUTERMOST = ["SRMC", "PT", "AIS", "SMC", "SOSMC", "Annealed"]
"""What may come around them."""


@st.composite
def wrappers(draw: Any, setting: Setting) -> list[str]:
    """Names of up to three wrappers, the innermost first."""
    if draw(st.integers(0, 9)) == 0:
        every = sorted({*OUTERMOST, *(name for names in SAMPLERS.values() for name in names)})
        return draw(st.lists(st.sampled_from(every), min_size=1, max_size=3))
    inner = draw(st.lists(st.sampled_from(SAMPLERS[space_of(setting)]), max_size=2, unique=True))
    if setting.model == "noised":
        return [*inner, "Annealed"]
    weighing = {"family": ["SOSMC"] * 4, "bridge": ["AIS", "SMC"] * 2}.get(setting.kind, [])
    return [*inner, *draw(st.lists(st.sampled_from([*OUTERMOST, *weighing]), max_size=1))]


@st.composite
def wrapped(draw: Any, name: str, inner: Tree) -> Tree:
    """A wrapper around a tree."""
    shape = draw(st.sampled_from(["number", "number", "groups"]))
    if name == "SRMC":
        tilt, alpha = draw(st.sampled_from(TILTS)), Value(draw(st.sampled_from([0.0, 0.3])), shape)
        schedule = draw(st.sampled_from([Frozen(), Frozen(), PowerLaw(0.8), Stable(Constant(0.0))]))
        adaptive, theta = draw(st.integers(0, 4)) == 0, draw(st.booleans())

        def make(place: Place) -> Kernel:
            history = place.array(np.linspace(0.8, -0.5, place.dim)) if theta else None
            strength = Adaptive(alpha.at(place), 10) if adaptive else alpha.at(place)
            return xps.SRMC(inner.make(place), strength, schedule, tilt, history)

        return Tree(f"SRMC({inner}, {alpha}, {adaptive=}, {schedule}, {tilt}, {theta=})", make)
    if name == "SRLD":
        shared, every_c = draw(st.booleans()), draw(st.integers(1, 2))
        past = draw(st.sampled_from([xps.Rolling(2, every_c), xps.Thinned(2, every_c, padded=True)]))
        pair = draw(st.sampled_from([xps.RBF(1.0), xps.RBF(), xps.InverseMultiquadric(1.0)]))
        alpha = draw(st.sampled_from([Value(0.5, shape), Value(0.5, shape), Balanced(2)]))

        def srld(place: Place) -> Kernel:
            strength = alpha.at(place) if isinstance(alpha, Value) else alpha
            return xps.SRLD(inner.make(place), strength, past, pair, shared)

        return Tree(f"SRLD({inner}, {alpha}, {past}, {pair}, {shared=})", srld)
    if name == "PT":
        betas, swap_every = draw(st.sampled_from([(1.0, 0.5), (1.0, 0.6, 0.3), (1.0, 0.0)])), draw(st.integers(1, 2))
        return Tree(
            f"PT({inner}, {betas}, {swap_every})",
            lambda place: xps.ParallelTempering(inner.make(place), betas, swap_every),
        )
    if name == "HiSS":
        sweeps, refinements, adjusted = draw(st.integers(1, 2)), draw(st.integers(0, 2)), draw(st.integers(0, 9)) > 0
        return Tree(
            f"HiSS({inner}, {Value(1.0, shape)}, {sweeps}, {refinements}, adjusted={adjusted})",
            lambda place: xps.HiSS(
                inner.make(place), Value(1.0, shape).at(place), sweeps, refinements, adjusted=adjusted
            ),
        )
    if name == "Annealed":
        return Tree(f"Annealed({inner})", lambda place: xps.Annealed(inner.make(place), (2.0, 1.0), 2))
    if name == "AIS":
        approximate = draw(st.integers(0, 4)) == 0
        ladder = (0.0, 0.2, 0.5, 1.0, 1.0)
        return Tree(
            f"AIS({inner}, approximate={approximate})", lambda place: xps.AIS(inner.make(place), ladder, approximate)
        )
    if name == "SMC":
        settings = draw(st.sampled_from([{"betas": (0.0, 0.2, 0.5, 1.0, 1.0)}, {"ess": 0.9}]))
        threshold = draw(st.sampled_from([0.0, 0.5, 1.0]))
        return Tree(
            f"SMC({inner}, {settings}, {threshold})",
            lambda place: xps.TemperedSMC(inner.make(place), threshold=threshold, **settings, moves=1),
        )
    if name == "Minibatch":
        common = draw(st.booleans())
        return Tree(f"Minibatch({inner}, {common})", lambda place: xps.Minibatch(inner.make(place), 3, common))
    move = draw(st.sampled_from(["kernel", "kernel", "Langevin", "underdamped", "unweighted", "single chain"]))
    threshold = 0.0 if move == "single chain" else draw(st.sampled_from([0.0, 0.5, 1.0]))

    def sosmc(place: Place) -> Kernel:
        moves: Any = {
            "kernel": lambda: inner.make(place),
            "Langevin": lambda: LangevinMove(0.2),
            "underdamped": lambda: UnderdampedMove(0.5),
            "unweighted": lambda: Unweighted(LangevinMove(0.2)),
            "single chain": lambda: SingleChain(0.2, 1),
        }
        return xps.SOSMC(MarginalLikelihood(), moves[move](), Onwards(), threshold)

    return Tree(f"SOSMC({inner if move == 'kernel' else move}, {threshold})", sosmc)


@st.composite
def settings_of(draw: Any) -> Setting:
    """A target and the shape of its chains."""
    models = draw(st.sampled_from([REAL, REAL, REAL, tuple(FINITE), tuple(FINITE), tuple(FINITE), PERMUTATIONS]))
    model, kind = draw(st.sampled_from(models)), draw(st.sampled_from(("plain", *KINDS)))
    floating, integers = ["float64", "float64", "float32"], ["int64", "int32"]
    dtypes = integers if model in PERMUTATIONS else floating if model in (*REAL, "ragged") else [*floating, *integers]
    groups, dtype = draw(st.sampled_from([0, 2])), draw(st.sampled_from(dtypes))
    betas = draw(st.sampled_from([(0.5,), (0.4, 0.8)])) if groups else (0.5,)
    return Setting(model, kind, betas, groups, dtype)


@st.composite
def compositions(draw: Any) -> tuple[Setting, Tree]:
    """A setting, and a tree of up to three wrappers."""
    setting = draw(settings_of())
    kernel = draw(base_trees(setting))
    for name in draw(wrappers(setting)):
        kernel = draw(wrapped(name, kernel))
    return setting, kernel
