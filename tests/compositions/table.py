"""Every wrapper around every kernel on real, constrained, discrete, mixed and simplex targets, from exact draws.

python -m tests.compositions.table [--only WORD]

A cell is refused by one of our errors before its first step, or it runs, and is judged by what its traits claim:

- *exact*: a kernel that leaves its target invariant. Chains start at exact draws, so every step's draws are exact.
- *long run*: SRMC over such a kernel, with scores of mean 0. Means over the run are those of the target, within 2 % of
  a standard deviation beside the noise: what is left of the history's first steps.
- *weights*: AIS, TemperedSMC and SOSMC. E[estimate of Z times the weighted mean of f] = Z E f, over independent runs.
- *near*: biased by design (no accept step, a repulsion): less than `NEAR` standard deviations off, which is printed.
- *own law*: so are discrete Langevin steps and HiSS around them, whose own law `own_laws` computes: its means.
- *other law*: it does not claim to sample the target (no `Trait.SAMPLES`), and is not judged.

A right cell exceeds the limit of one comparison with a probability below 2e-8 (a normal's; means of 500 bounded or
light-tailed values are near it), and there are fewer than 20,000 comparisons: the table fails by chance with a
probability below 4e-4. The seeds are fixed. A bias of 0.3 standard deviations is seen in a cell without mixing, and one
of 0.07 where chains mix fast.
"""

import argparse
import itertools
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import repeat
from multiprocessing import get_context
from typing import Any
from unittest.mock import patch

import numpy as np

import xpsample as xps
from tests.compositions.cases import Case, cases
from tests.compositions.claims import weighing
from tests.compositions.own_laws import probabilities
from tests.compositions.settings import Setting
from tests.compositions.trees import Onwards, Tree
from xpsample.core.errors import XpsampleError
from xpsample.core.registry import backend_of
from xpsample.kernels import Kernel, Trait
from xpsample.sosmc import MarginalLikelihood
from xpsample.targets import Ratio

LIMIT, TOLERANCE, NEAR, RULE = 5.7, 0.02, 0.5, 0.002
STEPS = 20
LADDER = (0.0, 0.2, 0.5, 1.0, 1.0)


# ---- kernels ---------------------------------------------------------------------------------------------------------

REAL = {
    "RWM": lambda: xps.RWM(0.9),
    "RWM, tuned": lambda: xps.RWM(),
    "PCN": lambda: xps.PCN(0.7),
    "IndependentMH": lambda: xps.IndependentMH(covariance=2.0),
    "Ensemble": lambda: xps.Ensemble(),
    "EllipticalSlice": lambda: xps.EllipticalSlice(),
    "Slice": lambda: xps.Slice(1.0),
    "MALA": lambda: xps.MALA(0.3),
    "MALA, tuned": lambda: xps.MALA(),
    "HMC": lambda: xps.HMC(0.4, 3),
    "NUTS": lambda: xps.NUTS(0.5, max_depth=2),
    "MAMS": lambda: xps.MAMS(0.5, 1.5),
    "MCLMC": lambda: xps.MCLMC(0.3, 2.0),
    "ULA": lambda: xps.ULA(0.05),
    "Underdamped": lambda: xps.UnderdampedLangevin(0.2),
    "SGNHT": lambda: xps.SGNHT(0.2),
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
    "ChromaticGibbs": lambda: xps.ChromaticGibbs(range(3)),
    "ChromaticGibbs of one": lambda: xps.ChromaticGibbs([0]),
    "Sweep": lambda: xps.Sweep(),
    "Sweep, heat bath": lambda: xps.Sweep(heat_bath=True),
    "SwendsenWang": lambda: xps.SwendsenWang(),
    "ACS": lambda: xps.ACS(xps.kernels.Cosine(0.8, 3)),
    "TwoOpt": lambda: xps.TwoOpt(),
    "Swap": lambda: xps.Swap(),
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
    "SMC": lambda k: xps.TemperedSMC(k, LADDER, moves=1),
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
    """``kind`` is "refused", "exact", "long run", "weights", "near", "own law", "other law" or "raised".

    ``z`` is its largest z-score, ``off`` is the largest bias in standard deviations, and ``said`` a refusal.
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
    library = type(backend_of(np.zeros(0)))
    drive = library.drive

    def watched(*args: Any) -> Any:
        began.append(True)
        return drive(*args)

    with patch.object(library, "drive", watched):
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
    own = _own_means(case, kernel, range(settle + 1, settle + steps + 1)) if kind == "near" else None
    kind, means = (kind, case.means) if own is None else ("own law", own)
    each = np.mean(values, axis=0) - means
    sd = np.std(case.functions(case.draws(np.random.default_rng(3), 4000)), axis=0)
    error = np.std(each, axis=0, ddof=1) / np.sqrt(chains)
    gap = np.abs(np.mean(each, axis=0))
    slack = {"long run": TOLERANCE * sd, "own law": RULE * sd}.get(kind, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        z = np.where(gap > slack + 1e-9, (gap - slack) / error, 0.0)
    return Verdict(kind, float(np.max(z)), float(np.max(np.abs(np.mean(values, axis=(0, 1)) - case.means) / sd)))


def _own_means(case: Case, kernel: Kernel, steps: range) -> np.ndarray | None:
    """Of a kernel without an accept step, where its transitions can be listed."""
    if case.kind != "discrete" or case.target.constrained:
        return None
    states = case.target.space.states(3)
    p = probabilities(kernel, states, case.target.log_density(states), case.target.score(states), steps)
    return None if p is None else p @ case.functions(states)


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


@cache
def _known() -> dict[str, tuple[Case, dict[str, Callable[[], Kernel]]]]:
    """Of every target, the case and its compositions."""
    known = cases()
    _NAMES.update({id(case): name for name, case in known.items()})
    return {name: (case, dict(trees(case.kind))) for name, case in known.items()}


def cell(target: str, name: str) -> Verdict:
    """The verdict of a cell by its names; an error that should not be is one, too."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    case, compositions = _known()[target]
    try:
        return judge(case, compositions[name])
    except Exception as error:
        return Verdict("raised", np.inf, said=f"{type(error).__name__}: {error}".splitlines()[0])


def _shown(counts: Counter) -> str:
    """How many there are of each kind."""
    return ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items()))


def main() -> int:
    """Print the table; 1 where a cell is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="WORD", help="cells whose target or name has this word")
    only = parser.parse_args().only
    counts, wrong = Counter(), []
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for target, (_, compositions) in _known().items():
            names = [name for name in compositions if only in f"{target} {name}"]
            verdicts = [*pool.map(cell, repeat(target), names, chunksize=4)]
            wrong += [(target, name, found) for name, found in zip(names, verdicts, strict=True) if found.wrong]
            for name, found in zip(names if only else [], verdicts, strict=False):
                print(f"{target:20} {name:40} {found.kind:10} z {found.z:5.1f} off {found.off:.3f} {found.said}")
            own = Counter(found.kind for found in verdicts)
            print(f"{target}: {_shown(own)}", flush=True)
            counts += own
    print(f"all {counts.total()} cells: {_shown(counts)}")
    for target, name, verdict in wrong:
        print(f"WRONG {target} / {name}: {verdict}", flush=True)
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
