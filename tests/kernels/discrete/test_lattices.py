"""Lattices of spins by sweeps, colors and clusters: energies, and weights of annealed runs, by enumeration."""

import numpy as np
import pytest

import xpsample as xps
from xpsample.kernels import greedy_coloring
from xpsample.zoo.ising import internal_energy, ising_couplings, ising_lattice, lattice_pairs

CHECKERBOARD = greedy_coloring(lattice_pairs((4, 4)), 16)
ON_A_LATTICE = {
    "colors": (xps.ChromaticGibbs(CHECKERBOARD), (1.0,), 0.3, 100, 50),
    "sweep": (xps.Sweep(), (1.0, 0.7, 0.4), 0.6, 100, 100),
    "heat bath": (xps.Sweep(heat_bath=True), (1.0, 0.7, 0.4), 0.6, 100, 100),
    "clusters": (xps.SwendsenWang(), (1.0, 0.7), 0.6, 50, 50),
}


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "betas", "strength", "draws", "burn_in"), ON_A_LATTICE.values(), ids=ON_A_LATTICE)
def test_the_energy_of_a_lattice(kernel, betas, strength, draws, burn_in):
    """The 4 x 4 lattice, whose 65,536 states are listed; 5 standard errors of 400 independent chains: 6e-7."""
    target = ising_lattice((4, 4), strength)
    states = target.space.states(16)
    log_pi = target.log_density(states, target.data)
    weights = np.exp(log_pi - log_pi.max())
    truth = weights @ internal_energy(states, (4, 4)) / weights.sum()
    x0 = np.random.default_rng(0).choice([-1.0, 1.0], size=(400, 16))
    kernel = kernel if len(betas) == 1 else xps.ParallelTempering(kernel, betas)
    trace = xps.sample(target, kernel, x0, draws, burn_in=burn_in, seed=1)
    means = internal_energy(trace.draws, (4, 4)).mean(axis=0)
    assert abs(means.mean() - truth) < 5 * means.std() / 20


FOUR = ising_couplings([0.25, 0.5, 0.15, 0.4], [0.3, -0.5, 0.0, 0.8], [[0, 1], [1, 2], [2, 3], [0, 2]])
ANNEALED = {
    "sweep": (xps.Sweep(), ising_lattice((2, 3), 0.3), 6, (0.0, 0.25, 0.5, 0.75, 1.0)),
    "clusters": (xps.SwendsenWang(), FOUR, 4, (0.0, 0.3, 0.6, 1.0)),
}


@pytest.mark.parametrize("wrap", [xps.AIS, lambda k, betas: xps.TemperedSMC(k, betas, moves=1)], ids=["AIS", "SMC"])
@pytest.mark.parametrize(("kernel", "target", "dim", "betas"), ANNEALED.values(), ids=ANNEALED)
def test_weights_of_an_annealed_run(wrap, kernel, target, dim, betas, library):
    """log Z from the mean of the weights; 5 standard errors: 6e-7."""
    exact = np.log(np.mean(np.exp(target.log_density(target.space.states(dim), target.data))))
    x0 = library.array(np.random.default_rng(0).choice([-1.0, 1.0], size=(2000, dim)))
    trace = xps.sample(target, wrap(kernel, betas), x0, 1, seed=1, burn_in=len(betas) - 2)
    state = trace.state
    found = xps.log_normalizer(state.log_weight) if hasattr(state, "log_weight") else xps.particle_log_normalizer(state)
    assert abs(found.value - exact) < 5 * found.standard_error
