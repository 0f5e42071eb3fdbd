"""Every wrapper around every kernel on real, constrained, discrete, mixed and simplex targets, from exact draws.

python -m tests.compositions.table [--only WORD] [--chains 500]     (some minutes on one core)

A cell is refused by one of our errors before its first step, or it runs, and is judged by what its traits claim:

- *exact*: a kernel that leaves its target invariant. Chains start at exact draws, so every step's draws are exact.
- *long run*: SRMC over such a kernel, with scores of mean 0. Means over the run are those of the target, within 2 % of
  a standard deviation beside the noise: what is left of the history's first steps.
- *weights*: AIS, TemperedSMC and SOSMC. E[estimate of Z times the weighted mean of f] = Z E f, over independent runs.
- *near*: biased by design (no accept step, a repulsion): less than `NEAR` standard deviations off, which is printed.
- *other law*: it does not claim to sample the target (no `Trait.SAMPLES`), and is not judged.

A right cell exceeds the limit of one comparison with a probability below 2e-8 (a normal's; means of 500 bounded or
light-tailed values are near it), and there are fewer than 20,000 comparisons: the table fails by chance with a
probability below 4e-4. The seeds are fixed. A bias of 0.3 standard deviations is seen in a cell without mixing, and one
of 0.07 where chains mix fast.
"""

import argparse
import itertools
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from array_api_compat import numpy as numpy_xp

import xpsample as xps
from tests.compositions.claims import weighing
from tests.compositions.settings import COVARIANCE, ROWS, Setting, _rows
from tests.compositions.trees import Onwards, Tree
from xpsample.core.errors import XpsampleError
from xpsample.kernels import Kernel, Trait
from xpsample.run.program import Program
from xpsample.score_mh import Learned, RandomWalk
from xpsample.sosmc import MarginalLikelihood
from xpsample.targets import LineIntegral, Ratio
from xpsample.zoo.gaussian import gaussian

LIMIT, TOLERANCE, NEAR = 5.7, 0.02, 0.5
STEPS = 20
LADDER = (0.0, 0.2, 0.5, 1.0, 1.0)


class Case(NamedTuple):
    """A target, its kind (which kernels are for it), exact draws (n, dim), functions (n, dim) -> (n, k), their means.

    ``initial`` and ``first`` are what annealing begins with, and ``log_ratio`` the log of the ratio of the normalisers.
    """

    target: Any
    kind: str
    draws: Callable[[np.random.Generator, int], np.ndarray]
    functions: Callable[[np.ndarray], np.ndarray]
    means: np.ndarray
    initial: Any = None
    first: Any = None
    log_ratio: float = 0.0


# ---- targets ---------------------------------------------------------------------------------------------------------


def _moments(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x, x * x, x[..., :1] * x[..., 1:2]], axis=-1)


def _normal(target: Any, mean: np.ndarray, covariance: np.ndarray, **more: Any) -> Case:
    root = np.linalg.cholesky(covariance)
    square = covariance + np.outer(mean, mean)
    means = np.concatenate([mean, np.diag(square), square[0, 1:2]])
    return Case(target, "real", lambda g, n: mean + g.standard_normal((n, 2)) @ root.T, _moments, means, **more)


def _half_normal() -> Case:
    def log_density(x: np.ndarray, scale: float = 1.0) -> np.ndarray:
        return np.where(np.all(x > 0, axis=-1), -0.5 * np.sum(x * x, axis=-1) / scale**2, -np.inf)

    def target(scale: float) -> xps.Target:
        return xps.Target(
            lambda x: log_density(x, scale),
            score=lambda x: -x / scale**2,
            hvp=lambda x, v: -v / scale**2 + 0 * x,
            constrained=True,
        )

    mean = np.sqrt(2 / np.pi)
    return Case(
        target(1.0),
        "real",
        lambda g, n: np.abs(g.standard_normal((n, 2))),
        _moments,
        np.asarray([mean, mean, 1.0, 1.0, mean**2]),
        target(2.0),
        lambda g, n: np.abs(2 * g.standard_normal((n, 2))),
        -2 * np.log(2.0),
    )


