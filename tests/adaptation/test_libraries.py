"""Every library tunes to the same values, for each group of chains its own."""

from operator import attrgetter

import numpy as np
import pytest

import xpsample as xps
from tests.adaptation.rules_support import couplings, gaussian, normals, rotated, spins
from tests.adaptation.test_low_rank import covariance
from xpsample.adaptation import Ladder, LowRankMetric
from xpsample.kernels import DMALA, HMC, MCLMC, PCN, ULA, IndependentMH

SIGNS = np.where(normals(8, 6) > 0, 1.0, -1.0)
WIDE = normals(2, 8, 4) * np.asarray([1.0, 5.0])[:, None, None]
LOW_RANK = np.linalg.inv(covariance(8))
DENSE, FEW = HMC(steps=3, mass=xps.DenseMetric()), HMC(steps=3, mass=LowRankMetric(3))
CASES = {  # kernel, target, its matrix, starts, tuned values and their shapes
    "ULA": (ULA(), gaussian, rotated(4, 10.0), WIDE, {"step_size": (2, 1), "preconditioner": (2, 1, 4)}),
    "MCLMC": (MCLMC(), gaussian, rotated(5, 30.0), normals(2, 8, 5), {"length": (2, 1)}),
    "dense": (DENSE, gaussian, rotated(4, 10.0), WIDE, {"mass": (2, 4, 4), "step_size": (2, 1)}),
    "low rank": (FEW, gaussian, LOW_RANK, normals(2, 8, 8), {"mass.values": (2, 1, 3), "mass.sd": (2, 1, 8)}),
    "PCN": (PCN(), gaussian, 2 * np.eye(6), SIGNS, {"beta": ()}),
    "independent": (IndependentMH(), gaussian, 2 * np.eye(6), SIGNS, {"mean": (6,), "covariance": (6,)}),
    "HiSS": (xps.HiSS(DMALA(), sweeps=2), spins, couplings(6, 0.4), SIGNS, {"base.step_size": ()}),
    "ladder": (xps.ParallelTempering(xps.RWM(), Ladder(3)), gaussian, np.eye(3), normals(6, 3), {"betas": (3,)}),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CASES)
def test_values_and_draws_agree_on_every_library(library, name):
    kernel, make, matrix, x0, shapes = CASES[name]
    settings = {"warmup": 60, "seed": xps.Portable(1), "progress": False}
    here = xps.sample(make(matrix), kernel, x0, 3, **settings)
    there = xps.sample(make(library.array(matrix)), kernel, library.array(x0), 3, **settings)
    for key, shape in shapes.items():
        value, other = (attrgetter(key)(trace.kernel) for trace in (here, there))
        other = library.host(other) if library.backend.owns(other) else other
        assert np.shape(value) == shape
        np.testing.assert_allclose(other, value, rtol=1e-12 if key == "mass" else 0)
        if shape and shape[0] == 2:
            assert not np.array_equal(value[0], value[1])
    np.testing.assert_allclose(library.host(there.draws), here.draws, rtol=1e-7, atol=1e-8)
    again = xps.sample(make(matrix), here.kernel, x0, 3, warmup=0, seed=1, progress=False)
    assert again.draws.shape == here.draws.shape
