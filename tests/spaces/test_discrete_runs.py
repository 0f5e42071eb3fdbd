"""Every ready discrete target in a run of float32, on every library: dtypes hold, and JAX compiles it."""

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

from xpsample import DMALA, GWG, LocallyBalanced, Portable, sample
from xpsample.experiments.hiss.joint_bernoulli import isolated_modes, joint_bernoulli
from xpsample.experiments.hiss.one_hot_tours import tsp_one_hot
from xpsample.zoo.ising import cross_diagonal, ising_couplings, ising_lattice, potts
from xpsample.zoo.rbm import RBM, rbm

RNG = np.random.default_rng(0)
BITS, SIGNS = RNG.integers(0, 2, (5, 4)), RNG.choice([-1, 1], (5, 9))
LEVELS = RNG.integers(0, 3, (5, 4))
TOURS = np.array([np.random.default_rng(k).permutation(4) for k in range(5)])
RUNS = {
    "bernoulli": (joint_bernoulli(isolated_modes() + 0.1), GWG(), BITS),
    "lattice": (ising_lattice((3, 3), 0.3), LocallyBalanced(), SIGNS),
    "couplings": (ising_couplings(0.1 * cross_diagonal(), 0.1), DMALA(2.0), SIGNS),
    "potts": (potts((2, 2), 3, 0.5), DMALA(2.0), np.eye(3)[LEVELS].reshape(5, 12)),
    "potts-integers": (potts((2, 2), 3, 0.5, one_hot=False), LocallyBalanced(), LEVELS),
    "rbm": (rbm(RBM(RNG.random((4, 3)), RNG.random(4), RNG.random(3))), GWG(), BITS),
    "tours": (tsp_one_hot(RNG.random((4, 2)), 1.0, "coordinates", True), DMALA(2.0), np.eye(4)[TOURS].reshape(5, 16)),
}


# A proposal that leaves a city out counts as a divergence.
@pytest.mark.filterwarnings("ignore:.*steps diverged:xpsample.core.errors.DivergenceWarning")
@pytest.mark.parametrize("name", RUNS)
def test_it_runs(name, library32):
    target, kernel, x0 = RUNS[name]
    trace = sample(target, kernel, library32.array(x0.astype(float)), 30, seed=Portable(1), progress=False)
    assert trace.draws.dtype == library32.array(x0.astype(float)).dtype
    draws = library32.host(trace.draws).astype(float)
    target.space.check(numpy_xp, draws)  # all in the space
    assert np.any(draws[-1] != x0)
    assert name == "tours" or not np.any(trace.run_statistics.diverged)
    args = () if target.data is None else (target.data,)
    expected = target.log_density(draws, *args)
    np.testing.assert_allclose(library32.host(trace.statistics["log_density"]), expected, rtol=1e-4, atol=1e-4)