def _finite(space: Any, bias: np.ndarray, forbidden: bool = False) -> Case:
    """log pi = b . x + 0.6 x_0 x_1; where forbidden, without the states whose coordinates are all the first ones."""
    states = space.states(3)
    first = states[0]

    def log_density(x: np.ndarray) -> np.ndarray:
        found = x @ bias + 0.6 * x[..., 0] * x[..., 1]
        return np.where(np.all(x == first, axis=-1), -np.inf, found) if forbidden else found

    def score(x: np.ndarray) -> np.ndarray:
        return bias + 0.6 * np.stack([x[..., 1], x[..., 0], 0 * x[..., 0]], axis=-1)

    probabilities = np.exp(log_density(states))
    total = probabilities.sum()
    probabilities = probabilities / total
    inside = states[probabilities > 0]
    return Case(
        xps.Target(
            log_density,
            score=score,
            hvp=lambda x, v: score(v) - bias + 0 * x,
            space=space,
            constrained=forbidden,
        ),
        "discrete",
        lambda g, n: states[g.choice(len(states), n, p=probabilities)],
        lambda x: np.all(x[..., None, :] == inside, axis=-1).astype(float),
        probabilities[probabilities > 0],
        xps.Target(lambda x: 0.0 * x[..., 0], lambda x: 0.0 * x, space=space),
        lambda g, n: states[g.integers(len(states), size=n)],
        float(np.log(total / len(states))),
    )


def _mixed() -> Case:
    """A bit z, one of three k, and mu normal given them."""
    ks, odds = np.asarray([0.0, 1.0, 2.0]), np.exp(-0.3 * np.arange(3))
    p, q = 1 / (1 + np.exp(-0.7)), odds / odds.sum()

    def log_density(v: Any) -> Any:
        return 0.7 * v.z - 0.3 * v.k - 0.5 * (v.mu - v.z + 0.5 * v.k) ** 2

    def model(density: Callable[[Any], Any]) -> xps.Model:
        spaces = {"z": xps.Binary(()), "k": xps.Categorical((0.0, 1.0, 2.0), ()), "mu": xps.Real()}
        return xps.Model(density, **spaces, gradient=xps.FiniteDifference())

    def draws(g: np.random.Generator, n: int) -> np.ndarray:
        z, k = (g.random(n) < p).astype(float), g.choice(ks, n, p=q)
        return np.stack([z, k, z - 0.5 * k + g.standard_normal(n)], axis=-1)

    def first(g: np.random.Generator, n: int) -> np.ndarray:
        return np.stack([g.integers(2, size=n), g.choice(ks, n), 2.0 * g.standard_normal(n)], axis=-1)

    def functions(x: np.ndarray) -> np.ndarray:
        z, k, mu = np.moveaxis(x, -1, 0)
        return np.stack([z, k == 1, k == 2, mu, mu * mu, z * mu], axis=-1).astype(float)

    m, second = ks @ q, (ks * ks) @ q
    square = p - p * m + 0.25 * second + 1
    means = np.asarray([p, q[1], q[2], p - 0.5 * m, square, p - 0.5 * p * m])
    wide = model(lambda v: -0.125 * v.mu**2 + 0.0 * v.z)
    log_ratio = np.log((1 + np.exp(0.7)) * odds.sum()) - np.log(6 * 2.0)
    return Case(model(log_density), "mixed", draws, functions, means, wide, first, float(log_ratio))


def _simplex() -> Case:
    """Dirichlet(2, 3, 4) from Dirichlet(1, 1, 1), which is uniform."""
    a = np.asarray([2.0, 3.0, 4.0])

    def model(powers: np.ndarray) -> xps.Model:
        return xps.Model(
            lambda v: np.sum((powers - 1) * np.log(v.p), axis=-1), p=xps.Simplex(3), gradient=xps.FiniteDifference()
        )

    target = model(a)

    def drawn(powers: np.ndarray) -> Callable[[np.random.Generator, int], np.ndarray]:
        return lambda g, n: np.asarray(target.position({"p": g.dirichlet(powers, n)}))

    def functions(x: np.ndarray) -> np.ndarray:
        p = target.space.value(numpy_xp, x, "p")
        return np.concatenate([p, p * p], axis=-1)

    total = a.sum()
    means = np.concatenate([a / total, a * (a + 1) / (total * (total + 1))])
    log_ratio = float(np.log(1 * 2 * 6) - np.log(40320.0) - np.log(1 / 2))
    return Case(target, "real", drawn(a), functions, means, model(np.ones(3)), drawn(np.ones(3)), log_ratio)


