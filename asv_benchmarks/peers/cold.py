"""CPU seconds from the start of a process to an ESS of 400, ours and those of BlackJAX, NumPyro and nutpie.

``python -m asv_benchmarks.peers.cold`` from the root of the checkout prints a table; parts of it with ``--model``,
``--sampler`` and ``--chains``. Every run has a process of its own, which imports, compiles, warms up and draws until
the least bulk and tail ESS of all coordinates is 400. All have defaults, the same densities in JAX and float32, and the
same starts.
"""

import argparse
import importlib
import json
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from asv_benchmarks.tables import table

SAMPLERS = {
    "HMC": ["jax", "xpsample.sampling.sampler", "xpsample.kernels", "xpsample.targets", "xpsample.sampling.until"],
    "NUTS": ["jax", "xpsample.sampling.sampler", "xpsample.kernels", "xpsample.targets", "xpsample.sampling.until"],
    "BlackJAX NUTS": ["jax", "blackjax"],
    "BlackJAX ChEES": ["jax", "blackjax", "optax"],
    "NumPyro NUTS": ["jax", "numpyro.infer"],
    "nutpie": ["jax", "nutpie", "nutpie.compiled_pyfunc"],
}
"""By name, what a script with it imports; no other import is on the clock."""

MODELS = ["toy", "eight schools", "German credit", "varying intercepts", "Gaussian process", "stochastic volatility"]
ENOUGH, MOST = 400, 40_000
"""Effective draws that end a run, and draws of all chains that do, however few are effective."""

COLUMNS = {
    "model": ("model", "s"),
    "chains": ("chains", "d"),
    "sampler": ("sampler", "s"),
    "seconds": ("CPU s", ".1f"),
    "least": ("least", ".1f"),
    "most": ("most", ".1f"),
    "start": ("to draw", ".1f"),
    "ess": ("ESS", ",.0f"),
    "draws": ("draws", ",d"),
    "said": ("", "s"),
}
LEGEND = """\
CPU s    user and system seconds of the process until the ESS is there, median of the seeds; least and most of them
to draw  those before the first draw; nan where they cannot be told
draws    of each chain, of the last seed"""

Told = tuple[Any, float]
"""Draws so far, (draw, chain, dim), and the CPU seconds until they were there."""


class Clock:
    """CPU seconds of this process, without those that were spent in `off`."""

    def __init__(self) -> None:
        self._off = 0.0

    def __call__(self) -> float:
        return time.process_time() - self._off

    def off(self, work: Callable[[], Any]) -> Any:
        """What `work` gives, for free."""
        began = time.process_time()
        found = work()
        self._off += time.process_time() - began
        return found


def of_ours(case: Any, sampler: str, seed: int, clock: Clock) -> Iterator[Told]:
    """One run, which looks at its own ESS."""
    import jax.numpy as jnp

    import xpsample as xps

    trace = xps.sample(
        xps.Target(case.density),
        getattr(xps, sampler)(),
        jnp.asarray(case.start(seed)),
        MOST // case.chains,
        seed=seed,
        until=xps.Until(ess=ENOUGH),
        progress=False,
    )
    yield trace.draws, clock()


def of_peers(case: Any, sampler: str, seed: int, clock: Clock) -> Iterator[Told]:
    """A warm-up, and blocks of draws."""
    import numpy as np

    name, _, kind = sampler.partition(" ")
    halves = clock.off(lambda: importlib.import_module(f"asv_benchmarks.peers.tuned_{name.lower()}")).halves(case, kind)
    carry, _ = halves.begin(seed)
    yield None, clock()
    blocks: list[Any] = []
    while True:
        carry, draws, _ = halves.go_on(carry)
        blocks.append(np.asarray(draws))
        yield np.concatenate(blocks), clock()


