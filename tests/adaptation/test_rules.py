"""Rules in place of values, and kernels that are tuned by their acceptance or by moments."""

import numpy as np
import pytest

import xpsample as xps
from tests.adaptation.rules_support import couplings, gaussian, normals, spins
from xpsample.adaptation import unset
from xpsample.core.errors import HyperparameterError
from xpsample.kernels import DMALA, DULA, HMC, PCN, IndependentMH


def run(target, kernel, x0, draws=300):
    return xps.sample(target, kernel, x0, draws, seed=xps.Portable(1), progress=False)


def accepted(trace):
    return float(np.mean(np.asarray(trace.run_statistics.acceptance_probability)))


def test_a_rule_in_place_of_a_value():
    precision, x0 = np.eye(20), normals(16, 20)
    assert accepted(run(gaussian(precision), xps.MALA(xps.StepSize(0.8)), x0)) == pytest.approx(0.8, abs=0.05)
    assert accepted(run(gaussian(precision), xps.MALA(), x0)) == pytest.approx(0.574, abs=0.05)
    # What the given rule leaves out is as in the kernel's own; with a rule for the step size the mass is tuned, too.
    rules = unset(HMC(xps.StepSize(0.9)))
    assert rules["step_size"] == xps.StepSize(0.9, harmonic=True) and set(rules) == {"step_size", "mass", "length"}
    assert set(unset(HMC(0.1, 5, mass=xps.DenseMetric()))) == {"mass"}
    assert unset(HMC(0.1, 5, mass=xps.DenseMetric()))["mass"].inverse


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HMC(mass=xps.StepSize(0.9)), "HMC's mass must be tuned by a rule such as Diagonal"),
        (lambda: PCN(covariance=xps.DenseMetric()), "PCN's covariance cannot be tuned in a warm-up"),
        (lambda: PCN(mean=xps.StepSize(0.5)), "PCN's mean cannot be tuned in a warm-up"),
        (lambda: xps.StepSize(1.0), "acceptance must be greater than 0 and below 1"),
        (DULA, "DULA needs a step_size: it accepts every move"),
    ],
)
def test_what_no_warm_up_tunes(make, message):
    with pytest.raises(HyperparameterError, match=message):
        run(gaussian(np.eye(2)), make(), np.zeros((3, 2)))


def test_discrete_step_sizes():
    x0 = np.where(normals(32, 20) > 0, 1.0, -1.0)
    trace = run(spins(couplings(20, 0.4)), DMALA(), x0)
    assert accepted(trace) == pytest.approx(0.574, abs=0.05)
    assert accepted(run(spins(couplings(20, 0.4)), DMALA(4 * trace.kernel.step_size), x0)) < 0.45  # a twin
    # Nothing holds the step size back where the spins are free: it ends at its bound.
    assert run(spins(couplings(20, 0.0)), DMALA(), x0).kernel.step_size == pytest.approx(1e6, rel=1e-3)


@pytest.mark.slow
def test_hiss_around_a_kernel_that_is_tuned():
    x0 = np.where(normals(16, 6) > 0, 1.0, -1.0)
    trace = run(spins(couplings(6, 0.4)), xps.HiSS(DMALA()), x0, draws=20)
    assert trace.kernel.scale == 4.0 and trace.kernel.base.step_size > 0
    assert np.mean(trace.run_statistics.acceptance_probability) > 0
    by_rule = run(spins(couplings(12, 0.4)), xps.HiSS(DMALA(), xps.StepSize(0.234)), np.tile(x0, 2), draws=100)
    assert accepted(by_rule) == pytest.approx(0.234, abs=0.05)
    with pytest.raises(HyperparameterError, match="accepts every proposal, which tunes no scale"):
        xps.HiSS(DMALA(0.1), None, adjusted=False)


def test_crank_nicolson():
    trace = run(gaussian(11 * np.eye(20)), PCN(), np.zeros((16, 20)))
    assert accepted(trace) == pytest.approx(0.234, abs=0.04) and trace.kernel.beta < 0.5
    assert accepted(run(gaussian(11 * np.eye(20)), PCN(2 * trace.kernel.beta), np.zeros((16, 20)))) < 0.15  # a twin
    assert run(gaussian(np.eye(3)), PCN(), np.zeros((16, 3))).kernel.beta == 1.0  # the reference itself


@pytest.mark.parametrize("chains", [4, 64])
def test_independent_proposals(chains):
    variance, x0 = np.geomspace(0.25, 4.0, 5), 3 * normals(chains, 5) + 1
    trace = run(gaussian(np.diag(1 / variance)), IndependentMH(), x0)
    np.testing.assert_allclose(trace.kernel.covariance / variance, 1 + 1 / np.sqrt(5), rtol=0.2)
    np.testing.assert_allclose(trace.kernel.mean / np.sqrt(variance), 0.0, atol=0.2)
    assert accepted(trace) > 0.6
    assert accepted(run(gaussian(np.diag(1 / variance)), IndependentMH(0.0, 10 * variance), x0)) < 0.2  # a twin


@pytest.mark.slow
def test_independent_proposals_with_correlations():
    covariance = np.asarray([[1.0, 0.9], [0.9, 1.0]])
    target, x0 = gaussian(np.linalg.inv(covariance)), normals(16, 2)
    dense = run(target, IndependentMH(covariance=xps.ProposalCovariance(dense=True)), x0)
    assert accepted(dense) > 0.65 > 0.6 > accepted(run(target, IndependentMH(), x0))
    assert not unset(IndependentMH(0.0)) and not unset(IndependentMH(covariance=2.0))