def cases() -> dict[str, Case]:
    """By name."""
    normal, wide = gaussian(COVARIANCE), gaussian(4.0 * np.eye(2))
    score = {"score": normal.score, "hvp": normal.hvp, "data": normal.data}
    acceptance = Learned(_walks, np.linalg.inv(COVARIANCE), RandomWalk(0.9), direct=True)
    bridge = {
        "initial": wide,
        "first": lambda g, n: 2 * g.standard_normal((n, 2)),
        "log_ratio": 0.5 * float(np.log(np.linalg.det(COVARIANCE) / 16)),
    }
    zero = np.zeros(2)
    return {
        "normal": _normal(normal, zero, COVARIANCE, **bridge),
        "rows": _normal(_rows(), ROWS.mean(axis=0) / 2, np.eye(2)),
        "score only": _normal(xps.Target(None, **score, acceptance=LineIntegral(1)), zero, COVARIANCE),
        "learned": _normal(xps.Target(None, **score, acceptance=acceptance), zero, COVARIANCE),
        "half-normal": _half_normal(),
        "bits": _finite(xps.Binary(), np.asarray([0.5, -0.4, 0.3])),
        "spins": _finite(xps.Spins(), np.asarray([0.3, -0.2, 0.2])),
        "ragged": _finite(xps.Categorical(((0, 1), (0, 1, 2), (-1.0, 0.5, 2.0))), np.asarray([0.5, -0.4, 0.3])),
        "bits, one forbidden": _finite(xps.Binary(), np.asarray([0.5, -0.4, 0.3]), forbidden=True),
        "mixed": _mixed(),
        "simplex": _simplex(),
    }