def of_nutpie(case: Any, sampler: str, seed: int, clock: Clock) -> Iterator[Told]:
    """Runs of twice as many draws each, until they are enough; the last one counts."""
    import jax
    import numpy as np
    import nutpie
    from nutpie.compiled_pyfunc import from_pyfunc

    both = jax.jit(jax.value_and_grad(case.density))
    starts = iter(case.start(seed))

    def log_density() -> Any:
        def value(x: Any) -> tuple[float, Any]:
            found, score = both(x.astype(np.float32))
            return float(found), np.asarray(score, dtype=np.float64)

        return value

    dim = case.start(0).shape[-1]
    model = from_pyfunc(
        dim,
        log_density,
        lambda *_: lambda x, **__: {"x": x},
        [np.dtype("float64")],
        [(dim,)],
        ["x"],
        make_initial_point_fn=lambda _: next(starts).astype(np.float64),
    )
    draws = case.draws
    before = clock()
    while True:
        starts, began = iter(case.start(seed)), clock()
        found = nutpie.sample(model, draws=draws, chains=case.chains, cores=1, seed=seed, progress_bar=False)
        yield np.moveaxis(found.posterior["x"].values, 0, 1), before + clock() - began
        draws *= 2


def work(model: str, chains: int, sampler: str, seed: int, limit: int) -> dict[str, Any]:
    """One run, in this process."""
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    warnings.simplefilter("ignore")
    clock = Clock()
    try:
        for module in SAMPLERS[sampler]:
            importlib.import_module(module)
    except ImportError:
        return {"said": "not installed"}
    cases = clock.off(lambda: importlib.import_module("asv_benchmarks.peers.cold_cases"))
    mixing = clock.off(lambda: importlib.import_module("xpsample.diagnostics.convergence")).mixing
    side = {"HMC": of_ours, "NUTS": of_ours, "nutpie": of_nutpie}.get(sampler, of_peers)
    start = float("nan")
    for draws, seconds in side(cases.ColdCase(model, chains), sampler, seed, clock):
        if draws is None:
            start = seconds
            continue
        found = clock.off(lambda draws=draws: mixing(draws))
        ess = float(min(found.ess_bulk.min(), found.ess_tail.min()))
        if ess >= ENOUGH or draws.shape[0] * chains >= MOST:
            break
    said = "" if ess >= 0.95 * ENOUGH else "ended before"
    return {"seconds": seconds, "start": start, "ess": ess, "draws": draws.shape[0], "said": said}


def in_a_process(model: str, chains: int, sampler: str, seed: int, limit: int) -> dict[str, Any]:
    """One run, in a process of its own."""
    told = json.dumps([model, chains, sampler, seed, limit])
    done = subprocess.run(
        [sys.executable, "-m", "asv_benchmarks.peers.cold", "--worker", told], stdout=subprocess.PIPE, text=True
    )
    if done.returncode == 0:
        return json.loads(done.stdout)
    return {"said": f"more than {limit} s" if done.returncode < 0 else "failed"}


def row(model: str, chains: int, sampler: str, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Runs of some seeds as a row of the table."""
    nan = float("nan")
    seconds = [run.get("seconds", nan) for run in runs]
    found: dict[str, Any] = {
        "model": model,
        "chains": chains,
        "sampler": sampler,
        "seconds": statistics.median(seconds),
    }
    found |= {"least": min(seconds), "most": max(seconds), "said": " ".join(sorted({run["said"] for run in runs}))}
    return found | {key: runs[-1].get(key, default) for key, default in (("start", nan), ("ess", nan), ("draws", 0))}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison and print the table."""
    parser = argparse.ArgumentParser(prog="python -m asv_benchmarks.peers.cold", description=__doc__)
    parser.add_argument("--model", action="append", choices=MODELS, help="these only; by default all")
    parser.add_argument("--sampler", action="append", choices=list(SAMPLERS), help="these only; by default all")
    parser.add_argument("--chains", action="append", type=int, help="by default 4 and 64")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--limit", type=int, default=150, help="CPU seconds after which a run is ended")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.worker:
        print(json.dumps(work(*json.loads(args.worker))))
        return 0
    rows = []
    for model in args.model or MODELS:
        for chains in args.chains or [4, 64]:
            for sampler in args.sampler or SAMPLERS:
                runs = [in_a_process(model, chains, sampler, seed, args.limit) for seed in range(1, args.seeds + 1)]
                rows.append(row(model, chains, sampler, runs))
                print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    print(table(rows, COLUMNS) + "\n\n" + LEGEND)
    return 0


if __name__ == "__main__":
    sys.exit(main())
