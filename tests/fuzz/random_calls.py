"""Random models and whole runs: each ends fine, or with one of our errors."""

import contextlib
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings

import xpsample as xps
from tests.compositions.table import DISCRETE, REAL
from tests.conftest import Library
from tests.fuzz import uses
from tests.fuzz.outcomes import outcome
from xpsample.core import tree
from xpsample.core.errors import XpsampleError
from xpsample.core.registry import to_host


@dataclass(frozen=True)
class Case:
    """What is called, and whether it may end fine."""

    name: str
    run: Callable[[], Any]
    has_meaning: bool = True


class WrongResult(Exception):
    """A call ended fine and its result is wrong."""


def check(condition: Any, what: str) -> None:
    """Raise where a result is wrong."""
    if not condition:
        raise WrongResult(what)


# ---- models ----------------------------------------------------------------------------------------------------------

SPACES: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("Real", "Positive", "Ordered", "PositiveOrdered", "Simplex", "UnitVector", "Circular"), (3,)),
    **dict.fromkeys(("ZeroSum", "CorrelationCholesky", "CovarianceCholesky"), (3,)),
    **{"LowerBounded": (0.25,), "UpperBounded": (0.25,), "Interval": (0.25, 1.5)},
}
BOUNDED = ("LowerBounded", "UpperBounded", "Interval")


def _a_model(library: Library, folder: str) -> st.SearchStrategy[Case]:
    names = st.sampled_from(["x", "y", "scale", "_x", "a b", "draws", "", "x.y", "class", "a/b"])
    strange = st.sampled_from(
        ["good", "good", "good", "missing", "one more", "nan", "shape", "outside", "list", "chains"]
    )

    @st.composite
    def case(draw: st.DrawFn) -> Case:
        chosen = draw(st.dictionaries(names, st.sampled_from(sorted(SPACES.items())), min_size=1, max_size=3))
        what = draw(strange)

        def run() -> Any:
            made = {name: getattr(xps, kind)(*arguments) for name, (kind, arguments) in chosen.items()}

            def density(p: Any) -> Any:
                axes = [tuple(range(-len(space.shape), 0)) for space in made.values()]
                return sum(-0.5 * (library.xp.sum(v * v, axis=a) if a else v * v) for v, a in zip(p, axes, strict=True))

            model = xps.Model(density, **made, gradient=xps.FiniteDifference())
            x0: dict[str, Any] = {}
            for name, space in made.items():
                z = library.array(np.linspace(-1.0, 1.0, 4 * space.dim).reshape(4, space.dim))
                x0[name] = space.constrain(library.xp, z)[0]
            first = next(iter(x0))
            good = x0[first]
            changes = {
                "one more": {"more": good},
                "nan": {first: good * float("nan")},
                "shape": {first: good[..., None]},
                "outside": {first: -good - 100.0},
                "list": {first: library.host(good).tolist()},
                "chains": {first: good[:3, ...]},
            }
            x0 |= changes.get(what, {})
            if what == "missing":
                del x0[first]
            trace = xps.sample(model, xps.HMC(0.01, 2), x0, 2, seed=0, progress=False)
            for name in made:
                check(trace[name].shape == (2, *x0[name].shape), f"draws of {name} have shape {trace[name].shape}")
                check(np.all(np.isfinite(library.host(trace[name]))), f"draws of {name} are not finite")
            trace.summary()
            trace.save(f"{folder}/model.npz")
            check(_equal(xps.load(f"{folder}/model.npz").draws, trace.draws), "another trace was read than written")

        shown = ", ".join(f"{name}: {kind}{arguments}" for name, (kind, arguments) in chosen.items())
        kind = next(iter(chosen.values()))[0]
        fine = {"good": True, "chains": len(chosen) == 1, "outside": kind in ("Real", "UpperBounded")}
        fine["shape"] = len(chosen) == 1 and kind in BOUNDED  # one more chain axis
        return Case(f"model of {shown}; start: {what}", run, fine.get(what, False))

    return case()


