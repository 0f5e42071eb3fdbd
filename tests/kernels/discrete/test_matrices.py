"""Kernels that propose and accept, against their transition matrices."""

import math
from itertools import permutations

import pytest

from tests.kernels.discrete import discrete_support as exact
from xpsample import DMALA, GWG, Gibbs, LocallyBalanced, SingleFlip
from xpsample.kernels import Barker, Max, SquareRoot

KERNELS = {
    "single flip": (SingleFlip(), exact.uniform),
    "GWG": (GWG(), exact.with_gradients),
    "GWG, temperature 1": (GWG(1.0), lambda problem: exact.with_gradients(problem, 1.0)),
    "Barker": (LocallyBalanced(Barker()), lambda problem: exact.balanced(problem, exact.G["Barker"])),
    "SquareRoot": (LocallyBalanced(SquareRoot()), lambda problem: exact.balanced(problem, exact.G["SquareRoot"])),
    "Max": (LocallyBalanced(Max()), lambda problem: exact.balanced(problem, exact.G["Max"])),
    "DMALA": (DMALA(0.8), lambda problem: exact.langevin(problem, 0.8)),
    "DMALA, balance 0.9": (DMALA(0.8, 0.9), lambda problem: exact.langevin(problem, 0.8, 0.9)),
}
"""Each with its proposals, written out for all pairs of states."""


@pytest.mark.sampled(5)
@pytest.mark.first_cases(8)
@exact.every_problem
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_its_matrix(problem, name):
    kernel, proposal = KERNELS[name][0], KERNELS[name][1](problem)
    matrix = exact.metropolis_hastings(proposal, problem.log_pi)
    assert exact.invariance_error(matrix, problem.log_pi) < 1e-12
    assert exact.balance_error(matrix, problem.log_pi) < 1e-12
    exact.assert_proposals(problem, kernel, proposal)
    exact.assert_transitions(problem, kernel, matrix)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("problem", ["ragged", "one-hot"])
@pytest.mark.parametrize("name", ["single flip", "GWG", "Barker", "SquareRoot", "Max", "DMALA"])
def test_acceptance_on_every_library(library, name, problem):
    kernel, proposal = KERNELS[name]
    exact.assert_acceptance_on(library, exact.PROBLEMS[problem], kernel, proposal(exact.PROBLEMS[problem]))


@pytest.mark.parametrize(
    ("kernel", "other", "problem"),
    [
        (Gibbs(), "single flip", "levels"),
        (GWG(0.6), "GWG", "ragged"),
        *((KERNELS[one][0], other, "levels") for one, other in permutations(exact.G, 2)),
    ],
)
@pytest.mark.first_cases(2)
def test_kernels_are_told_apart(kernel, other, problem):
    problem = exact.PROBLEMS[problem]
    found, _ = exact.step_from_every_state(problem, kernel, exact.per_state(problem), seed=1)
    assert exact.misfit(found, exact.metropolis_hastings(KERNELS[other][1](problem), problem.log_pi)) < 2 * math.log(
        exact.ERROR
    )
