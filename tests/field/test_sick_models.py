"""Sick models: the first line names the cause, and a run that follows its advice is healthy.

Each row is a model as users write it, the kind that names its cause, and the same with the advice followed. The table
of `docs/developer/faults.md` shows what is said of each.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import xpsample as xps
from tests.field.support import FINITE, NORMAL, TWO_BITS, gaussian, normal, told, two_modes


@dataclass(frozen=True)
class Run:
    """A call of `sample`; without positions, a `Model` makes its own."""

    target: Any
    kernel: Any
    x0: Any = None
    draws: int = 1000
    burn_in: int = 0

    def findings(self) -> Any:
        """Findings of the run."""
        return told(self.target, self.kernel, self.x0, self.draws, burn_in=self.burn_in)


@dataclass(frozen=True)
class Sick:
    """What names the cause, a word of the advice, and the run before and after it."""

    kind: str
    word: str
    before: Run
    after: Run


def bits(dim: int, chains: int = 4) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 2, size=(chains, dim)).astype(float)


def each(*states: float, times: int) -> np.ndarray:
    """Chains in which all variables have one state."""
    return np.repeat([[state] for state in states], times, axis=1)


# ---- densities and scores --------------------------------------------------------------------------------------------

SCALE = np.array([1.0, 2.0, 0.5])
RIGHT = gaussian(SCALE)


def scored(score: Any) -> xps.Target:
    """The density of `RIGHT` with a score that is not its own."""
    return xps.Target(RIGHT.log_density, score=score)


def cut(x: np.ndarray) -> np.ndarray:
    return np.where(np.any(x <= 0, axis=-1), -np.inf, -np.sum(x, axis=-1))


STEPS = np.linspace(-2, 2, 20)


def separated(b: np.ndarray) -> np.ndarray:
    """A logistic regression without a prior: the steeper, the better."""
    return -np.sum(np.logaddexp(0, -np.sign(STEPS) * STEPS * b[..., :1]), axis=-1)


POINTS = np.linspace(-1, 1, 30)


def of_points(score: Any) -> xps.Target:
    return xps.Target(lambda x: -0.5 * np.sum((POINTS - x) ** 2, axis=-1), score=score)


FAR = np.float32(1e7)
OFFSET = xps.Target(lambda x: -0.5 * np.sum((x - FAR) ** 2, axis=-1), score=lambda x: FAR - x)
ROWS = xps.Target(lambda x: -0.5e6 * np.sum((x - 1.0) ** 2, axis=-1))
SQUARE = xps.Target(lambda x: -2.0 * (x[..., 0] ** 2 - 4.0) ** 2, gradient=FINITE)

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


FERROMAGNET = xps.Target(
    lambda x: 0.35 * np.sum(2 * x - 1, axis=-1) ** 2,
    score=lambda x: 1.4 * np.sum(2 * x - 1, axis=-1, keepdims=True) + 0 * x,
    space=xps.Binary(),
)
RING = xps.Target(
    lambda x: 3.0 * np.sum((2 * x - 1) * (2 * np.roll(x, 1, axis=-1) - 1), axis=-1),
    score=lambda x: 6.0 * (2 * np.roll(x, 1, axis=-1) + 2 * np.roll(x, -1, axis=-1) - 2),
    space=xps.Binary(),
)
PARITY = xps.Target(lambda x: np.where(np.sum(x, axis=-1) % 2 == 0, 0.0, -np.inf), space=xps.Binary())
COLORS = xps.Target(lambda x: 10.0 * (x[..., 0] == x[..., 1]), space=xps.Categorical((0, 1, 2)))
APART = np.array([[0.0, 0], [1, 1], [0, 0], [1, 1]])
THREE = np.array([[0.0, 0], [1, 1], [2, 2], [0, 0]])
FOUR = np.array([[0.0], [3.0], [5.0], [6.0]])


def flat(*states: float) -> xps.Target:
    return xps.Target(lambda x: 0.0 * x[..., 0], space=xps.Categorical(states))


MIXED = xps.Model(lambda p: -0.5 * (p.mu - 9.0 * p.z) ** 2, z=xps.Binary(()), mu=xps.Real(), gradient=FINITE)
SUMMED = xps.Target(lambda x: np.logaddexp(-0.5 * x[..., 0] ** 2, -0.5 * (x[..., 0] - 9.0) ** 2), gradient=FINITE)
TWO_PLACES = np.array([[0.0], [9.0], [0.0], [9.0]])
GIBBS, TEMPERED = xps.Gibbs(), xps.ParallelTempering(xps.Gibbs())

# ---- the rows --------------------------------------------------------------------------------------------------------

SICK = {
    "score of the wrong sign": Sick(
        "score",
        "sign",
        Run(scored(lambda x: x / SCALE**2), xps.MALA(), normal(3)),
        Run(RIGHT, xps.MALA(), normal(3), 3000),
    ),
    # ULA has no accept step: its draws are wrong, and nothing looks bad.
    "score without its factor": Sick(
        "score",
        "factor",
        Run(scored(lambda x: -0.5 * x / SCALE**2), xps.ULA(0.05), normal(3), 4000),
        Run(RIGHT, xps.ULA(), normal(3), 9000),
    ),
    "score of another coordinate": Sick(
        "score",
        "order",
        Run(scored(lambda x: (-x / SCALE**2)[..., [1, 2, 0]]), xps.HMC(), normal(3)),
        Run(RIGHT, xps.HMC(), normal(3)),
    ),
    "score without one coordinate": Sick(
        "score",
        "omit the score",
        Run(scored(lambda x: -x / SCALE**2 * np.array([1.0, 0.0, 1.0])), xps.HMC(), normal(3)),
        Run(RIGHT, xps.HMC(), normal(3)),
    ),
    "score of a mean in place of a sum": Sick(
        "score",
        "factor",
        Run(of_points(lambda x: np.mean(POINTS - x, axis=-1, keepdims=True)), xps.ULA(0.05), normal(1), 4000),
        Run(of_points(lambda x: np.sum(POINTS - x, axis=-1, keepdims=True)), xps.MALA(), normal(1), 3000),
    ),
    "bound that nobody declared": Sick(
        "bound",
        "Positive()",
        Run(xps.Target(cut, score=lambda x: -np.ones_like(x)), xps.MALA(), np.abs(normal(2))),
        Run(xps.Model(lambda p: -np.sum(p.x, axis=-1), x=xps.Positive(2), gradient=FINITE), xps.MALA(), None, 4000),
    ),
    "classes that a line separates": Sick(
        "improper",
        "prior",
        Run(xps.Target(separated, gradient=FINITE), xps.RWM(2.0), normal(1), 2000),
        Run(xps.Target(lambda b: separated(b) - 0.5 * b[..., 0] ** 2 / 25, gradient=FINITE), xps.HMC(), normal(1)),
    ),
    "likelihood of the wrong sign": Sick(
        "improper",
        "sign",
        Run(xps.Target(lambda x: 0.5 * np.sum((x - 1.0) ** 2, axis=-1)), xps.RWM(1.0), normal(2)),
        Run(xps.Target(lambda x: -0.5 * np.sum((x - 1.0) ** 2, axis=-1)), xps.RWM(1.5), normal(2), 6000),
    ),
    "tail like the inverse square": Sick(
        "tails",
        "logarithm",
        Run(xps.Model(lambda p: -2 * np.log1p(p.k), k=xps.Positive(), gradient=FINITE), xps.HMC(), None, 4000),
        Run(
            xps.Target(lambda x: x[..., 0] - 2 * np.logaddexp(0, x[..., 0]), gradient=FINITE),
            xps.HMC(),
            normal(1),
            4000,
        ),
    ),
    "offset of a million": Sick(
        "precision",
        "float64",
        Run(OFFSET, xps.MALA(0.5), (1e7 + normal(2)).astype(np.float32)),
        Run(OFFSET, xps.MALA(0.5), (1e7 + normal(2)).astype(np.float32).astype(float), 3000),
    ),
    # ---- modes, metrics, steps ----
    "modes at a distance": Sick(
        "modes",
        "ParallelTempering",
        Run(two_modes(5.0), xps.HMC(), 5 * each(-1.0, 1.0, 1.0, -1.0, times=1)),
        Run(two_modes(5.0), xps.ParallelTempering(xps.MALA()), 5 * each(-1.0, 1.0, 1.0, -1.0, times=1), 6000),
    ),
    "square of which the sign is unknown": Sick(
        "modes",
        "ParallelTempering",
        Run(SQUARE, xps.NUTS(), each(2.0, -2.0, 2.0, -2.0, times=1), 500),
        Run(SQUARE, xps.ParallelTempering(xps.RWM()), each(2.0, -2.0, 2.0, -2.0, times=1), 12000),
    ),
    "steps far too small": Sick(
        "slow", "larger step", Run(NORMAL, xps.MALA(1e-4), normal(2)), Run(NORMAL, xps.MALA(), normal(2), 3000)
    ),
    "steps far too large": Sick(
        "acceptance", "smaller step", Run(NORMAL, xps.RWM(40.0), normal(2)), Run(NORMAL, xps.RWM(1.5), normal(2), 6000)
    ),
    # A step for one row is far too large for a million of them.
    "sum over a million rows": Sick(
        "acceptance",
        "smaller step",
        Run(ROWS, xps.RWM(0.02), 1.0 + normal(2, 1e-3)),
        Run(ROWS, xps.RWM(2e-3), 1.0 + normal(2, 1e-3), 6000),
    ),
    "start far out that counts as draws": Sick(
        "transient",
        "burn_in",
        Run(NORMAL, xps.MALA(0.05), 200.0 + normal(2), 4000),
        Run(NORMAL, xps.MALA(0.5), 200.0 + normal(2), 4000, burn_in=200),
    ),
    "langevin steps that nothing adjusts": Sick(
        "heat",
        "MALA",
        Run(NORMAL, xps.ULA(0.9), normal(2, chains=8), 2000),
        Run(NORMAL, xps.MALA(), normal(2), 3000),
    ),
    "trajectories of whole turns": Sick(
        "resonance",
        "length",
        Run(NORMAL, xps.HMC(2 * np.pi / 60, 60), normal(3)),
        Run(NORMAL, xps.HMC(0.5, length=2.0), normal(3)),
    ),
    # ---- discrete spaces ----
    "discrete steps that nothing adjusts": Sick(
        "heat", "DMALA", Run(spins(6, 0.35), xps.DULA(5.0), bits(6)), Run(spins(6, 0.35), xps.DMALA(), bits(6), 4000)
    ),
    "discrete steps far too large": Sick(
        "acceptance",
        "smaller step",
        Run(spins(60, 0.1), xps.DMALA(50.0), bits(60)),
        Run(spins(60, 0.1), xps.DMALA(0.2), bits(60), 20000),
    ),
    "discrete steps far too small": Sick(
        "acceptance",
        "larger step",
        Run(spins(6, 0.2), xps.DMALA(0.08), bits(6), 4000),
        Run(spins(6, 0.2), xps.DMALA(2.0), bits(6), 4000),
    ),
    "bits that must agree": Sick(
        "stuck", "ParallelTempering", Run(TWO_BITS, GIBBS, APART, 2000), Run(TWO_BITS, TEMPERED, APART, 4000)
    ),
    # A density of 0 between the states: nothing moves.
    "parity that no single flip keeps": Sick(
        "stuck",
        "one Categorical",
        Run(PARITY, xps.SingleFlip(), APART[:, [0, 1]]),
        Run(flat(0, 3, 5, 6), GIBBS, FOUR, 2000),
    ),
    "ferromagnet below its critical temperature": Sick(
        "modes",
        "ParallelTempering",
        Run(FERROMAGNET, xps.GWG(), each(0.0, 1.0, 0.0, 1.0, times=8), 8000),
        Run(FERROMAGNET, TEMPERED, each(0.0, 1.0, 0.0, 1.0, times=8), 6000),
    ),
    "colors that must agree": Sick(
        "modes", "one Categorical", Run(COLORS, GIBBS, THREE, 2000), Run(flat(0, 1, 2), GIBBS, THREE[:, :1], 2000)
    ),
    "ladder with too few rungs": Sick(
        "ladder",
        "rungs",
        Run(spins(12, 0.4), xps.ParallelTempering(GIBBS, betas=np.array([1.0, 0.0])), bits(12), 2000),
        Run(spins(12, 0.4), xps.ParallelTempering(GIBBS, xps.Ladder(4)), bits(12), 8000),
    ),
    # z and mu hold each other up: the advice is to sum z out.
    "labels of rows in blocks": Sick(
        "modes",
        "",
        Run(MIXED, xps.Blocks({"z": GIBBS, "mu": xps.MALA()}), TWO_PLACES * [1 / 9, 1.0]),
        Run(SUMMED, xps.ParallelTempering(xps.MALA()), TWO_PLACES, 6000),
    ),
    "ring at a low temperature": Sick(
        "stuck",
        "ParallelTempering",
        Run(RING, xps.DMALA(), each(0.0, 1.0, 0.0, 1.0, times=6), 2000),
        Run(RING, TEMPERED, each(0.0, 1.0, 0.0, 1.0, times=6), 6000),
    ),
}

QUICK = (
    "score of the wrong sign",
    "steps far too large",
    "offset of a million",
    "trajectories of whole turns",
    "discrete steps that nothing adjusts",
    "discrete steps far too large",
    "bits that must agree",
    "colors that must agree",
)
"""Rows of the first tier."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in SICK])
def test_the_cause_is_first_and_its_advice_works(name):
    sick = SICK[name]
    first = sick.before.findings()[0]
    assert first.kind == sick.kind and sick.word in first.advice, str(first)
    assert sick.after.findings() == ()


def main() -> None:
    """Print the table of `docs/developer/faults.md`."""
    for name, sick in SICK.items():
        first, after = sick.before.findings()[:1], [finding.kind for finding in sick.after.findings()]
        print(f"| {name} | `{first[0].kind}` | {first[0].advice} | {after or 'healthy'} |", flush=True)


if __name__ == "__main__":
    main()
