"""Kernels that propose and accept, against their transition matrices."""

import math
from itertools import permutations

import pytest

from tests.kernels.discrete.discrete_support import (
    ERROR,
    PROBLEMS,
    G,
    assert_acceptance_on,
    assert_proposals,
    assert_transitions,
    balance_error,
    balanced,
    every_problem,
    invariance_error,
    langevin,
    metropolis_hastings,
    misfit,
    per_state,
    step_from_every_state,
    uniform,
    with_gradients,
)
from xpsample import DMALA, GWG, Gibbs, LocallyBalanced, SingleFlip
from xpsample.kernels import Barker, Max, SquareRoot

KERNELS = {
    "single flip": (SingleFlip(), uniform),
    "GWG": (GWG(), with_gradients),
    "GWG, temperature 1": (GWG(1.0), lambda problem: with_gradients(problem, 1.0)),
    "Barker": (LocallyBalanced(Barker()), lambda problem: balanced(problem, G["Barker"])),
    "SquareRoot": (LocallyBalanced(SquareRoot()), lambda problem: balanced(problem, G["SquareRoot"])),
    "Max": (LocallyBalanced(Max()), lambda problem: balanced(problem, G["Max"])),
    "DMALA": (DMALA(0.8), lambda problem: langevin(problem, 0.8)),
    "DMALA, balance 0.9": (DMALA(0.8, 0.9), lambda problem: langevin(problem, 0.8, 0.9)),
}
"""Each with its proposals, written out for all pairs of states."""


@pytest.mark.sampled(5)
@pytest.mark.first_cases(8)
@every_problem
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_its_matrix(problem, name):
    kernel, proposal = KERNELS[name][0], KERNELS[name][1](problem)
    matrix = metropolis_hastings(proposal, problem.log_pi)
    assert invariance_error(matrix, problem.log_pi) < 1e-12
    assert balance_error(matrix, problem.log_pi) < 1e-12
    assert_proposals(problem, kernel, proposal)
    assert_transitions(problem, kernel, matrix)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("problem", ["ragged", "one-hot"])
@pytest.mark.parametrize("name", ["single flip", "GWG", "Barker", "SquareRoot", "Max", "DMALA"])
def test_acceptance_on_every_library(library, name, problem):
    kernel, proposal = KERNELS[name]
    assert_acceptance_on(library, PROBLEMS[problem], kernel, proposal(PROBLEMS[problem]))


@pytest.mark.parametrize(
    ("kernel", "other", "problem"),
    [
        (Gibbs(), "single flip", "levels"),
        (GWG(0.6), "GWG", "ragged"),
        *((KERNELS[one][0], other, "levels") for one, other in permutations(G, 2)),
    ],
)
@pytest.mark.first_cases(2)
def test_kernels_are_told_apart(kernel, other, problem):
    problem = PROBLEMS[problem]
    found, _ = step_from_every_state(problem, kernel, per_state(problem), seed=1)
    assert misfit(found, metropolis_hastings(KERNELS[other][1](problem), problem.log_pi)) < 2 * math.log(ERROR)
