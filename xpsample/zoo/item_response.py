"""Item response theory: 400 students' answers to some of 100 questions, 501 parameters."""

from typing import Any

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.core.registry import namespace
from xpsample.targets.target import Target
from xpsample.zoo.data import load_dataset
from xpsample.zoo.moments import KnownMoments, normal_moments

NAME = "targets/item_response"
PRIOR_MEAN = 0.75


def item_response(
    student: np.ndarray | None = None, question: np.ndarray | None = None, correct: np.ndarray | None = None
) -> Target:
    """The posterior of abilities and difficulties, ``SyntheticItemResponseTheory``.

    ``mean ~ N(0.75, 1)``, ``ability_i ~ N(0, 1)``, ``difficulty_j ~ N(0, 1)`` and
    ``p(correct) = sigmoid(mean + ability_i - difficulty_j)``. Positions (*chains, 1 + students + questions) are the
    mean, the abilities and the difficulties.

    Parameters
    ----------
    student, question, correct : numpy.ndarray, shape (answers,), optional
        Who answered what (numbers from 0; no pair twice), and 1 for a correct answer, else 0. By default the made-up
        data of TensorFlow Probability's Inference Gym.

    Returns
    -------
    Target
        With its score. Takes positions of any library. Its largest array is (*chains, students, questions). Not finite
        where a logit is so large that its exponential is not, which is far beyond the prior.

    Raises
    ------
    HyperparameterError
        If only some of the three are given, or their shapes differ.
    """
    given: list[Any] = [student, question, correct]
    if all(array is None for array in given):
        found = load_dataset(NAME)
        given = [found[name] for name in ("student", "question", "correct")]
    if any(array is None for array in given) or len({np.shape(array) for array in given}) != 1:
        raise HyperparameterError("pass student, question and correct, all of one shape (answers,), or none of them")
    student, question, correct = (np.asarray(array, dtype=np.int64) for array in given)
    students, questions = int(np.max(student)) + 1, int(np.max(question)) + 1
    asked, right = np.zeros((students, questions)), np.zeros((students, questions))
    asked[student, question], right[student, question] = 1.0, correct
    # The log likelihood is linear in the answers, so that their sums are all that is needed of them.
    sums = np.concatenate([[np.sum(right)], np.sum(right, axis=1), -np.sum(right, axis=0)])
    data = {"asked": asked, "sums": sums, "prior_mean": PRIOR_MEAN * (np.arange(len(sums)) == 0)}

    def odds_of(x: Array) -> tuple[Any, Array]:
        """Namespace; the odds of a right answer, (*chains, students, questions), from one exponential of each."""
        xp = namespace(x)
        ability, difficulty = x[..., :1] + x[..., 1 : students + 1], x[..., students + 1 :]
        return xp, xp.exp(ability)[..., :, None] * xp.exp(-difficulty)[..., None, :]

    def linear(xp: Any, x: Array, data: Any) -> Array:
        off = x - data["prior_mean"]
        return xp.sum(x * data["sums"] - 0.5 * off * off, axis=-1)

    def log_density(x: Array, data: Any) -> Array:
        xp, odds = odds_of(x)
        return linear(xp, x, data) - xp.sum(data["asked"] * xp.log1p(odds), axis=(-2, -1))

    def both(x: Array, data: Any) -> tuple[Array, Array]:
        xp, odds = odds_of(x)
        probability = data["asked"] * (odds / (1.0 + odds))
        by_student, by_question = xp.sum(probability, axis=-1), xp.sum(probability, axis=-2)
        expected = xp.concat([xp.sum(by_student, axis=-1, keepdims=True), by_student, -by_question], axis=-1)
        density = linear(xp, x, data) - xp.sum(data["asked"] * xp.log1p(odds), axis=(-2, -1))
        return density, data["sums"] - expected - (x - data["prior_mean"])

    return Target(log_density, score=lambda x, data: both(x, data)[1], log_density_and_score=both, data=data)


def item_response_moments() -> KnownMoments:
    """Mean and variance of the Inference Gym; the variance of squares is that of normals, within 4 % here."""
    found = load_dataset(NAME)
    names = ("mean_student_ability", "centered_student_ability", "question_difficulty")
    mean, sd = (np.concatenate([np.ravel(found[f"{name}_{what}"]) for name in names]) for what in ("mean", "sd"))
    return normal_moments(mean, sd**2)