# ---- runs ------------------------------------------------------------------------------------------------------------

KERNELS: dict[str, Callable[[], Any]] = {
    **{name: make for name, make in REAL.items() if name not in ("MYULA", "StochasticSVGD")},
    "HMC, tuned": lambda: xps.HMC(),
    "ULA, in cycles": lambda: xps.ULA(xps.CosineCycles(0.1, 3)),
    "SRMC": lambda: xps.SRMC(xps.MALA(0.3), 1.0),
    "SRLD": lambda: xps.SRLD(xps.ULA(0.1), 1.0, xps.Rolling(2), xps.RBF(1.0)),
    "ParallelTempering": lambda: xps.ParallelTempering(xps.RWM(0.5), (1.0, 0.5)),
    "TemperedSMC": lambda: xps.TemperedSMC(xps.RWM(0.5), (0.0, 0.5, 1.0), moves=1),
    **{name: DISCRETE[name] for name in ("Gibbs", "ChromaticGibbs", "Sweep")},
}


def _in_ball(x: Any) -> Any:
    xp = uses.array_namespace(x)
    square = xp.sum(x * x, axis=-1)
    return xp.where(square < 4.0, -0.5 * square, -float("inf"))


TARGETS: dict[str, Callable[[], Any]] = {
    "Gaussian": uses.gaussian,
    "flat": lambda: xps.Target(lambda x: 0.0 * uses.density(x), score=lambda x: 0.0 * x),
    "in a ball": lambda: xps.Target(_in_ball, score=lambda x: -x, constrained=True),
    "in a ball, undeclared": lambda: xps.Target(_in_ball, score=lambda x: -x),
    "rows": uses.rows_posterior,
    "tempered": lambda: xps.Tempered(uses.gaussian(), 0.5),
    "binary": uses.binary,
}

RECORDERS: dict[str, Callable[[], Any]] = {
    "Draws": xps.Draws,
    "Statistics": xps.Statistics,
    "Moments": xps.Moments,
    "Scores": xps.Scores,
    "Rungs": xps.Rungs,
    "BatchMeans": lambda: xps.BatchMeans(2),
    "Record": lambda: xps.Record("r", lambda state: {"x": state.point.x, "none": None}),
    "Histogram": xps.Histogram,
}

UNTIL = (xps.Until(ess=5), xps.Until(rhat=1.1), xps.Until(seconds=1e-9))

LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "plain": lambda x: x,
    "column-major": np.asfortranarray,
    "reversed": lambda x: x[..., ::-1],
    "every other": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "shared rows": lambda x: np.broadcast_to(x[..., :1], x.shape),
}


