"""Our side: a kernel with everything left out."""

import time
from typing import Any

import jax.numpy as jnp
import numpy as np

import xpsample as xps
from asv_benchmarks.peers.tuned_cases import DTYPE, Case, Outcome, Run

SAMPLERS = ("HMC", "NUTS", "MAMS")


def build(case: Case, sampler: str) -> Run:
    kernel, target = getattr(xps, sampler)(), case.benchmark.target()

    def run(seed: int) -> Outcome:
        settings: Any = {"seed": seed, "recorders": (xps.Draws(),), "progress": False}
        x0 = jnp.asarray(case.start(seed), DTYPE)
        began = time.process_time()
        warmed = xps.sample(target, kernel, x0, 1, **settings)
        middle = time.process_time()
        trace = xps.sample(target, warmed.kernel, warmed.state.point.x, case.draws, **settings)
        end = time.process_time()
        trace.diagnose()  # as `sample` does, to warn; peers do not
        diagnosis = time.process_time() - end
        warm_up = float(jnp.sum(warmed.warmup["scores"]))
        scores = trace.run_statistics.evaluations["score"] * case.draws * case.chains
        return Outcome(np.asarray(trace.draws), middle - began, end - middle - diagnosis, warm_up, scores)

    return run