def _walks(x_new: np.ndarray, x: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """The logit of Barker's acceptance for a symmetric proposal."""
    return 0.5 * (np.sum(x * (x @ precision), axis=-1) - np.sum(x_new * (x_new @ precision), axis=-1))


# ---- kernels ---------------------------------------------------------------------------------------------------------

REAL = {
    "RWM": lambda: xps.RWM(0.9),
    "RWM, tuned": lambda: xps.RWM(),
    "PCN": lambda: xps.PCN(0.7),
    "IndependentMH": lambda: xps.IndependentMH(covariance=2.0),
    "MALA": lambda: xps.MALA(0.3),
    "MALA, tuned": lambda: xps.MALA(),
    "HMC": lambda: xps.HMC(0.4, 3),
    "NUTS": lambda: xps.NUTS(0.5, max_depth=2),
    "MAMS": lambda: xps.MAMS(0.5, 1.5),
    "MCLMC": lambda: xps.MCLMC(0.3, 2.0),
    "ULA": lambda: xps.ULA(0.05),
    "Underdamped": lambda: xps.UnderdampedLangevin(0.2),
    "MYULA": lambda: xps.MYULA(0.1, xps.L1(), 0.3),
    "SVGD": lambda: xps.SVGD(0.1, xps.RBF(1.0)),
    "StochasticSVGD": lambda: xps.StochasticSVGD(0.1, xps.RBF(1.0)),
}
DISCRETE = {
    "GWG": lambda: xps.GWG(),
    "DMALA": lambda: xps.DMALA(0.8),
    "DULA": lambda: xps.DULA(0.3),
    "LocallyBalanced": lambda: xps.LocallyBalanced(),
    "SingleFlip": lambda: xps.SingleFlip(),
    "Gibbs": lambda: xps.Gibbs(),
    "ACS": lambda: xps.ACS(xps.kernels.Cosine(0.8, 3)),
    "TwoOpt": lambda: xps.TwoOpt(),
}
IN_BLOCKS = {f"Blocks(Gibbs, {name})": (xps.Gibbs, make) for name, make in REAL.items()}
IN_BLOCKS |= {f"Blocks({name}, RWM)": (make, REAL["RWM"]) for name, make in DISCRETE.items() if name != "Gibbs"}
PAST = xps.Rolling(2)
WRAPPERS: dict[str, Callable[[Kernel], Kernel]] = {
    "alone": lambda k: k,
    "SRMC": lambda k: xps.SRMC(k, 0.05),
    "SRMC, Exact": lambda k: xps.SRMC(k, 0.05, tilt=xps.Exact()),
    "SRMC, Untilted": lambda k: xps.SRMC(k, 0.05, tilt=xps.Untilted()),
    "SRMC, Ratio": lambda k: xps.SRMC(k, 0.05, tilt=Ratio()),
    "SRMC, tuned": lambda k: xps.SRMC(k),
    "SRLD": lambda k: xps.SRLD(k, 0.5, PAST),
    "PT": lambda k: xps.ParallelTempering(k, (1.0, 0.6)),
    "HiSS": lambda k: xps.HiSS(k, 1.0, 1, 1),
    "HiSS, unadjusted": lambda k: xps.HiSS(k, 1.0, 1, 1, adjusted=False),
    "Minibatch": lambda k: xps.Minibatch(k, 4),
    "Annealed": lambda k: xps.Annealed(k, (2.0, 1.0)),
    "Blocks": lambda k: xps.Blocks({"p": k}),
    "AIS": lambda k: xps.AIS(k, LADDER),
    "AIS, approximate": lambda k: xps.AIS(k, LADDER, approximate=True),
    "SMC": lambda k: xps.TemperedSMC(k, LADDER),
    "SOSMC": lambda k: xps.SOSMC(MarginalLikelihood(), k, Onwards()),
}
TWICE = ["SRMC", "SRLD", "PT", "HiSS", "Minibatch", "Annealed", "Blocks", "AIS", "SMC", "SOSMC"]
"""Wrappers that also go around each other, over one or two kernels of each kind."""
INSIDE = {"real": ["MALA", "ULA"], "discrete": ["GWG", "DULA"], "mixed": ["Blocks(Gibbs, MALA)", "Blocks(Gibbs, ULA)"]}


def kernels(kind: str) -> dict[str, Callable[[], Kernel]]:
    """Of a kind of targets; those of the others are tried, too, where they are no blocks."""
    blocks = {
        name: (lambda pair=pair: xps.Blocks({"z": pair[0](), "k": pair[0](), "mu": pair[1]()}))
        for name, pair in IN_BLOCKS.items()
    }
    return {"real": REAL | DISCRETE, "discrete": DISCRETE | REAL, "mixed": blocks | REAL | DISCRETE}[kind]


def trees(kind: str) -> Iterator[tuple[str, Callable[[], Kernel]]]:
    """All compositions on a kind of targets, by name."""
    known = kernels(kind)
    for (outer, wrap), (name, make) in itertools.product(WRAPPERS.items(), known.items()):
        yield f"{outer}: {name}", lambda wrap=wrap, make=make: wrap(make())
    for outer, inner, name in itertools.product(TWICE, TWICE, INSIDE[kind]):
        make, around, within = known[name], WRAPPERS[outer], WRAPPERS[inner]
        yield f"{outer}({inner}): {name}", lambda m=make, a=around, w=within: a(w(m()))


# ---- verdicts --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """``kind`` is "refused", "exact", "long run", "weights", "near" or "other law"; ``z`` its largest z-score.

    ``off`` is the largest bias in standard deviations, and ``said`` a refusal.
    """

    kind: str
    z: float = 0.0
    off: float = 0.0
    said: str = ""

    @property
    def wrong(self) -> bool:
        """Whether it is biased beyond what it claims."""
        if self.kind == "near":
            return not self.off < NEAR
        return self.kind not in ("refused", "other law") and not self.z < LIMIT


def claim(kernel: Kernel) -> str:
    """What a kernel's traits claim."""
    if isinstance(kernel, xps.AIS) and kernel.approximate:
        return "other law"
    if isinstance(kernel, xps.AIS | xps.TemperedSMC | xps.SOSMC):
        return "weights"
    if isinstance(kernel, xps.SRMC):
        relaxed = kernel.requires & xps.GWG.requires.DISCRETE and not isinstance(kernel._tilt, Ratio)
        return "long run" if Trait.INVARIANT in kernel.base.traits and not relaxed else "near"
    if Trait.INVARIANT in kernel.traits:
        return "exact"
    return "near" if Trait.SAMPLES in kernel.traits else "other law"


def judge(case: Case, make: Callable[[], Kernel], chains: int = 500) -> Verdict:
    """The verdict of a cell. An error after the first step, or one that is not ours, is raised."""
    began: list = []
    drive = Program.drive

    def watched(*args: Any) -> Any:
        began.append(True)
        return drive(*args)

    with patch.object(Program, "drive", watched):
        try:
            kernel = make()
            kind = claim(kernel)
            return _weights(case, kernel, chains) if kind == "weights" else _draws(case, kernel, kind, chains)
        except XpsampleError as error:
            if began:
                raise
            return Verdict("refused", said=f"{type(error).__name__}: {error}".splitlines()[0])


def _draws(case: Case, kernel: Kernel, kind: str, chains: int) -> Verdict:
    steps = {"long run": 10 * STEPS}.get(kind, STEPS)
    x0 = case.draws(np.random.default_rng(1), chains)
    # The hot rungs start at the draws of the cold one, and their own are let come first.
    settle = 2 * STEPS if "ParallelTempering" in repr(kernel) or kind == "near" else 0
    trace = xps.sample(case.target, kernel, x0, steps, burn_in=settle, seed=2, progress=False)
    values = case.functions(np.asarray(trace.draws))
    each = np.mean(values, axis=0) - case.means
    sd = np.std(case.functions(case.draws(np.random.default_rng(3), 4000)), axis=0)
    error = np.std(each, axis=0, ddof=1) / np.sqrt(chains)
    gap = np.abs(np.mean(each, axis=0))
    slack = TOLERANCE * sd if kind == "long run" else 0.0
    with np.errstate(invalid="ignore", divide="ignore"):
        z = np.where(gap > slack + 1e-9, (gap - slack) / error, 0.0)
    return Verdict(kind, float(np.max(z)), float(np.max(gap / sd)))


def _weights(case: Case, kernel: Kernel, chains: int) -> Verdict:
    if isinstance(kernel, xps.SOSMC):
        return _moving(case, kernel)
    if case.initial is None:
        # Annealed from a constant, which no draws are of: only whether it is refused is asked.
        x0 = case.draws(np.random.default_rng(1), 20).reshape(2, 10, -1)
        xps.sample(case.target, kernel, x0, 1, seed=2, progress=False)
        return Verdict("other law")
    runs, particles = (4 * chains, 1) if isinstance(kernel, xps.AIS) else (chains // 4, 16)
    target = case.target if case.kind == "discrete" else xps.Bridge(case.initial, case.target)
    x0 = case.first(np.random.default_rng(1), runs * particles)
    lead = (runs,) if isinstance(kernel, xps.AIS) else (runs, particles)
    x0 = x0.reshape(*lead, -1)
    trace = xps.sample(target, kernel, x0, 1, burn_in=len(LADDER) - 2, seed=4, progress=False)
    state = trace.state
    if isinstance(kernel, xps.AIS):
        weights = np.exp(state.log_weight - case.log_ratio)[:, None]
    else:
        weights = np.exp(state.weights.logs + (state.weights.log_normalizer - case.log_ratio)[:, None])
    values = case.functions(np.asarray(state.point.x)).reshape(runs, particles, -1)
    values = np.concatenate([np.ones((runs, particles, 1)), values], axis=-1)
    each = np.sum(weights[..., None] * values, axis=1) - np.concatenate([[1.0], case.means])
    error = np.std(each, axis=0, ddof=1) / np.sqrt(runs)
    return Verdict("weights", float(np.max(np.abs(np.mean(each, axis=0)) / error)))


def _moving(case: Case, kernel: Any) -> Verdict:
    """Of SOSMC: on the family of the normal target, and of bits; elsewhere whether it is refused."""
    setting = {"normal": Setting("gaussian", "family"), "bits": Setting("bits", "family")}.get(_NAMES.get(id(case), ""))
    if setting is None:
        xps.sample(case.target, kernel, np.zeros((2, 4, 3)), 1, seed=1, progress=False)
        return Verdict("other law")
    found = weighing(setting, Tree("SOSMC", lambda place: kernel), kernel)
    return Verdict("weights", found.z * LIMIT / found.limit)


_NAMES: dict[int, str] = {}


def main() -> int:
    """Print the table; 1 where a cell is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="WORD", help="cells whose target or name has this word")
    parser.add_argument("--chains", type=int, default=500)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    began, counts, wrong = time.perf_counter(), Counter(), []
    for target, case in cases().items():
        _NAMES[id(case)] = target
        own: Counter = Counter()
        for name, make in trees(case.kind):
            if args.only not in f"{target} {name}":
                continue
            try:
                verdict = judge(case, make, args.chains)
            except Exception as error:
                verdict = Verdict("raised", np.inf, said=f"{type(error).__name__}: {error}".splitlines()[0])
            own[verdict.kind] += 1
            if verdict.wrong:
                wrong.append((target, name, verdict))
            if args.only:
                print(
                    f"{target:20} {name:40} {verdict.kind:10} z {verdict.z:5.1f} off {verdict.off:.3f} {verdict.said}"
                )
        counts += own
        seconds = time.perf_counter() - began
        print(f"{target}: {', '.join(f'{n} {kind}' for kind, n in sorted(own.items()))} ({seconds:.0f} s)", flush=True)
    print(f"all {counts.total()} cells: {', '.join(f'{n} {kind}' for kind, n in sorted(counts.items()))}")
    for target, name, verdict in wrong:
        print(f"WRONG {target} / {name}: {verdict}", flush=True)
    print(f"{len(wrong)} wrong, {time.perf_counter() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
