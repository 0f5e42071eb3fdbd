"""Sick models: the first line names the cause, and a run that follows its advice is healthy.

Each row is a model as users write it, the kind that names its cause, and the same with the advice followed. The table
of `docs/developer/faults.md` shows what is said of each.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import xpsample as xps

FINITE = xps.FiniteDifference()
SICK: dict[str, "Callable[[], Sick]"] = {}


@dataclass(frozen=True)
class Run:
    """A call of `sample`; without positions, a `Model` makes its own."""

    target: Any
    kernel: Any
    x0: Any = None
    draws: int = 1000
    settings: Any = ()

    def findings(self) -> Any:
        """Findings of the run."""
        x0 = self.target.start(like=np.zeros(0), chains=4, seed=0) if self.x0 is None else self.x0
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return xps.sample(
                self.target, self.kernel, x0, self.draws, seed=1, progress=False, **dict(self.settings)
            ).diagnose()


@dataclass(frozen=True)
class Sick:
    """What names the cause, a word of the advice, and the run before and after it."""

    kind: str
    word: str
    before: Run
    after: Run


def normal(dim: int, scale: Any = 1.0, chains: int = 4) -> np.ndarray:
    return scale * np.random.default_rng(0).normal(size=(chains, dim))


def bits(dim: int, chains: int = 4) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 2, size=(chains, dim)).astype(float)


def row(build: Callable[[], Sick]) -> Callable[[], Sick]:
    SICK[build.__name__] = build
    return build


# ---- densities and scores --------------------------------------------------------------------------------------------

SCALE = np.array([1.0, 2.0, 0.5])


def scaled(score: Callable[[np.ndarray], np.ndarray]) -> xps.Target:
    return xps.Target(lambda x: -0.5 * np.sum((x / SCALE) ** 2, axis=-1), score=score)


RIGHT = scaled(lambda x: -x / SCALE**2)


@row
def score_of_the_wrong_sign():
    wrong = scaled(lambda x: x / SCALE**2)
    return Sick("score", "sign", Run(wrong, xps.MALA(), normal(3)), Run(RIGHT, xps.MALA(), normal(3), 3000))


@row
def score_without_its_factor():
    """ULA has no accept step: its draws are wrong, and nothing looks bad."""
    wrong, kernel = scaled(lambda x: -0.5 * x / SCALE**2), xps.ULA(0.05)
    return Sick("score", "factor", Run(wrong, kernel, normal(3), 4000), Run(RIGHT, xps.ULA(), normal(3), 9000))


@row
def score_of_another_coordinate():
    wrong = scaled(lambda x: (-x / SCALE**2)[..., [1, 2, 0]])
    return Sick("score", "order", Run(wrong, xps.HMC(), normal(3)), Run(RIGHT, xps.HMC(), normal(3)))


@row
def score_without_one_coordinate():
    wrong = scaled(lambda x: -x / SCALE**2 * np.array([1.0, 0.0, 1.0]))
    return Sick("score", "omit the score", Run(wrong, xps.HMC(), normal(3)), Run(RIGHT, xps.HMC(), normal(3)))


@row
def bound_that_nobody_declared():
    def log_density(x):
        return np.where(np.any(x <= 0, axis=-1), -np.inf, -np.sum(x, axis=-1))

    target = xps.Target(log_density, score=lambda x: -np.ones_like(x))
    model = xps.Model(lambda p: -np.sum(p.x, axis=-1), x=xps.Positive(2), gradient=FINITE)
    return Sick("bound", "Positive()", Run(target, xps.MALA(), np.abs(normal(2))), Run(model, xps.MALA(), None, 4000))


@row
def classes_that_a_line_separates():
    """A logistic regression without a prior: the steeper, the better."""
    x = np.linspace(-2, 2, 20)

    def log_density(b):
        return -np.sum(np.logaddexp(0, -np.sign(x) * x * b[..., :1]), axis=-1)

    before = xps.Target(log_density, gradient=FINITE)
    after = xps.Target(lambda b: log_density(b) - 0.5 * b[..., 0] ** 2 / 25, gradient=FINITE)
    return Sick("improper", "prior", Run(before, xps.RWM(2.0), normal(1), 2000), Run(after, xps.HMC(), normal(1)))


@row
def tail_like_the_inverse_square():
    model = xps.Model(lambda p: -2 * np.log1p(p.k), k=xps.Positive(), gradient=FINITE)
    log = xps.Target(lambda x: x[..., 0] - 2 * np.logaddexp(0, x[..., 0]), gradient=FINITE)
    return Sick("tails", "logarithm", Run(model, xps.HMC(), None, 4000), Run(log, xps.HMC(), normal(1), 4000))


# ---- modes, metrics, steps -------------------------------------------------------------------------------------------


def two_modes(a: float) -> xps.Target:
    return xps.Target(
        lambda x: np.logaddexp(-0.5 * np.sum((x - a) ** 2, axis=-1), -0.5 * np.sum((x + a) ** 2, axis=-1)),
        score=lambda x: a * np.tanh(a * np.sum(x, axis=-1))[..., None] - x,
    )


@row
def modes_at_a_distance():
    x0 = np.array([[-5.0], [5.0], [5.0], [-5.0]])
    target = two_modes(5.0)
    return Sick(
        "modes",
        "ParallelTempering",
        Run(target, xps.HMC(), x0),
        Run(target, xps.ParallelTempering(xps.MALA()), x0, 6000),
    )


@row
def steps_far_too_small():
    target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    return Sick("slow", "larger step", Run(target, xps.MALA(1e-4), normal(2)), Run(target, xps.MALA(), normal(2), 3000))


@row
def steps_far_too_large():
    target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1))
    return Sick(
        "acceptance", "smaller step", Run(target, xps.RWM(40.0), normal(2)), Run(target, xps.RWM(1.5), normal(2), 6000)
    )


# ---- discrete spaces -------------------------------------------------------------------------------------------------


def spins(dim: int, scale: float) -> xps.Target:
    """Spins with random couplings."""
    w = np.random.default_rng(1).normal(size=(dim, dim)) * scale
    w = (w + w.T) / 2
    np.fill_diagonal(w, 0)
    return xps.Target(
        lambda x: 0.5 * np.sum((2 * x - 1) * ((2 * x - 1) @ w), axis=-1),
        score=lambda x: 2 * ((2 * x - 1) @ w),
        space=xps.Binary(),
    )


@row
def discrete_steps_that_nothing_adjusts():
    return Sick(
        "heat", "DMALA", Run(spins(6, 0.35), xps.DULA(5.0), bits(6)), Run(spins(6, 0.35), xps.DMALA(), bits(6), 4000)
    )


@row
def discrete_steps_far_too_large():
    target = spins(60, 0.1)
    return Sick(
        "acceptance",
        "smaller step",
        Run(target, xps.DMALA(50.0), bits(60)),
        Run(target, xps.DMALA(0.2), bits(60), 20000),
    )


@row
def discrete_steps_far_too_small():
    target = spins(6, 0.2)
    return Sick(
        "acceptance",
        "larger step",
        Run(target, xps.DMALA(0.08), bits(6), 4000),
        Run(target, xps.DMALA(2.0), bits(6), 4000),
    )


TWO_BITS = xps.Target(
    lambda x: 12.0 * (x[..., 0] == x[..., 1]), score=lambda x: 12.0 * (2 * x[..., ::-1] - 1), space=xps.Binary()
)
APART = np.array([[0.0, 0], [1, 1], [0, 0], [1, 1]])


@row
def bits_that_must_agree():
    after = Run(TWO_BITS, xps.ParallelTempering(xps.Gibbs()), APART, 4000)
    return Sick("stuck", "ParallelTempering", Run(TWO_BITS, xps.Gibbs(), APART, 2000), after)


@row
def parity_that_no_single_flip_keeps():
    """A density of 0 between the states: nothing moves."""
    parity = xps.Target(lambda x: np.where(np.sum(x, axis=-1) % 2 == 0, 0.0, -np.inf), space=xps.Binary())
    states = xps.Target(lambda x: 0.0 * x[..., 0], space=xps.Categorical((0, 3, 5, 6)))
    after = Run(states, xps.Gibbs(), np.array([[0.0], [3.0], [5.0], [6.0]]), 2000)
    return Sick("stuck", "one Categorical", Run(parity, xps.SingleFlip(), APART[:, [0, 1]]), after)


@row
def ferromagnet_below_its_critical_temperature():
    target = xps.Target(
        lambda x: 0.35 * np.sum(2 * x - 1, axis=-1) ** 2,
        score=lambda x: 1.4 * np.sum(2 * x - 1, axis=-1, keepdims=True) + 0 * x,
        space=xps.Binary(),
    )
    x0 = np.repeat([[0.0], [1.0], [0.0], [1.0]], 8, axis=1)
    after = Run(target, xps.ParallelTempering(xps.Gibbs()), x0, 6000)
    return Sick("modes", "ParallelTempering", Run(target, xps.GWG(), x0, 8000), after)


@row
def colors_that_must_agree():
    target = xps.Target(lambda x: 10.0 * (x[..., 0] == x[..., 1]), space=xps.Categorical((0, 1, 2)))
    x0 = np.array([[0.0, 0], [1, 1], [2, 2], [0, 0]])
    one = xps.Target(lambda x: 0.0 * x[..., 0], space=xps.Categorical((0, 1, 2)))
    return Sick("modes", "one Categorical", Run(target, xps.Gibbs(), x0, 2000), Run(one, xps.Gibbs(), x0[:, :1], 2000))


@row
def ladder_with_too_few_rungs():
    target = spins(12, 0.4)
    before = Run(target, xps.ParallelTempering(xps.Gibbs(), betas=np.array([1.0, 0.0])), bits(12), 2000)
    return Sick(
        "ladder", "rungs", before, Run(target, xps.ParallelTempering(xps.Gibbs(), xps.Ladder(4)), bits(12), 8000)
    )


@row
def labels_of_rows_in_blocks():
    """z and mu hold each other up: the advice is to sum z out."""

    def log_density(p):
        return -0.5 * (p.mu - 9.0 * p.z) ** 2

    before = xps.Model(log_density, z=xps.Binary(()), mu=xps.Real(), gradient=FINITE)
    after = xps.Target(lambda x: np.logaddexp(-0.5 * x[..., 0] ** 2, -0.5 * (x[..., 0] - 9.0) ** 2), gradient=FINITE)
    kernel = xps.Blocks({"z": xps.Gibbs(), "mu": xps.MALA()})
    x0 = np.array([[0.0], [9.0], [0.0], [9.0]])
    return Sick(
        "modes",
        "",
        Run(before, kernel, np.concatenate([x0 / 9, x0], axis=1)),
        Run(after, xps.ParallelTempering(xps.MALA()), x0, 6000),
    )


@row
def ring_at_a_low_temperature():
    target = xps.Target(
        lambda x: 3.0 * np.sum((2 * x - 1) * (2 * np.roll(x, 1, axis=-1) - 1), axis=-1),
        score=lambda x: 6.0 * (2 * np.roll(x, 1, axis=-1) + 2 * np.roll(x, -1, axis=-1) - 2),
        space=xps.Binary(),
    )
    x0 = np.repeat([[0.0], [1.0], [0.0], [1.0]], 6, axis=1)
    after = Run(target, xps.ParallelTempering(xps.Gibbs()), x0, 6000)
    return Sick("stuck", "ParallelTempering", Run(target, xps.DMALA(), x0, 2000), after)


# ---- made after the findings were frozen -----------------------------------------------------------------------------

NORMAL = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)


@row
def square_of_which_the_sign_is_unknown():
    target = xps.Target(lambda x: -2.0 * (x[..., 0] ** 2 - 4.0) ** 2, gradient=FINITE)
    x0 = np.array([[2.0], [-2.0], [2.0], [-2.0]])
    after = Run(target, xps.ParallelTempering(xps.RWM()), x0, 12000)
    return Sick("modes", "ParallelTempering", Run(target, xps.NUTS(), x0, 500), after)


@row
def sum_over_a_million_rows():
    """A step for one row is far too large for a million of them."""
    target = xps.Target(lambda x: -0.5e6 * np.sum((x - 1.0) ** 2, axis=-1))
    x0 = 1.0 + normal(2, 1e-3)
    return Sick("acceptance", "smaller step", Run(target, xps.RWM(0.02), x0), Run(target, xps.RWM(2e-3), x0, 6000))


@row
def likelihood_of_the_wrong_sign():
    before = xps.Target(lambda x: 0.5 * np.sum((x - 1.0) ** 2, axis=-1))
    after = xps.Target(lambda x: -0.5 * np.sum((x - 1.0) ** 2, axis=-1))
    return Sick("improper", "sign", Run(before, xps.RWM(1.0), normal(2)), Run(after, xps.RWM(1.5), normal(2), 6000))


@row
def start_far_out_that_counts_as_draws():
    before = Run(NORMAL, xps.MALA(0.05), 200.0 + normal(2), 4000)
    return Sick("transient", "burn_in", before, Run(NORMAL, xps.MALA(0.5), before.x0, 4000, {"burn_in": 200}))


@row
def langevin_steps_that_nothing_adjusts():
    return Sick(
        "heat", "MALA", Run(NORMAL, xps.ULA(0.9), normal(2, chains=8), 2000), Run(NORMAL, xps.MALA(), normal(2), 3000)
    )


@row
def offset_of_a_million():
    far = np.float32(1e7)
    target = xps.Target(lambda x: -0.5 * np.sum((x - far) ** 2, axis=-1), score=lambda x: far - x)
    x0 = (1e7 + normal(2)).astype(np.float32)
    return Sick(
        "precision", "float64", Run(target, xps.MALA(0.5), x0), Run(target, xps.MALA(0.5), x0.astype(float), 3000)
    )


@row
def trajectories_of_whole_turns():
    before = Run(NORMAL, xps.HMC(2 * np.pi / 60, 60), normal(3))
    return Sick("resonance", "length", before, Run(NORMAL, xps.HMC(0.5, length=2.0), normal(3)))


@row
def score_of_a_mean_in_place_of_a_sum():
    y = np.linspace(-1, 1, 30)
    target = xps.Target(
        lambda x: -0.5 * np.sum((y - x) ** 2, axis=-1), score=lambda x: np.mean(y - x, axis=-1, keepdims=True)
    )
    right = xps.Target(
        lambda x: -0.5 * np.sum((y - x) ** 2, axis=-1), score=lambda x: np.sum(y - x, axis=-1, keepdims=True)
    )
    return Sick("score", "factor", Run(target, xps.ULA(0.05), normal(1), 4000), Run(right, xps.MALA(), normal(1), 3000))


QUICK = (
    "score_of_the_wrong_sign",
    "steps_far_too_large",
    "discrete_steps_that_nothing_adjusts",
    "discrete_steps_far_too_large",
    "colors_that_must_agree",
)
"""Rows of the first tier."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in SICK])
def test_the_cause_is_first_and_its_advice_works(name):
    sick = SICK[name]()
    first = sick.before.findings()[0]
    assert first.kind == sick.kind and sick.word in first.advice, str(first)
    assert sick.after.findings() == ()


def main() -> None:
    """Print the table of `docs/developer/faults.md`."""
    for name, build in SICK.items():
        sick = build()
        first, after = sick.before.findings()[:1], [finding.kind for finding in sick.after.findings()]
        print(
            f"| {name.replace('_', ' ')} | `{first[0].kind}` | {first[0].advice} | {after or 'healthy'} |", flush=True
        )


if __name__ == "__main__":
    main()
