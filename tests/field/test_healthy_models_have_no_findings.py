"""Models that people fit every day, from defaults: nothing is said of their runs.

A finding here is a false alarm. Rates over more seeds: ``python -m tests.field.healthy_models``.
"""

import warnings

import pytest

from tests.field.healthy_models import QUICK, SLOW
from xpsample.core.errors import DiagnosisWarning


def check(case, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", DiagnosisWarning)
        assert case.run(seed).diagnose() == ()


@pytest.mark.first_cases(4)
@pytest.mark.parametrize("model", QUICK, ids=lambda model: model.__name__)
def test_healthy_models(model):
    check(model(), 1)


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("model", [*QUICK, *SLOW], ids=lambda model: model.__name__)
def test_healthy_models_of_more_kinds_and_seeds(model, seed):
    check(model(), seed)
