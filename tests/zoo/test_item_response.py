"""Item response: SciPy's prior and likelihood answer by answer, derivatives, the published data and moments."""

import numpy as np
import pytest

from tests.zoo.derivatives import check_density, check_libraries, check_score
from xpsample import MALA
from xpsample.core.errors import HyperparameterError
from xpsample.zoo.data import load_dataset
from xpsample.zoo.logistic import item_response, item_response_moments

stats = pytest.importorskip("scipy.stats")
STUDENT, QUESTION, CORRECT = np.array([[0, 0, 1, 2, 2, 2, 3], [0, 2, 1, 0, 1, 2, 1], [1, 0, 1, 0, 0, 1, 1]])


def reference(x, student=STUDENT, question=QUESTION, correct=CORRECT):
    mean, ability, difficulty = x[0], x[1 : student.max() + 2], x[student.max() + 2 :]
    total = stats.norm.logpdf(mean, 0.75) + np.sum(stats.norm.logpdf(x[1:]))
    logits = mean + ability[student] - difficulty[question]
    return total + np.sum(stats.logistic.logcdf(np.where(correct == 1, logits, -logits)))


def test_density_and_score():
    x = np.random.default_rng(0).standard_normal((4, 3, 8))
    target = item_response(STUDENT, QUESTION, CORRECT)
    check_density(target, reference, x.reshape(-1, 8))
    check_score(target, x)


def test_the_published_data_and_moments(data_folder):
    found, moments = load_dataset("targets/item_response"), item_response_moments()
    data = (found["student"], found["question"], found["correct"])
    assert np.sum(item_response().data["asked"]) == len(found["correct"]) == 30_012  # no pair twice
    x = np.random.default_rng(1).standard_normal((2, 501))
    check_density(item_response(), lambda one: reference(one, *data), x)
    # At the posterior mean the score is small beside what one standard deviation changes.
    score = item_response().prepare(moments.mean, MALA(0.1).requires).score(moments.mean)
    assert np.max(np.abs(score) * np.sqrt(moments.variance)) < 1.0


def test_libraries(typed_library):
    x = np.random.default_rng(2).standard_normal((2, 3, 8))
    check_libraries(item_response(STUDENT, QUESTION, CORRECT), x, typed_library)


@pytest.mark.parametrize("arguments", [(STUDENT,), (STUDENT, QUESTION, CORRECT[:-1])])
def test_what_is_refused(arguments):
    with pytest.raises(HyperparameterError, match="or none of them"):
        item_response(*arguments)
