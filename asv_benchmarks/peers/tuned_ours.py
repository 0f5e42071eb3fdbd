"""Our side: a kernel with everything left out."""

import time

import jax.numpy as jnp
import numpy as np

import xpsample as xps
from asv_benchmarks.peers.tuned_cases import DTYPE, Case, Outcome, Run

SAMPLERS = ("HMC", "NUTS", "MAMS")


def build(case: Case, sampler: str) -> Run:
    kernel, target = getattr(xps, sampler)(), case.benchmark.target()

    def run(seed: int) -> Outcome:
        x0 = jnp.asarray(case.start(seed), DTYPE)
        began = time.perf_counter()
        trace = xps.sample(target, kernel, x0, case.draws, seed=seed, recorders=(xps.Draws(),), progress=False)
        draws = jnp.asarray(trace.draws).block_until_ready()
        seconds, drawing = time.perf_counter() - began, trace.metadata["seconds"]
        warm_up = float(jnp.sum(trace.warmup["scores"]))
        scores = trace.run_statistics.evaluations["score"] * case.draws
        return Outcome(np.asarray(draws), seconds - drawing, drawing, warm_up, scores * case.chains)

    return run
