"""mici's static HMC on NumPy, one chain after the other; MALA is HMC with one leapfrog step of sqrt(2 eta)."""

import mici
import numpy as np

from asv_benchmarks.peers.density_numpy import both, log_density
from asv_benchmarks.peers.problems import LEAPFROGS, Work

LIBRARY, DTYPE = "numpy", "float64"
SCORES = [("analytic", "analytic")]
MOST_CHAINS = 10


def build(work: Work, score_by: str):
    start, rows, mala = work.start, work.rows, work.kernel == "mala"

    def gradient(x):
        value, score = both(x, rows)
        return -score, -value  # mici keeps the value, too, and does not ask for it again

    system = mici.systems.EuclideanMetricSystem(lambda x: -log_density(x, rows), grad_neg_log_dens=gradient)
    integrator = mici.integrators.LeapfrogIntegrator(
        system, step_size=(2 * work.step_size) ** 0.5 if mala else work.step_size
    )

    def run(seed: int):
        sampler = mici.samplers.StaticMetropolisHMC(
            system, integrator, np.random.default_rng(seed), n_step=1 if mala else LEAPFROGS
        )
        found = sampler.sample_chains(
            0,
            work.draws,
            [mici.states.ChainState(pos=x, mom=None, dir=1) for x in start],
            trace_funcs=[lambda state: {"pos": state.pos}],
            display_progress=False,
        )
        acceptance = [np.mean(one) for one in found.statistics["accept_stat"]]
        return np.stack(found.traces["pos"], axis=1), np.asarray(acceptance)

    return run