def _a_run(library: Library, folder: str) -> st.SearchStrategy[Case]:
    chains = st.sampled_from([(4,), (1,), (), (2, 3), (1, 1, 2), (3,)] * 2 + [(0,), (2, 0)])
    counts = st.sampled_from([1, 2, 3, 5, 7, 12, 20, 40] * 3 + [0, -1, 2.0])
    seeds = st.sampled_from([0, 1, 2**63, 10**30, xps.Portable(3), xps.Portable(2**70), np.int64(7)] * 3 + [-1, None])

    @st.composite
    def case(draw: st.DrawFn) -> Case:
        kernel, target = draw(st.sampled_from(sorted(KERNELS))), draw(st.sampled_from(["Gaussian", *sorted(TARGETS)]))
        shape = (*draw(chains), draw(st.sampled_from([1, 2, 3, 4] * 3 + [0])))
        scale = draw(st.sampled_from([1.0, 0.3, 0.0] * 3 + [1e-320, 1e10, 1e200, np.inf]))
        layout, dtype = draw(st.sampled_from(sorted(LAYOUTS))), draw(st.sampled_from(library.dtypes))
        draws, thinning = draw(counts), draw(st.sampled_from([1, 2, 3] * 4 + [0]))
        names = draw(st.lists(st.sampled_from(sorted(RECORDERS)), max_size=4, unique=True))
        arguments: dict[str, Any] = {
            "seed": draw(seeds),
            "burn_in": draw(st.sampled_from([0, 1, 3] * 4 + [-1])),
            "warmup": draw(st.sampled_from([7, 1, None] if "tuned" in kernel else [None] * 8 + [0, 1])),
            "until": draw(st.sampled_from([None, *UNTIL])) if "Draws" in names else None,
            "check": draw(st.sampled_from([False] * 5 + [True])),
        }
        saved = draw(st.booleans())

        def run() -> Any:
            host = np.random.default_rng(0).standard_normal(shape)
            host = (host > 0).astype(float) if target == "binary" else host * scale
            x0 = library.array(host, dtype)
            if library.name == "numpy":
                x0 = LAYOUTS[layout](x0)
            before = to_host(x0).copy()
            recorders = [RECORDERS[name]() for name in names]

            def sampled(count: Any, **more: Any) -> Any:
                given = {**arguments, "thinning": thinning, "recorders": recorders, "progress": False, **more}
                return xps.sample(TARGETS[target](), KERNELS[kernel](), x0, count, **given)

            trace = sampled(draws)
            check(np.array_equal(to_host(x0), before), "the start was written to")
            if trace.draws is not None:
                _check_draws(library, trace, draws, x0, kernel, target)
                trace.summary()
            repr(trace), trace.diagnose()
            with tempfile.TemporaryDirectory(dir=folder) as work:
                trace.save(f"{work}/trace.npz")
                check(_equal(xps.load(f"{work}/trace.npz").draws, trace.draws), "another trace was read than written")
                if saved and arguments["until"] is None:
                    with contextlib.suppress(XpsampleError):
                        sampled(1, checkpoint=f"{work}/run")
                    again = sampled(draws, checkpoint=f"{work}/run")
                    check(_equal(again.draws, trace.draws), "resumed differs")

        meaning = target == "binary" or bool(np.isfinite(scale))  # binary starts are not scaled
        shown = f"{kernel}, {target}, {shape} {dtype} x {scale} {layout}, {draws} draws every {thinning}, {names}"
        return Case(f"run of {shown}, {arguments}, saved: {saved}", run, meaning)

    return case()


def _check_draws(library: Library, trace: Any, draws: int, x0: Any, kernel: str, target: str) -> None:
    check(trace.draws.shape[1:] == x0.shape and trace.draws.shape[0] <= draws, f"draws have shape {trace.draws.shape}")
    check(trace.draws.dtype == x0.dtype, f"draws have dtype {trace.draws.dtype}")
    host = library.host(trace.draws)
    if target == "binary":
        check(np.all((host == 0) | (host == 1)), "left the space")
    check(np.all(np.isfinite(host)), "draws are not finite")


def _equal(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    return all(
        np.array_equal(to_host(one), to_host(other), equal_nan=True)
        for (_, one), (_, other) in zip(tree.items(a), tree.items(b), strict=True)
    )


# ---- the survey ------------------------------------------------------------------------------------------------------

KINDS = {"model": _a_model, "run": _a_run}


def survey(library: Library, folder: Path, kind: str, cases: int, number: int) -> tuple[Counter, list[str]]:
    """How so many random cases of a kind end; and those that end in a wrong way."""
    found: Counter = Counter()
    wrong: list[str] = []

    @seed(number)
    @settings(max_examples=cases, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(case=KINDS[kind](library, str(folder)))
    def count(case: Case) -> None:
        how, message = outcome(case.run, "", case.has_meaning)
        found[how] += 1
        if how not in ("fine", "ours"):
            wrong.append(f"{how}: {case.name} {message[:300]}")

    count()
    return found, wrong
